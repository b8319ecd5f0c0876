/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection after its handshake: up, failing, draining, closed. All under the endpoint's lock. A
 * connection that is closed or fails first waits for its last completion; then progress() destroys
 * it.
 */
#include "conn.h"

#include <errno.h>
#include <string.h>

#include "busy.h"
#include "verbs/ports/device.h"
#include "verbs/data/fail.h"
#include "verbs/ports/order.h"
#include "verbs/ports/places.h"
#include "verbs/data/post.h"
#include "probe.h"
#include "verbs/data/qp.h"
#include "verbs/data/queues.h"
#include "reap.h"
#include "verbs/reports.h"
#include "verbs/data/table.h"
#include "way.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/pauses.h"
#include "verbs/wake.h"

enum {
    LAST_RECV_MS = 1000,      /* for the last receives of a queue pair that is in error; */
    LAST_RECV_FIRST_MS = 100, /* of rdma_rxe, where it is not known whether it says so: that of
                               * Linux 6.1 does not, and others may be late */
};

/* An entry of the completion queue is kept for its last request. False, and said once: all are
 * taken. */
static bool take_credit(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;

    if (conn->last == VP_LAST_NONE && vp_ep_take_credit(ep))
        conn->last = VP_LAST_KEPT;
    if (conn->last == VP_LAST_NONE && !ep->told_no_room) {
        ep->told_no_room = true;
        ut_error(VP_CAT,
                 "no room for another connection: a completion queue of %s has %u entries for %u "
                 "of them (UTOFU_NUM_TOQ_ENTRIES adds to it)",
                 ep->port->name, ep->cq_size, ep->credits);
    }
    return conn->last != VP_LAST_NONE;
}

/* Connected: requests may be posted. */
void vp_conn_up(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;
    uint32_t depth = conn->sq_depth, reserve = depth / 8 > 2 ? depth / 8 : 2;

    if (conn->closed || conn->life != VP_YOUNG)
        return;
    bool has_room = take_credit(conn);
    if (!has_room || vp_table_add(ep, conn)) {
        if (has_room)
            ut_error(VP_CAT, "no memory for another connection of %s", ep->port->name);
        conn->life = VP_DOWN;
        ep->made++;
        ep->cb.down(conn->ctx, PROV_REASON_LOCAL);
        return;
    }
    conn->sq_cap = depth - 1;
    conn->sq_app = depth - 1 - reserve;
    UT_ASSERT(conn->sq_app < conn->sq_cap && conn->sq_cap <= conn->sq_mask);
    conn->life = VP_ALIVE;
    conn->unit = vp_weaker_unit(conn->here_unit, conn->there_unit);
    if (conn->unit != VP_UNIT_WHOLE && conn->direct_max > conn->packet)
        conn->direct_max = conn->packet;
    conn->slow_flags = PROV_MORE | PROV_FENCE | PROV_STRONG;
    if (vp_lands_later(ep->prov))
        conn->slow_flags |= PROV_LANDED;
    vp_place_open(conn);
    ep->made++;
    if (conn->active)
        ep->cb.up(conn->ctx, conn->hello, conn->hello_size);
    else
        ep->cb.up(conn->ctx, conn->req.hello, conn->req.kind & VP_REQ_SIZE);
}

/* Skips requests of an unsignalled batch, which end together; returns the cookie of the last. */
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
    conn->ep->retired += at - from;
    return conn->ops[(at - 1) & conn->sq_mask].cookie;
}

__attribute__((hot)) void vp_retire(struct vp_conn *conn, uint32_t upto, enum prov_status status)
{
    struct vp_ep *ep = conn->ep;

    UT_ASSERT(upto - conn->tail <= conn->head - conn->tail);
    while (conn->tail != upto) {
        const struct vp_op *op = &conn->ops[conn->tail & conn->sq_mask];
        if (op->tag == VP_TAG_UNSIGNALLED && status == PROV_OK) {
            uint64_t cookie = skip_unsignalled(conn, upto);
            if (conn->closed)
                continue;
            ep->made++;
            ep->cb.unsignalled_done(conn->ctx, cookie);
            continue;
        }
        uint64_t cookie = op->cookie;
        uint32_t tag = op->tag;
        conn->tail++;
        ep->room++;
        ep->retired++;
        UT_ASSERT(ep->room + ep->credits <= ep->cq_size);
        if (__builtin_expect(vp_tag_bounce(tag), 0))
            ep->bounce_free[ep->bounce_count++] = (uint16_t)(vp_tag_bounce(tag) - 1);
        if (__builtin_expect((tag & (VP_TAG_OURS | VP_TAG_PART)) | conn->closed, 0))
            continue;
        ep->made++;
        ep->cb.done(conn->ctx, cookie, status);
    }
}

