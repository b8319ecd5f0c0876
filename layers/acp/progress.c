/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes everything go on: in the calls of the program that wait or ask, and in a thread of the
 * layer for when there are none. As long as things happen both poll: without pause where the core
 * is not wanted by others. Then they sleep in utofu_wait_vcqs(), and while a call does so, the
 * thread leaves everything to it. It does not sleep there while the program is busy with calls that
 * do not wait, as a VCQ that is waited for takes its slow path: see al_lock().
 */
#include "layer.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#include <utofu_ext.h>

enum {
    FIRST_YIELD = 16,     /* polls without result until a yield; a power of 2 */
    LAST_YIELD = 64,      /* the same on a core of one's own: a yield takes as long as ten polls */
    CALL_POLLS = 16384,   /* of a call that waits, before it sleeps */
    THREAD_POLLS = 2048,  /* of the thread, after something has happened */
    FEW_POLLS = 16,       /* of it, once the program has become quiet */
    LONG_YIELD_NS = 2000, /* another thread has run */
    SLACK_NS = 1000,      /* of the kernel's timers: 50 us unless set */
    BUSY_NAP_NS = 250 * 1000, /* of the thread, while the program makes calls */
    LATER_US = 50,            /* the longest sleep while something is to be tried again */
};

static pthread_t thread;
static bool stop;
static bool call_polls;                    /* since the thread looked */
static uint64_t seen_issued;               /* when it looked */
static uint32_t asleep_calls;              /* in utofu_wait_vcqs() */
static bool parked;                        /* the thread waits for `go` */
static uint32_t yield_every = FIRST_YIELD; /* without the lock: any of its values will do */
static sem_t go;

bool al_progress(void)
{
    bool any = al_command_serve(); /* what others wait for comes first */

    if (al_command_look())
        return true; /* a call that waits for it returns at once */
    any |= al_net_poll();
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

static void nap(long ns)
{
    const struct timespec t = {.tv_nsec = ns};

    nanosleep(&t, NULL);
}

/*
 * Sleeping, with the lock given away.
 */

void al_progress_wake(void)
{
    if (al_port(0) != NULL)
        al_expect(utofu_wake_vcq(al_port(0)->vcq), "utofu_wake_vcq");
}

/* As al_lock(), by one who has slept: who else sleeps is not woken. */
static void lock_again(void)
{
    uint32_t was;

    while ((was = al_lock_grab()) == AL_LOCKED)
        al_lock_wait();
}

/* Until something arrives, another thread takes the lock, or something is due. */
static void sleep_in_utofu(void)
{
    utofu_vcq_hdl_t vcqs[AL_MAX_COLORS];
    uint32_t us = al_watch_due_us();
    size_t n = al_net_vcqs(vcqs);

    if (al_task_has_later_ones() && us > LATER_US)
        us = LATER_US;
    al_unlock_asleep();
    utofu_wait_vcqs(vcqs, n, us);
    lock_again();
    al_watch_soon();
}

/* The poll of this number found nothing. False: others want the core. */
static bool pause_briefly(uint32_t idle)
{
    uint32_t every = __atomic_load_n(&yield_every, __ATOMIC_RELAXED);
    bool shared;

    if ((idle & (every - 1)) != 0) {
        relax();
        return true;
    }
    shared = is_shared();
    every = shared ? FIRST_YIELD : every < LAST_YIELD ? 2 * every : LAST_YIELD;
    __atomic_store_n(&yield_every, every, __ATOMIC_RELAXED);
    return !shared;
}

/* It sleeps with the lock held since the caller looked: else another thread might have taken the
 * notice of what the caller looks for. */
void al_progress_pause(uint32_t *idle)
{
    call_polls = true;
    if (++*idle < CALL_POLLS) {
        al_unlock();
        if (!pause_briefly(*idle))
            *idle = CALL_POLLS; /* sleeps the next time */
        al_lock();
    } else if (al.running) {
        asleep_calls++;
        sleep_in_utofu();
        asleep_calls--;
    }
}

void al_progress_waited(void)
{
    if (!parked || asleep_calls > 0)
        return;
    parked = false;
    sem_post(&go);
}

/*
 * The thread.
 */

/* Since the thread looked; with the lock. */
static bool program_has_polled(void)
{
    bool polled = call_polls;

    call_polls = false;
    return polled;
}

static bool program_has_issued(void)
{
    bool issued = seen_issued != al_handles.issued;

    seen_issued = al_handles.issued;
    return issued;
}

static void park(void)
{
    parked = true;
    al_unlock_asleep();
    while (sem_wait(&go) != 0)
        ;
}

/* One round, with the lock, which it gives away. While the program waits in a call, that one polls;
 * while it issues, its own polls find most things. */
static void work(uint32_t *idle)
{
    bool polled = program_has_polled(), issued = program_has_issued();
    bool any;

    if (polled || issued)
        al_watch_soon(); /* such rounds are few */
    any = !polled && al_progress();

    if (polled || issued) {
        *idle = THREAD_POLLS - FEW_POLLS;
        al_unlock();
        nap(BUSY_NAP_NS);
        return;
    }
    *idle = any ? 0 : *idle + 1;
    if (*idle >= THREAD_POLLS)
        sleep_in_utofu();
    al_unlock();
    if (!pause_briefly(*idle))
        *idle = THREAD_POLLS;
}

static void *run(void *unused)
{
    uint32_t idle = THREAD_POLLS - FEW_POLLS;

    (void)unused;
    prctl(PR_SET_TIMERSLACK, SLACK_NS);
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        if (al_lock_grab() == AL_LOCKED)
            nap(BUSY_NAP_NS);
        else if (asleep_calls > 0)
            park();
        else
            work(&idle);
    }
    return NULL;
}

bool al_progress_start_thread(void)
{
    sigset_t all, before;
    int rc;

    stop = parked = false;
    sem_init(&go, 0, 0);
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
    al_lock(); /* wakes it where it sleeps */
    al_progress_waited();
    al_unlock();
    pthread_join(thread, NULL);
    sem_destroy(&go);
}
