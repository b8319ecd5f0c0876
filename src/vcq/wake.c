/* SPDX-License-Identifier: Apache-2.0 */
/* Waking the background thread. */
#include "vcq/wake.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "vcq/vcq.h"

bool ut_vcq_thread;
static int wake_fd = -1;

int ut_vcq_wake_fd(void)
{
    if (wake_fd < 0)
        wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return wake_fd;
}

static void wake_thread(void)
{
    uint64_t one = 1;

    if (wake_fd >= 0 && write(wake_fd, &one, sizeof(one)) < 0)
        return; /* full: the thread is about to run anyway */
}

void ut_vcq_need(struct ut_vcq *vcq)
{
    if (__atomic_exchange_n(&vcq->wake_pending, 1, __ATOMIC_ACQ_REL) == 0)
        wake_thread();
}