static void stop_posting(struct vp_conn *conn)
{
    if (conn->ep->batch == conn)
        vp_flush(conn->ep);
    if (conn->life == VP_FAILING)
        return;                      /* that flush failed */
    conn->sq_app = conn->sq_cap = 0; /* no longer vp_is_postable() */
    conn->end.posted_to = conn->few_until = conn->head;
}

static void suspect(struct vp_conn *conn)
{
    if (conn->end.reason != VP_REASON_UNKNOWN || conn->closed)
        return;
    conn->end.reason = VP_REASON_ASK;
    vp_probe_start(conn);
}

void vp_conn_break(struct vp_conn *conn, int reason)
{
    if (conn->life == VP_YOUNG || conn->life >= VP_DOWN)
        return;
    if (reason != VP_REASON_ASK && (!vp_reason_is_known(conn) || reason == PROV_REASON_LOCAL))
        vp_conn_know_reason(conn, (enum prov_reason)reason);
    if (conn->life != VP_FAILING) {
        if (conn->tail != conn->head && !vp_all_signalled(conn))
            vp_conn_drain_marker(conn, 0); /* its completion comes behind all others */
        stop_posting(conn);
    }
    if (conn->life != VP_FAILING) {
        vp_conn_qp_to_error(conn);
        vp_conn_start_failing(conn);
    }
    if (reason == VP_REASON_ASK)
        suspect(conn);
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
        return PROV_PEER; /* changed if the probe finds the peer alive */
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

    /* Soft-RoCE reports this also when the network device below it was switched off */
    if (wc->status == IBV_WC_LOC_QP_OP_ERR && !vp_port_is_active(conn->ep->port))
        status = PROV_FLUSHED;
    if (vp_conn_note_error(conn, seq, status))
        vp_retire(conn, conn->end.err_seq, PROV_OK);
    if (status == PROV_FLUSHED && conn->life == VP_FAILING)
        return; /* as all requests of a queue pair that fails */
    if (status == PROV_FAILED)
        ut_error(VP_CAT, "a request failed: %s (vendor code 0x%x), on %s",
                 ibv_wc_status_str(wc->status), wc->vendor_err, conn->ep->port->name);
    else
        ut_debug(VP_CAT, "queue pair %u, request %u: %s", conn->qp->qp_num, seq,
                 ibv_wc_status_str(wc->status));
    if (conn->life == VP_ALIVE || conn->life == VP_LEAVING) {
        stop_posting(conn);
        if (conn->life != VP_FAILING)
            vp_conn_start_failing(conn);
    }
    if (status == PROV_PEER)
        suspect(conn);
    else if (conn->end.reason == VP_REASON_UNKNOWN)
        vp_conn_know_reason(conn, PROV_REASON_BROKEN);
}

/* Reports the requests that are left, and calls down(). Those before one that failed are executed:
 * the device has reported whichever was not, unless it is stuck. */
static void finish(struct vp_conn *conn)
{
    bool gone = conn->end.reason == PROV_REASON_PEER_DEAD || conn->end.reason == PROV_REASON_SILENT;
    enum prov_status first = PROV_FLUSHED;

    if (conn->end.err_status && conn->tail != conn->head && !conn->end.stuck)
        vp_retire(conn, conn->end.err_seq, PROV_OK);
    if (conn->end.err_status && conn->tail == conn->end.err_seq)
        first = (enum prov_status)conn->end.err_status;
    if (first == PROV_FLUSHED || first == PROV_PEER)
        first = gone ? PROV_PEER : PROV_FLUSHED;
    if (conn->tail != conn->head)
        vp_retire(conn, conn->tail + 1, first);
    vp_retire(conn, conn->head, PROV_FLUSHED);
    vp_expect_no_reports(conn);
    conn->life = VP_DOWN;
    if (conn->closed)
        return;
    conn->ep->made++;
    conn->ep->cb.down(conn->ctx, (enum prov_reason)conn->end.reason);
}

