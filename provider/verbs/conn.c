/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a connection from its queue pair to its end: creation, failure, draining, closing.
 * All but the first functions run under the endpoint's lock. A connection that goes away drains to
 * its last completion first; then progress() destroys it.
 */
#include "vp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The device owes every completion after an error at once; this is for devices that died. */
enum { DRAIN_MS = 2000, DRAIN_GONE_MS = 200, LEAVE_MS = 1000 };

struct vp_conn *vp_conn_new(struct vp_ep *ep, bool active)
{
    struct vp_conn *conn = calloc(1, sizeof(*conn));

    if (!conn)
        return NULL;
    conn->ep = ep;
    conn->active = active;
    conn->signal_due = ep->signal_every;
    conn->phase = active ? VP_QUEUED : VP_REQUESTED;
    conn->id.kind = VP_ID_CONN;
    vp_list_init(&conn->tend_link);
    vp_list_init(&conn->hs_link);
    vp_list_init(&conn->ev_link);
    vp_list_init(&conn->ep_link);
    return conn;
}

static int ring_alloc(struct vp_conn *conn)
{
    uint32_t size = 1;

    while (size < conn->ep->sq_depth)
        size *= 2;
    conn->ops = calloc(size, sizeof(*conn->ops));
    if (!conn->ops)
        return -ENOMEM;
    for (uint32_t i = 0; i < size; i++) {
        conn->ops[i].conn = conn;
        conn->ops[i].slot = i;
    }
    conn->sq_mask = size - 1;
    return 0;
}

int vp_conn_create_qp(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;
    struct vp_device *dev = ep->port->dev;
    struct ibv_qp_init_attr_ex attr = {
        .qp_context = conn,
        .send_cq = ep->send_cq,
        .recv_cq = ep->recv_cq,
        .srq = ep->srq,
        .cap = {.max_send_wr = ep->sq_depth, .max_send_sge = 1, .max_inline_data = ep->max_inline},
        .qp_type = IBV_QPT_RC,
        .pd = dev->pd,
        .comp_mask = IBV_QP_INIT_ATTR_PD | (dev->has_wr_api ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                          IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND |
                          IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                          IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
    };

    int rc = ring_alloc(conn);
    if (rc)
        return rc;
    struct ibv_qp *qp = ibv_create_qp_ex(dev->context, &attr);
    if (!qp) {
        rc = -errno;
        vp_log_nomem("creating a queue pair", ibv_get_device_name(dev->context->device), errno);
        return rc;
    }
    conn->qpx = dev->has_wr_api ? ibv_qp_to_qp_ex(qp) : NULL;
    conn->direct_max = conn->qpx ? ep->max_msg : 0;
    pthread_mutex_lock(&ep->prov->lock);
    conn->qp = qp; /* from here on receives can be told to be this connection's */
    pthread_mutex_unlock(&ep->prov->lock);
    return 0;
}

/* INIT, ready to receive, ready to send: with what the handshake agreed on, and our own limits.
 * librdmacm would leave 655 ms between retries of a receiver that was not ready. -ECONNABORTED: the
 * peer has given the handshake up meanwhile. */
int vp_conn_ready_qp(struct vp_conn *conn)
{
    static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
    const struct vp_tuning *tuning = &conn->ep->prov->tuning;

    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        struct ibv_qp_attr attr = {.qp_state = states[i]};
        int mask = 0;
        if (rdma_init_qp_attr(conn->id.cm, &attr, &mask))
            return -ECONNABORTED;
        attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
        if (conn->ep->port->dev->attr.atomic_cap != IBV_ATOMIC_NONE)
            attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
        attr.min_rnr_timer = 12; /* 0.64 ms */
        attr.timeout = tuning->timeout;
        attr.retry_cnt = tuning->retry_count;
        attr.rnr_retry = 7; /* for ever */
        int rc = ibv_modify_qp(conn->qp, &attr, mask);
        if (rc) {
            ut_error(VP_CAT, "setting up a queue pair on %s: %s", conn->ep->port->name,
                     strerror(rc));
            return -rc;
        }
    }
    return 0;
}

void vp_conn_drop_qp(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;

    pthread_mutex_lock(&prov->lock);
    struct ibv_qp *qp = conn->qp;
    conn->qp = NULL;
    pthread_mutex_unlock(&prov->lock);
    int rc = qp ? ibv_destroy_qp(qp) : 0;
    if (rc)
        ut_debug(VP_CAT, "destroying a queue pair: %s", strerror(rc));
    free(conn->ops);
    conn->ops = NULL;
}

