/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes everything go on: in the calls of the program that wait or ask, and in a thread of the
 * layer for when there are none. uTofu has no call that waits for an arrival, so both poll. As long
 * as things happen they spin, where the core is not wanted by others, and yield where it is. Then
 * they sleep, longer and longer up to a millisecond.
 */
#include "layer.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

enum {
    YIELD_EVERY = 16,     /* polls without result, on a core of one's own */
    CALL_POLLS = 16384,   /* of a call that waits, before it sleeps between them */
    THREAD_POLLS = 2048,  /* of the thread, which leaves the core where others want it */
    LONG_YIELD_NS = 2000, /* another thread has run */
    LEAST_NAPS = 2,
    MOST_NAPS = 256,
    SLACK_NS = 1000,          /* of the kernel's timers: 50 us unless set */
    SHARED_NAP_NS = 2 * 1000, /* in place of a poll, on a core that others want */
    NAP_NS = 20 * 1000,
    WORK_NAP_NS = 100 * 1000, /* the longest sleep while something is pending */
    CALL_NAP_NS = 250 * 1000, /* of the thread, while a call polls */
    IDLE_NAP_NS = 1000 * 1000,
    NAPS_EACH = 16, /* before they get twice as long */
};

static pthread_t thread;
static bool stop;
static bool call_polls; /* since the thread looked */

bool al_progress(void)
{
    bool any = al_net_poll();

    any |= al_command_serve();
    any |= al_queue_start_waiting();
    al_task_step_later_ones();
    al_watch_poll();
    return any;
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Does another thread want this core? A yield that is long says so. */
static bool is_shared(void)
{
    uint64_t begin = al_now_ns();

    sched_yield();
    return al_now_ns() - begin > LONG_YIELD_NS;
}

static void nap(uint32_t naps, long shortest, long longest)
{
    uint32_t doubled = naps / NAPS_EACH;
    long ns = doubled < 10 ? shortest << doubled : longest;
    struct timespec t = {.tv_nsec = ns < longest ? ns : longest};

    nanosleep(&t, NULL);
}

/* A thread that sleeps gets its core back when it wakes, and one that yields a time slice later. */
static void nap_on_shared_core(void)
{
    unsigned long slack = (unsigned long)prctl(PR_GET_TIMERSLACK);

    prctl(PR_SET_TIMERSLACK, SLACK_NS);
    nap(0, SHARED_NAP_NS, SHARED_NAP_NS);
    prctl(PR_SET_TIMERSLACK, slack);
}

/* The poll of this number found nothing. A core that others want is left to them for some naps,
 * and for more each time that it still is. */
static void pause_briefly(uint32_t idle)
{
    static _Thread_local uint32_t naps, series = LEAST_NAPS;

    if (naps > 0) {
        naps--;
        nap_on_shared_core();
    } else if (idle % YIELD_EVERY != 0) {
        relax();
    } else if (is_shared()) {
        naps = series;
        series = series < MOST_NAPS ? 2 * series : MOST_NAPS;
    } else {
        series = LEAST_NAPS;
    }
}

void al_progress_pause(uint32_t *idle)
{
    uint32_t polls = ++*idle;

    call_polls = true;
    al_unlock();
    if (polls < CALL_POLLS)
        pause_briefly(polls);
    else
        nap(polls - CALL_POLLS, NAP_NS, WORK_NAP_NS);
    al_lock();
}

/* The longest that the thread may sleep now. It does nothing while a call polls. */
static long look(uint32_t *idle)
{
    long longest = IDLE_NAP_NS;

    if (!al_trylock())
        return CALL_NAP_NS;
    if (call_polls) {
        longest = CALL_NAP_NS;
        *idle = THREAD_POLLS + 16 * NAPS_EACH;
    } else {
        *idle = al_progress() ? 0 : *idle + 1;
        if (!al_queue_idle())
            longest = WORK_NAP_NS;
    }
    call_polls = false;
    al_unlock();
    return longest;
}

static void *run(void *unused)
{
    uint32_t idle = THREAD_POLLS;

    (void)unused;
    prctl(PR_SET_TIMERSLACK, SLACK_NS);
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        long longest = look(&idle);

        if (idle < THREAD_POLLS)
            pause_briefly(idle);
        else
            nap(idle - THREAD_POLLS, NAP_NS, longest);
    }
    return NULL;
}

bool al_progress_start_thread(void)
{
    sigset_t all, before;
    int rc;

    stop = false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        al_log("acp_init: no thread for the layer: error %d of pthread_create", rc);
    return rc == 0;
}

/* Without the lock. */
void al_progress_stop_thread(void)
{
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
}