/*
 * Resting: a connection is closed because its place is wanted, and opened again when either side
 * has something to send. Nothing of it may be outstanding then: requests that are flushed would be
 * repeated, and some executed twice.
 *   asks              ASK (MUST) ->   the peer goes on with its requests until then
 *                     <- KEEP         and from here on again; or
 *                     <- REST         has no more requests, and all of them have ended; both stop
 *   ends its own      REST ->         and when this is acknowledged both know that all has arrived
 * Both may ask at once, or post meanwhile.
 */
static void begin_rest(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;

    stop_posting(conn);
    if (conn->life == VP_FAILING)
        return;
    if (conn->end.rest == VP_REST_NONE)
        conn->end.rest = VP_REST_PLACE;
    conn->life = VP_LEAVING;
    conn->end.deadline = ut_clock_ms() + ep->prov->config.peer_timeout_ms;
    vp_place_ends(conn);
    vp_conn_tend(conn);
    vp_ep_wake_later(ep, conn->end.deadline);
}

static enum prov_reason why_resting(const struct vp_conn *conn)
{
    return conn->end.rest == VP_REST_GROWS ? PROV_REASON_GROWS : PROV_REASON_RESTS;
}

/* Both ends have said that nothing is outstanding: at most our REST is not acknowledged. */
static bool has_rested(const struct vp_conn *conn)
{
    return conn->end.rest && conn->last == VP_LAST_POSTED && conn->end.peer_rests;
}

/* The next step of resting. */
static void tend_resting(struct vp_conn *conn, bool late)
{
    if (late) {
        vp_conn_break(conn, conn->closed ? PROV_REASON_CLOSED : VP_REASON_ASK);
    } else if (conn->tail != conn->head) {
        if (!vp_all_signalled(conn))
            vp_post_report(conn);
    } else if (conn->last != VP_LAST_POSTED) {
        vp_conn_drain_marker(conn, VP_CTL_REST);
    } else if (conn->end.peer_rests || conn->closed) {
        vp_conn_know_reason(conn, why_resting(conn));
        finish(conn);
    }
}

/* What the peer's requests have not used since the last look may rest. */
static void asked_to_rest(struct vp_conn *conn, bool must)
{
    pthread_mutex_lock(&conn->ep->prov->lock);
    bool keeps = !must && vp_place_look_locked(conn);
    pthread_mutex_unlock(&conn->ep->prov->lock);
    if (!keeps) {
        begin_rest(conn);
        return;
    }
    vp_post_control(conn, VP_CTL_KEEP); /* no room: that it is silent says the same */
    conn->mark = conn->head;
}

/* Its place is wanted. A peer that has not answered that it must is not asked once more, as it may
 * be stopped, and others would wait for as long: it gets the time of one that rests. */
static void ask_to_rest(struct vp_conn *conn)
{
    enum vp_place_plea plea = vp_place_plea(conn);

    if (plea == VP_PLEA_NONE)
        return;
    if (plea == VP_PLEA_MUST && conn->end.asked == VP_ASKED_MUST) {
        begin_rest(conn);
        return;
    }
    if (!vp_post_control(conn, plea == VP_PLEA_MUST ? VP_CTL_MUST : VP_CTL_ASK))
        vp_place_kept(conn);
    else if (plea == VP_PLEA_MUST)
        conn->end.asked = VP_ASKED_MUST;
    if (conn->end.asked == VP_ASKED_NOT)
        conn->end.asked = VP_ASKED_MAY;
    conn->mark = conn->head;
}

/* A send queue that is too short: no device can be relied on to make it longer (IBV_QP_CAP), so the
 * connection is made anew. Where places are short it is longer when the connection is made the next
 * time. */
static void get_longer(struct vp_conn *conn)
{
    conn->errand = VP_ERRAND_NONE;
    vp_sq_lengthen(conn->ep, conn->active ? conn->req.target_id : conn->req.origin_id);
    if (!vp_place_is_spare(conn))
        return;
    conn->end.rest = VP_REST_GROWS;
    begin_rest(conn);
}

