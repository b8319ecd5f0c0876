/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections after their handshake: up, failing, draining, closed. The endpoint's lock protects
 * the connections. A connection that is closed or fails first waits for its last completion; then
 * progress() destroys the connection.
 */
#include "conn.h"

#include <errno.h>
#include <string.h>

#include "verbs/ports/device.h"
#include "verbs/data/qp.h"
#include "verbs/ports/order.h"
#include "verbs/ports/qp_budget.h"
#include "verbs/data/post.h"
#include "probe.h"
#include "verbs/data/queues.h"
#include "reap.h"
#include "verbs/signalled.h"
#include "verbs/data/table.h"
#include "cm_ops.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/back_off.h"
#include "verbs/wake.h"

enum {
    /* limits of the wait for the last receives of a queue pair: */
    LAST_RECV_MS = 1000,         /* interval between two checks */
    LAST_RECV_FIRST_MS = 10000,  /* then the device counts as one without this event */
    LAST_RECV_NO_EVENT_MS = 100, /* for an unreliable event: bnxt_re, rdma_rxe of Linux 6.1 */
};

/* Reserves a completion-queue entry for the connection's last request. False (logged once): no
 * entry is left. */
static bool reserve_last_request(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;

    if (conn->last_request == VP_LAST_NONE && vp_ep_reserve_cqe(ep))
        conn->last_request = VP_LAST_RESERVED;
    if (conn->last_request == VP_LAST_NONE && !ep->logged_no_room) {
        ep->logged_no_room = true;
        ut_error(VP_CAT,
                 "no room for another connection: a completion queue of %s has %u entries for %u "
                 "connections (a larger UTOFU_NUM_TOQ_ENTRIES adds entries)",
                 ep->port->name, ep->cq_size, ep->credits);
    }
    return conn->last_request != VP_LAST_NONE;
}

/* Computes the maximum sizes of transfers for the fast path and for transfers without parts. */
static void update_length_limits(struct vp_conn *conn)
{
    conn->unsplit_max = conn->ep->max_msg;
    if (conn->split_threshold && conn->unsplit_max >= conn->split_threshold)
        conn->unsplit_max = conn->split_threshold - 1;
    conn->direct_max = conn->qpx ? conn->unsplit_max : 0;
    if (conn->unit != VP_UNIT_WHOLE && conn->direct_max > conn->packet)
        conn->direct_max = conn->packet;
}

void vp_set_split_threshold(struct prov_conn *base, uint32_t min)
{
    struct vp_conn *conn = vp_conn(base);

    conn->split_threshold = min;
    if (conn->state != VP_CONN_NEW)
        update_length_limits(conn);
}

static bool has_failed_qp(const struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;

    pthread_mutex_lock(&prov->lock);
    bool failed = conn->qp_failed;
    pthread_mutex_unlock(&prov->lock);
    return failed;
}

void vp_conn_up(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;
    uint32_t depth = conn->sq_depth, reserve = depth / 8 > 2 ? depth / 8 : 2;

    if (conn->closed || conn->state != VP_CONN_NEW)
        return;
    bool has_room = reserve_last_request(conn);
    if (!has_room || !vp_table_add(ep, conn)) {
        if (has_room)
            ut_error(VP_CAT, "no memory for another connection of %s", ep->port->name);
        conn->state = VP_CONN_DOWN;
        ep->num_callbacks++;
        ep->cb.down(conn->ctx, PROV_REASON_LOCAL);
        return;
    }
    conn->sq_max = depth - 1;
    conn->sq_xfer_max = depth - 1 - reserve;
    UT_ASSERT(conn->sq_xfer_max < conn->sq_max && conn->sq_max <= conn->sq_mask);
    conn->state = VP_CONN_UP;
    conn->unit = vp_weaker_unit(conn->lcl_unit, conn->rmt_unit);
    update_length_limits(conn);
    conn->slow_flags = PROV_MORE | PROV_FENCE | PROV_STRONG_ORDER;
    if (vp_needs_read_flush(ep->prov) ||
        ep->rail) /* the data of a rail and its notice use different connections */
        conn->slow_flags |= PROV_DELIVERY_COMPLETE;
    vp_budget_mark_up(conn);
    ep->num_callbacks++;
    if (conn->active)
        ep->cb.up(conn->ctx, conn->hello, conn->hello_size);
    else
        ep->cb.up(conn->ctx, conn->req.hello, conn->req.kind & VP_REQ_SIZE);
    if (has_failed_qp(conn)) /* vp_conn_break() ignores VP_EV_QP_ERROR before up() */
        vp_conn_break(conn, PROV_REASON_BROKEN);
}

