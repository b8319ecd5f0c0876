/* SPDX-License-Identifier: Apache-2.0 */
/* The background thread: which VCQs it polls, and when. */
#include "runtime/thread.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine/engine.h"
#include "process/process.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "util/thread.h"
#include "vcq/vcq.h"
#include "vcq/wake.h"

enum {
    FIRST_LOOK_MS = 2, /* how soon it is checked again whether a program still polls */
    LAST_LOOK_MS = 16,
    WAITING_MS = 1,  /* for a link that waits for time or room */
    MAX_ROUNDS = 64, /* polls of one VCQ before the others get their turn */
};

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static bool started;
static int start_result;
static int epoll_fd = -1, wake_fd = -1;

void ut_thread_wake(void *owner)
{
    struct ut_vcq *vcq = owner;

    /* called by the thread itself, in progress(), before it visits the VCQs */
    __atomic_store_n(&vcq->wake_pending, 1, __ATOMIC_RELEASE);
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
    __atomic_store_n(&vcq->wake_pending, 1, __ATOMIC_RELEASE); /* goes on next time */
}

static void sooner(int *timeout, int64_t ms)
{
    int t = ms < 0 ? 0 : (int)ms;

    if (*timeout < 0 || t < *timeout)
        *timeout = t;
}

/* Polls and arms a VCQ if it was woken or is due, and its program does not poll. */
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
        sooner(timeout, WAITING_MS); /* the program is in a call on it */
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
        vcq->look_interval = vcq->look_interval < FIRST_LOOK_MS  ? FIRST_LOOK_MS
                             : vcq->look_interval < LAST_LOOK_MS ? vcq->look_interval * 2
                                                                 : LAST_LOOK_MS;
        due = now + vcq->look_interval;
    } else {
        vcq->look_interval = 0;
        run(vcq);
        due = vcq->waiting ? now + WAITING_MS : 0;
        if (vcq->waiting) /* the timeout does */
            __atomic_store_n(&vcq->wake_pending, 0, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&vcq->look_again_at, due, __ATOMIC_RELAXED);
    if (due)
        sooner(timeout, (int64_t)(due - now));
    if (__atomic_load_n(&vcq->wake_pending, __ATOMIC_RELAXED))
        sooner(timeout, 0);
    ut_unlock(&vcq->lock);
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
            if (events[i].data.fd == wake_fd && read(wake_fd, &count, sizeof(count)) < 0)
                continue; /* already read */
        }
        timeout = ut_process_progress();
        ut_vcq_for_each(visit, &timeout);
    }
    return NULL;
}

static int add_descriptor(int fd)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static int start(void)
{
    const struct ut_process *process = ut_process_peek();

    if (!ut_env_num(UT_ENV_PROGRESS_THREAD))
        return 0;
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    wake_fd = ut_vcq_wake_fd();
    if (epoll_fd < 0 || wake_fd < 0 || add_descriptor(wake_fd) != 0)
        return -errno;
    for (int i = 0; i < PROV_COUNT; i++) {
        if (process->prov[i] && add_descriptor(process->prov[i]->ops->fd(process->prov[i])) != 0)
            return -errno;
    }
    int rc = ut_thread_create("utofu", thread_main, NULL, NULL);
    if (rc != 0)
        return rc;
    __atomic_store_n(&ut_vcq_thread, true, __ATOMIC_RELAXED);
    return 0;
}

int ut_thread_start(void)
{
    pthread_mutex_lock(&start_lock);
    if (!started) {
        started = true;
        start_result = start();
        if (start_result != 0)
            ut_error("runtime", "cannot start the background thread: %s", strerror(-start_result));
    }
    pthread_mutex_unlock(&start_lock);
    return start_result;
}