/* Connected: requests may be posted. */
void vp_conn_up(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;
    uint32_t depth = ep->sq_depth, reserve = depth / 8 > 2 ? depth / 8 : 2;

    if (conn->closed || conn->life != VP_YOUNG)
        return;
    conn->has_credit = vp_ep_take_credit(ep);
    if (!conn->has_credit || vp_table_add(ep, conn)) {
        ut_error(VP_CAT,
                 "no room for another connection: a completion queue of %s has %u entries for %u of "
                 "them (UTOFU_NUM_TOQ_ENTRIES adds to it), or memory is out",
                 ep->port->name, ep->cq_size, ep->credits);
        conn->life = VP_DOWN;
        ep->made++;
        ep->cb.down(conn->ctx, PROV_REASON_LOCAL);
        return;
    }
    conn->sq_cap = depth - 1;
    conn->sq_app = depth - 1 - reserve;
    conn->life = VP_ALIVE;
    conn->postable = true;
    ep->made++;
    if (conn->active)
        ep->cb.up(conn->ctx, conn->hello, conn->hello_size);
    else
        ep->cb.up(conn->ctx, conn->req.hello, conn->req.kind & VP_REQ_SIZE);
}

/* Passes over requests of a streak; returns the cookie of the last. */
static inline uint64_t skip_streak(struct vp_conn *conn, uint32_t upto)
{
    uint32_t from = conn->tail, at = from;

    if (__builtin_expect((int32_t)(conn->streak - from) <= 0, 1))
        at = upto;
    else
        do
            at++;
        while (at != upto && conn->ops[at & conn->sq_mask].tag == VP_TAG_STREAK);
    conn->tail = at;
    conn->ep->room += at - from;
    conn->ep->retired += at - from;
    return conn->ops[(at - 1) & conn->sq_mask].cookie;
}

/* Reports requests up to (not including) number `upto`. A callback may close the connection. */
__attribute__((hot)) void vp_retire(struct vp_conn *conn, uint32_t upto, enum prov_status status)
{
    struct vp_ep *ep = conn->ep;

    while (conn->tail != upto) {
        const struct vp_op *op = &conn->ops[conn->tail & conn->sq_mask];
        if (op->tag == VP_TAG_STREAK && status == PROV_OK) {
            uint64_t cookie = skip_streak(conn, upto);
            if (conn->closed)
                continue;
            ep->made++;
            ep->cb.streak(conn->ctx, cookie);
            continue;
        }
        uint64_t cookie = op->cookie;
        uint32_t tag = op->tag;
        conn->tail++;
        ep->room++;
        ep->retired++;
        if (__builtin_expect(vp_tag_bounce(tag), 0))
            ep->bounce_free[ep->bounce_count++] = (uint16_t)(vp_tag_bounce(tag) - 1);
        if (__builtin_expect((tag & (VP_TAG_OURS | VP_TAG_PART)) | conn->closed, 0))
            continue;
        ep->made++;
        ep->cb.done(conn->ctx, cookie, status);
    }
}

static void tend(struct vp_conn *conn)
{
    if (vp_list_empty(&conn->tend_link)) /* ep_close() walks the list */
        vp_list_append(&conn->ep->tending, &conn->tend_link);
    conn->ep->aside = true;
}

static void wake_later(struct vp_ep *ep, uint64_t when)
{
    struct vp_prov *prov = ep->prov;

    pthread_mutex_lock(&prov->lock);
    if (!ep->wake_at || when < ep->wake_at)
        ep->wake_at = when;
    if (!prov->sleeps_until || when < prov->sleeps_until)
        vp_kick(prov);
    pthread_mutex_unlock(&prov->lock);
}

/* No more requests; what is outstanding drains. */
static void start_failing(struct vp_conn *conn)
{
    conn->life = VP_FAILING;
    vp_expect_no_reports(conn); /* it is tended: see sends_due() */
    conn->life_deadline = vp_now_ms() + (conn->ep->port->dev->gone ? DRAIN_GONE_MS : DRAIN_MS);
    tend(conn);
    wake_later(conn->ep, conn->life_deadline);
}

static void stop_posting(struct vp_conn *conn)
{
    if (conn->ep->batch == conn)
        vp_flush(conn->ep);
    if (conn->life == VP_FAILING)
        return; /* that flush failed */
    conn->postable = false;
    conn->sq_app = conn->sq_cap = 0;
    conn->posted_to = conn->head;
}