/* One that was not asked wants a longer send queue. */
static void peer_rests(struct vp_conn *conn)
{
    conn->end.peer_rests = true;
    if (conn->life == VP_ALIVE && !conn->closed) {
        conn->end.rest = conn->end.asked ? VP_REST_PLACE : VP_REST_GROWS;
        begin_rest(conn);
    } else if (conn->life == VP_LEAVING) {
        vp_conn_tend(conn);
    }
}

/* The peer closes its side in order: no more requests, but what is in flight may still arrive. */
static void peer_leaves(struct vp_conn *conn)
{
    if (conn->life == VP_LEAVING && conn->end.rest)
        peer_rests(conn);
    if (conn->life != VP_ALIVE)
        return;
    if (!conn->closed) {
        if (conn->tail != conn->head && !vp_all_signalled(conn))
            vp_conn_drain_marker(conn, 0);
        stop_posting(conn);
    }
    if (conn->life == VP_FAILING)
        return;
    conn->life = VP_LEAVING;
    conn->end.deadline = ut_clock_ms() + UT_PARTING_MS;
    vp_conn_tend(conn);
    vp_ep_wake_later(conn->ep, conn->end.deadline);
}

void vp_conn_told(struct vp_conn *conn, uint32_t control)
{
    switch (control) {
    case VP_CTL_BYE:
        peer_leaves(conn);
        break;
    case VP_CTL_ASK:
    case VP_CTL_MUST:
        if (conn->life == VP_ALIVE && !conn->closed)
            asked_to_rest(conn, control == VP_CTL_MUST);
        break;
    case VP_CTL_KEEP:
        if (conn->end.asked == VP_ASKED_MAY)
            conn->end.asked = VP_ASKED_NOT;
        vp_place_kept(conn);
        break;
    case VP_CTL_REST:
        peer_rests(conn);
        break;
    default: /* of no version of this library */
        ut_debug(VP_CAT, "a control message with %#x", control);
    }
}

static bool is_drained(const struct vp_conn *conn)
{
    return conn->end.completed_to == conn->end.posted_to || conn->tail == conn->end.posted_to ||
           conn->end.stuck;
}

/* Hands it to progress(), which destroys it. */
static void hand_over(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;
    struct vp_prov *prov = ep->prov;

    vp_table_remove(ep, conn);
    vp_list_remove(&conn->tend_link);
    if (ep->batch == conn)
        vp_flush(ep);
    if (conn->last == VP_LAST_KEPT)
        vp_ep_give_credit(ep);
    conn->last = VP_LAST_NONE;
    pthread_mutex_lock(&prov->lock);
    vp_cm_abandon_locked(conn);
    pthread_mutex_unlock(&prov->lock);
}

/*
 * The end of a queue pair. Receives that it has taken off the shared queue, and completions that
 * nobody has polled, may go with it: each would be missing for ever. So it is put into the error
 * state first; then the device reports what it had taken, and says LAST_WQE_REACHED; what is in the
 * completion queue by then is polled; and only then it is destroyed. A device that never says so is
 * waited for once. A receive queue of its own is empty when all that was posted has completed, and
 * its entries of the completion queue are free for others.
 */
enum end { END_BEGUN, END_LATER, END_NOT_NEEDED };

/* How long its last receive is waited for: see vp_device.last_wqe, which prov->lock guards. */
static unsigned int last_recv_ms(const struct vp_conn *conn)
{
    const struct vp_device *dev = conn->ep->port->dev;

    if (conn->recvs)
        return LAST_RECV_MS;
    if (dev->last_wqe == VP_LAST_WQE_NEVER)
        return 0;
    return dev->last_wqe == VP_LAST_WQE_UNKNOWN && dev->attr.vendor_id == VP_VENDOR_RXE
               ? LAST_RECV_FIRST_MS
               : LAST_RECV_MS;
}

static enum end begin_end(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;
    unsigned int wait = 0;

    if (ep->closing || ep->port->dev->gone) /* the queues go too */
        return END_NOT_NEEDED;
    pthread_mutex_lock(&ep->prov->lock);
    bool busy = conn->hs.busy;
    bool needed = !busy && conn->qp_state >= IBV_QPS_RTR && (!conn->active || conn->phase == VP_UP);
    if (needed) {
        vp_handshake_unlink(conn);
        vp_place_ends_locked(conn);
        wait = last_recv_ms(conn);
    }
    pthread_mutex_unlock(&ep->prov->lock);
    if (!needed)
        return busy ? END_LATER : END_NOT_NEEDED;
    if (conn->recvs && !conn->in_table && vp_table_add(ep, conn))
        return END_NOT_NEEDED;
    conn->life = VP_ENDING;
    vp_conn_qp_to_error(conn);
    conn->end.deadline = ut_clock_ms() + wait;
    vp_ep_wake_later(ep, conn->end.deadline);
    return END_BEGUN;
}

