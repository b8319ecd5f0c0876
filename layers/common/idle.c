/* SPDX-License-Identifier: Apache-2.0 */
/* How threads wait. */
#include "idle.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "job.h"

enum {
    SPINS = 64,
    LONG_SPINS = 1000,    /* of a thread that sleeps afterwards */
    LONG_YIELD_NS = 2000, /* a yield that takes longer has run another thread */
    NAP_NS = 50000,
    SLACK_NS = 1000, /* timer slack; the default of the kernel is 50 us */
};

void lc_sleep_ns(long ns)
{
    const struct timespec t = {.tv_nsec = ns};

    nanosleep(&t, NULL);
}

bool lc_yield_core(void)
{
    uint64_t begin = lc_now_ns();

    sched_yield();
    return lc_now_ns() - begin > LONG_YIELD_NS;
}

void lc_spin_while_equal(const uint32_t *word, uint32_t value)
{
    uint32_t spins = 0;

    while (__atomic_load_n(word, __ATOMIC_RELAXED) == value) {
        /* sleeps at last, because the thread that changes the word may need this core at a lower
         * priority */
        if (++spins > LONG_SPINS)
            lc_sleep_ns(NAP_NS);
        else if (spins > SPINS)
            sched_yield();
    }
}

void lc_futex_wait(const uint32_t *word, uint32_t value)
{
    /* the thread that changes the word may not wake this one yet */
    const struct timespec longest = {.tv_nsec = 1000000};

    for (uint32_t spins = 0; spins < LONG_SPINS; spins++) {
        if (__atomic_load_n(word, __ATOMIC_RELAXED) != value)
            return;
        lc_cpu_relax();
    }
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &longest, NULL, 0);
}

void lc_futex_wake(const uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *run_thread(void *arg)
{
    struct lc_thread *thread = arg;

    prctl(PR_SET_TIMERSLACK, SLACK_NS);
    return thread->run(thread->arg);
}

int lc_thread_start(struct lc_thread *thread, void *(*run)(void *arg), void *arg)
{
    sigset_t all, before;
    int rc;

    thread->run = run;
    thread->arg = arg;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread->id, NULL, run_thread, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

void lc_thread_join(struct lc_thread *thread)
{
    pthread_join(thread->id, NULL);
}