static void know_reason(struct vp_conn *conn, enum prov_reason reason)
{
    conn->reason = (uint8_t)reason;
    conn->reason_known = true;
}

static void suspect(struct vp_conn *conn)
{
    if (conn->reason_known || conn->probing || conn->closed)
        return;
    conn->probing = true;
    vp_probe_start(conn);
}

static void qp_to_error(struct vp_conn *conn)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    int rc = ibv_modify_qp(conn->qp, &attr, IBV_QP_STATE);

    if (rc)
        ut_debug(VP_CAT, "moving queue pair %u to the error state: %s", conn->qp->qp_num,
                 strerror(rc));
}

/* Takes an established connection down; `reason` or VP_REASON_ASK. */
void vp_conn_break(struct vp_conn *conn, int reason)
{
    if (conn->life == VP_YOUNG || conn->life == VP_DOWN)
        return;
    if (reason != VP_REASON_ASK && (!conn->reason_known || reason == PROV_REASON_LOCAL))
        know_reason(conn, (enum prov_reason)reason);
    if (conn->life != VP_FAILING) {
        if (conn->tail != conn->head && !vp_all_signalled(conn))
            vp_conn_beacon(conn, false); /* tells how far the others got */
        stop_posting(conn);
    }
    if (conn->life != VP_FAILING) {
        qp_to_error(conn);
        start_failing(conn);
    }
    if (reason == VP_REASON_ASK)
        suspect(conn);
}

/* Remembers the first request that failed. What happens to a part happens to its transfer. */
static bool note_error(struct vp_conn *conn, uint32_t seq, enum prov_status status)
{
    while (conn->ops[seq & conn->sq_mask].tag == VP_TAG_PART)
        seq++;
    if (conn->has_error && (int32_t)(seq - conn->err_seq) >= 0)
        return false;
    conn->has_error = true;
    conn->err_seq = seq;
    conn->err_status = (uint8_t)status;
    return true;
}

/* Request number `seq` and all later ones were not taken by the device. */
void vp_conn_failed(struct vp_conn *conn, uint32_t seq, enum prov_status status)
{
    if (conn->life == VP_FAILING)
        return;
    conn->postable = false;
    conn->sq_app = conn->sq_cap = 0;
    conn->posted_to = seq;
    note_error(conn, seq, status);
    know_reason(conn, conn->ep->port->dev->gone ? PROV_REASON_LOCAL : PROV_REASON_BROKEN);
    qp_to_error(conn);
    start_failing(conn);
}

static enum prov_status status_of(const struct ibv_wc *wc)
{
    switch (wc->status) {
    case IBV_WC_REM_ACCESS_ERR:
        return PROV_RMT_ACCESS;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_MW_BIND_ERR:
        return PROV_LCL_ACCESS;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return PROV_PEER; /* unless the peer turns out to be alive */
    case IBV_WC_WR_FLUSH_ERR:
        return PROV_FLUSHED;
    default:
        return PROV_FAILED;
    }
}

/* A request completed with an error: the queue pair is broken, the later ones are flushed. Only
 * wr_id, status and vendor_err of `wc` mean anything. */
void vp_conn_error(struct vp_conn *conn, uint32_t seq, const struct ibv_wc *wc)
{
    enum prov_status status = status_of(wc);

    /* Soft-RoCE says so too where the link below it was switched off */
    if (wc->status == IBV_WC_LOC_QP_OP_ERR && !vp_port_is_active(conn->ep->port))
        status = PROV_FLUSHED;
    if (note_error(conn, seq, status))
        vp_retire(conn, conn->err_seq, PROV_OK);
    if (status == PROV_FLUSHED && conn->life == VP_FAILING)
        return; /* the usual drain */
    if (status == PROV_FAILED)
        ut_error(VP_CAT, "a request failed: %s (vendor code 0x%x), on %s",
                 ibv_wc_status_str(wc->status), wc->vendor_err, conn->ep->port->name);
    else
        ut_debug(VP_CAT, "queue pair %u, request %u: %s", conn->qp->qp_num, seq,
                 ibv_wc_status_str(wc->status));
    if (conn->life == VP_ALIVE || conn->life == VP_LEAVING) {
        stop_posting(conn);
        if (conn->life != VP_FAILING)
            start_failing(conn);
    }
    if (status == PROV_PEER)
        suspect(conn);
    else if (!conn->reason_known && !conn->probing)
        know_reason(conn, PROV_REASON_BROKEN);
}

