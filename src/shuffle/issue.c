/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Issues operations to the inner provider, in any order that satisfies the manual (2.2.10, 6.1.3.1)
 * and the library:
 *   STRONG_ORDER    after all earlier operations on the same path, and its last line last
 *   notices         in order, each after the data of its own communication
 *   PROV_FENCE      after earlier reads and atomics
 * On a new connection the library takes all operations before the last received notice as
 * delivered. So if connections may end without an error (caps.suspends), notices also wait until
 * earlier writes are issued. If a connection breaks, overtaken writes fail.
 */
#include <errno.h>
#include <string.h>

#include "shuffle/freedoms.h"
#include "shuffle/inner.h"
#include "util/clock.h"
#include "wire/wire.h"

bool sh_op_is_complete(const struct sh_op *op)
{
    return op->num_out == 0 && (op->num_issued == op->num_pieces || op->status != PROV_OK);
}

static bool is_issued(const struct sh_op *op)
{
    return op->num_issued == op->num_pieces || op->status != PROV_OK;
}

static bool is_on_other_path(const struct sh_op *a, const struct sh_op *b)
{
    return a->vcq_id != 0 && a->vcq_id == b->vcq_id && a->path != b->path;
}

static bool is_bound_to(const struct sh_op *op, const struct sh_op *before)
{
    bool reads = before->kind == SH_READ || before->kind == SH_ATOMIC;

    if (op->own && before->xfer.cookie == op->xfer.cookie && !sh_op_is_complete(before))
        return true;
    if (op->fenced && reads && !sh_op_is_complete(before))
        return true;
    if (op->strong && before->kind != SH_SEND && !is_on_other_path(op, before) &&
        !sh_op_is_complete(before))
        return true;
    return op->strong && before->kind == SH_SEND && !is_issued(before);
}

/* True if all pieces must wait for an earlier operation. */
static bool is_bound(const struct sh_conn *conn, const struct sh_op *op)
{
    if (!op->own && !op->fenced && !op->strong)
        return false;
    for (const struct sh_op *before = TAILQ_FIRST(&conn->ops); before != op;
         before = TAILQ_NEXT(before, next))
        if (is_bound_to(op, before))
            return true;
    return false;
}

/* True if the notices of all earlier operations are issued. */
static bool is_its_turn(const struct sh_conn *conn, const struct sh_op *op)
{
    for (const struct sh_op *before = TAILQ_FIRST(&conn->ops); before != op;
         before = TAILQ_NEXT(before, next))
        if ((before->notifies || (conn->ep->prov->rests && before->kind == SH_WRITE)) &&
            !is_issued(before))
            return false;
    return true;
}

static void break_at(struct sh_conn *conn, struct sh_op *failed)
{
    conn->broken = failed->breaks = true;
    for (struct sh_op *op = TAILQ_FIRST(&conn->ops); op != failed; op = TAILQ_NEXT(op, next))
        for (unsigned int k = 0; k < op->num_pieces; k++)
            op->piece[k].due_us = 0;
}

/* True if a later message, which waits for this operation, is its notice. */
static bool is_reported_by_notice(const struct sh_op *op)
{
    for (const struct sh_op *later = op; (later = TAILQ_NEXT(later, next));)
        if (later->own && later->xfer.cookie == op->xfer.cookie)
            return true;
    return false;
}

/* The operation has failed. Its notice and all later notices are never issued: the connection ends,
 * because both sides must agree on the number of notices. */
void sh_op_fail(struct sh_conn *conn, struct sh_op *op, enum prov_status status)
{
    if (op->status == PROV_OK)
        op->status = status;
    if (op->notifies || is_reported_by_notice(op))
        break_at(conn, op);
}

/* True for a message whose communication failed before the message was posted. */
static bool is_void(const struct sh_conn *conn, const struct sh_op *op)
{
    for (const struct sh_op *before = TAILQ_FIRST(&conn->ops); op->own && before != op;
         before = TAILQ_NEXT(before, next))
        if (before->xfer.cookie == op->xfer.cookie && before->status != PROV_OK)
            return true;
    return false;
}

static int write_piece(struct sh_conn *conn, const struct sh_op *op, const struct sh_piece *p,
                       bool last)
{
    const struct prov_ops *ops = conn->ep->prov->inside->ops;
    struct prov_xfer x = op->xfer;
    bool strong = op->strong && last && ops->any_order && ops->any_order(conn->inside);

    if (op->copied)
        x.lcl = (uint8_t *)op->copy + p->offset;
    else
        x.lcl = (uint8_t *)x.lcl + p->offset;
    x.rmt += p->offset;
    x.length = p->length;
    x.flags = PROV_SIGNAL | (op->copied ? PROV_INLINE : 0u) |
              (op->xfer.flags & PROV_DELIVERY_COMPLETE) | (strong ? PROV_STRONG_ORDER : 0u);
    if (last)
        x.flags |= op->xfer.flags & (PROV_NOTIFY | PROV_SOLICITED);
    x.cookie = (uintptr_t)op;
    return op->kind == SH_READ ? ops->read(conn->inside, &x) : ops->write(conn->inside, &x);
}