/* Skips unsignalled requests, which complete together. Returns the cookie of the last one. */
static inline uint64_t skip_unsignalled(struct vp_conn *conn, uint32_t upto)
{
    uint32_t from = conn->tail, at = from;

    if (__builtin_expect((int32_t)(conn->unsignalled_from - from) <= 0, 1))
        at = upto;
    else
        do
            at++;
        while (at != upto && conn->ops[at & conn->sq_mask].tag == VP_TAG_UNSIGNALLED);
    conn->tail = at;
    conn->ep->room += at - from;
    conn->ep->num_completed += at - from;
    return conn->ops[(at - 1) & conn->sq_mask].cookie;
}

__attribute__((hot)) void vp_complete_requests(struct vp_conn *conn, uint32_t upto,
                                               enum prov_status status)
{
    struct vp_ep *ep = conn->ep;

    UT_ASSERT(upto - conn->tail <= conn->head - conn->tail);
    while (conn->tail != upto) {
        const struct vp_op *op = &conn->ops[conn->tail & conn->sq_mask];
        if (op->tag == VP_TAG_UNSIGNALLED && status == PROV_OK) {
            uint64_t cookie = skip_unsignalled(conn, upto);
            if (conn->closed)
                continue;
            ep->num_callbacks++;
            ep->cb.unsignalled_done(conn->ctx, cookie);
            continue;
        }
        uint64_t cookie = op->cookie;
        uint32_t tag = op->tag;
        conn->tail++;
        ep->room++;
        ep->num_completed++;
        UT_ASSERT(ep->room + ep->credits <= ep->cq_size);
        if (__builtin_expect(vp_tag_bounce(tag), 0))
            ep->bounce_free[ep->bounce_count++] = (uint16_t)(vp_tag_bounce(tag) - 1);
        if (__builtin_expect((tag & (VP_TAG_INTERNAL | VP_TAG_PART)) | conn->closed, 0))
            continue;
        ep->num_callbacks++;
        ep->cb.done(conn->ctx, cookie, status);
    }
}

static void stop_posting(struct vp_conn *conn)
{
    if (conn->ep->batch == conn)
        vp_batch_flush(conn->ep);
    if (conn->state == VP_CONN_FAILING)
        return;                           /* flushing the batch failed */
    conn->sq_xfer_max = conn->sq_max = 0; /* vp_is_postable() is false from now on */
    conn->end.posted_end = conn->inline_until = conn->head;
}

static void probe_peer(struct vp_conn *conn)
{
    if (conn->end.reason != VP_REASON_UNKNOWN || conn->closed)
        return;
    conn->end.reason = VP_REASON_PROBE;
    vp_probe_start(conn);
}

void vp_conn_break(struct vp_conn *conn, int reason)
{
    if (conn->state == VP_CONN_NEW || conn->state >= VP_CONN_DOWN)
        return;
    if (reason != VP_REASON_PROBE && (!vp_reason_is_known(conn) || reason == PROV_REASON_LOCAL))
        vp_conn_set_reason(conn, (enum prov_reason)reason);
    if (conn->state != VP_CONN_FAILING) {
        if (conn->tail != conn->head && !vp_all_signalled(conn))
            vp_conn_post_last_request(conn, 0); /* the last request completes after all others */
        stop_posting(conn);
    }
    if (conn->state != VP_CONN_FAILING) {
        vp_conn_qp_to_error(conn);
        vp_conn_start_failing(conn);
    }
    if (reason == VP_REASON_PROBE)
        probe_peer(conn);
}

static enum prov_status status_from_wc(const struct ibv_wc *wc)
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
        return PROV_PEER; /* replaced if the probe finds the peer alive */
    case IBV_WC_WR_FLUSH_ERR:
        return PROV_FLUSHED;
    default:
        return PROV_FAILED;
    }
}

/* Handles a request that completed with an error. The queue pair is in the error state and flushes
 * the later requests. Only wr_id, status and vendor_err of `wc` are valid. */
