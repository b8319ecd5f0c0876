/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes everything go on: in the calls of the program that wait or ask, and in a thread of the
 * layer for when there are none. The thread polls as long as something happens; then it sleeps,
 * longer and longer up to a millisecond, because uTofu has no call that waits for an arrival.
 */
#include "layer.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

enum {
    SPINS = 50,   /* polls without result, while something is in flight, before a process yields */
    YIELDS = 300, /* before it sleeps between them */
    NAP_NS = 20 * 1000,
    WORK_NAP_NS = 100 * 1000, /* the longest sleep while something is pending */
    IDLE_NAP_NS = 1000 * 1000,
};

static pthread_t thread;
static bool stop;

bool al_progress(void)
{
    bool any = al_net_poll();

    any |= al_command_serve();
    any |= al_queue_start_waiting();
    al_task_step_later_ones();
    al_watch_poll();
    return any;
}

static void nap(uint32_t idle, long longest)
{
    uint32_t doubled = idle > YIELDS ? (idle - YIELDS) / 16 : 0;
    long ns = doubled < 10 ? (long)NAP_NS << doubled : longest;
    struct timespec t = {.tv_nsec = ns < longest ? ns : longest};

    if (idle < YIELDS)
        sched_yield();
    else
        nanosleep(&t, NULL);
}

void al_progress_pause(uint32_t *idle)
{
    bool spin = ++*idle < SPINS && al_net_busy() > 0;

    al_unlock();
    if (!spin)
        nap(*idle, WORK_NAP_NS);
    al_lock();
}

/* One that waits in acp_complete() or the like polls by itself. */
static void *run(void *unused)
{
    uint32_t idle = 0;

    (void)unused;
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        bool pending = true;

        if (al_trylock()) {
            idle = al_progress() ? 0 : idle + 1;
            pending = !al_queue_idle();
            al_unlock();
        } else {
            idle++;
        }
        nap(idle, pending ? WORK_NAP_NS : IDLE_NAP_NS);
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
