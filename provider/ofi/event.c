/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the background thread: see event.h. */
#include "event.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

enum { TIMER_NS = 1000000 };

void fp_timer_start(struct fp_prov *prov)
{
    struct itimerspec soon = {.it_value = {.tv_nsec = TIMER_NS}};

    if (__atomic_exchange_n(&prov->timer_armed, 1, __ATOMIC_SEQ_CST) == 0)
        timerfd_settime(prov->timer_fd, 0, &soon, NULL);
}

int fp_epoll_watch(struct fp_prov *prov, int fd, uint32_t events, uint64_t data)
{
    struct epoll_event event = {.events = events, .data.u64 = data};

    if (epoll_ctl(prov->epoll_fd, EPOLL_CTL_MOD, fd, &event) == 0)
        return 0;
    return epoll_ctl(prov->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}