/* The peer closes its side in order: nothing new, but what is on its way may still arrive. */
void vp_conn_bye(struct vp_conn *conn)
{
    if (conn->life != VP_ALIVE)
        return;
    if (!conn->closed) {
        if (conn->tail != conn->head && !vp_all_signalled(conn))
            vp_conn_beacon(conn, false);
        stop_posting(conn);
    }
    if (conn->life == VP_FAILING)
        return;
    conn->life = VP_LEAVING;
    conn->life_deadline = vp_now_ms() + LEAVE_MS;
    tend(conn);
    wake_later(conn->ep, conn->life_deadline);
}

/* Reports what is left of the requests, and the end. */
static void finish(struct vp_conn *conn)
{
    enum prov_status first = PROV_FLUSHED;

    if (conn->has_error)
        first = (enum prov_status)conn->err_status;
    if (first == PROV_FLUSHED || first == PROV_PEER)
        first = conn->reason == PROV_REASON_PEER_DEAD ? PROV_PEER : PROV_FLUSHED;
    if (conn->has_error && conn->tail != conn->head)
        vp_retire(conn, conn->err_seq, PROV_OK);
    if (conn->tail != conn->head)
        vp_retire(conn, conn->tail + 1, first);
    vp_retire(conn, conn->head, PROV_FLUSHED);
    vp_expect_no_reports(conn);
    conn->life = VP_DOWN;
    if (conn->closed)
        return;
    conn->ep->made++;
    conn->ep->cb.down(conn->ctx, (enum prov_reason)conn->reason);
}

static bool is_drained(const struct vp_conn *conn)
{
    return conn->completed_to == conn->posted_to || conn->tail == conn->posted_to || conn->stuck;
}

/* To progress(), which destroys it: nothing here knows it any more. */
static void hand_over(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;
    struct vp_prov *prov = ep->prov;

    vp_table_remove(ep, conn);
    vp_list_remove(&conn->tend_link);
    if (ep->batch == conn)
        vp_flush(ep);
    if (conn->has_credit)
        vp_ep_give_credit(ep);
    conn->has_credit = false;
    pthread_mutex_lock(&prov->lock);
    vp_cm_abandon_locked(conn);
    pthread_mutex_unlock(&prov->lock);
}

static void end_stall(struct vp_conn *conn)
{
    conn->stalled = false;
    if (!vp_all_signalled(conn)) {
        vp_post_report(conn);
        return;
    }
    ut_warn(VP_CAT, "queue pair %u does not go on; it is replaced", conn->qp->qp_num);
    vp_conn_break(conn, VP_REASON_ASK);
}

/* What time and completions have made due. May call back; false: the connection is gone. */
static bool tend_one(struct vp_conn *conn, uint64_t now)
{
    bool late = now >= conn->life_deadline;

    switch ((enum vp_life)conn->life) {
    case VP_ALIVE: /* closed, our goodbye is out; or stalled */
    case VP_LEAVING:
        if (conn->stalled) {
            end_stall(conn);
        } else if (conn->tail == conn->head) {
            know_reason(conn, PROV_REASON_CLOSED);
            finish(conn);
        } else if (late) {
            vp_conn_break(conn, PROV_REASON_CLOSED);
        }
        break;
    case VP_FAILING:
        if (late && !is_drained(conn)) {
            ut_warn(VP_CAT, "queue pair %u did not report its last requests", conn->qp->qp_num);
            conn->stuck = true;
        }
        if (is_drained(conn) && (conn->reason_known || conn->closed))
            finish(conn);
        break;
    default:
        break;
    }
    if (!conn->closed || (conn->life != VP_DOWN && conn->life != VP_YOUNG))
        return true;
    hand_over(conn);
    return false;
}

/*
 * A queue pair whose oldest request was there at the last look already, longer ago than the device
 * may take for all its repetitions, is broken and made anew. Soft-RoCE forgets on links that lose
 * packets to repeat what was lost; no other device is known to. Requests that nobody wants to hear
 * of look the same, until one behind them reports.
 */
void vp_look_for_stalls(struct vp_ep *ep)
{
    pthread_mutex_lock(&ep->prov->lock);
    for (struct vp_list *l = ep->conns.next; l != &ep->conns; l = l->next) {
        struct vp_conn *conn = vp_container_of(l, struct vp_conn, ep_link);
        if (conn->life != VP_ALIVE || conn->closed || !conn->postable)
            continue;
        bool stalls = conn->tail != conn->head && conn->tail == conn->tail_seen &&
                      conn->tail != conn->head_seen;
        if (stalls) {
            conn->stalled = true;
            tend(conn);
        }
        conn->tail_seen = conn->tail;
        conn->head_seen = conn->head;
    }
    pthread_mutex_unlock(&ep->prov->lock);
}

