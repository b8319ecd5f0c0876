/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posting an operation sends up to one piece of it. Polls send the rest of a longer write; no other
 * operation is posted meanwhile.
 */
#include "post.h"

#include <errno.h>

#include "conn.h"
#include "rma.h"
#include "region.h"
#include "send.h"

/* True for a small write: plain loads read its source, which need not be registered (see
 * prov_caps). */
static bool is_read_directly(const struct prov_xfer *x)
{
    return (x->flags & PROV_INLINE) || x->length <= FP_INLINE;
}

/* True if the peer has to acknowledge the operation at once. Small writes return PROV_SRC_FREE, so
 * PROV_SIGNAL_SRC requests nothing for them. */
static bool needs_ack(const struct fp_conn *conn, unsigned int flags, bool long_write)
{
    return (flags & PROV_SIGNAL) || (long_write && (flags & PROV_SIGNAL_SRC)) ||
           conn->posted - conn->reported >= FP_OPS / 2;
}

/* While the peer fetches a write (rendezvous), only further writes of this kind may follow, up to
 * the number that the peer can queue. */
static bool must_wait_for_offers(struct fp_conn *conn, bool is_offer)
{
    if (!conn->offered)
        return false;
    if (conn->acked == conn->sent) {
        conn->offered = false;
        return false;
    }
    /* true until the peer has fetched the first write */
    bool before = (int32_t)(conn->first_offered - conn->acked) > 0;
    return !is_offer || conn->sent - (before ? conn->first_offered : conn->acked) >= FP_RMA_READS;
}

/* Returns 0 if an operation may be posted; otherwise the error. */
static int check_room(struct fp_conn *conn, unsigned int flags, bool is_offer)
{
    if (conn->state == FP_ACCEPTED)
        return -EAGAIN;
    if (conn->state != FP_UP || conn->broken || conn->peer_closed || conn->rmt_refused)
        return -ENOTCONN;
    if (conn->sent != conn->posted || conn->posted - conn->reported == FP_OPS ||
        !fp_send_has_room(conn) || must_wait_for_offers(conn, is_offer) ||
        ((flags & PROV_FENCE) && conn->reads_in_flight > 0))
        return -EAGAIN;
    return 0;
}

static struct fp_op *add_op(struct fp_conn *conn, enum fp_kind kind, const struct prov_xfer *x)
{
    struct fp_op *op = fp_op_at(conn, conn->posted++);
    bool long_write = kind != FP_READ && x->length > conn->ep->prov->piece;

    *op = (struct fp_op){.cookie = x->cookie,
                         .rmt = x->rmt,
                         .lcl = x->lcl,
                         .lkey = x->lkey,
                         .rkey = x->rkey,
                         .length = x->length,
                         .imm = x->imm,
                         .kind = (uint8_t)kind,
                         .status = PROV_OK,
                         .may_be_unmapped = kind != FP_READ && !is_read_directly(x)};
    if ((x->flags & PROV_NOTIFY) && kind != FP_READ)
        op->flags |= FP_NOTIFY;
    if (needs_ack(conn, x->flags, long_write))
        op->flags |= FP_SIGNAL;
    return op;
}

/* Removes the last operation, because its memory is unmapped, or there is no memory for a message.
 * */
static int remove_op(struct fp_conn *conn, int rc)
{
    conn->posted--;
    return rc == -EFAULT ? -EPERM : -EAGAIN;
}

static void fill_header(struct fp_conn *conn, const struct fp_op *op, struct fp_xfer *m)
{
    *m = (struct fp_xfer){.head = {.kind = op->kind, .flags = op->flags, .seq = conn->sent + 1},
                          .rmt = op->rmt,
                          .rkey = op->rkey,
                          .length = op->length,
                          .offset = op->transferred,
                          .imm = op->imm};
}

/* Sends the next message of the current operation. -EFAULT: its memory is unmapped. */
static int send_piece(struct fp_conn *conn)
{
    uint64_t bytes[FP_PIECE / 8];
    struct fp_op *op = fp_op_at(conn, conn->sent);
    uint32_t left = op->length - op->transferred, piece = conn->ep->prov->piece;
    struct fp_xfer m;

    if (op->kind == FP_RMA_WRITE) {
        int rc = fp_rma_write_continue(conn, op);
        if (rc == -ENOKEY)
            op->kind = FP_WRITE;
        else if (rc != 1)
            return rc;
        left = op->length - op->transferred;
    }
    piece = op->kind == FP_READ ? 0 : left < piece ? left : piece;
    fill_header(conn, op, &m);
    const void *from = op->lcl + op->transferred;
    if (op->may_be_unmapped) {
        if (!fp_copy_local(conn->ep->prov, bytes, from, piece))
            return -EFAULT;
        from = bytes;
    }
    int rc = fp_send(conn, &m, sizeof(m), from, piece);
    if (rc != 0)
        return rc;
    if (op->kind != FP_READ)
        op->transferred += piece;
    if (op->kind == FP_READ || op->transferred == op->length)
        conn->sent++;
    return 0;
}

