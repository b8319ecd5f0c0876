/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting: polls the queues, adds the thread to the lists of the VCQs, arms, polls again, sleeps.
 * The thread holds the lock of a VCQ from the poll until the VCQ is armed, so that it misses no
 * event.
 */
#include "runtime/wait.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "engine/engine.h"
#include "runtime/thread.h"
#include "util/clock.h"
#include "util/fd.h"
#include "util/fd_check.h"
#include "vcq/wait.h"

enum { NS = 1000000000, US_PER_S = 1000000, NS_PER_US = 1000, FEW = 16 };
#define LONGEST_US 1000000000000000 /* thirty years, so that no sum overflows */

/*
 * Polling, and entering the lists
 */

/* True if the VCQ has an entry to poll, or the wait was ended before it began. */
static bool is_due(struct ut_vcq *vcq)
{
    if (vcq->wait_ended) {
        vcq->wait_ended = false;
        return true;
    }
    return ut_engine_has_entry(vcq) || (ut_engine_progress(vcq) && ut_engine_has_entry(vcq));
}

/* Polls all VCQs, so that a bad handle is found. */
static int poll_all(const utofu_vcq_hdl_t handles[], size_t num, utofu_vcq_hdl_t *bad)
{
    int rc = UTOFU_ERR_NOT_FOUND;

    for (size_t i = 0; i < num; i++) {
        struct ut_vcq *vcq = ut_vcq_enter_any(handles[i]);
        if (!vcq) {
            *bad = handles[i];
            return UTOFU_ERR_INVALID_VCQ_HDL;
        }
        vcq->poll_count++;
        if (vcq->posted_at != 0)
            ut_thread_on_poll(vcq);
        if (is_due(vcq))
            rc = UTOFU_SUCCESS;
        ut_vcq_leave(vcq);
    }
    return rc;
}

static int enter_one(utofu_vcq_hdl_t handle, struct ut_wait *wait, struct ut_waiter *waiter)
{
    struct ut_vcq *vcq = ut_vcq_enter_any(handle);
    int rc = UTOFU_ERR_NOT_FOUND;

    if (!vcq)
        return UTOFU_ERR_INVALID_VCQ_HDL;
    if (vcq->check)
        ut_engine_start_held(vcq, UINT32_MAX);
    wait->vcq = vcq;
    wait->handle = ut_handle_plain(handle);
    if (vcq->wait_ended || ut_engine_has_entry(vcq)) {
        vcq->wait_ended = false;
        rc = UTOFU_SUCCESS;
    } else {
        ut_wait_enter(wait, waiter);
        if (!ut_thread_poll_and_arm(vcq) || vcq->scheduled_links)
            ut_vcq_request_progress(vcq); /* the background thread takes over */
    }
    ut_vcq_leave(vcq);
    return rc;
}

static void leave_all(struct ut_wait *waits, size_t num)
{
    for (size_t i = 0; i < num; i++) {
        struct ut_vcq *vcq = waits[i].vcq;
        ut_lock(&vcq->lock);
        ut_wait_leave(&waits[i]);
        ut_unlock(&vcq->lock);
    }
}

/*
 * Sleeping
 */

static void set_end(struct timespec *end, int64_t timeout_us)
{
    if (timeout_us > LONGEST_US)
        timeout_us = LONGEST_US;
    clock_gettime(CLOCK_MONOTONIC, end);
    end->tv_sec += timeout_us / US_PER_S;
    end->tv_nsec += timeout_us % US_PER_S * NS_PER_US;
    if (end->tv_nsec >= NS) {
        end->tv_nsec -= NS;
        end->tv_sec++;
    }
}

