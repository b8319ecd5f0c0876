/* SPDX-License-Identifier: Apache-2.0 */
/* Wake-ups, watched descriptors, deadlines and events: see wake.h. */
#include "wake.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "util/assert.h"
#include "util/log.h"
#include "util/fd_check.h"

int vp_watch(struct vp_prov *prov, int fd, unsigned int what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = what};

    if (epoll_ctl(prov->epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
        ut_error(VP_CAT, "epoll_ctl: %s", strerror(errno));
        return -EIO;
    }
    return 0;
}

void vp_kick(struct vp_prov *prov)
{
    uint64_t one = 1;

    if (ut_fd_check_still_ours(prov->kick_fd) && write(prov->kick_fd, &one, sizeof(one)) < 0 &&
        errno != EAGAIN)
        ut_debug(VP_CAT, "kick: %s", strerror(errno));
}

void vp_deadline_locked(struct vp_prov *prov, uint64_t deadline)
{
    UT_ASSERT_LOCKED(&prov->lock);
    if (!prov->next_deadline || deadline < prov->next_deadline)
        prov->next_deadline = deadline;
}

void vp_wake_locked(struct vp_ep *ep)
{
    UT_ASSERT_LOCKED(&ep->prov->lock);
    if (!ep->closing)
        vp_list_append(&ep->prov->wakes, &ep->wake_link);
}

void vp_ep_wake_later(struct vp_ep *ep, uint64_t when)
{
    struct vp_prov *prov = ep->prov;

    pthread_mutex_lock(&prov->lock);
    if (!ep->wake_at || when < ep->wake_at)
        ep->wake_at = when;
    if (!prov->sleeps_until || when < prov->sleeps_until)
        vp_kick(prov);
    pthread_mutex_unlock(&prov->lock);
}

void vp_post_event_locked(struct vp_conn *conn, unsigned int event)
{
    struct vp_ep *ep = conn->ep;

    conn->events |= (uint16_t)event;
    vp_list_append(&ep->events, &conn->ev_link);
    __atomic_fetch_or(&ep->pending, VP_PEND_EVENTS, __ATOMIC_RELEASE);
    vp_wake_locked(ep);
}