void vp_conn_error(struct vp_conn *conn, uint32_t seq, const struct ibv_wc *wc)
{
    enum prov_status status = status_from_wc(wc);

    /* Soft-RoCE also reports this status if the network device was set down */
    if (wc->status == IBV_WC_LOC_QP_OP_ERR && !vp_port_is_active(conn->ep->port))
        status = PROV_FLUSHED;
    if (vp_conn_record_error(conn, seq, status))
        vp_complete_requests(conn, conn->end.err_seq, PROV_OK);
    if (status == PROV_FLUSHED && conn->state == VP_CONN_FAILING)
        return; /* a failing queue pair flushes all its requests */
    if (status == PROV_FAILED)
        ut_error(VP_CAT, "a request failed: %s (vendor code 0x%x), on %s",
                 ibv_wc_status_str(wc->status), wc->vendor_err, conn->ep->port->name);
    else
        ut_debug(VP_CAT, "queue pair %u, request %u: %s", conn->qp->qp_num, seq,
                 ibv_wc_status_str(wc->status));
    if (conn->state == VP_CONN_UP || conn->state == VP_CONN_CLOSING) {
        stop_posting(conn);
        if (conn->state != VP_CONN_FAILING)
            vp_conn_start_failing(conn);
    }
    if (status == PROV_PEER)
        probe_peer(conn);
    else if (conn->end.reason == VP_REASON_UNKNOWN)
        vp_conn_set_reason(conn, PROV_REASON_BROKEN);
}

/* Reports the remaining requests, and calls down(). The requests before the failed one have
 * executed: the device reports each request that has not, unless the device is stuck. */
static void report_down(struct vp_conn *conn)
{
    bool peer_is_lost =
        conn->end.reason == PROV_REASON_PEER_DEAD || conn->end.reason == PROV_REASON_SILENT;
    enum prov_status first = PROV_FLUSHED;

    if (conn->end.err_status && conn->tail != conn->head && !conn->end.stuck)
        vp_complete_requests(conn, conn->end.err_seq, PROV_OK);
    if (conn->end.err_status && conn->tail == conn->end.err_seq)
        first = (enum prov_status)conn->end.err_status;
    if (first == PROV_FLUSHED || first == PROV_PEER)
        first = peer_is_lost ? PROV_PEER : PROV_FLUSHED;
    if (conn->tail != conn->head)
        vp_complete_requests(conn, conn->tail + 1, first);
    vp_complete_requests(conn, conn->head, PROV_FLUSHED);
    vp_clear_signalled(conn);
    conn->state = VP_CONN_DOWN;
    if (conn->closed)
        return;
    conn->ep->num_callbacks++;
    conn->ep->cb.down(conn->ctx, (enum prov_reason)conn->end.reason);
}

/*
 * Suspending. A connection is closed because another one needs its queue pair, and connected again
 * when one side has something to send. No request may be outstanding at that time: flushed requests
 * would be repeated, and some of them would execute twice.
 *   this side           REQUEST (FORCE) ->  the peer continues with its requests until its reply
 *                       <- REFUSE           and after this reply; or
 *                       <- SUSPEND          all requests of the peer have ended; both sides stop
 *   ends its requests   SUSPEND ->          after its acknowledgement both know that all has
 * arrived
 * Both sides may send REQUEST, or post requests, at the same time.
 */
static void begin_suspend(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;

    stop_posting(conn);
    if (conn->state == VP_CONN_FAILING)
        return;
    if (conn->end.suspend == VP_SUSPEND_NONE)
        conn->end.suspend = VP_SUSPEND_EVICTED;
    conn->state = VP_CONN_CLOSING;
    conn->end.deadline = ut_clock_ms() + ep->prov->config.peer_timeout_ms;
    vp_budget_mark_ending(conn);
    vp_conn_schedule_service(conn);
    vp_ep_wake_later(ep, conn->end.deadline);
}

static enum prov_reason suspend_reason(const struct vp_conn *conn)
{
    return conn->end.suspend == VP_SUSPEND_LONGER_SQ ? PROV_REASON_RESIZE_QUEUES
                                                     : PROV_REASON_SUSPENDED;
}

/* True if both sides have sent SUSPEND: at most this side's SUSPEND is not acknowledged. */
static bool is_suspended(const struct vp_conn *conn)
{
    return conn->end.suspend && conn->last_request == VP_LAST_POSTED && conn->end.peer_suspended;
}

static void service_suspending(struct vp_conn *conn, bool late)
{
    if (late) {
        vp_conn_break(conn, conn->closed ? PROV_REASON_CLOSED : VP_REASON_PROBE);
    } else if (conn->tail != conn->head) {
        if (!vp_all_signalled(conn))
            vp_post_signalled(conn);
    } else if (conn->last_request != VP_LAST_POSTED) {
        vp_conn_post_last_request(conn, VP_CTL_SUSPEND);
    } else if (conn->end.peer_suspended || conn->closed) {
        vp_conn_set_reason(conn, suspend_reason(conn));
        report_down(conn);
    }
}

