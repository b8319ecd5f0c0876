/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread with a high real-time priority waits for a lock that a thread with a low one has, on the
 * same core: it sleeps in the end, so that the holder can run. Needs two cores and the right to
 * real-time priorities, else it is skipped (77). The process that checks has the other core, and
 * kills a wait that lasts.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../harness/check.h"
#include "util/clock.h"
#include "util/lock.h"

enum { LOW = 1, HIGH = 10, HIGHEST = 50, SKIPPED = 77, MANY = 300, DEADLINE_MS = 10000 };

static struct ut_lock lock;
static sem_t held;
static bool waits; /* atomic: the waiter is about to wait */
static bool owned; /* the holder is to be the lock's owner */
static int other_policy;

static bool set_policy(int policy, int priority)
{
    return pthread_setschedparam(pthread_self(), policy,
                                 &(struct sched_param){.sched_priority = priority}) == 0;
}

static void pin_to(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
}

/* Has the lock until the waiter waits for it. */
static void *hold_lock(void *unused)
{
    (void)unused;
    CHECK(set_policy(other_policy, other_policy == SCHED_FIFO ? LOW : 0));
    for (int i = 0; owned && i < MANY; i++) {
        ut_lock(&lock);
        ut_unlock(&lock);
    }
    CHECK((lock.owner == ut_self()) == owned);
    ut_lock(&lock);
    CHECK(sem_post(&held) == 0); /* the waiter takes the core */
    while (!__atomic_load_n(&waits, __ATOMIC_RELAXED))
        ;
    ut_unlock(&lock);
    return NULL;
}

static void wait_for_lock(bool until)
{
    struct rusage before, after;
    pthread_t holder;

    waits = false;
    CHECK(sem_init(&held, 0, 0) == 0 && pthread_create(&holder, NULL, hold_lock, NULL) == 0);
    while (sem_wait(&held) != 0)
        ;
    getrusage(RUSAGE_THREAD, &before);
    __atomic_store_n(&waits, true, __ATOMIC_RELAXED);
    if (until)
        CHECK(ut_lock_until(&lock, ut_now_ms() + 3600000));
    else
        ut_lock(&lock);
    getrusage(RUSAGE_THREAD, &after);
    CHECK(after.ru_nvcsw > before.ru_nvcsw); /* it has slept */
    ut_unlock(&lock);
    CHECK(pthread_join(holder, NULL) == 0);
    ut_lock_reset(&lock);
}

static void wait_in_all_ways(int cpu)
{
    pin_to(cpu);
    CHECK(set_policy(SCHED_FIFO, HIGH));
    for (int i = 0; i < 8; i++) {
        owned = i & 1;
        other_policy = i & 2 ? SCHED_IDLE : SCHED_FIFO;
        if (owned)
            ut_lock_open();
        wait_for_lock(i & 4);
    }
}

/* The first and the last CPU that this process may use. */
static bool find_cpus(int cpus[2])
{
    cpu_set_t set;
    int n = 0;

    CHECK(sched_getaffinity(0, sizeof(set), &set) == 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set))
            cpus[n++ > 0] = cpu;
    return n > 1;
}

/* Some sandboxes have no membarrier(): then no lock has an owner. */
static bool has_owners(void)
{
    ut_lock_open();
    for (int i = 0; i < MANY; i++) {
        ut_lock(&lock);
        ut_unlock(&lock);
    }
    bool has = lock.owner != 0;
    ut_lock_reset(&lock);
    return has;
}

int main(void)
{
    int cpus[2], status = 0;
    pid_t child;

    if (!find_cpus(cpus) || !has_owners() || !set_policy(SCHED_FIFO, HIGHEST)) {
        printf("skipped: needs two CPUs, membarrier() and real-time priorities\n");
        return SKIPPED;
    }
    pin_to(cpus[0]);
    child = fork();
    if (child == 0) {
        wait_in_all_ways(cpus[1]);
        _exit(0);
    }
    CHECK(child > 0);
    uint64_t end = ut_clock_ms() + DEADLINE_MS;
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (ut_clock_ms() > end) {
            printf("the thread with the higher priority does not let the other one run\n");
            kill(child, SIGKILL);
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return status != 0;
}