void fp_send_ops(struct fp_conn *conn)
{
    int rc = 0;

    while (conn->sent != conn->posted && fp_send_has_room(conn) && !conn->broken &&
           !conn->rmt_refused && rc == 0)
        rc = send_piece(conn);
    if (rc == -EFAULT) { /* a part of the write has been sent */
        fp_op_at(conn, conn->sent)->status = PROV_LCL_ACCESS;
        fp_conn_break(conn, "the memory of a write was unmapped");
    }
    if (conn->sent != conn->posted)
        fp_mark_busy(conn);
}

/* Posts a write whose data the peer fetches. */
static int offer_write(struct fp_conn *conn, const struct prov_xfer *x, struct fp_offer *offer)
{
    struct fp_op *op = add_op(conn, FP_WRITE, x);

    op->flags |= FP_SIGNAL;
    fill_header(conn, op, &offer->x);
    offer->x.head.kind = FP_WRITE_OFFER;
    int rc = fp_send(conn, offer, sizeof(*offer), NULL, 0);
    if (rc != 0)
        return remove_op(conn, rc);
    if (!conn->offered)
        conn->first_offered = conn->sent;
    conn->offered = true;
    conn->sent++;
    return 0;
}

/* Posts a write by RMA. */
static int post_rma_write(struct fp_conn *conn, const struct prov_xfer *x, void *desc)
{
    struct fp_op *op = add_op(conn, FP_RMA_WRITE, x);

    op->desc = desc;
    fp_send_ops(conn);
    return 0;
}

int fp_write(struct prov_conn *base, const struct prov_xfer *x)
{
    struct fp_conn *conn = (struct fp_conn *)base;
    struct fp_prov *prov = conn->ep->prov;
    struct fp_offer offer;
    void *desc;
    bool is_long = !(x->flags & PROV_INLINE) && x->length > prov->piece;

    /* first, because the following checks take system calls */
    int rc = check_room(conn, x->flags, is_long);
    if (rc != 0)
        return rc;
    if (is_long && fp_rma_write_possible(conn, x, &desc))
        return conn->offered ? -EAGAIN : post_rma_write(conn, x, desc);
    if (is_long && fp_rma_read_make_offer(conn, x->lkey, (uintptr_t)x->lcl, x->length, &offer))
        return offer_write(conn, x, &offer);
    if (conn->offered)
        return -EAGAIN;
    if (!is_read_directly(x) && !fp_region_allows(prov, x->lkey, (uintptr_t)x->lcl, x->length, 0))
        return -EPERM;
    add_op(conn, FP_WRITE, x);
    rc = send_piece(conn);
    if (rc != 0)
        return remove_op(conn, rc);
    fp_send_ops(conn);
    return x->length <= prov->piece ? PROV_SRC_FREE : 0;
}

int fp_read(struct prov_conn *base, const struct prov_xfer *x)
{
    struct fp_conn *conn = (struct fp_conn *)base;

    int rc = check_room(conn, x->flags, false);
    if (rc != 0)
        return rc;
    if (conn->reads_in_flight == FP_READS)
        return -EAGAIN;
    if (!fp_region_allows(conn->ep->prov, x->lkey, (uintptr_t)x->lcl, x->length, PROV_ACCESS_WRITE))
        return -EPERM;
    add_op(conn, FP_READ, x);
    if (send_piece(conn) != 0)
        return remove_op(conn, -ENOMEM);
    conn->reads_in_flight++;
    return 0;
}

int fp_send_message(struct prov_conn *base, const void *data, size_t size, unsigned int flags,
                    uint64_t cookie)
{
    struct fp_conn *conn = (struct fp_conn *)base;
    struct prov_xfer x = {.cookie = cookie, .flags = flags};
    struct fp_head head = {.kind = FP_MESSAGE, .seq = conn->posted + 1};

    int rc = check_room(conn, flags, false);
    if (rc != 0)
        return rc;
    head.flags = add_op(conn, FP_MESSAGE, &x)->flags;
    if (fp_send(conn, &head, sizeof(head), data, size) != 0)
        return remove_op(conn, -ENOMEM);
    conn->sent++;
    return PROV_SRC_FREE;
}

/* This provider maps no memory of peers. */
void *fp_direct(struct prov_conn *base, uint64_t rmt, uint32_t length, uint32_t rkey)
{
    (void)base, (void)rmt, (void)length, (void)rkey;
    return NULL;
}
