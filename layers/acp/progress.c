/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress of everything that is pending: in calls of the program that wait or poll, and in the
 * thread of the layer otherwise. While operations complete, both poll without a pause, unless other
 * threads want the core. Later they sleep in utofu_wait_vcqs(). While a call sleeps there, the
 * thread is parked. While the program issues operations without waiting, the thread does not sleep
 * there, because a VCQ with a sleeping waiter takes the slow path; see al_lock().
 */
#include "progress.h"
#include "ctx.h"
#include "lock.h"
#include "log.h"
#include "net.h"
#include "task.h"
#include "watch.h"

#include <utofu_ext.h>

enum {
    FIRST_YIELD = 16, /* empty polls before a yield; a power of 2 */
    LAST_YIELD =
        64, /* the same if the thread has a core of its own: a yield takes as long as ten polls */
    CALL_POLLS = 16384,       /* empty polls of a waiting call before it sleeps */
    THREAD_POLLS = 2048,      /* empty polls of the thread before it sleeps */
    FEW_POLLS = 16,           /* the same when the program has stopped making calls */
    BUSY_NAP_NS = 250 * 1000, /* nap of the thread while the program makes calls */
    LATER_US = 50,            /* maximum sleep while a task waits to be retried */
};

void al_progress_setup(void)
{
    al.progress.yield_every = FIRST_YIELD;
}

bool al_progress(void)
{
    bool any = al.up->execute_commands(); /* first, because other processes wait for it */

    if (al.up->poll_answer())
        return true; /* lets the waiting call return at once */
    any |= al_net_poll();
    any |= al.up->start_waiting();
    al_task_retry_all();
    al_watch_poll();
    return any;
}

/*
 * Sleeping, with the lock released
 */

/* As al_lock(), for a thread that has slept: does not wake other sleepers. */
static void lock_after_sleep(void)
{
    uint32_t was;

    while ((was = al_lock_grab()) == AL_LOCKED)
        al_lock_wait();
}

/* Sleeps until a notice arrives, another thread takes the lock, or a timer is due. */
static void sleep_in_utofu(void)
{
    utofu_vcq_hdl_t vcqs[AL_MAX_COLORS];
    uint32_t us = al_watch_us_until_due();
    size_t n = al_net_vcqs(vcqs);

    if (al_task_any_to_retry() && us > LATER_US)
        us = LATER_US;
    al_unlock_asleep();
    utofu_wait_vcqs(vcqs, n, us);
    lock_after_sleep();
    al_watch_check_next();
}

/* Pauses after the idle-th empty poll. False: other threads want the core. */
static bool pause_briefly(uint32_t idle)
{
    uint32_t every = __atomic_load_n(&al.progress.yield_every, __ATOMIC_RELAXED);
    bool shared;

    if ((idle & (every - 1)) != 0) {
        lc_cpu_relax();
        return true;
    }
    shared = lc_yield_core();
    every = shared ? FIRST_YIELD : every < LAST_YIELD ? 2 * every : LAST_YIELD;
    __atomic_store_n(&al.progress.yield_every, every, __ATOMIC_RELAXED);
    return !shared;
}

/* Sleeps without releasing the lock since the last check of the caller; otherwise another thread
 * could consume the notice that the caller waits for. */
void al_progress_wait(uint32_t *idle)
{
    al.progress.call_polls = true;
    if (++*idle < CALL_POLLS) {
        al_unlock();
        if (!pause_briefly(*idle))
            *idle = CALL_POLLS; /* sleep next time */
        al_lock();
    } else if (al.running) {
        al.progress.asleep_calls++;
        sleep_in_utofu();
        al.progress.asleep_calls--;
    }
}

void al_progress_or_wait(uint32_t *idle)
{
    if (al_progress())
        *idle = 0;
    else
        al_progress_wait(idle);
}

void al_progress_wait_done(void)
{
    if (!al.progress.parked || al.progress.asleep_calls > 0)
        return;
    al.progress.parked = false;
    sem_post(&al.progress.go);
}

/*
 * The thread of the layer
 */

/* Since the last check of the thread. Called with the lock. */
static bool program_has_polled(void)
{
    bool polled = al.progress.call_polls;

    al.progress.call_polls = false;
    return polled;
}

static bool program_has_issued(void)
{
    bool issued = al.progress.seen_issued != al.handles.issued;

    al.progress.seen_issued = al.handles.issued;
    return issued;
}

static void park_thread(void)
{
    al.progress.parked = true;
    al_unlock_asleep();
    while (sem_wait(&al.progress.go) != 0)
        ;
}

/* One round of the thread; releases the lock. The thread does not poll while a waiting call polls,
 * and seldom while the program issues operations. */
static void run_round(uint32_t *idle)
{
    bool polled = program_has_polled(), issued = program_has_issued();
    bool any;

    if (polled || issued)
        al_watch_check_next(); /* such rounds are rare */
    any = !polled && al_progress();

    if (polled || issued) {
        *idle = THREAD_POLLS - FEW_POLLS;
        al_unlock();
        lc_sleep_ns(BUSY_NAP_NS);
        return;
    }
    *idle = any ? 0 : *idle + 1;
    if (*idle >= THREAD_POLLS)
        sleep_in_utofu();
    al_unlock();
    if (!pause_briefly(*idle))
        *idle = THREAD_POLLS;
}

static void *run_thread(void *unused)
{
    uint32_t idle = THREAD_POLLS - FEW_POLLS;

    (void)unused;
    while (!__atomic_load_n(&al.progress.stop, __ATOMIC_ACQUIRE)) {
        if (al_lock_grab() == AL_LOCKED)
            lc_sleep_ns(BUSY_NAP_NS);
        else if (al.progress.asleep_calls > 0)
            park_thread();
        else
            run_round(&idle);
    }
    return NULL;
}

bool al_progress_start_thread(void)
{
    int rc;

    al.progress.stop = al.progress.parked = false;
    sem_init(&al.progress.go, 0, 0);
    rc = lc_thread_start(&al.progress.thread, run_thread, NULL);
    if (rc != 0)
        al_log("acp_init: no thread for the layer: error %d of pthread_create", rc);
    return rc == 0;
}

/* Called without the lock. */
void al_progress_stop_thread(void)
{
    __atomic_store_n(&al.progress.stop, true, __ATOMIC_RELEASE);
    al_lock(); /* wakes the thread from its sleep */
    al_progress_wait_done();
    al_unlock();
    lc_thread_join(&al.progress.thread);
    sem_destroy(&al.progress.go);
}