/* The time until `end` (NULL: no limit), at most `ms` (negative: no limit). NULL: no limit. */
static const struct timespec *time_left(const struct timespec *end, int ms, struct timespec *left)
{
    struct timespec now;

    if (!end && ms < 0)
        return NULL;
    *left = (struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    if (!end)
        return left;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ns = ((int64_t)end->tv_sec - now.tv_sec) * NS + end->tv_nsec - now.tv_nsec;
    if (ns < 0)
        ns = 0;
    if (ms < 0 || ns < ms * 1000000LL)
        *left = (struct timespec){.tv_sec = ns / NS, .tv_nsec = ns % NS};
    return left;
}

static bool is_over(const struct timespec *end)
{
    struct timespec left;

    return end && time_left(end, -1, &left)->tv_sec == 0 && left.tv_nsec == 0;
}

/* True if the program has not closed the descriptors. */
static bool are_open(const struct pollfd fds[], nfds_t n)
{
    for (nfds_t i = 0; i < n; i++)
        if (!ut_fd_check_still_ours(fds[i].fd))
            return false;
    return true;
}

/* Sleeps until the wait ends. A sleeping thread or the background thread may receive the event of
 * another thread, so each visits every VCQ. */
static int sleep_until(struct ut_waiter *waiter, const struct timespec *end)
{
    struct pollfd fds[UT_THREAD_FDS + 1];
    nfds_t n = ut_thread_fds(fds);
    struct timespec left;

    fds[n++] = (struct pollfd){.fd = waiter->fd, .events = POLLIN};
    bool whole = true;

    ut_thread_begin_serving();
    int ms = ut_vcq_has_thread() ? -1 : ut_thread_run_once();
    while (!ut_waiter_has_ended(waiter) && !is_over(end) && (whole = are_open(fds, n))) {
        int step = ut_fd_timeout_ms(ms), ready = ppoll(fds, n, time_left(end, step, &left), NULL);
        bool woken = ready > 0 && fds[0].revents;
        /* this thread has consumed the wake-up, and passes it on to the background thread */
        if (woken)
            ut_thread_clear_wakeups();
        if (ready == 0 && step != ms && ut_vcq_has_thread())
            continue;
        if (woken || !ut_waiter_has_ended(waiter))
            ms = ut_thread_run_once();
    }
    ut_thread_end_serving(ms >= 0);
    return ut_waiter_has_ended(waiter) ? UTOFU_SUCCESS
           : whole                     ? UTOFU_ERR_NOT_FOUND
                                       : UTOFU_ERR_OUT_OF_RESOURCE;
}

/* A descriptor that is kept for the next wait. */
static int spare_fd = -1; /* atomic */

static int take_eventfd(void)
{
    int fd = __atomic_exchange_n(&spare_fd, -1, __ATOMIC_ACQUIRE);

    return ut_fd_is_still_ours(fd) ? fd : ut_fd_open_ours(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

static void give_eventfd(int fd)
{
    uint64_t count;
    int none = -1;

    if (!ut_fd_check_still_ours(fd))
        return;
    if (read(fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
        count = 0;
    if (!__atomic_compare_exchange_n(&spare_fd, &none, fd, false, __ATOMIC_RELEASE,
                                     __ATOMIC_RELAXED))
        ut_fd_close(fd);
}

static int wait_in(const utofu_vcq_hdl_t handles[], size_t num, int64_t timeout_us,
                   utofu_vcq_hdl_t *bad, struct ut_wait *waits)
{
    struct ut_waiter waiter = {.since_ms = ut_now_ms()};
    struct timespec end;
    int rc = UTOFU_ERR_NOT_FOUND;
    size_t n = 0;

    if (timeout_us > 0)
        set_end(&end, timeout_us);
    if (ut_vcq_wake_fd() < 0 || (waiter.fd = take_eventfd()) < 0)
        return UTOFU_ERR_OUT_OF_RESOURCE;
    while (n < num && rc == UTOFU_ERR_NOT_FOUND && !ut_waiter_has_ended(&waiter)) {
        rc = enter_one(handles[n], &waits[n], &waiter);
        if (rc == UTOFU_ERR_INVALID_VCQ_HDL)
            *bad = handles[n];
        else
            n++;
    }
    if (rc == UTOFU_ERR_NOT_FOUND)
        rc = sleep_until(&waiter, timeout_us > 0 ? &end : NULL);
    leave_all(waits, n);
    give_eventfd(waiter.fd);
    /* freeing a VCQ ends the wait, too; the thread that has freed it may have changed `handles` */
    for (size_t i = 0; i < n && rc == UTOFU_SUCCESS; i++) {
        if (__atomic_load_n(&waits[i].vcq->handle, __ATOMIC_RELAXED) != waits[i].handle) {
            *bad = waits[i].handle;
            rc = UTOFU_ERR_INVALID_VCQ_HDL;
        }
    }
    return rc;
}

int ut_wait_for_any(const utofu_vcq_hdl_t handles[], size_t num, int64_t timeout_us,
                    utofu_vcq_hdl_t *bad)
{
    struct ut_wait few[FEW] = {{0}}, *waits = few;
    int rc = poll_all(handles, num, bad);

    if (rc != UTOFU_ERR_NOT_FOUND || timeout_us == 0)
        return rc;
    if (num > FEW) {
        waits = calloc(num, sizeof(*waits));
        if (!waits)
            return UTOFU_ERR_OUT_OF_MEMORY;
    }
    rc = wait_in(handles, num, timeout_us, bad, waits);
    if (waits != few)
        free(waits);
    return rc;
}

int ut_wait_end(utofu_vcq_hdl_t handle)
{
    struct ut_vcq *vcq = ut_vcq_enter_any(handle);

    if (!vcq)
        return UTOFU_ERR_INVALID_VCQ_HDL;
    if (vcq->waits)
        ut_vcq_end_waits(vcq);
    else
        vcq->wait_ended = true;
    ut_vcq_leave(vcq);
    return UTOFU_SUCCESS;
}
