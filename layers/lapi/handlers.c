/* SPDX-License-Identifier: Apache-2.0 */
/* The thread for completion handlers, which is started when there is the first one. */
#include "layer.h"

#include <pthread.h>
#include <signal.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static struct la_in *first, *last;
static pthread_t thread;
static bool runs, stop;
static int unfinished; /* atomic */
static int waits;      /* calls of a handler that wait: with the lock */
static _Thread_local bool is_this __attribute__((tls_model("initial-exec")));

bool la_handlers_is_this(void)
{
    return is_this;
}

bool la_handlers_busy(void)
{
    return __atomic_load_n(&unfinished, __ATOMIC_RELAXED) > 0;
}

bool la_handlers_wait(void)
{
    return waits > 0;
}

void la_handlers_begin_wait(void)
{
    waits += is_this;
}

void la_handlers_end_wait(void)
{
    waits -= is_this;
}

static struct la_in *next(void)
{
    struct la_in *in;

    pthread_mutex_lock(&mutex);
    while (first == NULL && !stop)
        pthread_cond_wait(&more, &mutex);
    in = first;
    if (in != NULL)
        first = in->next;
    pthread_mutex_unlock(&mutex);
    return in;
}

static void *run(void *unused)
{
    struct la_in *in;

    (void)unused;
    is_this = true;
    while ((in = next()) != NULL) {
        la_transfer_run_handler(in);
        __atomic_fetch_sub(&unfinished, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static bool start(void)
{
    sigset_t all, before;

    stop = false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    runs = pthread_create(&thread, NULL, run, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!runs)
        la_log("no thread for completion handlers: they run inline");
    return runs;
}

bool la_handlers_add(struct la_in *in)
{
    if (!runs && !start())
        return false;
    __atomic_fetch_add(&unfinished, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&mutex);
    in->next = NULL;
    if (first == NULL)
        first = in;
    else
        last->next = in;
    last = in;
    pthread_cond_signal(&more);
    pthread_mutex_unlock(&mutex);
    return true;
}

void la_handlers_stop(void)
{
    if (!runs)
        return;
    pthread_mutex_lock(&mutex);
    stop = true;
    pthread_cond_signal(&more);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    runs = false;
}