/* The device has not said that it is done: what has come by now is polled, and that is all. */
static void end_wait(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;
    struct vp_device *dev = ep->port->dev;

    conn->end.deadline = UINT64_MAX;
    pthread_mutex_lock(&ep->prov->lock);
    if (dev->last_wqe == VP_LAST_WQE_UNKNOWN)
        dev->last_wqe = VP_LAST_WQE_NEVER;
    bool given_up = dev->last_wqe == VP_LAST_WQE_RAISED;
    vp_post_event_locked(conn, VP_EV_LAST_RECV);
    pthread_mutex_unlock(&ep->prov->lock);
    if (!given_up)
        return;
    ep->given_up++;
    ut_warn(VP_CAT, "queue pair %u did not report its last receive (%u so far on this endpoint)",
            conn->qp->qp_num, ep->given_up);
}

static bool has_ended(struct vp_conn *conn, bool late)
{
    if (conn->ep->closing || conn->ep->port->dev->gone)
        return true;
    if (conn->recvs) {
        conn->end.drained = conn->recvs->completed == conn->recvs->posted;
        return conn->end.drained || late;
    }
    if (!conn->end.drained && late)
        end_wait(conn);
    return conn->end.drained;
}

/* Of a closed connection that is down, or never was up: it may be handed over. */
static bool ends(struct vp_conn *conn, uint64_t now)
{
    if (conn->life != VP_ENDING) {
        enum end end = begin_end(conn);
        if (end != END_BEGUN)
            return end == END_NOT_NEEDED;
    }
    return has_ended(conn, now >= conn->end.deadline);
}

/* Nobody says that the peer's process has ended (see way.h). As long as it lives, its adapter
 * answers an empty write, even where the process does not run. That this was posted is no use of
 * the connection, which may rest. */
static void ask_for_sign(struct vp_conn *conn)
{
    bool unused = conn->mark == conn->head;

    conn->errand = VP_ERRAND_NONE;
    if (conn->life != VP_ALIVE || conn->closed || conn->tail != conn->head)
        return;
    vp_post_report(conn);
    conn->head_seen = conn->head;
    if (unused)
        conn->mark = conn->head;
}

static void end_stall(struct vp_conn *conn)
{
    uint32_t head = conn->head;

    conn->errand = VP_ERRAND_NONE;
    if (!vp_all_signalled(conn))
        vp_post_report(conn);
    if (conn->head != head) /* else its send queue is full, too, or all are signalled */
        return;
    ut_warn(VP_CAT, "queue pair %u has stalled: its connection is made anew", conn->qp->qp_num);
    vp_conn_break(conn, VP_REASON_ASK);
}

/* One that is up, or leaves: whether it has an errand, rests, or only waits for what is outstanding
 * behind a goodbye. */
static void tend_open(struct vp_conn *conn, bool late)
{
    if (conn->errand == VP_ERRAND_STALL) {
        end_stall(conn);
    } else if (conn->errand == VP_ERRAND_SIGN) {
        ask_for_sign(conn);
    } else if (conn->errand == VP_ERRAND_LENGTH && conn->life == VP_ALIVE && !conn->closed) {
        get_longer(conn);
    } else if (conn->end.rest) {
        tend_resting(conn, late);
    } else if (conn->tail == conn->head) {
        vp_conn_know_reason(conn, PROV_REASON_CLOSED);
        finish(conn);
    } else if (late) {
        vp_conn_break(conn, PROV_REASON_CLOSED);
    }
}

static void tend_failing(struct vp_conn *conn, bool late)
{
    if (late && !is_drained(conn)) {
        ut_warn(VP_CAT, "queue pair %u did not report its last requests", conn->qp->qp_num);
        conn->end.stuck = true;
    }
    if (is_drained(conn) && (conn->closed || (vp_reason_is_known(conn) && conn->end.delivered)))
        finish(conn);
}

