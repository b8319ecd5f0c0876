/* SPDX-License-Identifier: Apache-2.0 */
/* The lock that has an owner: util/lock.h. */
#include "util/lock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"

TestSuite(lock);

enum { MANY = 300, THREADS = 2, ROUNDS = 10000000, SHORT_WAIT = 4096, LONG_WAIT = 20000 };

static struct ut_lock lock;

/* The system's calls. */
static bool barriers_are_forbidden;
static unsigned int num_sleeps;
static uint64_t slept_ns;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, int command, unsigned int flags, int cpu);
long __wrap_syscall(long number, int command, unsigned int flags, int cpu)
{
    if (barriers_are_forbidden && number == SYS_membarrier) {
        errno = EPERM;
        return -1;
    }
    return __real_syscall(number, command, flags, cpu);
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
    (void)left;
    num_sleeps++;
    slept_ns = (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec;
    return 0;
}

static void take(void)
{
    ut_lock(&lock);
    ut_unlock(&lock);
}

static void take_often(void)
{
    for (int i = 0; i < MANY; i++)
        take();
}

static void *run(void *arg)
{
    void (*call)(void);

    *(void **)&call = arg;
    call();
    return NULL;
}

static void in_another_thread(void (*call)(void))
{
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, run, *(void **)&call), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
}

static void expect_no_lock(void)
{
    cr_expect_not(ut_trylock(&lock));
    cr_expect_not(ut_lock_until(&lock, ut_now_ms()));
}

static void expect_a_lock(void)
{
    cr_expect(ut_trylock(&lock));
    ut_unlock(&lock);
}

/* Some sandboxes have no membarrier(). */
static void open_locks(void)
{
    ut_lock_open();
    take_often();
    if (lock.owner == 0)
        cr_skip_test("no lock has an owner here");
}

Test(lock, whoever_takes_it_many_times_in_a_row_is_the_owner)
{
    open_locks();
    cr_assert_eq(lock.owner, ut_self());
    cr_assert_not(ut_is_locked(&lock));
    ut_lock(&lock);
    cr_assert(lock.entered && !lock.held);
    in_another_thread(expect_no_lock);
    cr_assert(lock.entered && !lock.held);
    ut_unlock(&lock);
    in_another_thread(expect_a_lock);
    cr_assert_eq(lock.owner, 0);
}

Test(lock, is_taken_in_turn_without_an_owner)
{
    ut_lock_open();
    for (int i = 0; i < 10; i++) {
        for (int k = 0; k < 50; k++)
            take();
        in_another_thread(take);
        cr_assert_eq(lock.owner, 0);
        cr_assert_not(ut_is_locked(&lock));
    }
}

Test(lock, has_one_candidate_for_ever)
{
    open_locks();
    in_another_thread(take_often);
    cr_assert_eq(lock.owner, 0, "the owner's word has one writer");
    take_often();
    cr_assert_eq(lock.owner, ut_self());
}

static void look_in_once(void)
{
    cr_expect(ut_trylock_keep_owner(&lock));
    ut_unlock(&lock);
}

static void fail_to_look_in(void)
{
    cr_expect_not(ut_trylock_keep_owner(&lock));
}

Test(lock, is_left_to_its_owner_by_a_thread_that_looks_in)
{
    ut_lock_open();
    for (int i = 0; i < MANY; i++) {
        take();
        if (i % 10 == 0)
            in_another_thread(look_in_once);
    }
    if (lock.owner == 0)
        cr_skip_test("no lock has an owner here");
    in_another_thread(look_in_once);
    cr_assert_eq(lock.owner, ut_self());
    look_in_once();
    cr_assert_eq(lock.owner, ut_self());
    ut_lock(&lock);
    in_another_thread(fail_to_look_in);
    ut_unlock(&lock);
    cr_assert_eq(lock.owner, ut_self());
    cr_assert_not(ut_is_locked(&lock));
}

Test(lock, a_signal_handler_in_a_call_of_the_owner_gets_none)
{
    open_locks();
    ut_lock(&lock);
    expect_no_lock();
    cr_assert(lock.entered && !lock.held);
    ut_unlock(&lock);
    expect_a_lock();
}

