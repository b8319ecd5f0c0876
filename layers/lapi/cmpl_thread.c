/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that runs completion handlers. The first completion handler starts it. */
#include "cmpl_thread.h"

/* initial-exec: access without a call of the dynamic linker */
static _Thread_local bool is_cmpl_thread __attribute__((tls_model("initial-exec")));

bool la_cmpl_thread_is_self(void)
{
    return is_cmpl_thread;
}

bool la_cmpl_thread_is_busy(void)
{
    return __atomic_load_n(&la.cmpl_thread.unfinished, __ATOMIC_RELAXED) > 0;
}

bool la_cmpl_handler_waits(void)
{
    return la.cmpl_thread.blocked_handlers > 0;
}

void la_cmpl_handler_begin_wait(void)
{
    la.cmpl_thread.blocked_handlers += is_cmpl_thread;
}

void la_cmpl_handler_end_wait(void)
{
    la.cmpl_thread.blocked_handlers -= is_cmpl_thread;
}

static struct la_work *wait_for_work(void)
{
    struct la_work *work;

    pthread_mutex_lock(&la.cmpl_thread.mutex);
    while (STAILQ_EMPTY(&la.cmpl_thread.queue) && !la.cmpl_thread.stop)
        pthread_cond_wait(&la.cmpl_thread.work_queued, &la.cmpl_thread.mutex);
    work = STAILQ_FIRST(&la.cmpl_thread.queue);
    if (work != NULL)
        STAILQ_REMOVE_HEAD(&la.cmpl_thread.queue, next);
    pthread_mutex_unlock(&la.cmpl_thread.mutex);
    return work;
}

static void *run_queue(void *unused)
{
    struct la_work *work;

    (void)unused;
    is_cmpl_thread = true;
    while ((work = wait_for_work()) != NULL) {
        work->run(work);
        __atomic_fetch_sub(&la.cmpl_thread.unfinished, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static bool start_thread(void)
{
    STAILQ_INIT(&la.cmpl_thread.queue); /* empty: the last thread has run all */
    la.cmpl_thread.stop = false;
    la.cmpl_thread.running = lc_thread_start(&la.cmpl_thread.thread, run_queue, NULL) == 0;
    if (!la.cmpl_thread.running)
        la_log("no thread for completion handlers: they run inline");
    return la.cmpl_thread.running;
}

bool la_cmpl_thread_enqueue(struct la_work *work)
{
    if (!la.cmpl_thread.running && !start_thread())
        return false;
    __atomic_fetch_add(&la.cmpl_thread.unfinished, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&la.cmpl_thread.mutex);
    STAILQ_INSERT_TAIL(&la.cmpl_thread.queue, work, next);
    pthread_cond_signal(&la.cmpl_thread.work_queued);
    pthread_mutex_unlock(&la.cmpl_thread.mutex);
    return true;
}

void la_cmpl_thread_stop(void)
{
    if (!la.cmpl_thread.running)
        return;
    pthread_mutex_lock(&la.cmpl_thread.mutex);
    la.cmpl_thread.stop = true;
    pthread_cond_signal(&la.cmpl_thread.work_queued);
    pthread_mutex_unlock(&la.cmpl_thread.mutex);
    lc_thread_join(&la.cmpl_thread.thread);
    la.cmpl_thread.running = false;
}