/* The next step of a connection that closes, fails or has an errand. May call back; false: the
 * connection is gone. */
static bool tend_one(struct vp_conn *conn, uint64_t now)
{
    bool late = now >= conn->end.deadline;

    if (conn->life == VP_ALIVE || conn->life == VP_LEAVING)
        tend_open(conn, late);
    else if (conn->life == VP_FAILING)
        tend_failing(conn, late);
    if (!conn->closed || (conn->life < VP_DOWN && conn->life != VP_YOUNG) || !ends(conn, now))
        return true;
    hand_over(conn);
    return false;
}

/*
 * A queue pair has stalled if its oldest request is the same as at the last look, which was longer
 * ago than the device's retransmissions may take. It is broken and made anew. Soft-RoCE sometimes
 * stops retransmitting on links that lose packets; no other device is known to. Unsignalled
 * requests look the same until a signalled one behind them completes.
 */
void vp_look_for_stalls(struct vp_ep *ep)
{
    uint64_t now = ut_clock_ms();
    bool asks = !ep->port->way->tells_of_deaths && now >= ep->signs_at;

    if (asks)
        ep->signs_at = now + ep->prov->config.peer_timeout_ms / 2;
    pthread_mutex_lock(&ep->prov->lock);
    for (struct vp_list *l = ep->conns.next; l != &ep->conns; l = l->next) {
        struct vp_conn *conn = vp_container_of(l, struct vp_conn, ep_link);
        if (conn->life != VP_ALIVE || conn->closed || !vp_is_postable(conn))
            continue;
        bool stalls = conn->tail != conn->head && conn->tail == conn->tail_seen &&
                      conn->tail != conn->head_seen;
        if (stalls && conn->errand == VP_ERRAND_NONE) {
            conn->errand = VP_ERRAND_STALL;
            vp_conn_tend(conn);
        } else if (asks && conn->errand == VP_ERRAND_NONE && conn->tail == conn->head &&
                   conn->head == conn->head_seen) {
            conn->errand = VP_ERRAND_SIGN;
            vp_conn_tend(conn);
        }
        conn->tail_seen = conn->tail;
        conn->head_seen = conn->head;
        vp_place_look_locked(conn);
    }
    pthread_mutex_unlock(&ep->prov->lock);
}

/* Nothing arrives any more on those that fail by now. The peer knows what has arrived, and does not
 * send it again: so it is delivered before down(). */
void vp_tend_begin(struct vp_ep *ep)
{
    for (struct vp_list *l = ep->tending.next; l != &ep->tending; l = l->next) {
        struct vp_conn *conn = vp_container_of(l, struct vp_conn, tend_link);
        conn->end.delivered = conn->life == VP_FAILING;
    }
}

void vp_tend_all(struct vp_ep *ep)
{
    struct vp_list todo;
    uint64_t now = ut_clock_ms();

    /* callbacks may add to the list */
    vp_list_init(&todo);
    while (!vp_list_empty(&ep->tending))
        vp_list_append(&todo, ep->tending.next);
    while (!vp_list_empty(&todo)) {
        struct vp_conn *conn = vp_container_of(todo.next, struct vp_conn, tend_link);
        vp_list_remove(&conn->tend_link);
        if (tend_one(conn, now) &&
            (conn->closed || (conn->life != VP_DOWN && conn->life != VP_ALIVE)))
            vp_conn_tend(conn);
    }
}

void vp_conn_close(struct prov_conn *base)
{
    struct vp_conn *conn = vp_conn(base);

    if (conn->closed)
        return;
    conn->closed = true;
    if (conn->life == VP_ALIVE) {
        vp_conn_drain_marker(conn, VP_CTL_BYE);
        stop_posting(conn);
        if (conn->life == VP_ALIVE) {
            conn->end.deadline = ut_clock_ms() + conn->ep->prov->config.peer_timeout_ms;
            vp_ep_wake_later(conn->ep, conn->end.deadline);
        }
    }
    /* inside ep_poll() a caller up the stack may still use it */
    if (conn->ep->polling || tend_one(conn, ut_clock_ms()))
        vp_conn_tend(conn);
}

