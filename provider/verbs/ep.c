/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: opening, closing and arming them. */
#include "ep.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conn_types.h"
#include "ep_types.h"
#include "util/assert.h"
#include "util/back_off.h"
#include "util/clock.h"
#include "util/fd_check.h"
#include "util/log.h"
#include "verbs/connect/conn.h"
#include "verbs/connect/reap.h"
#include "verbs/data/post.h"
#include "verbs/data/qp.h"
#include "verbs/data/queues.h"
#include "verbs/data/recvs.h"
#include "verbs/data/table.h"
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
    struct vp_ep *ep = ut_fd_check_still_ours(prov->epoll_fd) ? calloc(1, sizeof(*ep)) : NULL;
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

/*
 * Polling
 */

enum { RECV_ROUNDS = 8, MAX_SENDS_IN_A_ROW = 8, SEND_POLL_INTERVAL = 16 };

/* vp_complete_requests() for the common case: the core posted the request, and it is the oldest of
 * the connection. */
static inline void complete_oldest(struct vp_conn *conn, uint64_t cookie)
{
    struct vp_ep *ep = conn->ep;

    conn->tail++;
    ep->room++;
    ep->num_completed++;
    ep->num_callbacks++;
    ep->cb.done(conn->ctx, cookie, PROV_OK);
}

static inline void handle_send(const struct ibv_wc *wc)
{
    struct vp_op *op = (struct vp_op *)(uintptr_t)wc->wr_id;
    struct vp_conn *conn = op->conn;
    uint32_t seq = conn->tail + ((op->slot - conn->tail) & conn->sq_mask);

    if (__builtin_expect(conn->tail == conn->head, 0))
        return; /* late completion of a connection whose device was stuck */
    if (conn->signalled > 0) {
        conn->signalled--;
        conn->ep->signalled--;
    }
    conn->end.completed_end = seq + 1;
    if (__builtin_expect(wc->status != IBV_WC_SUCCESS, 0))
        vp_conn_error(conn, seq, wc);
    else if (seq == conn->tail && !op->tag && !conn->closed)
        complete_oldest(conn, op->cookie);
    else
        vp_complete_requests(conn, seq + 1, PROV_OK);
}

static inline __attribute__((always_inline)) void poll_sends(struct vp_ep *ep)
{
    struct ibv_wc wc[VP_POLL_BATCH];
    int n;

    do {
        n = ibv_poll_cq(ep->send_cq, VP_POLL_BATCH, wc);
        for (int i = 0; i < n; i++)
            handle_send(&wc[i]);
    } while (n == VP_POLL_BATCH);
}

static void __attribute__((noinline)) refill_receives(struct vp_ep *ep, struct vp_recvs *recvs)
{
    vp_recvs_refill(ep, recvs);
}

static inline void queue_for_repost(struct vp_ep *ep, struct vp_recvs *recvs, uint64_t index)
{
    struct ibv_recv_wr *wr = &recvs->wrs[index];

    UT_ASSERT(index < recvs->depth && recvs->to_post < recvs->depth);
    if (recvs->to_post)
        recvs->last->next = wr;
    else
        recvs->first = wr;
    recvs->last = wr;
    if (++recvs->to_post >= recvs->refill_at)
        refill_receives(ep, recvs);
}

/* Counts a receive of a connection that is not in the table: not up yet, or closed. Its handshake
 * may end at any time and free the queue pair and the receives. So this looks up the connection
 * under the lock, and does not post the receive again. */
static void count_untracked_receive(struct vp_ep *ep, uint32_t qp_num)
{
    pthread_mutex_lock(&ep->prov->lock);
    for (struct vp_list *l = ep->conns.next; l != &ep->conns; l = l->next) {
        struct vp_conn *conn = vp_container_of(l, struct vp_conn, ep_link);
        if (conn->qp && conn->qp->qp_num == qp_num) {
            conn->recvs->completed++;
            break;
        }
    }
    pthread_mutex_unlock(&ep->prov->lock);
}

/* A failed queue pair would flush a receive at once, so no receive is posted to it. */
static void __attribute__((noinline))
repost_own_receive(struct vp_ep *ep, struct vp_conn *conn, const struct ibv_wc *wc)
{
    if (!conn) {
        count_untracked_receive(ep, wc->qp_num);
        return;
    }
    conn->recvs->completed++;
    if (wc->status == IBV_WC_SUCCESS && conn->state < VP_CONN_FAILING)
        queue_for_repost(ep, conn->recvs, wc->wr_id);
}

