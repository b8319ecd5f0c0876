/* SPDX-License-Identifier: Apache-2.0 */
/* The list of threads that wait for a VCQ. */
#include "util/fd.h"
#include "util/fd_check.h"
#include "vcq/vcq.h"
#include "vcq/wait.h"

#include <sys/eventfd.h>
#include <unistd.h>

/* After this store the waiter returns, and its memory is freed, as soon as it has taken the lock of
 * the VCQ. */
static void end_waiter(struct ut_waiter *waiter)
{
    uint64_t one = 1;

    __atomic_store_n(&waiter->ended, true, __ATOMIC_RELEASE);
    if (ut_fd_check_still_ours(waiter->fd) && write(waiter->fd, &one, sizeof(one)) < 0)
        return; /* the eventfd is already readable */
}

/* Sets slow_path and the limit of the direct path. The slow path is for VCQs in a wait, in session
 * mode, counted, checked or shuffled. */
static void choose_path(struct ut_vcq *vcq)
{
    vcq->slow_path = vcq->waits || (vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE) || vcq->watched ||
                     vcq->shuffled; /* recorded VCQs are also watched */
    ut_toq_limit_direct(vcq);
}

void ut_wait_enter(struct ut_wait *wait, struct ut_waiter *waiter)
{
    struct ut_vcq *vcq = wait->vcq;

    UT_ASSERT(ut_is_locked(&vcq->lock));
    wait->waiter = waiter;
    wait->next = vcq->waits;
    wait->listed = true;
    vcq->waits = wait;
    choose_path(vcq);
}

void ut_wait_leave(struct ut_wait *wait)
{
    struct ut_wait **w = &wait->vcq->waits;

    UT_ASSERT(ut_is_locked(&wait->vcq->lock));
    if (!wait->listed)
        return;
    while (*w != wait)
        w = &(*w)->next;
    *w = wait->next;
    wait->listed = false;
    choose_path(wait->vcq);
}

void ut_vcq_end_waits(struct ut_vcq *vcq)
{
    struct ut_wait *next;

    UT_ASSERT(ut_is_locked(&vcq->lock));
    for (struct ut_wait *wait = vcq->waits; wait; wait = next) {
        next = wait->next;
        wait->listed = false;
        end_waiter(wait->waiter);
    }
    vcq->waits = NULL;
    choose_path(vcq);
}

/*
 * Wakes the background thread.
 */

struct ut_vcq_thread ut_vcq_thread = {.wake_fd = -1};

int ut_vcq_wake_fd(void)
{
    int fd = __atomic_load_n(&ut_vcq_thread.wake_fd, __ATOMIC_RELAXED), none = -1;

    if (fd >= 0)
        return fd;
    fd = ut_fd_open_ours(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (fd < 0 || __atomic_compare_exchange_n(&ut_vcq_thread.wake_fd, &none, fd, false,
                                              __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return fd;
    ut_fd_close(fd); /* another thread created the eventfd first */
    return none;
}

void ut_vcq_wake_thread(void)
{
    int fd = __atomic_load_n(&ut_vcq_thread.wake_fd, __ATOMIC_RELAXED);
    uint64_t one = 1;

    if (ut_fd_check_still_ours(fd) && write(fd, &one, sizeof(one)) < 0)
        return; /* the eventfd is already readable: the thread is about to run */
}

void ut_vcq_request_progress(struct ut_vcq *vcq)
{
    if (__atomic_exchange_n(&vcq->wake_pending, 1, __ATOMIC_ACQ_REL) == 0)
        ut_vcq_wake_thread();
}
