/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: opening, closing and arming them. */
#include "ep.h"

#include <errno.h>
#include <stdlib.h>

#include "verbs/connect/conn.h"
#include "ep_types.h"
#include "poll.h"
#include "verbs/data/post.h"
#include "verbs/data/qp.h"
#include "verbs/data/queues.h"
#include "verbs/connect/reap.h"
#include "util/assert.h"
#include "util/back_off.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/fd_check.h"
#include "util/retry_delay.h"
#include "wake.h"

enum {
    DRAIN_TICK_MS = 10,
    IDLE_STEPS = 7, /* of step_ms: two checks for stalls and their consequences */
};

static void free_ep(struct vp_ep *ep)
{
    if (ut_fd_were_closed())
        return; /* the device may still write to the endpoint's memory */
    vp_queues_close(ep);
    while (!vp_list_empty(&ep->stuck)) /* no completion can refer to their requests any more */
        vp_conn_free(vp_container_of(ep->stuck.next, struct vp_conn, ep_link));
    free(ep);
}

int vp_ep_open(struct prov *base, const struct prov_ep_attr *attr, struct prov_ep **out)
{
    struct vp_prov *prov = vp_prov(base);
    struct vp_ep *ep = ut_fd_check_own(prov->epoll_fd) ? calloc(1, sizeof(*ep)) : NULL;
    int rc;

    if (!ep)
        return ut_fd_were_closed() ? -EBADF : -ENOMEM;
    UT_ASSERT(attr->id <= VP_ID_MASK);
    ep->prov = prov;
    ep->port = &prov->ports[attr->tni % prov->num_ports];
    ep->tni = attr->tni;
    ep->rail = attr->rail;
    ep->id = attr->id;
    ep->owner = attr->owner;
    ep->cb = *attr->callbacks;
    struct vp_list *lists[] = {&ep->service_list, &ep->link,  &ep->wake_link, &ep->conns,
                               &ep->dying,        &ep->stuck, &ep->events};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        vp_list_init(lists[i]);
    rc = vp_queues_open(ep, attr->depth);
    if (rc) {
        free_ep(ep);
        return rc;
    }
    pthread_mutex_lock(&prov->lock);
    vp_list_append(&prov->eps, &ep->link);
    pthread_mutex_unlock(&prov->lock);
    *out = (struct prov_ep *)ep;
    return 0;
}

/* Closes all connections, and waits a while until the peers have received all posted data. */
static void close_conns(struct vp_ep *ep)
{
    struct vp_prov *prov = ep->prov;
    uint64_t deadline = ut_clock_ms() + UT_CLOSE_TIMEOUT_MS;
    uint32_t rounds = 0;

    pthread_mutex_lock(&prov->lock);
    for (struct vp_list *l = ep->conns.next, *next; l != &ep->conns; l = next) {
        struct vp_conn *conn = vp_container_of(l, struct vp_conn, ep_link);
        next = l->next;
        pthread_mutex_unlock(&prov->lock); /* only the owner removes from this list */
        vp_conn_close((struct prov_conn *)conn);
        pthread_mutex_lock(&prov->lock);
    }
    pthread_mutex_unlock(&prov->lock);
    while (!vp_list_empty(&ep->service_list)) {
        if (ut_clock_ms() >= deadline) {
            for (struct vp_list *l = ep->service_list.next; l != &ep->service_list; l = l->next)
                vp_conn_break(vp_container_of(l, struct vp_conn, service_link), PROV_REASON_CLOSED);
            deadline = UINT64_MAX; /* draining has its own deadline */
        }
        vp_poll_closed(ep);
        ut_back_off_yielding(&rounds);
    }
}

void vp_ep_close(struct prov_ep *base)
{
    struct vp_ep *ep = vp_ep(base);
    struct vp_prov *prov = ep->prov;

    vp_batch_flush(ep);
    pthread_mutex_lock(&prov->lock);
    __atomic_store_n(&ep->closing, true, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&prov->lock);
    close_conns(ep);
    vp_cm_reap(prov, ep);
    pthread_mutex_lock(&prov->lock);
    while (!vp_list_empty(&ep->dying)) { /* progress() destroys the last connections */
        pthread_cond_wait(&prov->changed, &prov->lock);
        pthread_mutex_unlock(&prov->lock);
        vp_cm_reap(prov, ep);
        pthread_mutex_lock(&prov->lock);
    }
    vp_list_remove(&ep->link);
    vp_list_remove(&ep->wake_link);
    while (prov->waking == ep)
        pthread_cond_wait(&prov->changed, &prov->lock);
    pthread_mutex_unlock(&prov->lock);
    free_ep(ep);
}

/* Soft-RoCE raises no event for a failed or flushed request. So the owner is woken at intervals
 * while requests are outstanding, until IDLE_STEPS steps after the last post. Draining takes
 * microseconds, so draining connections are polled sooner. */
static void schedule_tick(struct vp_ep *ep)
{
    struct vp_prov *prov = ep->prov;
    unsigned int step = prov->tuning.step_ms;
    uint64_t now = ut_clock_ms(), when = now + step / 4 + 1;
    bool draining = !vp_list_empty(&ep->service_list);

    if (vp_posts(ep) != ep->posts_seen) {
        ep->posts_seen = vp_posts(ep);
        ep->posts_seen_at = now;
    }
    if (draining)
        when = now + DRAIN_TICK_MS;
    else if (!ep->posts_seen_at || now - ep->posts_seen_at > IDLE_STEPS * (uint64_t)step)
        return;
    pthread_mutex_lock(&prov->lock);
    if (!ep->wake_at || when < ep->wake_at) {
        ep->wake_at = when;
        if (!prov->sleeps_until || when < prov->sleeps_until)
            vp_kick(prov);
    }
    pthread_mutex_unlock(&prov->lock);
}

bool vp_ep_arm(struct prov_ep *base, enum prov_arm what)
{
    struct vp_ep *ep = vp_ep(base);
    int solicited_only = what == PROV_ARM_SOLICITED;

    vp_batch_flush(ep);
    if (ep->stash_send || ep->stash_recv)
        return true;
    if (ibv_req_notify_cq(ep->recv_cq, solicited_only) ||
        ibv_req_notify_cq(ep->send_cq, solicited_only))
        ut_debug(VP_CAT, "arming %s: %s", ep->port->name, strerror(errno));
    schedule_tick(ep);
    /* completions from before the arming raise no event */
    int n = ibv_poll_cq(ep->send_cq, VP_POLL_BATCH / 2, ep->stash);
    ep->stash_send = n > 0 ? n : 0;
    n = ibv_poll_cq(ep->recv_cq, VP_POLL_BATCH / 2, ep->stash + ep->stash_send);
    ep->stash_recv = n > 0 ? n : 0;
    ep->needs_slow_poll = true;
    return ep->stash_send || ep->stash_recv || __atomic_load_n(&ep->pending, __ATOMIC_ACQUIRE);
}

/* Nothing to do: an armed completion queue raises at most one event. */
void vp_ep_disarm(struct prov_ep *base)
{
    (void)base;
}