bool vp_any_order(struct prov_conn *base)
{
    const struct vp_conn *conn = vp_conn(base);

    if (conn->life == VP_YOUNG) /* not up yet: what its device and the peer say */
        return vp_unit_of(conn->ep->port->dev) != VP_UNIT_WHOLE ||
               conn->there_unit != VP_UNIT_WHOLE;
    return conn->unit != VP_UNIT_WHOLE;
}

int vp_accept(struct prov_conn *base, const void *hello, size_t hello_size, void *ctx)
{
    struct vp_conn *conn = vp_conn(base);
    struct vp_prov *prov = conn->ep->prov;

    if (hello_size > PROV_HELLO_MAX)
        return -EINVAL;
    if (!take_credit(conn)) {
        conn->refusal = VP_REFUSED_BUSY;
        vp_conn_close(base);
        return -EAGAIN;
    }
    conn->ctx = ctx;
    conn->sq_depth = vp_sq_depth(conn->ep, conn->req.origin_id);
    conn->hello_size = (uint8_t)hello_size;
    if (hello_size)
        memcpy(conn->hello, hello, hello_size);
    pthread_mutex_lock(&prov->lock);
    conn->hs.answered = true;
    if (conn->phase == VP_REQUESTED) {
        conn->phase = VP_ACCEPTING;
        vp_list_append(&prov->accepts, &conn->hs.link);
    } else {
        /* the origin gave up meanwhile */
        vp_post_event_locked(conn, VP_EV_OVER);
    }
    pthread_mutex_unlock(&prov->lock);
    vp_kick(prov);
    return 0;
}

void vp_reject(struct prov_conn *conn)
{
    vp_conn_close(conn);
}

static void hear_request(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;

    ep->made++;
    ep->cb.request(ep->owner, &ep->prov->base, (struct prov_conn *)conn, conn->req.origin_id,
                   conn->req.hello, conn->req.kind & VP_REQ_SIZE);
}

/* The handshake has failed; `unheard`: before request() was called. One that the core has not
 * answered yet is down when accept() is called. */
static void hear_over(struct vp_conn *conn, bool unheard)
{
    if (unheard) {
        conn->closed = true;
        vp_conn_tend(conn);
    } else if (conn->active || conn->hs.answered) {
        conn->life = VP_DOWN;
        conn->ep->made++;
        conn->ep->cb.down(conn->ctx, (enum prov_reason)conn->hs_reason);
    }
}

/* The peer's side is gone. Without a goodbye: a queue pair that is broken here was broken by an
 * operation; else the peer was killed, or broke its own side. */
static void hear_disconnected(struct vp_conn *conn)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;

    if (conn->life == VP_LEAVING || conn->closed)
        vp_conn_break(conn, has_rested(conn) ? why_resting(conn) : PROV_REASON_CLOSED);
    else if (ibv_query_qp(conn->qp, &attr, IBV_QP_STATE, &init) == 0 &&
             attr.qp_state == IBV_QPS_ERR)
        vp_conn_break(conn, PROV_REASON_BROKEN);
    else
        vp_conn_break(conn, VP_REASON_ASK);
}

/* What was said of the handshake. */
static void handle_handshake(struct vp_conn *conn, unsigned int events)
{
    if (events & VP_EV_REQUEST && !(events & VP_EV_OVER) && !conn->closed)
        hear_request(conn);
    if (events & VP_EV_UP)
        vp_conn_up(conn);
    if (events & VP_EV_OVER && !conn->closed)
        hear_over(conn, events & VP_EV_REQUEST);
}

void vp_conn_handle(struct vp_conn *conn, unsigned int events)
{
    handle_handshake(conn, events);
    if (events & VP_EV_LOCAL)
        vp_conn_break(conn, PROV_REASON_LOCAL);
    if (events & VP_EV_QP_ERROR)
        vp_conn_break(conn, PROV_REASON_BROKEN);
    if (events & VP_EV_DISCONNECTED && (conn->life == VP_ALIVE || conn->life == VP_LEAVING))
        hear_disconnected(conn);
    if (events & VP_EV_LAST_RECV && !conn->recvs)
        conn->end.drained = true;
    if (events & VP_EV_PLACE)
        ask_to_rest(conn);
    if (events & VP_EV_VERDICT && conn->life == VP_FAILING && !vp_reason_is_known(conn))
        vp_conn_know_reason(conn, (enum prov_reason)conn->verdict);
}
