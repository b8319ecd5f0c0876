/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread with a high real-time priority waits for a lock that a thread with a low one has, on the
 * same core: it sleeps in the end, so that the holder can run. Needs two cores and the right to
 * real-time priorities, else it is skipped (77). The process that checks has the other core, and
 * kills a wait that lasts. A wait for a thread with SCHED_IDLE is not judged where other programs
 * take the core from that thread.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../harness/check.h"
#include "util/clock.h"
#include "util/lock.h"

enum { LOW = 1, HIGH = 10, HIGHEST = 50, SKIPPED = 77, MANY = 300, DEADLINE_MS = 10000 };
enum { STARVED_MS = 100 }; /* of DEADLINE_MS; the kernel keeps 500 from real-time threads */

static struct ut_lock lock;
static sem_t held;
static bool waits; /* atomic: the waiter is about to wait */
static bool owned; /* the holder is to be the lock's owner */
static int other_policy;
static pid_t *idle_thread; /* shared: the holder that has SCHED_IDLE; 0: none */

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
    __atomic_store_n(idle_thread, other_policy == SCHED_IDLE ? gettid() : 0, __ATOMIC_RELAXED);
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

/* True if the thread with SCHED_IDLE has nearly not run: others than the waiter had the core. */
static bool is_starved(pid_t child)
{
    pid_t thread = __atomic_load_n(idle_thread, __ATOMIC_RELAXED);
    unsigned long long ns = ~0ULL;
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", (int)child, (int)thread);
    FILE *file = thread != 0 ? fopen(path, "re") : NULL;
    if (!file)
        return false;
    bool read = fscanf(file, "%llu", &ns) == 1;
    fclose(file);
    return read && ns < STARVED_MS * 1000000ULL;
}

/* Ends a wait that lasts. True: it is not judged. */
static bool kill_child(pid_t child)
{
    bool starved = is_starved(child);

    printf("%s\n", starved ? "not judged: other programs leave a thread with SCHED_IDLE no time"
                           : "the thread with the higher priority does not let the other one run");
    kill(child, SIGKILL);
    return starved;
}

int main(void)
{
    bool starved = false;
    int cpus[2], status = 0;
    pid_t child;

    if (!find_cpus(cpus) || !has_owners() || !set_policy(SCHED_FIFO, HIGHEST)) {
        printf("skipped: needs two CPUs, membarrier() and real-time priorities\n");
        return SKIPPED;
    }
    pin_to(cpus[0]);
    idle_thread =
        mmap(NULL, sizeof(*idle_thread), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(idle_thread != MAP_FAILED);
    child = fork();
    if (child == 0) {
        wait_in_all_ways(cpus[1]);
        _exit(0);
    }
    CHECK(child > 0);
    uint64_t end = ut_clock_ms() + DEADLINE_MS;
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (ut_clock_ms() > end) {
            starved = kill_child(child);
            end += DEADLINE_MS;
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return status != 0 && !starved;
}