Test(lock, has_no_owner_without_membarrier)
{
    take_often();
    cr_assert_eq(lock.owner, 0);
    ut_lock(&lock);
    in_another_thread(expect_no_lock);
    ut_unlock(&lock);
    in_another_thread(expect_a_lock);
}

/* The program has forbidden membarrier() by seccomp: the store of the owner is waited for, and no
 * lock gets an owner any more. */
Test(lock, is_taken_a_millisecond_later_where_membarrier_is_forbidden)
{
    open_locks();
    barriers_are_forbidden = true;
    in_another_thread(take);
    cr_assert(num_sleeps == 1 && slept_ns == 1000000);
    cr_assert_eq(lock.owner, 0);
    in_another_thread(take_often);
    take_often();
    cr_assert(num_sleeps == 1 && lock.owner == 0);
}

Test(lock, a_child_is_an_owner_of_its_own)
{
    open_locks();
    ut_lock(&lock);
    pid_t child = fork();
    if (child == 0) {
        ut_lock_open();
        ut_lock_reset(&lock);
        take_often();
        bool good = lock.owner == ut_self();
        in_another_thread(take_often); /* asks for a barrier */
        _exit(!good || lock.owner != 0);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    ut_unlock(&lock);
}

/*
 * Many threads: one takes the lock many times in a row, as the program does; the others now and
 * then, with and without waiting. Signals stop the first one between any two instructions.
 */

static struct {
    unsigned int inside, taken, owned; /* with the lock */
    bool ends, stopped;                /* atomic */
} shared;

static void count_inside(void)
{
    /* not atomic: two threads inside lose counts, and ThreadSanitizer sees them */
    cr_assert_eq(shared.inside, 0);
    shared.inside = 1;
    shared.taken++;
    shared.owned += __atomic_load_n(&lock.owner, __ATOMIC_RELAXED) != 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    cr_assert_eq(shared.inside, 1);
    shared.inside = 0;
}

static void wait_a_while(unsigned int loops)
{
    for (; loops > 0; loops--)
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static void on_signal(int number)
{
    (void)number;
    wait_a_while(LONG_WAIT);
    __atomic_store_n(&shared.stopped, false, __ATOMIC_RELAXED);
}

static void *stop_now_and_then(void *arg)
{
    const pthread_t *thread = arg;

    while (!__atomic_load_n(&shared.ends, __ATOMIC_RELAXED)) {
        if (__atomic_exchange_n(&shared.stopped, true, __ATOMIC_RELAXED))
            sched_yield();
        else
            pthread_kill(*thread, SIGUSR1);
    }
    return NULL;
}

static void *look_in(void *arg)
{
    unsigned int *taken = arg;
    unsigned int pauses = (unsigned int)(uintptr_t)arg;

    while (!__atomic_load_n(&shared.ends, __ATOMIC_RELAXED)) {
        wait_a_while((unsigned int)rand_r(&pauses) % SHORT_WAIT);
        if (pauses % 3 == 0)
            ut_lock(&lock);
        else if (!(pauses % 3 == 1 ? ut_trylock(&lock) : ut_trylock_keep_owner(&lock)))
            continue;
        count_inside();
        ut_unlock(&lock);
        ++*taken;
    }
    return NULL;
}

Test(lock, holds_one_thread_at_a_time, .timeout = 300)
{
    pthread_t threads[THREADS], stopper, self = pthread_self();
    unsigned int taken[THREADS] = {0}, all = 0;

    cr_assert_neq(signal(SIGUSR1, on_signal), SIG_ERR);
    ut_lock_open();
    take_often();
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, look_in, &taken[i]), 0);
    cr_assert_eq(pthread_create(&stopper, NULL, stop_now_and_then, &self), 0);
    for (int i = 0; i < ROUNDS; i++) {
        ut_lock(&lock);
        count_inside();
        ut_unlock(&lock);
    }
    __atomic_store_n(&shared.ends, true, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        all += taken[i];
    }
    pthread_join(stopper, NULL);
    cr_log_info("%u times with an owner, %u times by others", shared.owned, all);
    cr_assert_eq(shared.taken, ROUNDS + all);
    cr_assert_not(ut_is_locked(&lock));
}