/* Handles the peer's request to suspend: agrees if this side has posted nothing since the last
 * check. */
static void handle_suspend_request(struct vp_conn *conn, bool forced)
{
    pthread_mutex_lock(&conn->ep->prov->lock);
    bool refuses = !forced && vp_budget_check_use_locked(conn);
    pthread_mutex_unlock(&conn->ep->prov->lock);
    if (!refuses) {
        begin_suspend(conn);
        return;
    }
    vp_post_control(conn,
                    VP_CTL_SUSPEND_REFUSE); /* if the queue is full, no reply means the same */
    conn->used_head = conn->head;
}

/* Another connection needs the queue pair: asks the peer to suspend. A peer that was forced to
 * suspend gets no further request: its process may be stopped, and others would wait as long. The
 * timeout of that peer is the timeout of a suspending peer. */
static void request_suspend(struct vp_conn *conn)
{
    enum vp_budget_check_evict evict = vp_budget_check_evict(conn);

    if (evict == VP_EVICT_NO)
        return;
    if (evict == VP_EVICT_FORCE && conn->end.suspend_request == VP_SUSPEND_FORCED) {
        begin_suspend(conn);
        return;
    }
    if (!vp_post_control(conn,
                         evict == VP_EVICT_FORCE ? VP_CTL_SUSPEND_FORCE : VP_CTL_SUSPEND_REQUEST))
        vp_budget_mark_in_use(conn);
    else if (evict == VP_EVICT_FORCE)
        conn->end.suspend_request = VP_SUSPEND_FORCED;
    if (conn->end.suspend_request == VP_SUSPEND_NOT_REQUESTED)
        conn->end.suspend_request = VP_SUSPEND_REQUESTED;
    conn->used_head = conn->head;
}

/* Reconnects with a longer send queue, since not all devices can resize a send queue (IBV_QP_CAP).
 * If queue pairs are short, the next connection to this peer has the longer queue. */
static void reconnect_with_longer_sq(struct vp_conn *conn)
{
    conn->action = VP_ACTION_NONE;
    vp_sq_mark_busy(conn->ep, conn->active ? conn->req.target_id : conn->req.origin_id);
    if (!vp_budget_has_spare(conn))
        return;
    conn->end.suspend = VP_SUSPEND_LONGER_SQ;
    begin_suspend(conn);
}

/* A peer that suspends without a request wants a longer send queue. */
static void handle_peer_suspended(struct vp_conn *conn)
{
    conn->end.peer_suspended = true;
    if (conn->state == VP_CONN_UP && !conn->closed) {
        conn->end.suspend = conn->end.suspend_request ? VP_SUSPEND_EVICTED : VP_SUSPEND_LONGER_SQ;
        begin_suspend(conn);
    } else if (conn->state == VP_CONN_CLOSING) {
        vp_conn_schedule_service(conn);
    }
}

/* The peer closes the connection: it posts no more requests, but earlier ones may still arrive. */
static void handle_peer_close(struct vp_conn *conn)
{
    if (conn->state == VP_CONN_CLOSING && conn->end.suspend)
        handle_peer_suspended(conn);
    if (conn->state != VP_CONN_UP)
        return;
    if (!conn->closed) {
        if (conn->tail != conn->head && !vp_all_signalled(conn))
            vp_conn_post_last_request(conn, 0);
        stop_posting(conn);
    }
    if (conn->state == VP_CONN_FAILING)
        return;
    conn->state = VP_CONN_CLOSING;
    conn->end.deadline = ut_clock_ms() + UT_CLOSE_TIMEOUT_MS;
    vp_conn_schedule_service(conn);
    vp_ep_wake_later(conn->ep, conn->end.deadline);
}

void vp_conn_handle_control(struct vp_conn *conn, uint32_t control)
{
    switch (control) {
    case VP_CTL_CLOSE:
        handle_peer_close(conn);
        break;
    case VP_CTL_SUSPEND_REQUEST:
    case VP_CTL_SUSPEND_FORCE:
        if (conn->state == VP_CONN_UP && !conn->closed)
            handle_suspend_request(conn, control == VP_CTL_SUSPEND_FORCE);
        break;
    case VP_CTL_SUSPEND_REFUSE:
        if (conn->end.suspend_request == VP_SUSPEND_REQUESTED)
            conn->end.suspend_request = VP_SUSPEND_NOT_REQUESTED;
        vp_budget_mark_in_use(conn);
        break;
    case VP_CTL_SUSPEND:
        handle_peer_suspended(conn);
        break;
    default: /* no version of this library sends this message */
        ut_debug(VP_CAT, "unknown control message %#x (does the peer run another version?)",
                 control);
    }
}

