/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How calls wait, and the thread for interrupts (INTERRUPT_SET 1). Both poll: they spin at first,
 * then yield the core from time to time, and finally sleep for longer and longer.
 */
#include "wait.h"
#include "cmpl_thread.h"
#include "lock.h"
#include "net.h"
#include "progress.h"

#include <utofu_ext.h>

#include <sched.h>

enum {
    MIN_SPINS = 64,     /* empty polls before a thread yields the core */
    MAX_SPINS = 4096,   /* the same if every waiting thread can have a core of its own: a yield is a
                            system call, and another process may keep the core for long */
    CALL_POLLS = 8192,  /* empty polls of a waiting call before it sleeps between polls */
    THREAD_POLLS = 256, /* the same for the thread for interrupts */
    SHORT_SLEEP_NS = 20 * 1000,
    SHORT_SLEEPS = 64, /* number of sleeps before they become longer */
    LONG_SLEEP_US = 200,
    THREAD_BACKOFF_NS = 500 * 1000, /* sleep of the thread for interrupts while a call polls */
};

void la_wait_setup(void)
{
    cpu_set_t set;

    la.wait.num_cores =
        sched_getaffinity(0, sizeof(set), &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

/* Sleeps until a notice arrives; actions of other threads and words in memory do not wake the
 * thread. */
static void sleep_for_notice(uint32_t sleep_count)
{
    const utofu_vcq_hdl_t vcq = la_port()->vcq;

    if (sleep_count < SHORT_SLEEPS)
        lc_sleep_ns(SHORT_SLEEP_NS);
    else
        utofu_wait_vcqs(&vcq, 1, LONG_SLEEP_US);
}

/* True if this host has a core for each waiting thread of each task; assumes that all tasks are on
 * this host and have as many waiting threads as this one. */
static bool has_core_per_waiter(void)
{
    return (uint64_t)la.job.procs * __atomic_load_n(&la.wait.waiting_threads, __ATOMIC_RELAXED) <=
               la.wait.num_cores &&
           !la_cmpl_thread_is_busy();
}

/* Pauses for as long as the count of empty polls demands. spins: empty polls before the thread
 * yields the core; polls: empty polls before it sleeps. */
static void spin_yield_or_sleep(uint32_t idle_count, uint32_t spins, uint32_t polls)
{
    if (idle_count < spins)
        lc_cpu_relax();
    else if (idle_count < polls)
        sched_yield();
    else
        sleep_for_notice(idle_count - polls);
}

void la_pause_between_polls(uint32_t *idle_count)
{
    la.wait.call_polls = true;
    la_pause(idle_count);
}

void la_pause(uint32_t *idle_count)
{
    struct la_lock_depth saved;

    la_cmpl_handler_begin_wait();
    saved = la_lock_release_all();
    __atomic_fetch_add(&la.wait.waiting_threads, 1, __ATOMIC_RELAXED);
    spin_yield_or_sleep(++*idle_count, has_core_per_waiter() ? MAX_SPINS : MIN_SPINS, CALL_POLLS);
    __atomic_fetch_sub(&la.wait.waiting_threads, 1, __ATOMIC_RELAXED);
    la_lock_restore(saved);
    la_cmpl_handler_end_wait();
}

void la_progress_or_wait(uint32_t *idle_count)
{
    la_cmpl_handler_begin_wait();
    if (la_progress())
        *idle_count = 0;
    else
        la_pause_between_polls(idle_count);
    la_lock_yield_if_contended(); /* under load a wait may end before a waiting thread gets a core
                                   */
    la_cmpl_handler_end_wait();
}

enum poll_result { FOUND_NOTHING, FOUND_SOMETHING, A_CALL_POLLS };

/* Polls for the interrupt thread; does nothing while a call of the program polls. */
static enum poll_result poll_for_interrupts(void)
{
    enum poll_result found = A_CALL_POLLS;

    if (!la_trylock())
        return A_CALL_POLLS;
    if (!la.wait.call_polls)
        found = la_progress() ? FOUND_SOMETHING : FOUND_NOTHING;
    la.wait.call_polls = false;
    la_unlock();
    return found;
}

static void *run_interrupt_thread(void *unused)
{
    uint32_t idle_count = 0;

    (void)unused;
    while (!__atomic_load_n(&la.wait.stop, __ATOMIC_ACQUIRE)) {
        enum poll_result found = poll_for_interrupts();

        idle_count = found == FOUND_SOMETHING ? 0 : idle_count + 1;
        if (found == A_CALL_POLLS)
            lc_sleep_ns(THREAD_BACKOFF_NS);
        else
            spin_yield_or_sleep(idle_count, MIN_SPINS, THREAD_POLLS);
    }
    return NULL;
}

bool la_interrupt_thread_start(void)
{
    int rc;

    la.wait.stop = false;
    rc = lc_thread_start(&la.wait.thread, run_interrupt_thread, NULL);
    if (rc != 0)
        la_log("no thread for interrupts: error %d of pthread_create", rc);
    return rc == 0;
}

void la_interrupt_thread_stop(void)
{
    __atomic_store_n(&la.wait.stop, true, __ATOMIC_RELEASE);
    lc_thread_join(&la.wait.thread);
}