static inline void repost_receive(struct vp_ep *ep, struct vp_conn *conn, const struct ibv_wc *wc)
{
    if (__builtin_expect(!ep->srq, 0)) {
        repost_own_receive(ep, conn, wc);
        return;
    }
    vp_recvs_completed(&ep->recvs, 1);
    queue_for_repost(ep, &ep->recvs, wc->wr_id);
}

static const uint8_t *receive_buffer(const struct vp_ep *ep, const struct vp_conn *conn,
                                     uint64_t index)
{
    return (ep->srq ? &ep->recvs : conn->recvs)->slab + index * PROV_MSG_MAX;
}

/* Finds the connection of a receive that arrived before RDMA_CM_EVENT_ESTABLISHED. */
static struct vp_conn *find_not_yet_up(struct vp_ep *ep, uint32_t qp_num)
{
    struct vp_prov *prov = ep->prov;
    struct vp_conn *found = NULL;

    pthread_mutex_lock(&prov->lock);
    for (struct vp_list *l = ep->conns.next; l != &ep->conns && !found; l = l->next) {
        struct vp_conn *conn = vp_container_of(l, struct vp_conn, ep_link);
        if (conn->abandoned || !conn->qp || conn->qp->qp_num != qp_num)
            continue;
        if (conn->phase == VP_ESTABLISHED || conn->phase == VP_ACCEPTED ||
            conn->phase == VP_ACCEPTING || conn->phase == VP_CONFIRMING)
            found = conn;
    }
    if (found) {
        if (found->phase != VP_ESTABLISHED)
            vp_handshake_unlink(found);
        found->phase = VP_ESTABLISHED;
        found->events &= (uint16_t)~VP_EV_UP;
    }
    pthread_mutex_unlock(&prov->lock);
    if (found)
        vp_conn_up(found);
    else
        ut_debug(VP_CAT, "received data for queue pair %u, which has no connection any more",
                 qp_num);
    return found && found->in_table ? found : NULL;
}

static struct vp_conn *conn_of_qp(struct vp_ep *ep, uint32_t qp_num)
{
    struct vp_conn *conn = vp_table_find(ep, qp_num);

    return __builtin_expect(conn != NULL, 1) ? conn : find_not_yet_up(ep, qp_num);
}

static void __attribute__((noinline)) handle_message(struct vp_ep *ep, const struct ibv_wc *wc)
{
    if (__builtin_expect(wc->status != IBV_WC_SUCCESS, 0)) {
        if (wc->status != IBV_WC_WR_FLUSH_ERR)
            ut_debug(VP_CAT, "a receive failed: %s", ibv_wc_status_str(wc->status));
        repost_receive(ep, vp_table_find(ep, wc->qp_num), wc);
        return;
    }
    struct vp_conn *conn = conn_of_qp(ep, wc->qp_num);
    if (__builtin_expect(!conn || conn->state >= VP_CONN_DOWN, 0)) {
        repost_receive(ep, conn, wc);
        return;
    }
    if (wc->wc_flags & IBV_WC_WITH_IMM) {
        vp_conn_handle_control(conn, be32toh(wc->imm_data));
    } else if (!conn->closed) {
        ep->num_callbacks++;
        ep->cb.message(conn->ctx, receive_buffer(ep, conn, wc->wr_id), wc->byte_len);
    }
    repost_receive(ep, conn, wc);
}

static inline void handle_recv(struct vp_ep *ep, const struct ibv_wc *wc)
{
    struct vp_conn *conn;

    if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM || wc->status != IBV_WC_SUCCESS) {
        handle_message(ep, wc);
        return;
    }
    conn = conn_of_qp(ep, wc->qp_num);
    repost_receive(ep, conn, wc); /* the immediate came without data */
    if (__builtin_expect(conn && conn->state < VP_CONN_DOWN && !conn->closed, 1)) {
        ep->num_callbacks++;
        ep->cb.notify(conn->ctx, be32toh(wc->imm_data));
    }
}

