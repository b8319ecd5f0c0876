/* SPDX-License-Identifier: Apache-2.0 */
/* The background thread: chooses the VCQs that it polls, and when. */
#include "runtime/thread.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "check/check.h"
#include "engine/engine.h"
#include "process/process.h"
#include "shuffle/shuffle.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/fd_check.h"
#include "util/thread.h"
#include "vcq/vcq.h"
#include "vcq/wait.h"

enum {
    MIN_CHECK_MS = 2, /* time until the next check whether a program still polls */
    MAX_CHECK_MS = 16,
    WAITING_MS = 1, /* interval while a link waits for a queue entry, and first interval while a
                     * call of the program holds the lock */
    HOLDING_MS = 1, /* interval while a checked VCQ may hold communications back */
    CLOSED_CHECK_MS = 2, /* interval after the program has closed the descriptors */
    MAX_ROUNDS = 64,     /* maximum number of polls of one VCQ before the others get a turn */
    /* if a program polls later than this after posting to a session-mode VCQ, it computes
     * meanwhile. Waking the thread takes about as long */
    COMPUTES_NS = 20000,
};

static struct {
    pthread_mutex_t start_lock;
    bool started;
    int start_result;
    int epoll_fd;
    int sleepers; /* atomic: number of program threads that do the work of this thread */
} background = {.start_lock = PTHREAD_MUTEX_INITIALIZER, .epoll_fd = -1};

void ut_thread_wake(void *owner)
{
    struct ut_vcq *vcq = owner;

    /* the thread itself or a serving thread calls this function in progress(), before it visits the
     * VCQs */
    __atomic_store_n(&vcq->wake_pending, 1, __ATOMIC_SEQ_CST);
    if (!ut_vcq_has_thread() && __atomic_load_n(&background.sleepers, __ATOMIC_SEQ_CST) > 0)
        ut_vcq_wake_thread(); /* or a call that visits no VCQs */
}

static bool arm_endpoints(struct ut_vcq *vcq)
{
    enum prov_arm what = vcq->waits ? PROV_ARM_ALL : PROV_ARM_SOLICITED;
    bool more = false;

    for (unsigned int i = 0; i < vcq->num_eps; i++)
        more |= vcq->eps[i].ops->ep_arm(vcq->eps[i].ep, what);
    return more;
}

bool ut_thread_poll_and_arm(struct ut_vcq *vcq)
{
    for (int round = 0; round < MAX_ROUNDS; round++) {
        bool again = ut_engine_progress(vcq);
        if (vcq->waits && ut_engine_has_entry(vcq))
            ut_vcq_end_waits(vcq);
        if (again)
            continue;
        /* the waiting threads may need the completion of an unsignalled communication */
        if (vcq->waits)
            ut_engine_request_completions(vcq);
        if (!arm_endpoints(vcq))
            return true;
    }
    return false;
}

static void earlier_timeout(int *timeout, int64_t ms)
{
    int t = ms < 0 ? 0 : (int)ms;

    if (*timeout < 0 || t < *timeout)
        *timeout = t;
}

void ut_thread_on_post(struct ut_vcq *vcq)
{
    vcq->posted_at = vcq->pace == UT_PACE_POLLS ? 1 : ut_clock_ns();
    if (vcq->pace != UT_PACE_COMPUTES || !ut_vcq_has_thread())
        return;
    vcq->seen_calls = ut_vcq_calls(vcq); /* the program does not poll: see visit_vcq() */
    if (!ut_thread_poll_and_arm(vcq) || vcq->scheduled_links)
        ut_vcq_request_progress(vcq);
}

/* Starts held communications of this thread on another VCQ, because the program may poll here for
 * their answer. */
static void start_other(struct ut_vcq *vcq, void *arg)
{
    if (vcq == arg || !ut_trylock(&vcq->lock))
        return;
    if (vcq->num_eps && vcq->check)
        ut_engine_start_held(vcq, ut_check_polled_elsewhere(vcq));
    ut_unlock(&vcq->lock);
}

static void poll_is_checked(struct ut_vcq *vcq)
{
    uint32_t due = ut_check_polled(vcq);

    if (due)
        ut_engine_start_held(vcq, due);
    if (ut_check_others_have_held(vcq))
        ut_vcq_for_each(start_other, vcq);
}

