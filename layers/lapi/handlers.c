/* SPDX-License-Identifier: Apache-2.0 */
/* The thread for completion handlers, which is started when there is the first one. */
#include "handlers.h"
#include "base.h"

/* Without a call of the dynamic linker. */
static _Thread_local bool is_this __attribute__((tls_model("initial-exec")));

bool la_handlers_is_this(void)
{
    return is_this;
}

bool la_handlers_busy(void)
{
    return __atomic_load_n(&la.handlers.unfinished, __ATOMIC_RELAXED) > 0;
}

bool la_handlers_wait(void)
{
    return la.handlers.waits > 0;
}

void la_handlers_begin_wait(void)
{
    la.handlers.waits += is_this;
}

void la_handlers_end_wait(void)
{
    la.handlers.waits -= is_this;
}

static struct la_job *take_job(void)
{
    struct la_job *job;

    pthread_mutex_lock(&la.handlers.mutex);
    while (la.handlers.first == NULL && !la.handlers.stop)
        pthread_cond_wait(&la.handlers.more, &la.handlers.mutex);
    job = la.handlers.first;
    if (job != NULL)
        la.handlers.first = job->next;
    pthread_mutex_unlock(&la.handlers.mutex);
    return job;
}

static void *run_jobs(void *unused)
{
    struct la_job *job;

    (void)unused;
    is_this = true;
    while ((job = take_job()) != NULL) {
        job->run(job);
        __atomic_fetch_sub(&la.handlers.unfinished, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static bool start_thread(void)
{
    la.handlers.stop = false;
    la.handlers.runs = lc_thread_start(&la.handlers.thread, run_jobs, NULL) == 0;
    if (!la.handlers.runs)
        la_log("no thread for completion handlers: they run inline");
    return la.handlers.runs;
}

bool la_handlers_add(struct la_job *job)
{
    if (!la.handlers.runs && !start_thread())
        return false;
    __atomic_fetch_add(&la.handlers.unfinished, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&la.handlers.mutex);
    job->next = NULL;
    if (la.handlers.first == NULL)
        la.handlers.first = job;
    else
        la.handlers.last->next = job;
    la.handlers.last = job;
    pthread_cond_signal(&la.handlers.more);
    pthread_mutex_unlock(&la.handlers.mutex);
    return true;
}

void la_handlers_stop(void)
{
    if (!la.handlers.runs)
        return;
    pthread_mutex_lock(&la.handlers.mutex);
    la.handlers.stop = true;
    pthread_cond_signal(&la.handlers.more);
    pthread_mutex_unlock(&la.handlers.mutex);
    lc_thread_join(&la.handlers.thread);
    la.handlers.runs = false;
}