/* Delivers receives, after the send completions that preceded them. */
static inline __attribute__((always_inline)) void poll_receives(struct vp_ep *ep,
                                                                unsigned int rounds)
{
    struct ibv_wc wc[VP_POLL_BATCH];
    int n;

    do {
        n = ibv_poll_cq(ep->recv_cq, VP_POLL_BATCH, wc);
        if (n && ep->signalled > 0)
            poll_sends(ep);
        for (int i = 0; i < n; i++)
            handle_recv(ep, &wc[i]);
    } while (n == VP_POLL_BATCH && --rounds);
}

/* Delivers everything that has arrived. */
static void __attribute__((noinline, cold)) drain_receives(struct vp_ep *ep)
{
    poll_receives(ep, __atomic_load_n(&ep->recv_cq_size, __ATOMIC_RELAXED));
}

/* Callers mostly wait for a send completion. A poll that finds one skips the receive queue, unless
 * the last polls skipped it too. */
static inline bool sends_made_progress(struct vp_ep *ep)
{
    poll_sends(ep);
    return ep->num_callbacks && ++ep->polls_without_receives < MAX_SENDS_IN_A_ROW &&
           vp_list_empty(&ep->service_list);
}

/* Processes the completions that ep_arm() found. */
static void __attribute__((noinline)) process_stash(struct vp_ep *ep)
{
    struct ibv_wc stash[VP_POLL_BATCH];
    int sends = ep->stash_send, recvs = ep->stash_recv;

    memcpy(stash, ep->stash, sizeof(stash));
    ep->stash_send = ep->stash_recv = 0;
    for (int i = 0; i < sends; i++)
        handle_send(&stash[i]);
    poll_sends(ep);
    for (int i = 0; i < recvs; i++)
        handle_recv(ep, &stash[sends + i]);
}

/* Takes the first connection from `todo`, and its events. */
static struct vp_conn *take_next_events(struct vp_ep *ep, struct vp_list *todo,
                                        unsigned int *events)
{
    struct vp_conn *conn = NULL;

    pthread_mutex_lock(&ep->prov->lock);
    if (!vp_list_empty(todo)) {
        conn = vp_container_of(todo->next, struct vp_conn, ev_link);
        vp_list_remove(&conn->ev_link);
        *events = conn->events;
        conn->events = 0;
    }
    pthread_mutex_unlock(&ep->prov->lock);
    return conn;
}

/* Called when half of the receives were consumed before a poll. */
static void __attribute__((cold)) handle_srq_low(struct vp_ep *ep)
{
    refill_receives(ep, &ep->recvs);
    if (ep->closing)
        return;
    vp_recvs_grow(ep, &ep->recvs);
    vp_srq_arm_limit(ep);
    if (ep->cb.srq_low)
        ep->cb.srq_low(ep->owner);
}

static void __attribute__((cold)) refill_all_queues(struct vp_ep *ep)
{
    if (ep->srq) {
        refill_receives(ep, &ep->recvs);
        return;
    }
    pthread_mutex_lock(&ep->prov->lock);
    for (struct vp_list *l = ep->conns.next; l != &ep->conns; l = l->next) {
        struct vp_conn *conn = vp_container_of(l, struct vp_conn, ep_link);
        pthread_mutex_unlock(&ep->prov->lock); /* only the owner removes from this list */
        if (conn->in_table && conn->state < VP_CONN_FAILING)
            refill_receives(ep, conn->recvs);
        pthread_mutex_lock(&ep->prov->lock);
    }
    pthread_mutex_unlock(&ep->prov->lock);
}

static void __attribute__((noinline, cold)) poll_pending(struct vp_ep *ep)
{
    uint32_t pending = __atomic_exchange_n(&ep->pending, 0, __ATOMIC_ACQUIRE);
    struct vp_list todo;
    struct vp_conn *conn;
    unsigned int events = 0;

    vp_list_init(&todo);
    pthread_mutex_lock(&ep->prov->lock);
    while (!vp_list_empty(&ep->events))
        vp_list_append(&todo, ep->events.next);
    uint32_t deferred = vp_recvs_take_deferred_locked(ep);
    pthread_mutex_unlock(&ep->prov->lock);
    /* completions and receives that preceded the event come first */
    poll_sends(ep);
    drain_receives(ep);
    vp_recvs_release_deferred(ep, deferred);
    UT_ASSERT(!ep->srq ||
              ep->recvs.posted - ep->recvs.completed + ep->recvs.to_post == ep->recvs.depth);
    while ((conn = take_next_events(ep, &todo, &events)))
        vp_conn_handle_events(conn, events);
    if (pending & VP_PEND_STALLS)
        vp_check_stalls(ep);
    if (pending & VP_PEND_SRQ_LIMIT)
        handle_srq_low(ep);
    if (pending & VP_PEND_REFILL)
        refill_all_queues(ep);
}