void ut_thread_on_poll(struct ut_vcq *vcq)
{
    if (vcq->check)
        poll_is_checked(vcq);
    if (vcq->check && !(vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE))
        return;
    if (vcq->posted_at > 1)
        vcq->pace = ut_clock_ns() - vcq->posted_at > COMPUTES_NS ? UT_PACE_COMPUTES : UT_PACE_POLLS;
    vcq->posted_at = vcq->check != NULL;
}

void ut_thread_on_late_poll(struct ut_vcq *vcq)
{
    if (vcq->pace == UT_PACE_POLLS)
        vcq->pace = UT_PACE_UNSURE;
}

/* Starts overdue communications held by the check mode. */
static void start_overdue(struct ut_vcq *vcq, void *arg)
{
    (void)arg;
    if (!ut_trylock(&vcq->lock))
        return;
    if (vcq->num_eps && vcq->check && ut_check_is_overdue(vcq)) {
        ut_engine_start_held(vcq, UINT32_MAX);
        ut_vcq_request_progress(vcq); /* the program may not poll */
    }
    ut_unlock(&vcq->lock);
}

/* When to check a VCQ again whose program does not poll and whose links wait. 0: no link waits. */
static uint64_t schedule_next_check(const struct ut_vcq *vcq, uint64_t now)
{
    if (!vcq->scheduled_links)
        return 0;
    uint64_t until = ut_link_next_deadline(vcq, now);
    if (until < now + WAITING_MS)
        return now + WAITING_MS;
    return until < now + MAX_CHECK_MS ? until : now + MAX_CHECK_MS;
}

/* The time until the next attempt to lock a VCQ that calls of the program hold. The time grows,
 * because a program that waits in polls holds the lock nearly always. */
static uint32_t delay_next_try(struct ut_vcq *vcq)
{
    uint32_t ms = __atomic_load_n(&vcq->next_try, __ATOMIC_RELAXED);

    ms = ms == 0 ? WAITING_MS : ms < MAX_CHECK_MS ? 2 * ms : ms;
    __atomic_store_n(&vcq->next_try, ms, __ATOMIC_RELAXED);
    return ms;
}