static bool requests_are_drained(const struct vp_conn *conn)
{
    return conn->end.completed_end == conn->end.posted_end || conn->tail == conn->end.posted_end ||
           conn->end.stuck;
}

/* Hands the connection over to progress(), which destroys it. */
static void abandon_conn(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;
    struct vp_prov *prov = ep->prov;

    vp_table_remove(ep, conn);
    vp_list_remove(&conn->service_link);
    if (ep->batch == conn)
        vp_batch_flush(ep);
    if (conn->last_request == VP_LAST_RESERVED)
        vp_ep_release_cqe(ep);
    conn->last_request = VP_LAST_NONE;
    pthread_mutex_lock(&prov->lock);
    vp_cm_abandon_locked(conn);
    pthread_mutex_unlock(&prov->lock);
}

/*
 * Destruction of a queue pair. With the queue pair, receives that it has taken from the shared
 * queue and completions that were not polled could be lost. So the queue pair first goes to the
 * error state. The device then reports these receives and raises LAST_WQE_REACHED; the completion
 * queue is polled until it is empty; then the queue pair is destroyed. The library waits once for a
 * device that never raises the event. For a device that has raised it, the wait has no limit unless
 * another connection needs the queue pair. A receive queue of the connection itself is empty when
 * all posted receives have completed: its completion-queue entries are then free for other
 * connections.
 */
enum destroy_step { DESTROY_BEGUN, DESTROY_LATER, DESTROY_NOW };

/* Timeout of the wait for the last receive: see vp_device.last_wqe, which prov->lock protects. */
static unsigned int last_recv_timeout_ms(const struct vp_conn *conn)
{
    const struct vp_device *dev = conn->ep->port->dev;

    if (conn->recvs)
        return LAST_RECV_MS;
    if (dev->last_wqe == VP_LAST_WQE_NEVER)
        return 0;
    if (dev->last_wqe == VP_LAST_WQE_RAISED)
        return LAST_RECV_MS;
    bool unreliable =
        dev->last_wqe == VP_LAST_WQE_UNRELIABLE || dev->attr.vendor_id == VP_VENDOR_RXE;
    return unreliable ? LAST_RECV_NO_EVENT_MS : LAST_RECV_FIRST_MS;
}

static enum destroy_step begin_destroy(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;
    unsigned int wait = 0;

    if (ep->closing || ep->port->dev->gone) /* the endpoint's queues are destroyed too */
        return DESTROY_NOW;
    pthread_mutex_lock(&ep->prov->lock);
    bool busy = conn->hs.busy;
    bool must_wait =
        !busy && conn->qp_state >= IBV_QPS_RTR && (!conn->active || conn->phase == VP_ESTABLISHED);
    if (must_wait) {
        vp_handshake_unlink(conn);
        vp_budget_mark_ending_locked(conn);
        wait = last_recv_timeout_ms(conn);
    }
    pthread_mutex_unlock(&ep->prov->lock);
    if (!must_wait)
        return busy ? DESTROY_LATER : DESTROY_NOW;
    if (conn->recvs && !conn->in_table && !vp_table_add(ep, conn))
        return DESTROY_NOW;
    conn->state = VP_CONN_DESTROYING;
    vp_conn_qp_to_error(conn);
    pthread_mutex_lock(&ep->prov->lock);
    vp_conn_schedule_disconnect_locked(conn);
    pthread_mutex_unlock(&ep->prov->lock);
    conn->end.deadline = ut_clock_ms() + wait;
    vp_ep_wake_later(ep, conn->end.deadline);
    return DESTROY_BEGUN;
}

static void log_late_receive(struct vp_ep *ep, const struct vp_conn *conn, bool given_up)
{
    ep->late_qps += given_up;
    if (given_up)
        ut_warn(VP_CAT,
                "queue pair %u is destroyed for another connection before it reported its last "
                "receive (%u so far on this endpoint)",
                conn->qp->qp_num, ep->late_qps);
    else if (!ep->logged_late)
        ut_info(VP_CAT, "queue pair %u is kept until %s reports its last receive", conn->qp->qp_num,
                ep->port->name);
    ep->logged_late = true;
}

