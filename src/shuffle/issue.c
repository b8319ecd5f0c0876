/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handing operations to the provider inside, once nothing binds them any more. They are handed over
 * in any order, but for what the manual (2.2.10, 6.1.3.1) and the library itself need:
 *
 *   STRONG_ORDER    behind everything before it on the same path, and its last line behind its rest
 *   notices         in order, each behind the data of its own communication
 *   PROV_FENCE      behind the reads and atomics before
 *
 * The library takes what is before the last notice that has arrived for delivered, when a
 * connection has ended and is made anew. So where connections may end without any error (`rests`),
 * notices also wait until earlier writes are handed over; and where one breaks, writes that were
 * overtaken fail.
 */
#include <errno.h>
#include <string.h>

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

/* Must all of it wait for an earlier operation? */
static bool is_bound(const struct sh_conn *conn, const struct sh_op *op)
{
    if (!op->own && !op->fenced && !op->strong)
        return false;
    for (const struct sh_op *before = conn->first; before != op; before = before->next)
        if (is_bound_to(op, before))
            return true;
    return false;
}

/* May the peer be told of it: are those before told? */
static bool is_its_turn(const struct sh_conn *conn, const struct sh_op *op)
{
    for (const struct sh_op *before = conn->first; before != op; before = before->next)
        if ((before->tells || (conn->ep->prov->rests && before->kind == SH_WRITE)) &&
            !is_issued(before))
            return false;
    return true;
}

static void break_at(struct sh_conn *conn, struct sh_op *failed)
{
    conn->broken = failed->breaks = true;
    for (struct sh_op *op = conn->first; op != failed; op = op->next)
        for (unsigned int k = 0; k < op->num_pieces; k++)
            op->piece[k].due_us = 0;
}

/* Does a message that waits for it tell the peer of it? */
static bool is_told_by_another(const struct sh_op *op)
{
    for (const struct sh_op *later = op->next; later; later = later->next)
        if (later->own && later->xfer.cookie == op->xfer.cookie)
            return true;
    return false;
}

/* The notice of what has failed never goes, and neither do those behind it: the connection ends, as
 * both sides have to agree on how many were sent. */
void sh_op_fails(struct sh_conn *conn, struct sh_op *op, enum prov_status status)
{
    if (op->status == PROV_OK)
        op->status = status;
    if (op->tells || is_told_by_another(op))
        break_at(conn, op);
}

/* A message whose communication has failed before it was posted. */
static bool is_void(const struct sh_conn *conn, const struct sh_op *op)
{
    for (const struct sh_op *before = conn->first; op->own && before != op; before = before->next)
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
    x.flags = PROV_SIGNAL | (op->copied ? PROV_COPY : 0u) | (op->xfer.flags & PROV_LANDED) |
              (strong ? PROV_STRONG : 0u);
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
    return rc == -EAGAIN || rc == -ENOTCONN; /* down() follows */
}

/* The last piece by address of what is STRONG_ORDER waits for the others; of a put with a notice,
 * the notice goes with the piece that happens to be the last. */
static bool may_go(const struct sh_conn *conn, const struct sh_op *op, unsigned int k,
                   uint64_t now_us)
{
    bool last = op->num_issued + 1 == op->num_pieces;

    if (op->piece[k].issued || op->piece[k].due_us > now_us)
        return false;
    if (op->strong && k + 1u == op->num_pieces && (!last || op->num_out > 0))
        return false;
    return !last || !op->tells || is_its_turn(conn, op);
}

/* The peer is told now: of writes before it that are not handed over it must not conclude anything.
 */
static void overtake(const struct sh_conn *conn, const struct sh_op *op)
{
    for (struct sh_op *before = conn->first; before != op; before = before->next)
        before->overtaken |= before->kind == SH_WRITE && !is_issued(before);
}

/* 0, or what stops it for now or for good. */
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
        if (last && op->tells)
            overtake(conn, op);
        op->piece[k].issued = true;
        op->num_issued++;
        if (!(rc & PROV_COMPLETE))
            op->num_out++;
    }
    return 0;
}

int sh_issue(struct sh_conn *conn, const struct sh_op *only, uint64_t now_us)
{
    for (struct sh_op *op = conn->first; op && !op->breaks; op = op->next) {
        if (is_issued(op) || is_bound(conn, op))
            continue;
        if (is_void(conn, op)) {
            sh_op_fails(conn, op, PROV_FLUSHED);
            continue;
        }
        int rc = issue_op(conn, op, now_us);
        if (is_passing(rc))
            break;
        if (rc < 0 && op == only && op->num_issued == 0)
            return rc;
        if (rc < 0)
            sh_op_fails(conn, op, status_of(rc));
    }
    return 0;
}

void sh_piece_done(void *ctx, uint64_t cookie, enum prov_status status)
{
    struct sh_op *op = (struct sh_op *)(uintptr_t)cookie;

    op->num_out--;
    if (status != PROV_OK)
        sh_op_fails(ctx, op, status);
}