/* Polls and arms a VCQ that was woken or is due, unless its program polls. */
static void visit_vcq(struct ut_vcq *vcq, void *arg)
{
    int *timeout = arg;
    /* not before ut_thread_begin_serving(): see ut_thread_wake() */
    bool woken = __atomic_load_n(&vcq->wake_pending, __ATOMIC_SEQ_CST);
    uint64_t now = ut_now_ms(), due = __atomic_load_n(&vcq->next_check_at, __ATOMIC_RELAXED);

    if (!woken && due == 0)
        return;
    if (!woken && now < due) {
        earlier_timeout(timeout, (int64_t)(due - now));
        return;
    }
    if (!ut_trylock_keep_owner(&vcq->lock)) {
        earlier_timeout(timeout, delay_next_try(vcq));
        return;
    }
    __atomic_store_n(&vcq->next_try, 0, __ATOMIC_RELAXED);
    if (vcq->num_eps == 0) {
        ut_unlock(&vcq->lock);
        return;
    }
    __atomic_store_n(&vcq->wake_pending, 0, __ATOMIC_RELEASE);
    bool polls = ut_vcq_calls(vcq) != vcq->seen_calls && !vcq->waits;
    vcq->seen_calls = ut_vcq_calls(vcq);
    if (polls) {
        ut_engine_progress(vcq); /* polls that find an entry immediately make no progress */
        for (unsigned int i = 0; i < vcq->num_eps; i++)
            vcq->eps[i].ops->ep_disarm(vcq->eps[i].ep);
        vcq->check_interval = vcq->check_interval < MIN_CHECK_MS   ? MIN_CHECK_MS
                              : vcq->check_interval < MAX_CHECK_MS ? vcq->check_interval * 2
                                                                   : MAX_CHECK_MS;
        due = now + vcq->check_interval;
    } else {
        vcq->check_interval = 0;
        ut_thread_on_late_poll(vcq);
        bool settled = ut_thread_poll_and_arm(vcq);
        due = schedule_next_check(vcq, now);
        if (vcq->scheduled_links) /* the timeout is enough */
            __atomic_store_n(&vcq->wake_pending, 0, __ATOMIC_RELEASE);
        else if (!settled) /* the next round continues */
            __atomic_store_n(&vcq->wake_pending, 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&vcq->next_check_at, due, __ATOMIC_RELAXED);
    if (due)
        earlier_timeout(timeout, (int64_t)(due - now));
    if (__atomic_load_n(&vcq->wake_pending, __ATOMIC_RELAXED))
        earlier_timeout(timeout, 0);
    ut_unlock(&vcq->lock);
}

/*
 * The same work, done by threads of the program
 */

int ut_thread_run_once(void)
{
    int timeout = ut_process_progress();

    if (ut_check_on) {
        ut_check_serve();
        ut_vcq_for_each(start_overdue, NULL);
        earlier_timeout(&timeout, HOLDING_MS);
    }
    ut_vcq_for_each(visit_vcq, &timeout);
    return timeout;
}

nfds_t ut_thread_fds(struct pollfd fds[UT_THREAD_FDS])
{
    const struct ut_process *process = ut_process_peek();
    nfds_t n = 0;

    fds[n++] = (struct pollfd){.fd = ut_vcq_wake_fd(), .events = POLLIN};
    for (int i = 0; i < PROV_COUNT; i++) {
        if (process->prov[i])
            fds[n++] = (struct pollfd){.fd = process->prov[i]->ops->fd(process->prov[i]),
                                       .events = POLLIN};
    }
    return n;
}

void ut_thread_begin_serving(void)
{
    __atomic_add_fetch(&background.sleepers, 1, __ATOMIC_SEQ_CST);
}

void ut_thread_end_serving(bool due)
{
    bool others = __atomic_sub_fetch(&background.sleepers, 1, __ATOMIC_SEQ_CST) > 0;

    if (ut_vcq_has_thread() ? due : others)
        ut_vcq_wake_thread();
}

void ut_thread_clear_wakeups(void)
{
    uint64_t count;

    if (ut_fd_check_still_ours(ut_vcq_wake_fd()) &&
        read(ut_vcq_wake_fd(), &count, sizeof(count)) < 0)
        return; /* another thread has read it */
}

/*
 * The background thread
 */

/* Sleeps until a descriptor is readable or the time has passed. Returns the remaining time; 0: the
 * VCQs are due. If the program closes the descriptors meanwhile, nothing wakes the thread, so it
 * wakes up at intervals. */
static int sleep_on_descriptors(int timeout)
{
    struct epoll_event events[8];
    int step = ut_fd_timeout_ms(timeout), n = epoll_wait(background.epoll_fd, events, 8, step);

    for (int i = 0; i < n; i++) {
        if (events[i].data.fd == ut_vcq_wake_fd())
            ut_thread_clear_wakeups();
    }
    if (n != 0 || step == timeout)
        return 0;
    return timeout < 0 ? timeout : timeout - step;
}

/* The thread also runs without descriptors, at intervals, because peers may wait for it. */
static void *thread_main(void *arg)
{
    int timeout = 0;

    (void)arg;
    ut_job_set_background_thread();
    for (;;) {
        if (!ut_fd_check_still_ours(background.epoll_fd) ||
            !ut_fd_check_still_ours(ut_vcq_wake_fd())) {
            usleep(CLOSED_CHECK_MS * 1000);
            timeout = 0;
        } else {
            timeout = sleep_on_descriptors(timeout);
        }
        if (timeout == 0)
            timeout = ut_thread_run_once();
    }
    return NULL;
}

static int add_descriptor(int fd)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(background.epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static int start_thread(void)
{
    const struct ut_process *process = ut_process_peek();

    /* delayed and held communications make progress without calls, as in the hardware */
    if (!ut_env_num(UT_ENV_PROGRESS_THREAD) && !ut_shuffle_is_on() && !ut_check_on)
        return 0;
    background.epoll_fd = ut_fd_open_ours(epoll_create1(EPOLL_CLOEXEC));
    int wake_fd = ut_vcq_wake_fd();
    if (background.epoll_fd < 0 || wake_fd < 0 || add_descriptor(wake_fd) != 0)
        return -errno;
    for (int i = 0; i < PROV_COUNT; i++) {
        if (process->prov[i] && add_descriptor(process->prov[i]->ops->fd(process->prov[i])) != 0)
            return -errno;
    }
    int rc = ut_thread_create("utofu", thread_main, NULL, NULL);
    if (rc != 0)
        return rc;
    __atomic_store_n(&ut_vcq_thread.runs, true, __ATOMIC_RELAXED);
    return 0;
}

int ut_thread_start(void)
{
    pthread_mutex_lock(&background.start_lock);
    if (!background.started) {
        background.started = true;
        background.start_result = start_thread();
        if (background.start_result != 0)
            ut_error("runtime", "cannot start the background thread: %s",
                     strerror(-background.start_result));
    }
    pthread_mutex_unlock(&background.start_lock);
    return background.start_result;
}
