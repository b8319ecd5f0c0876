/* SPDX-License-Identifier: Apache-2.0 */
/* Wakes the background thread. */
#include "vcq/wake.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "vcq/vcq.h"
#include "util/fd.h"
#include "util/fd_check.h"

bool ut_vcq_thread;
static int wake_fd = -1; /* atomic */

int ut_vcq_wake_fd(void)
{
    int fd = __atomic_load_n(&wake_fd, __ATOMIC_RELAXED), none = -1;

    if (fd >= 0)
        return fd;
    fd = ut_fd_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (fd < 0 ||
        __atomic_compare_exchange_n(&wake_fd, &none, fd, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return fd;
    ut_fd_close(fd); /* another thread created the eventfd first */
    return none;
}

void ut_vcq_wake_thread(void)
{
    int fd = __atomic_load_n(&wake_fd, __ATOMIC_RELAXED);
    uint64_t one = 1;

    if (ut_fd_check_own(fd) && write(fd, &one, sizeof(one)) < 0)
        return; /* the eventfd is already readable: the thread is about to run */
}

void ut_vcq_request_progress(struct ut_vcq *vcq)
{
    if (__atomic_exchange_n(&vcq->wake_pending, 1, __ATOMIC_ACQ_REL) == 0)
        ut_vcq_wake_thread();
}