void vp_tend_all(struct vp_ep *ep)
{
    struct vp_list todo;
    uint64_t now = vp_now_ms();

    /* callbacks may add to the list */
    vp_list_init(&todo);
    while (!vp_list_empty(&ep->tending))
        vp_list_append(&todo, ep->tending.next);
    while (!vp_list_empty(&todo)) {
        struct vp_conn *conn = vp_container_of(todo.next, struct vp_conn, tend_link);
        vp_list_remove(&conn->tend_link);
        if (tend_one(conn, now) &&
            (conn->closed || (conn->life != VP_DOWN && conn->life != VP_ALIVE)))
            tend(conn);
    }
}

void vp_conn_close(struct prov_conn *base)
{
    struct vp_conn *conn = vp_conn(base);

    if (conn->closed)
        return;
    conn->closed = true;
    if (conn->life == VP_ALIVE) {
        vp_conn_beacon(conn, true);
        stop_posting(conn);
        if (conn->life == VP_ALIVE) {
            conn->life_deadline = vp_now_ms() + conn->ep->prov->config.peer_timeout_ms;
            wake_later(conn->ep, conn->life_deadline);
        }
    }
    /* inside ep_poll() somebody further up may still hold it */
    if (conn->ep->polling || tend_one(conn, vp_now_ms()))
        tend(conn);
}

void vp_conn_handle(struct vp_conn *conn, unsigned int events)
{
    struct vp_ep *ep = conn->ep;

    if (events & VP_EV_REQUEST && !(events & VP_EV_OVER) && !conn->closed) {
        ep->made++;
        ep->cb.request(ep->owner, (struct prov_conn *)conn, conn->req.origin_id, conn->req.hello,
                       conn->req.kind & VP_REQ_SIZE);
    }
    if (events & VP_EV_UP)
        vp_conn_up(conn);
    if (events & VP_EV_OVER && !conn->closed) {
        if (events & VP_EV_REQUEST) { /* over before the core heard of it */
            conn->closed = true;
            tend(conn);
        } else if (conn->active || conn->answered) {
            conn->life = VP_DOWN;
            ep->made++;
            ep->cb.down(conn->ctx, (enum prov_reason)conn->hs_reason);
        } /* else accept() brings it up again */
    }
    if (events & VP_EV_LOCAL)
        vp_conn_break(conn, PROV_REASON_LOCAL);
    if (events & VP_EV_QP_ERROR)
        vp_conn_break(conn, PROV_REASON_BROKEN);
    if (events & VP_EV_DISCONNECTED && (conn->life == VP_ALIVE || conn->life == VP_LEAVING)) {
        struct ibv_qp_attr attr;
        struct ibv_qp_init_attr init;
        /* Without a goodbye: a queue pair that is broken here was broken by an operation; else
         * the peer was killed, or broke its own side. */
        if (conn->life == VP_LEAVING || conn->closed)
            vp_conn_break(conn, PROV_REASON_CLOSED);
        else if (ibv_query_qp(conn->qp, &attr, IBV_QP_STATE, &init) == 0 &&
                 attr.qp_state == IBV_QPS_ERR)
            vp_conn_break(conn, PROV_REASON_BROKEN);
        else
            vp_conn_break(conn, VP_REASON_ASK);
    }
    if (events & VP_EV_VERDICT && conn->life == VP_FAILING && !conn->reason_known)
        know_reason(conn, conn->peer_lives ? PROV_REASON_BROKEN : PROV_REASON_PEER_DEAD);
}

void vp_conn_free(struct vp_conn *conn)
{
    vp_list_remove(&conn->ep_link);
    free(conn->ops);
    free(conn);
}

/* By progress() or ep_close(), when nobody else knows it any more. */
void vp_conn_destroy(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;
    struct vp_prov *prov = ep->prov;

    vp_cm_drop_id(conn);
    if (!conn->stuck)
        vp_conn_drop_qp(conn);
    else if (conn->qp)
        ibv_destroy_qp(conn->qp); /* late completions may name its requests */
    pthread_mutex_lock(&prov->lock);
    if (conn->stuck)
        vp_list_append(&ep->stuck, &conn->ep_link);
    else
        vp_conn_free(conn);
    pthread_cond_broadcast(&prov->changed); /* the endpoint's queues may go now */
    pthread_mutex_unlock(&prov->lock);
}
