/* SPDX-License-Identifier: Apache-2.0 */
/* The background thread: when it looks at which VCQ. */
#include "progress/progress.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/engine.h"
#include "process/process.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "vcq/vcq.h"

enum {
    FIRST_LOOK_MS = 2,  /* how soon a polling program is looked at again */
    LAST_LOOK_MS = 16,
    WAITING_MS = 1,     /* a link waits for time or room */
    MAX_ROUNDS = 64,    /* polls of one VCQ before the others get their turn */
};

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
bool ut_progress_thread;
static bool tried;
static int start_result;
static int epoll_fd = -1, kick_fd = -1;

static void kick(void)
{
    uint64_t one = 1;

    if (kick_fd >= 0 && write(kick_fd, &one, sizeof(one)) < 0)
        return; /* full: the thread is about to run anyway */
}

void ut_progress_wake(void *owner)
{
    struct ut_vcq *vcq = owner;

    /* called from the thread itself, which looks at the VCQs next */
    __atomic_store_n(&vcq->wake_pending, 1, __ATOMIC_RELEASE);
}

void ut_progress_need(struct ut_vcq *vcq)
{
    if (__atomic_exchange_n(&vcq->wake_pending, 1, __ATOMIC_ACQ_REL) == 0)
        kick();
}

/* Polls until nothing comes and every endpoint is armed. */
static void run(struct ut_vcq *vcq)
{
    for (int round = 0; round < MAX_ROUNDS; round++) {
        bool again = ut_engine_progress(vcq);
        if (again)
            continue;
        for (unsigned int i = 0; i < vcq->num_eps; i++)
            again |= vcq->eps[i].ops->ep_arm(vcq->eps[i].ep);
        if (!again)
            return;
    }
    __atomic_store_n(&vcq->wake_pending, 1, __ATOMIC_RELEASE); /* more next time */
}

static void sooner(int *timeout, int64_t ms)
{
    int t = ms < 0 ? 0 : (int)ms;

    if (*timeout < 0 || t < *timeout)
        *timeout = t;
}

/* Looks at one VCQ, if there is a reason to. */
static void visit(struct ut_vcq *vcq, void *arg)
{
    int *timeout = arg;
    bool woken = __atomic_load_n(&vcq->wake_pending, __ATOMIC_ACQUIRE);
    uint64_t now = ut_now_ms(), due = __atomic_load_n(&vcq->look_again_at, __ATOMIC_RELAXED);

    if (!woken && due == 0)
        return;
    if (!woken && now < due) {
        sooner(timeout, (int64_t)(due - now));
        return;
    }
    if (!ut_trylock(&vcq->lock)) {
        sooner(timeout, WAITING_MS); /* the program is at it this very moment */
        return;
    }
    if (vcq->num_eps == 0) {
        ut_unlock(&vcq->lock);
        return;
    }
    __atomic_store_n(&vcq->wake_pending, 0, __ATOMIC_RELEASE);
    bool polls = vcq->poll_count != vcq->seen_poll_count;
    vcq->seen_poll_count = vcq->poll_count;
    if (polls) {
        for (unsigned int i = 0; i < vcq->num_eps; i++)
            vcq->eps[i].ops->ep_disarm(vcq->eps[i].ep);
        vcq->look_interval = vcq->look_interval < FIRST_LOOK_MS ? FIRST_LOOK_MS
                             : vcq->look_interval < LAST_LOOK_MS ? vcq->look_interval * 2
                                                                 : LAST_LOOK_MS;
        due = now + vcq->look_interval;
    } else {
        vcq->look_interval = 0;
        run(vcq);
        due = vcq->waiting ? now + WAITING_MS : 0;
        if (vcq->waiting) /* no need to be kicked meanwhile */
            __atomic_store_n(&vcq->wake_pending, 0, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&vcq->look_again_at, due, __ATOMIC_RELAXED);
    if (due)
        sooner(timeout, (int64_t)(due - now));
    if (__atomic_load_n(&vcq->wake_pending, __ATOMIC_RELAXED))
        sooner(timeout, 0);
    ut_unlock(&vcq->lock);
}

static void providers_progress(int *timeout)
{
    const struct ut_process *process = ut_process_peek();

    for (int i = 0; process && i < UT_NUM_PROVIDERS; i++) {
        if (!process->prov[i])
            continue;
        int ms = process->prov[i]->ops->progress(process->prov[i]);
        if (ms >= 0)
            sooner(timeout, ms);
    }
}

void ut_progress_inline(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int timeout = -1;

    if (pthread_mutex_trylock(&lock) != 0)
        return;
    providers_progress(&timeout);
    pthread_mutex_unlock(&lock);
}

static void *thread_main(void *arg)
{
    struct epoll_event events[8];
    int timeout = 0;

    (void)arg;
    ut_job_set_background_thread();
    for (;;) {
        int n = epoll_wait(epoll_fd, events, 8, timeout);
        for (int i = 0; i < n; i++) {
            uint64_t count;
            if (events[i].data.fd == kick_fd && read(kick_fd, &count, sizeof(count)) < 0)
                continue; /* somebody else's wake-up */
        }
        timeout = -1;
        providers_progress(&timeout);
        ut_vcq_for_each(visit, &timeout);
    }
    return NULL;
}

static int watch(int fd)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static int start(void)
{
    const struct ut_process *process = ut_process_peek();
    pthread_t thread;
    sigset_t all, old;

    if (!ut_env_num(UT_ENV_PROGRESS_THREAD))
        return 0;
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (epoll_fd < 0 || kick_fd < 0 || watch(kick_fd) != 0)
        return -errno;
    for (int i = 0; i < UT_NUM_PROVIDERS; i++) {
        if (process->prov[i] && watch(process->prov[i]->ops->fd(process->prov[i])) != 0)
            return -errno;
    }
    /* signals are for the program's threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&thread, NULL, thread_main, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        return -rc;
    pthread_setname_np(thread, "utofu");
    pthread_detach(thread);
    __atomic_store_n(&ut_progress_thread, true, __ATOMIC_RELAXED);
    return 0;
}

int ut_progress_start(void)
{
    pthread_mutex_lock(&start_lock);
    if (!tried) {
        tried = true;
        start_result = start();
        if (start_result != 0)
            ut_error("progress", "cannot start the background thread: %s", strerror(-start_result));
    }
    pthread_mutex_unlock(&start_lock);
    return start_result;
}