static int hand_over(struct sh_conn *conn, struct sh_op *op, const struct sh_piece *p, bool last)
{
    const struct prov_ops *ops = conn->ep->prov->inside->ops;
    struct prov_atomic a;

    switch ((enum sh_kind)op->kind) {
    case SH_SEND:
        return ops->send(conn->inside, op->data, op->size,
                         PROV_SIGNAL | (op->xfer.flags & PROV_SOLICITED), (uintptr_t)op);
    case SH_ATOMIC:
        a = op->atomic;
        a.flags = PROV_SIGNAL;
        a.cookie = (uintptr_t)op;
        return ops->atomic(conn->inside, &a);
    default:
        return write_piece(conn, op, p, last);
    }
}

static enum prov_status status_of(int rc)
{
    return rc == -EACCES   ? PROV_RMT_ACCESS
           : rc == -EFAULT ? PROV_RMT_FAULT
           : rc == -EPERM  ? PROV_LCL_ACCESS
                           : PROV_FAILED;
}

static bool is_passing(int rc)
{
    return rc == -EAGAIN || rc == -ENOTCONN; /* down() will follow */
}

/* With STRONG_ORDER, the last piece by address waits for the other pieces. The notice of a put
 * travels with the piece that is issued last. */
static bool may_go(const struct sh_conn *conn, const struct sh_op *op, unsigned int k,
                   uint64_t now_us)
{
    bool last = op->num_issued + 1 == op->num_pieces;

    if (op->piece[k].issued || op->piece[k].due_us > now_us)
        return false;
    if (op->strong && k + 1u == op->num_pieces && (!last || op->num_out > 0))
        return false;
    return !last || !op->notifies || is_its_turn(conn, op);
}

/* Marks earlier writes that are not completely issued: the next notice at the peer does not prove
 * their delivery. */
static void mark_overtaken(const struct sh_conn *conn, const struct sh_op *op)
{
    for (struct sh_op *before = TAILQ_FIRST(&conn->ops); before != op;
         before = TAILQ_NEXT(before, next))
        before->overtaken |= before->kind == SH_WRITE && !is_issued(before);
}

/* Counts the freedoms that piece k of the operation uses: called before the piece is issued. */
static void note_order(const struct sh_conn *conn, const struct sh_op *op, unsigned int k)
{
    const struct sh_op *before = TAILQ_FIRST(&conn->ops);

    for (unsigned int i = 0; i < k; i++) {
        if (!op->piece[i].issued) {
            sh_freedom_met(SH_FREEDOM_PIECES);
            break;
        }
    }
    while (before != op && (is_issued(before) || before->hidden))
        before = TAILQ_NEXT(before, next);
    if (before != op && !op->hidden)
        sh_freedom_met(SH_FREEDOM_ORDER);
}

/* Returns 0, or the error of the inner provider. */
static int issue_op(struct sh_conn *conn, struct sh_op *op, uint64_t now_us)
{
    uint64_t turn = sh_draw(conn->ep->id, conn->peer_id, op->number, SH_DRAW_TURN);

    for (unsigned int i = 0; i < op->num_pieces; i++) {
        unsigned int k = (unsigned int)((turn + i) % op->num_pieces);
        bool last = op->num_issued + 1 == op->num_pieces;
        if (!may_go(conn, op, k, now_us))
            continue;
        int rc = hand_over(conn, op, &op->piece[k], last);
        if (rc < 0)
            return rc;
        if (last && op->notifies)
            mark_overtaken(conn, op);
        note_order(conn, op, k);
        op->piece[k].issued = true;
        op->num_issued++;
        if (!(rc & PROV_COMPLETE))
            op->num_out++;
    }
    return 0;
}

int sh_issue(struct sh_conn *conn, const struct sh_op *only, uint64_t now_us)
{
    struct sh_op *op;

    TAILQ_FOREACH (op, &conn->ops, next) {
        if (op->breaks)
            break;
        if (is_issued(op) || is_bound(conn, op))
            continue;
        int rc = 0;
        if (is_void(conn, op))
            sh_op_fail(conn, op, PROV_FLUSHED);
        else
            rc = issue_op(conn, op, now_us);
        if (is_passing(rc))
            break;
        if (rc < 0 && op == only && op->num_issued == 0)
            return rc;
        if (rc < 0)
            sh_op_fail(conn, op, status_of(rc));
        if (op->breaks) /* a later notice would count for the notice of this operation, too */
            break;
    }
    return 0;
}

void sh_piece_done(void *ctx, uint64_t cookie, enum prov_status status)
{
    struct sh_op *op = (struct sh_op *)(uintptr_t)cookie;

    op->num_out--;
    if (status != PROV_OK)
        sh_op_fail(ctx, op, status);
}