/* The device has not raised the event in time: waits longer, or lets the next poll drain the
 * receives. */
static void handle_late_receive(struct vp_conn *conn, uint64_t now)
{
    struct vp_ep *ep = conn->ep;
    struct vp_device *dev = ep->port->dev;

    pthread_mutex_lock(&ep->prov->lock);
    bool is_first = dev->last_wqe == VP_LAST_WQE_UNKNOWN;
    if (is_first)
        dev->last_wqe = VP_LAST_WQE_NEVER;
    bool reports_event = dev->last_wqe == VP_LAST_WQE_RAISED;
    bool waits_longer = reports_event && !vp_budget_has_waiters_locked(conn);
    if (!waits_longer)
        vp_post_event_locked(conn, VP_EV_LAST_RECV);
    pthread_mutex_unlock(&ep->prov->lock);
    if (is_first)
        ut_info(VP_CAT, "%s does not report last receives: queue pairs are not kept for them",
                ep->port->name);
    conn->end.deadline = waits_longer ? now + LAST_RECV_MS : UINT64_MAX;
    if (waits_longer)
        vp_ep_wake_later(ep, conn->end.deadline);
    if (reports_event)
        log_late_receive(ep, conn, !waits_longer);
}

static bool receives_are_drained(struct vp_conn *conn, uint64_t now)
{
    bool late = now >= conn->end.deadline;

    if (conn->ep->closing || conn->ep->port->dev->gone)
        return true;
    if (conn->recvs) {
        conn->end.drained = conn->recvs->completed == conn->recvs->posted;
        return conn->end.drained || late;
    }
    if (!conn->end.drained && late)
        handle_late_receive(conn, now);
    return conn->end.drained;
}

/* True if a closed connection that is down, or never was up, can be destroyed. */
static bool is_ready_to_destroy(struct vp_conn *conn, uint64_t now)
{
    if (conn->state != VP_CONN_DESTROYING) {
        enum destroy_step step = begin_destroy(conn);
        if (step != DESTROY_BEGUN)
            return step == DESTROY_NOW;
    }
    return receives_are_drained(conn, now);
}

/* Sends a keepalive where no event reports the peer's death (see cm_ops.h). While the peer's
 * process exists, its adapter acknowledges an empty write, even if the process is stopped. This
 * write does not count as use of the connection, which may still be suspended. */
static void send_keepalive(struct vp_conn *conn)
{
    bool unused = conn->used_head == conn->head;

    conn->action = VP_ACTION_NONE;
    if (conn->state != VP_CONN_UP || conn->closed || conn->tail != conn->head)
        return;
    vp_post_signalled(conn);
    conn->head_at_check = conn->head;
    if (unused)
        conn->used_head = conn->head;
}

static void handle_stall(struct vp_conn *conn)
{
    uint32_t head = conn->head;

    conn->action = VP_ACTION_NONE;
    if (!vp_all_signalled(conn))
        vp_post_signalled(conn);
    if (conn->head != head) /* otherwise the send queue is full, or all requests are signalled */
        return;
    ut_warn(VP_CAT, "queue pair %u has stalled: reconnecting", conn->qp->qp_num);
    vp_conn_break(conn, VP_REASON_PROBE);
}

/* Next step of a connection that is up or closing: executes its pending action, continues
 * suspending, or waits for outstanding requests before the close. */
static void service_open(struct vp_conn *conn, bool late)
{
    if (conn->action == VP_ACTION_STALL) {
        handle_stall(conn);
    } else if (conn->action == VP_ACTION_KEEPALIVE) {
        send_keepalive(conn);
    } else if (conn->action == VP_ACTION_LONGER_SQ && conn->state == VP_CONN_UP && !conn->closed) {
        reconnect_with_longer_sq(conn);
    } else if (conn->end.suspend) {
        service_suspending(conn, late);
    } else if (conn->tail == conn->head) {
        vp_conn_set_reason(conn, PROV_REASON_CLOSED);
        report_down(conn);
    } else if (late) {
        vp_conn_break(conn, PROV_REASON_CLOSED);
    }
}

static void service_failing(struct vp_conn *conn, bool late)
{
    if (late && !requests_are_drained(conn)) {
        ut_warn(VP_CAT, "queue pair %u did not report its last requests", conn->qp->qp_num);
        conn->end.stuck = true;
    }
    if (requests_are_drained(conn) &&
        (conn->closed || (vp_reason_is_known(conn) && conn->end.delivered)))
        report_down(conn);
}

