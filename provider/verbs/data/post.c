/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posting: writes, reads, atomics and messages become work requests, without a malloc, lock or
 * system call of this library. Every request takes an entry of the connection's ring and one
 * completion-queue entry, since failed requests complete whether signalled or not.
 */
#include "post.h"

#include <errno.h>
#include <endian.h>
#include <string.h>

#include "qp.h"
#include "verbs/ports/order.h"
#include "queues.h"
#include "verbs/signalled.h"
#include "util/assert.h"
#include "util/log.h"

enum { MAX_TIMES_FULL = 16 }; /* after so many times the send queue counts as too short */

#define ALWAYS_INLINE static inline __attribute__((always_inline))

static void build_wr(struct ibv_qp_ex *qpx, const struct ibv_send_wr *wr)
{
    qpx->wr_id = wr->wr_id;
    qpx->wr_flags = wr->send_flags; /* rxe needs IBV_SEND_INLINE here too */
    switch (wr->opcode) {
    case IBV_WR_RDMA_WRITE:
        ibv_wr_rdma_write(qpx, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
        break;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        ibv_wr_rdma_write_imm(qpx, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
        break;
    case IBV_WR_RDMA_READ:
        ibv_wr_rdma_read(qpx, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
        break;
    case IBV_WR_SEND:
        ibv_wr_send(qpx);
        break;
    case IBV_WR_SEND_WITH_IMM:
        ibv_wr_send_imm(qpx, wr->imm_data);
        break;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        ibv_wr_atomic_fetch_add(qpx, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
                                wr->wr.atomic.compare_add);
        break;
    default: /* IBV_WR_ATOMIC_CMP_AND_SWP, the only other opcode used */
        ibv_wr_atomic_cmp_swp(qpx, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
                              wr->wr.atomic.compare_add, wr->wr.atomic.swap);
    }
    if (!wr->num_sge)
        ibv_wr_set_sge_list(qpx, 0, NULL);
    else if (wr->send_flags & IBV_SEND_INLINE)
        ibv_wr_set_inline_data(qpx, (void *)(uintptr_t)wr->sg_list->addr, wr->sg_list->length);
    else
        ibv_wr_set_sge(qpx, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
}

/* Unsignalled requests before the one that the device did not accept may have completed without
 * a completion. The device flushes an empty write in its place, whose completion follows all of
 * them. */
static void post_flush_marker(struct vp_conn *conn, uint32_t seq)
{
    struct ibv_send_wr wr = {.wr_id = (uintptr_t)&conn->ops[seq & conn->sq_mask],
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    int rc;

    if (conn->qpx) {
        ibv_wr_start(conn->qpx);
        build_wr(conn->qpx, &wr);
        rc = ibv_wr_complete(conn->qpx);
    } else {
        rc = ibv_post_send(conn->qp, &wr, &bad);
    }
    if (rc == 0)
        conn->end.posted_end = seq + 1; /* otherwise the earlier requests time out */
}

static void __attribute__((noinline, cold)) post_failed(struct vp_conn *conn, uint32_t seq, int rc)
{
    ut_error(VP_CAT, "posting to queue pair %u failed: %s", conn->qp->qp_num, strerror(rc));
    if (vp_conn_post_failed(conn, seq, PROV_FAILED) && conn->tail != seq)
        post_flush_marker(conn, seq);
}

static void __attribute__((noinline)) complete_failed(struct ibv_qp_ex *qpx, int rc)
{
    struct vp_conn *conn = qpx->qp_base.qp_context;

    post_failed(conn, conn->head - 1, rc);
}

/* Rings the doorbell for the last request. */
ALWAYS_INLINE void complete_wr(struct ibv_qp_ex *qpx)
{
    int rc = ibv_wr_complete(qpx);

    if (__builtin_expect(rc, 0))
        complete_failed(qpx, rc);
}

/* Rings one doorbell for the list, whose first request has number `seq`. */
static void ring_doorbell(struct vp_conn *conn, struct ibv_send_wr *list, uint32_t seq)
{
    int rc;

    if (conn->qpx) {
        ibv_wr_start(conn->qpx);
        for (const struct ibv_send_wr *wr = list; wr; wr = wr->next)
            build_wr(conn->qpx, wr);
        rc = ibv_wr_complete(conn->qpx); /* the device accepts all or none */
    } else {
        struct ibv_send_wr *bad = NULL;
        rc = ibv_post_send(conn->qp, list, &bad);
        for (struct ibv_send_wr *wr = list; rc && wr && wr != bad; wr = wr->next)
            seq++;
    }
    if (__builtin_expect(rc, 0))
        post_failed(conn, seq, rc);
}

/* Posts the open batch to the device. */
static void post_batch(struct vp_ep *ep)
{
    struct vp_conn *conn = ep->batch;

    UT_ASSERT(ep->batch_length > 0 && ep->batch_length <= VP_BATCH_MAX);
    ep->batch = NULL;
    ep->room_inline = ep->room_signal;
    ep->chain[ep->batch_length - 1].wr.next = NULL;
    ring_doorbell(conn, &ep->chain[0].wr, conn->batch_first);
}

void vp_batch_flush(struct vp_ep *ep)
{
    if (ep->batch)
        post_batch(ep);
}

void vp_ep_flush(struct prov_ep *ep)
{
    vp_batch_flush(vp_ep(ep));
}

/* Copies a request and its inline data into the open batch, so that the caller may overwrite
 * both. */
static void append_to_batch(struct vp_ep *ep, const struct ibv_send_wr *wr)
{
    struct vp_batched *link = &ep->chain[ep->batch_length++];

    link->wr = *wr;
    if (wr->num_sge) {
        link->sge = *wr->sg_list;
        link->wr.sg_list = &link->sge;
        if (wr->send_flags & IBV_SEND_INLINE) {
            memcpy(link->data, (void *)(uintptr_t)wr->sg_list->addr, wr->sg_list->length);
            link->sge.addr = (uintptr_t)link->data;
        }
    }
    if (link > ep->chain)
        link[-1].wr.next = &link->wr;
}

static void batch_or_post(struct vp_conn *conn, struct ibv_send_wr *wr, bool more)
{
    struct vp_ep *ep = conn->ep;

    if (__builtin_expect(ep->batch && ep->batch != conn, 0))
        post_batch(ep);
    if (!ep->batch) {
        if (!more) {
            ring_doorbell(conn, wr, conn->head - 1);
            return;
        }
        ep->batch = conn;
        ep->room_inline = UINT32_MAX;
        ep->needs_slow_poll = true;
        ep->batch_length = 0;
        conn->batch_first = conn->head - 1;
    }
    append_to_batch(ep, wr);
    if (ep->batch_length == VP_BATCH_MAX || !more)
        post_batch(ep);
}

/* Takes the next entry of the ring. */
ALWAYS_INLINE uintptr_t take_ring_entry(struct vp_conn *conn, uint64_t cookie, uint32_t tag)
{
    struct vp_op *op = &conn->ops[conn->head & conn->sq_mask];

    UT_ASSERT(conn->head - conn->tail <= conn->sq_mask && conn->ep->room > 0);
    op->cookie = cookie;
    op->tag = tag;
    conn->head++;
    conn->ep->room--;
    if (tag != VP_TAG_UNSIGNALLED)
        conn->unsignalled_from = conn->head;
    return (uintptr_t)op;
}

/* Returns IBV_SEND_SIGNALED if `soon`, or if the last signalled request is long ago; otherwise 0.
 */
ALWAYS_INLINE unsigned int signal_flag(struct vp_conn *conn, bool soon)
{
    if (__builtin_expect(!soon && conn->head != conn->signal_due, 0))
        return 0;
    vp_count_signalled(conn);
    return IBV_SEND_SIGNALED;
}

static void post_request(struct vp_conn *conn, struct ibv_send_wr *wr, unsigned int flags,
                         uint64_t cookie, uint32_t tag)
{
    const struct vp_ep *ep = conn->ep;

    wr->wr_id = take_ring_entry(conn, cookie, tag);
    wr->send_flags |= signal_flag(conn, (flags & (PROV_SIGNAL | PROV_SIGNAL_SRC)) ||
                                            ep->room < ep->room_signal || vp_tag_bounce(tag));
    if (flags & PROV_FENCE)
        wr->send_flags |= IBV_SEND_FENCE;
    wr->next = NULL;
    batch_or_post(conn, wr, flags & PROV_MORE);
}

/* Counts how often the send queue was full, at most once in sq_xfer_max requests. */
static void count_full_queue(struct vp_conn *conn)
{
    if (conn->head - conn->last_full_head < conn->sq_xfer_max)
        return;
    conn->last_full_head = conn->head;
    if (conn->action != VP_ACTION_NONE || ++conn->times_full != MAX_TIMES_FULL)
        return;
    conn->action = VP_ACTION_LONGER_SQ;
    vp_conn_schedule_service(conn);
}

static int __attribute__((noinline, cold)) handle_no_room(struct vp_conn *conn)
{
    if (!vp_is_postable(conn)) /* the core may post right after accept() */
        return conn->state == VP_CONN_NEW && conn->hs.accepted ? -EAGAIN : -ENOTCONN;
    vp_batch_flush(conn->ep); /* requests of an open batch would never complete */
    if (conn->sq_depth < conn->ep->sq_depth && conn->head - conn->tail >= conn->sq_xfer_max)
        count_full_queue(conn);
    return -EAGAIN;
}

/* Checks for fewer than sq_limit outstanding requests, and more than cq_reserve free entries of the
 * completion queue. */
static inline int check_room(struct vp_conn *conn, uint32_t sq_limit, uint32_t cq_reserve)
{
    if (__builtin_expect(conn->head - conn->tail >= sq_limit || conn->ep->room <= cq_reserve, 0))
        return handle_no_room(conn);
    return 0;
}

/* The request consumes a receive at the peer. Every VP_SOLICIT_EVERY-th request is solicited: it
 * wakes a sleeping peer before its receives are used up. */
static unsigned int solicited_flag(struct vp_conn *conn, unsigned int flags)
{
    if ((flags & PROV_SOLICITED) || ++conn->unsolicited >= VP_SOLICIT_EVERY) {
        conn->unsolicited = 0;
        return IBV_SEND_SOLICITED;
    }
    return 0;
}

/* Copies data to a bounce buffer, since the device may read it after the call, and points `sge` at
 * the copy. */
static bool bounce_copy(struct vp_ep *ep, struct ibv_sge *sge, const void *data, size_t size,
                        uint32_t *tag)
{
    if (!ep->bounce_count) {
        vp_batch_flush(ep);
        return false;
    }
    UT_ASSERT(ep->bounce_count <= VP_BOUNCE_SLOTS);
    uint32_t n = ep->bounce_free[--ep->bounce_count];
    uint8_t *copy = ep->bounce_slab + (size_t)n * PROV_MSG_MAX;
    memcpy(copy, data, size);
    sge->addr = (uintptr_t)copy;
    sge->lkey = ep->bounce_mr->lkey;
    *tag |= (n + 1) << VP_TAG_BOUNCE_SHIFT;
    return true;
}

/* A transfer that is posted as several requests behind one doorbell; only the last request is
 * reported. */
struct parts {
    const struct ibv_send_wr *whole;
    const struct prov_xfer *xfer;
    uint32_t flags, tag;          /* of the last request */
    uint32_t head;                /* size of the first part, if it is a separate request */
    uint32_t tail;                /* size of the last part, if it is a separate request */
    uint32_t num;                 /* number of requests for the data */
    uint32_t more;                /* requests except the last, with those of post_flush_read() */
    uint32_t done;                /* bytes already posted */
    bool first_waits, tail_waits; /* waits for all earlier requests: see post_flush_read() */
    bool flush_after;             /* a read follows the write: see vp_needs_read_flush() */
    bool notice_separate;         /* the notice is a separate request after the data */
};

static bool is_write(const struct parts *p)
{
    return p->whole->opcode != IBV_WR_RDMA_READ;
}

static bool has_notice(const struct parts *p)
{
    return p->whole->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* Splits a transfer as described in order.h. Writes with immediate data do not use adaptive
 * routing. So a short write with a notice stays whole, and a longer write with a notice becomes a
 * plain write and an empty write with the immediate data. */
static void split_by_order(const struct vp_conn *conn, struct parts *p)
{
    const struct prov_xfer *x = p->xfer;
    bool strong = x->flags & PROV_STRONG_ORDER;

    p->notice_separate = has_notice(p) && !strong && x->length > conn->packet &&
                         x->length >= conn->ep->notice_apart && conn->ep->notice_apart;
    if (has_notice(p) && !strong && !p->notice_separate)
        return;
    struct vp_order_split split =
        vp_split_by_order((enum vp_unit)conn->unit, is_write(p) ? x->rmt : (uintptr_t)x->lcl,
                          x->length, conn->packet, strong);
    p->head = split.head;
    p->tail = split.tail;
    p->tail_waits = split.tail != 0;
}

/* True for a write that the core splits over several connections. */
static bool is_split_by_core(const struct vp_conn *conn, const struct parts *p)
{
    return is_write(p) && conn->split_threshold && p->xfer->length >= conn->split_threshold &&
           !(p->xfer->flags & PROV_NO_SPLIT);
}

/* Determines the parts of a transfer, and which of them wait. Several requests use a doorbell of
 * their own. Negative: there is no room for them, or the connection fails. */
static int __attribute__((noinline)) plan_parts(struct vp_conn *conn, struct parts *p)
{
    struct vp_ep *ep = conn->ep;
    uint32_t max = ep->max_msg;

    if (is_split_by_core(conn, p))
        return -EMSGSIZE;
    if (conn->unit != VP_UNIT_WHOLE)
        split_by_order(conn, p);
    uint32_t middle = p->xfer->length - p->head - p->tail;
    p->num = (p->head != 0) + (middle ? (middle - 1) / max + 1 : 0) + (p->tail != 0);
    p->first_waits = conn->unit != VP_UNIT_WHOLE && (p->xfer->flags & PROV_STRONG_ORDER) &&
                     is_write(p) && p->xfer->length && conn->tail != conn->head;
    if (p->num > VP_PARTS_MAX) {
        ut_error(VP_CAT, "a transfer of %u bytes exceeds the maximum of %s", p->xfer->length,
                 ep->port->name);
        return -EIO;
    }
    p->flush_after = is_write(p) && p->xfer->length &&
                     (p->xfer->flags & conn->slow_flags & PROV_DELIVERY_COMPLETE);
    p->more = (p->num > 1 ? p->num - 1 : 0) + p->first_waits + (p->tail_waits && is_write(p)) +
              p->notice_separate + p->flush_after;
    if (!p->more)
        return 0;
    vp_batch_flush(ep); /* may take the connection down, which ends posting */
    if (!vp_is_postable(conn))
        return -ENOTCONN;
    return check_room(conn, conn->sq_xfer_max - p->more, ep->room_msgs + p->more);
}

/* Posts a read whose completion means that all earlier writes are placed, so that a fenced write
 * can follow: the response to the read comes after those to earlier requests, and its PCIe read
 * pushes their data into memory. */
static void post_flush_read(struct vp_conn *conn, const struct parts *p, unsigned int flags,
                            uint64_t cookie, uint32_t tag)
{
    const struct vp_ep *ep = conn->ep;
    struct ibv_sge sge = {.addr = (uintptr_t)ep->bounce_slab + VP_BOUNCE_SLOTS * PROV_MSG_MAX,
                          .length = 1,
                          .lkey = ep->bounce_mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ};

    wr.wr.rdma.remote_addr = p->whole->wr.rdma.remote_addr;
    wr.wr.rdma.rkey = p->whole->wr.rdma.rkey;
    post_request(conn, &wr, flags, cookie, tag);
}

static void post_part(struct vp_conn *conn, struct parts *p, uint32_t length, bool waits)
{
    unsigned int flags = p->flags & ~(unsigned int)PROV_FENCE;
    bool whole = p->done + length == p->xfer->length,
         last = whole && !p->notice_separate && !p->flush_after;
    struct ibv_send_wr wr = *p->whole;
    struct ibv_sge sge = *wr.sg_list;

    if (waits && is_write(p))
        post_flush_read(conn, p, PROV_MORE, 0, VP_TAG_PART);
    sge.addr += p->done;
    sge.length = length;
    wr.sg_list = &sge;
    wr.wr.rdma.remote_addr += p->done;
    if ((!whole || p->notice_separate) && has_notice(p)) {
        wr.opcode = IBV_WR_RDMA_WRITE;
        wr.send_flags &= ~(unsigned int)IBV_SEND_SOLICITED;
    }
    if (!last)
        flags = PROV_MORE;
    if (waits || !p->done)
        flags |= waits ? PROV_FENCE : p->flags & PROV_FENCE;
    post_request(conn, &wr, flags, last ? p->xfer->cookie : 0, last ? p->tag : VP_TAG_PART);
    p->done += length;
}

/* The receive of the notice completes when all data before it is placed. */
static void post_notice(struct vp_conn *conn, const struct parts *p)
{
    struct ibv_send_wr wr = *p->whole;

    wr.sg_list = NULL;
    wr.num_sge = 0;
    if (p->flush_after)
        post_request(conn, &wr, PROV_MORE, 0, VP_TAG_PART);
    else
        post_request(conn, &wr, p->flags & ~(unsigned int)PROV_FENCE, p->xfer->cookie, p->tag);
}

static void __attribute__((noinline)) post_parts(struct vp_conn *conn, struct parts *p)
{
    uint32_t body = p->xfer->length - p->tail, max = conn->ep->max_msg;

    if (p->head)
        post_part(conn, p, p->head, p->first_waits);
    while (p->done < body) {
        uint32_t n = body - p->done < max ? body - p->done : max;
        post_part(conn, p, n, p->first_waits && !p->done);
    }
    if (p->tail)
        post_part(conn, p, p->tail, p->tail_waits);
    if (p->notice_separate)
        post_notice(conn, p);
    if (p->flush_after)
        post_flush_read(conn, p, p->flags & ~(unsigned int)PROV_FENCE, p->xfer->cookie, p->tag);
}

static void post_whole_or_parts(struct vp_conn *conn, struct ibv_send_wr *whole, struct parts *p)
{
    if (__builtin_expect(p->more != 0, 0))
        post_parts(conn, p);
    else
        post_request(conn, whole, p->flags, p->xfer->cookie, p->tag);
}

/* True if the transfer may consist of several requests. */
static bool may_need_parts(const struct vp_conn *conn, const struct prov_xfer *xfer)
{
    return __builtin_expect(conn->unit != VP_UNIT_WHOLE || xfer->length > conn->unsplit_max ||
                                (xfer->flags & conn->slow_flags & PROV_DELIVERY_COMPLETE),
                            0);
}

/* Posts a write with a struct ibv_send_wr: for a batch, for several parts, without data, or without
 * ibv_wr_start(). */
static int __attribute__((noinline)) write_slow(struct vp_conn *conn, const struct prov_xfer *xfer)
{
    struct vp_ep *ep = conn->ep;
    int posted = 0, rc = check_room(conn, conn->sq_xfer_max, ep->room_msgs);

    if (__builtin_expect(rc, 0))
        return rc;
    struct ibv_sge sge = {.addr = (uintptr_t)xfer->lcl, .length = xfer->length, .lkey = xfer->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = xfer->length != 0, .opcode = IBV_WR_RDMA_WRITE};
    struct parts p = {
        .whole = &wr, .xfer = xfer, .flags = xfer->flags, .tag = xfer->flags & VP_TAG_UNSIGNALLED};

    wr.wr.rdma.remote_addr = xfer->rmt;
    wr.wr.rdma.rkey = xfer->rkey;
    if (xfer->flags & PROV_NOTIFY) {
        wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        wr.imm_data = htobe32(xfer->imm);
    }
    if (may_need_parts(conn, xfer) && (rc = plan_parts(conn, &p)))
        return rc;
    if (xfer->length <= ep->max_inline) {
        wr.send_flags = xfer->length ? IBV_SEND_INLINE : 0;
        posted = PROV_SRC_FREE;
        p.flags &= ~(uint32_t)PROV_SIGNAL_SRC;
    } else if (xfer->flags & PROV_INLINE) {
        if (xfer->length > PROV_INLINE_MAX)
            return -EPERM;
        if (!bounce_copy(ep, &sge, xfer->lcl, xfer->length, &p.tag))
            return -EAGAIN;
        posted = PROV_SRC_FREE;
    }
    if (xfer->flags & PROV_NOTIFY)
        wr.send_flags |= solicited_flag(conn, xfer->flags);
    post_whole_or_parts(conn, &wr, &p);
    return posted;
}

static int __attribute__((noinline)) read_slow(struct vp_conn *conn, const struct prov_xfer *xfer)
{
    int rc = check_room(conn, conn->sq_xfer_max, conn->ep->room_msgs);

    if (__builtin_expect(rc, 0))
        return rc;
    struct ibv_sge sge = {.addr = (uintptr_t)xfer->lcl, .length = xfer->length, .lkey = xfer->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = xfer->length != 0, .opcode = IBV_WR_RDMA_READ};
    wr.wr.rdma.remote_addr = xfer->rmt;
    wr.wr.rdma.rkey = xfer->rkey;
    struct parts p = {.whole = &wr, .xfer = xfer, .flags = xfer->flags};
    if (may_need_parts(conn, xfer) && (rc = plan_parts(conn, &p)))
        return rc;
    post_whole_or_parts(conn, &wr, &p);
    return 0;
}

/*
 * The fast path: ibv_wr_*() calls write the request directly into the device's queue. It requires
 * enough room; a transfer that is neither empty nor longer than a message (or than a packet, if
 * packets may overtake each other); neither a fence nor strong order; no open batch; and
 * ibv_wr_start(). Values are reloaded after calls into the device's library, since few would stay
 * in registers.
 */
ALWAYS_INLINE bool may_use_fast_path(const struct vp_conn *conn, const struct vp_ep *ep,
                                     const struct prov_xfer *xfer)
{
    return __builtin_expect(conn->head - conn->tail < conn->sq_xfer_max, 1) &&
           __builtin_expect(ep->room > ep->room_signal, 1) &&
           __builtin_expect(xfer->length - 1 < conn->direct_max, 1) &&
           __builtin_expect(((uintptr_t)ep->batch | (xfer->flags & conn->slow_flags)) == 0, 1);
}

/* Starts a write request, including the operation and the remote address. */
ALWAYS_INLINE void begin_write(struct vp_conn *conn, const struct prov_xfer *xfer,
                               unsigned int send_flags, bool soon)
{
    struct ibv_qp_ex *qpx = conn->qpx;

    qpx->wr_id = take_ring_entry(conn, xfer->cookie, xfer->flags & VP_TAG_UNSIGNALLED);
    send_flags |= signal_flag(conn, soon);
    if (xfer->flags & PROV_NOTIFY)
        send_flags |= solicited_flag(conn, xfer->flags);
    qpx->wr_flags = send_flags;
    ibv_wr_start(qpx);
    if (xfer->flags & PROV_NOTIFY)
        ibv_wr_rdma_write_imm(qpx, xfer->rkey, xfer->rmt, htobe32(xfer->imm));
    else
        ibv_wr_rdma_write(qpx, xfer->rkey, xfer->rmt);
}

/* Posts a write that is not inline: the device reads the source later. */
static int __attribute__((noinline))
write_from_source(struct vp_conn *conn, const struct prov_xfer *xfer)
{
    if (__builtin_expect(xfer->flags & PROV_INLINE, 0))
        return write_slow(conn, xfer);
    begin_write(conn, xfer, 0, xfer->flags & (PROV_SIGNAL | PROV_SIGNAL_SRC));
    ibv_wr_set_sge(conn->qpx, xfer->lkey, (uintptr_t)xfer->lcl, xfer->length);
    complete_wr(conn->qpx);
    return 0;
}

__attribute__((hot)) int vp_write(struct prov_conn *base, const struct prov_xfer *xfer)
{
    struct vp_conn *conn = vp_conn(base);
    const struct vp_ep *ep = conn->ep;

    if (!may_use_fast_path(conn, ep, xfer))
        return write_slow(conn, xfer);
    if (xfer->length > ep->max_inline)
        return write_from_source(conn, xfer);
    struct ibv_qp_ex *qpx = conn->qpx; /* progress() may change conn->qpx until up() */
    begin_write(conn, xfer, IBV_SEND_INLINE, xfer->flags & PROV_SIGNAL);
    ibv_wr_set_inline_data(qpx, xfer->lcl, xfer->length);
    complete_wr(qpx);
    return PROV_SRC_FREE;
}

static int __attribute__((noinline))
write_inline_slow(struct prov_conn *base, void *data, uint64_t rmt, uint32_t rkey, uint32_t length,
                  uint64_t cookie)
{
    int rc = vp_write(base, &(struct prov_xfer){.lcl = data,
                                                .rmt = rmt,
                                                .length = length,
                                                .rkey = rkey,
                                                .flags = PROV_UNSIGNALLED,
                                                .cookie = cookie});

    vp_update_inline_until(vp_conn(base));
    return rc < 0 ? rc : 0;
}

/* The shortest path, for all writes but one in `signal_every`. */
__attribute__((hot)) int vp_write_inline(struct prov_conn *base, const void *data, uint64_t rmt,
                                         uint32_t rkey, uint32_t length, uint64_t cookie)
{
    struct vp_conn *conn = vp_conn(base);
    struct vp_ep *ep = conn->ep;
    uint32_t head = conn->head;

    UT_ASSERT(length > 0 && length <= ep->max_inline);
    if (__builtin_expect((int32_t)(conn->inline_until - head) <= 0, 0) ||
        __builtin_expect(ep->room <= ep->room_inline, 0))
        return write_inline_slow(base, (void *)(uintptr_t)data, rmt, rkey, length, cookie);
    struct {
        uint64_t rmt;
        uint32_t rkey, length;
    } later = {rmt, rkey, length};
    __asm__("" : "+m"(later)); /* cheaper than saving registers */
    struct ibv_qp_ex *qpx = conn->qpx;
    struct vp_op *op = &conn->ops[head & conn->sq_mask];
    UT_ASSERT(vp_is_postable(conn) && conn->direct_max >= length && !ep->batch);
    UT_ASSERT(head - conn->tail < conn->sq_xfer_max && head + 1 != conn->signal_due);
    op->cookie = cookie;
    op->tag = VP_TAG_UNSIGNALLED;
    conn->head = head + 1;
    ep->room--;
    qpx->wr_id = (uintptr_t)op;
    qpx->wr_flags = IBV_SEND_INLINE;
    ibv_wr_start(qpx);
    ibv_wr_rdma_write(qpx, later.rkey, later.rmt);
    ibv_wr_set_inline_data(qpx, (void *)(uintptr_t)data, later.length);
    int rc = ibv_wr_complete(qpx);
    if (__builtin_expect(rc, 0)) {
        complete_failed(qpx, rc);
        return 0;
    }
    return rc;
}

__attribute__((hot)) int vp_read(struct prov_conn *base, const struct prov_xfer *xfer)
{
    struct vp_conn *conn = vp_conn(base);

    if (!may_use_fast_path(conn, conn->ep, xfer))
        return read_slow(conn, xfer);
    struct ibv_qp_ex *qpx = conn->qpx;
    qpx->wr_id = take_ring_entry(conn, xfer->cookie, 0);
    qpx->wr_flags = signal_flag(conn, xfer->flags & (PROV_SIGNAL | PROV_SIGNAL_SRC));
    ibv_wr_start(qpx);
    ibv_wr_rdma_read(qpx, xfer->rkey, xfer->rmt);
    ibv_wr_set_sge(qpx, xfer->lkey, (uintptr_t)xfer->lcl, xfer->length);
    complete_wr(qpx);
    return 0;
}

/* Sends a message that is too long for inline data, or empty, or behind an open batch, or through a
 * device without ibv_wr_start(). */
static int __attribute__((noinline))
send_slow(struct vp_conn *conn, const void *data, size_t size, unsigned int flags, uint64_t cookie)
{
    struct vp_ep *ep = conn->ep;
    uint32_t tag = 0;
    struct ibv_sge sge = {.addr = (uintptr_t)data, .length = (uint32_t)size};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = size != 0, .opcode = IBV_WR_SEND};

    if (size > PROV_MSG_MAX) {
        ut_error(VP_CAT, "a message of %zu bytes exceeds the maximum of %d", size, PROV_MSG_MAX);
        return -EIO;
    }
    if (size && size <= ep->max_inline)
        wr.send_flags = IBV_SEND_INLINE;
    else if (size && !bounce_copy(ep, &sge, data, size, &tag))
        return -EAGAIN;
    wr.send_flags |= solicited_flag(conn, flags);
    post_request(conn, &wr, flags, cookie, tag);
    return PROV_SRC_FREE;
}

/* Messages may use the completion-queue entries that writes leave free (room_msgs): replies to a
 * peer must not wait for the program's puts. */
int vp_send(struct prov_conn *base, const void *data, size_t size, unsigned int flags,
            uint64_t cookie)
{
    struct vp_conn *conn = vp_conn(base);
    int rc = check_room(conn, conn->sq_max, 0);

    if (__builtin_expect(rc, 0))
        return rc;
    struct ibv_qp_ex *qpx = conn->qpx;
    if (__builtin_expect(!qpx || conn->ep->batch || (flags & (PROV_MORE | PROV_FENCE)) ||
                             size - 1 >= conn->ep->max_inline,
                         0))
        return send_slow(conn, data, size, flags, cookie);
    qpx->wr_id = take_ring_entry(conn, cookie, 0);
    qpx->wr_flags = IBV_SEND_INLINE | solicited_flag(conn, flags) |
                    signal_flag(conn, (flags & (PROV_SIGNAL | PROV_SIGNAL_SRC)) ||
                                          conn->ep->room < conn->ep->room_signal);
    ibv_wr_start(qpx);
    ibv_wr_send(qpx);
    ibv_wr_set_inline_data(qpx, (void *)(uintptr_t)data, size);
    complete_wr(qpx);
    return PROV_SRC_FREE;
}

int vp_atomic(struct prov_conn *base, const struct prov_atomic *atomic)
{
    struct vp_conn *conn = vp_conn(base);
    int rc = check_room(conn, conn->sq_xfer_max, conn->ep->room_msgs);

    if (__builtin_expect(rc, 0))
        return rc;
    if (atomic->rmt & 7)
        return -EACCES; /* misaligned: the device would fail the whole batch */
    if ((uintptr_t)atomic->result & 7)
        return -EPERM;
    struct ibv_sge sge = {.addr = (uintptr_t)atomic->result, .length = 8, .lkey = atomic->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1};
    wr.wr.atomic.remote_addr = atomic->rmt;
    wr.wr.atomic.rkey = atomic->rkey;
    if (atomic->op == PROV_ATOMIC_FADD) {
        wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        wr.wr.atomic.compare_add = atomic->operand;
    } else {
        wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
        wr.wr.atomic.compare_add = atomic->compare;
        wr.wr.atomic.swap = atomic->operand;
    }
    post_request(conn, &wr, atomic->flags, atomic->cookie, 0);
    return 0;
}

void vp_post_signalled(struct vp_conn *conn)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};

    if (check_room(conn, conn->sq_depth - 1, 0) == 0)
        post_request(conn, &wr, PROV_SIGNAL, 0, VP_TAG_INTERNAL);
}

bool vp_post_control(struct vp_conn *conn, uint32_t what)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM,
                             .imm_data = htobe32(what),
                             .send_flags = IBV_SEND_SOLICITED};

    if (check_room(conn, conn->sq_max, 0) != 0)
        return false;
    post_request(conn, &wr, PROV_SIGNAL, 0, VP_TAG_INTERNAL);
    return true;
}

/*
 * Posts the last request of a connection: a control message or an empty write. Its completion means
 * that all earlier requests have completed. Its ring entry and completion-queue entry were
 * reserved.
 */
void vp_conn_post_last_request(struct vp_conn *conn, uint32_t control)
{
    struct vp_op *op = &conn->ops[conn->head & conn->sq_mask];
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};

    if (conn->last_request == VP_LAST_POSTED)
        return;
    UT_ASSERT(conn->last_request == VP_LAST_RESERVED && conn->ep->credits > 0);
    UT_ASSERT(conn->head - conn->tail <= conn->sq_mask);
    conn->last_request = VP_LAST_POSTED;
    conn->ep->credits--;
    if (control) {
        wr.opcode = IBV_WR_SEND_WITH_IMM;
        wr.imm_data = htobe32(control);
        wr.send_flags |= IBV_SEND_SOLICITED;
    }
    op->tag = VP_TAG_INTERNAL;
    wr.wr_id = (uintptr_t)op;
    conn->unsignalled_from = ++conn->head;
    vp_count_signalled(conn);
    batch_or_post(conn, &wr, false);
}