static inline void poll_queues(struct vp_ep *ep)
{
    if (__builtin_expect(ep->batch != NULL, 0))
        vp_batch_flush(ep);
    if (__builtin_expect(ep->stash_send || ep->stash_recv, 0))
        process_stash(ep);
    if (sends_made_progress(ep))
        return;
    poll_receives(ep, RECV_ROUNDS);
    ep->polls_without_receives = 0;
}

static void __attribute__((noinline, cold)) service_conns(struct vp_ep *ep)
{
    vp_service_begin(ep);
    drain_receives(ep);
    vp_service_all(ep);
}

static int __attribute__((noinline)) finish_poll(struct vp_ep *ep)
{
    if (__builtin_expect(__atomic_load_n(&ep->pending, __ATOMIC_RELAXED) != 0, 0))
        poll_pending(ep);
    if (__builtin_expect(!vp_list_empty(&ep->service_list), 0))
        service_conns(ep);
    ep->needs_slow_poll =
        ep->batch || ep->stash_send || ep->stash_recv || !vp_list_empty(&ep->service_list);
    ep->polling = false;
    return ep->num_callbacks;
}

/* `wc`: the only completion of the send queue, already polled; or NULL. */
static int __attribute__((noinline, hot)) poll_all(struct vp_ep *ep, const struct ibv_wc *wc)
{
    ep->polling = true;
    ep->num_callbacks = 0;
    if (wc) {
        handle_send(wc);
        poll_receives(ep, RECV_ROUNDS);
        ep->polls_without_receives = 0;
    } else {
        poll_queues(ep);
    }
    return finish_poll(ep);
}

/* Polls receives only: no signalled request is outstanding. */
static int __attribute__((noinline, hot)) poll_receives_only(struct vp_ep *ep)
{
    ep->polling = true;
    ep->num_callbacks = 0;
    poll_receives(ep, RECV_ROUNDS);
    ep->polls_without_receives = 0;
    if (__builtin_expect(ep->needs_slow_poll, 0)) /* the callbacks above may set it */
        return finish_poll(ep);
    ep->polling = false;
    return ep->num_callbacks;
}

/* True if `wc` is the successful completion of the oldest request, which is the only signalled
 * one. */
static inline bool is_expected_completion(const struct ibv_wc *wc)
{
    const struct vp_op *op = (const struct vp_op *)(uintptr_t)wc->wr_id;
    const struct vp_conn *conn = op->conn;

    return (wc->status | (conn->signalled ^ 1) | ((op->slot ^ conn->tail) & conn->sq_mask) |
            op->tag | conn->closed) == 0;
}

/* Fast path: one expected completion or one receive, and nothing else to do. */
__attribute__((hot)) int vp_ep_poll(struct prov_ep *base)
{
    struct vp_ep *ep = vp_ep(base);
    struct ibv_wc wc;

    if ((ep->needs_slow_poll | __atomic_load_n(&ep->pending, __ATOMIC_RELAXED)) != 0)
        return poll_all(ep, NULL);
    /* without signalled requests only errors complete: poll the send queue at intervals */
    if (ep->signalled == 0 && ++ep->empty_polls % SEND_POLL_INTERVAL != 0)
        return poll_receives_only(ep);
    if (ep->signalled != 1 || ep->polls_without_receives >= MAX_SENDS_IN_A_ROW)
        return poll_all(ep, NULL);
    if (ibv_poll_cq(ep->send_cq, 1, &wc) != 1)
        return poll_receives_only(ep);
    if (__builtin_expect(!is_expected_completion(&wc), 0))
        return poll_all(ep, &wc);
    const struct vp_op *op = (const struct vp_op *)(uintptr_t)wc.wr_id;
    struct vp_conn *conn = op->conn;
    ep->polls_without_receives++;
    ep->signalled = conn->signalled = 0;
    conn->end.completed_end = ++conn->tail;
    ep->room++;
    ep->num_completed++;
    ep->polling = true;
    ep->cb.done(conn->ctx, op->cookie, PROV_OK);
    ep->polling = false;
    return 1;
}

void vp_poll_closed(struct vp_ep *ep)
{
    poll_all(ep, NULL);
}