/* Next step of a connection that closes, fails or has a pending action. May make callbacks. False:
 * the connection is abandoned. */
static bool service_conn(struct vp_conn *conn, uint64_t now)
{
    bool late = now >= conn->end.deadline;

    if (conn->state == VP_CONN_UP || conn->state == VP_CONN_CLOSING)
        service_open(conn, late);
    else if (conn->state == VP_CONN_FAILING)
        service_failing(conn, late);
    if (!conn->closed || (conn->state < VP_CONN_DOWN && conn->state != VP_CONN_NEW) ||
        !is_ready_to_destroy(conn, now))
        return true;
    abandon_conn(conn);
    return false;
}

/*
 * A queue pair has stalled if its oldest request is the same as at the last check, longer ago than
 * the device's retransmissions may take. The library then breaks the connection and reconnects.
 * Soft-RoCE sometimes stops retransmitting on lossy links; no other device is known to. Unsignalled
 * requests look stalled until a signalled request behind them completes.
 */
void vp_check_stalls(struct vp_ep *ep)
{
    uint64_t now = ut_clock_ms();
    bool sends_keepalives = !ep->port->cm_ops->reports_peer_death && now >= ep->keepalive_at;

    if (sends_keepalives)
        ep->keepalive_at = now + ep->prov->config.peer_timeout_ms / 2;
    pthread_mutex_lock(&ep->prov->lock);
    for (struct vp_list *l = ep->conns.next; l != &ep->conns; l = l->next) {
        struct vp_conn *conn = vp_container_of(l, struct vp_conn, ep_link);
        if (conn->state != VP_CONN_UP || conn->closed || !vp_is_postable(conn))
            continue;
        bool stalls = conn->tail != conn->head && conn->tail == conn->tail_at_check &&
                      conn->tail != conn->head_at_check;
        if (stalls && conn->action == VP_ACTION_NONE) {
            conn->action = VP_ACTION_STALL;
            vp_conn_schedule_service(conn);
        } else if (sends_keepalives && conn->action == VP_ACTION_NONE && conn->tail == conn->head &&
                   conn->head == conn->head_at_check) {
            conn->action = VP_ACTION_KEEPALIVE;
            vp_conn_schedule_service(conn);
        }
        conn->tail_at_check = conn->tail;
        conn->head_at_check = conn->head;
        vp_budget_check_use_locked(conn);
    }
    pthread_mutex_unlock(&ep->prov->lock);
}

/* No more data arrives on connections that already fail. The peer knows which data arrived and does
 * not send these data again, so the caller delivers them before down(). */
void vp_service_begin(struct vp_ep *ep)
{
    for (struct vp_list *l = ep->service_list.next; l != &ep->service_list; l = l->next) {
        struct vp_conn *conn = vp_container_of(l, struct vp_conn, service_link);
        conn->end.delivered = conn->state == VP_CONN_FAILING;
    }
}

void vp_service_all(struct vp_ep *ep)
{
    struct vp_list todo;
    uint64_t now = ut_clock_ms();

    /* callbacks may add to the list */
    vp_list_init(&todo);
    while (!vp_list_empty(&ep->service_list))
        vp_list_append(&todo, ep->service_list.next);
    while (!vp_list_empty(&todo)) {
        struct vp_conn *conn = vp_container_of(todo.next, struct vp_conn, service_link);
        vp_list_remove(&conn->service_link);
        if (service_conn(conn, now) &&
            (conn->closed || (conn->state != VP_CONN_DOWN && conn->state != VP_CONN_UP)))
            vp_conn_schedule_service(conn);
    }
}

void vp_conn_close(struct prov_conn *base)
{
    struct vp_conn *conn = vp_conn(base);

    if (conn->closed)
        return;
    conn->closed = true;
    if (conn->state == VP_CONN_UP) {
        vp_conn_post_last_request(conn, VP_CTL_CLOSE);
        stop_posting(conn);
        if (conn->state == VP_CONN_UP) {
            conn->end.deadline = ut_clock_ms() + conn->ep->prov->config.peer_timeout_ms;
            vp_ep_wake_later(conn->ep, conn->end.deadline);
        }
    }
    /* inside ep_poll() a caller up the stack may still use the connection */
    if (conn->ep->polling || service_conn(conn, ut_clock_ms()))
        vp_conn_schedule_service(conn);
}

bool vp_any_order(struct prov_conn *base)
{
    const struct vp_conn *conn = vp_conn(base);

    if (conn->state == VP_CONN_NEW) /* before up(): the units of the device and of the peer */
        return vp_unit_of(conn->ep->port->dev) != VP_UNIT_WHOLE || conn->rmt_unit != VP_UNIT_WHOLE;
    return conn->unit != VP_UNIT_WHOLE;
}

int vp_accept(struct prov_conn *base, const void *hello, size_t hello_size, void *ctx)
{
    struct vp_conn *conn = vp_conn(base);
    struct vp_prov *prov = conn->ep->prov;

    if (hello_size > PROV_PRIVATE_DATA_MAX)
        return -EINVAL;
    if (!reserve_last_request(conn)) {
        conn->reject_reason = VP_REJ_BUSY;
        vp_conn_close(base);
        return -EAGAIN;
    }
    conn->ctx = ctx;
    conn->sq_depth = vp_sq_depth(conn->ep, conn->req.origin_id);
    conn->hello_size = (uint8_t)hello_size;
    if (hello_size)
        memcpy(conn->hello, hello, hello_size);
    pthread_mutex_lock(&prov->lock);
    conn->hs.accepted = true;
    if (conn->phase == VP_REQUESTED) {
        conn->phase = VP_ACCEPTING;
        vp_list_append(&prov->accepts, &conn->hs.link);
    } else {
        /* the origin gave up in the meantime */
        vp_post_event_locked(conn, VP_EV_HS_FAILED);
    }
    pthread_mutex_unlock(&prov->lock);
    vp_kick(prov);
    return 0;
}

void vp_reject(struct prov_conn *conn)
{
    vp_conn_close(conn);
}

static void report_request(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;

    ep->num_callbacks++;
    ep->cb.request(ep->owner, &ep->prov->base, (struct prov_conn *)conn, conn->req.origin_id,
                   conn->req.hello, conn->req.kind & VP_REQ_SIZE);
}

/* Reports a failed handshake. `unreported`: request() was not called. If the core has not accepted
 * or rejected the request yet, accept() finds the connection down. */
static void report_handshake_failed(struct vp_conn *conn, bool unreported)
{
    if (unreported) {
        conn->closed = true;
        vp_conn_schedule_service(conn);
    } else if (conn->active || conn->hs.accepted) {
        conn->state = VP_CONN_DOWN;
        conn->ep->num_callbacks++;
        conn->ep->cb.down(conn->ctx, (enum prov_reason)conn->hs_reason);
    }
}

/* The peer has disconnected without VP_CTL_CLOSE. If the queue pair is in the error state, an
 * operation broke the connection; otherwise the peer was killed, or broke its side. */
static void handle_disconnected(struct vp_conn *conn)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;

    if (conn->state == VP_CONN_CLOSING || conn->closed)
        vp_conn_break(conn, is_suspended(conn) ? suspend_reason(conn) : PROV_REASON_CLOSED);
    else if (ibv_query_qp(conn->qp, &attr, IBV_QP_STATE, &init) == 0 &&
             attr.qp_state == IBV_QPS_ERR)
        vp_conn_break(conn, PROV_REASON_BROKEN);
    else
        vp_conn_break(conn, VP_REASON_PROBE);
}

static void handle_handshake_events(struct vp_conn *conn, unsigned int events)
{
    if (events & VP_EV_REQUEST && !(events & VP_EV_HS_FAILED) && !conn->closed)
        report_request(conn);
    if (events & VP_EV_UP)
        vp_conn_up(conn);
    if (events & VP_EV_HS_FAILED && !conn->closed)
        report_handshake_failed(conn, events & VP_EV_REQUEST);
}

void vp_conn_handle_events(struct vp_conn *conn, unsigned int events)
{
    handle_handshake_events(conn, events);
    if (events & VP_EV_LOCAL)
        vp_conn_break(conn, PROV_REASON_LOCAL);
    if (events & VP_EV_QP_ERROR)
        vp_conn_break(conn, PROV_REASON_BROKEN);
    if (events & VP_EV_DISCONNECTED &&
        (conn->state == VP_CONN_UP || conn->state == VP_CONN_CLOSING))
        handle_disconnected(conn);
    if (events & VP_EV_LAST_RECV && !conn->recvs)
        conn->end.drained = true;
    if (events & VP_EV_EVICT)
        request_suspend(conn);
    if (events & VP_EV_VERDICT && conn->state == VP_CONN_FAILING && !vp_reason_is_known(conn))
        vp_conn_set_reason(conn, (enum prov_reason)conn->verdict);
}
