/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data that both sides move: this task claims one piece of a request at a time, or says that there
 * is no more.
 */
#include "send.h"
#include "net.h"
#include "tasks.h"

#include <string.h>

bool la_send_helps(void)
{
    return la.requests.helpers != NULL;
}

static void piece_brought(struct lc_op *op, int rc, uint64_t old_value)
{
    struct la_req *r = op->arg;

    (void)old_value;
    if (!la_req_is_same(r, op->n))
        return;
    r->help_failed |= rc != UTOFU_SUCCESS;
    la_req_list_helper(r);
}

static void say_helped(const struct la_req *r, const struct la_peer *peer, uint64_t in)
{
    uint64_t word = (uint64_t)la.job.rank << LA_HELPED_SHIFT | r->helped;

    if (r->helped > 0 && in < LA_INS)
        la_put8_notice(peer->id, word | (r->help_failed ? LA_HELP_FAILED : 0),
                       la_helped_stadd(peer->id, (uint32_t)in));
}

/* While it claims a piece the target may end the request. */
static void bring_piece(struct la_req *r, struct lc_op *op)
{
    const struct la_peer *peer = la_peer(r->rank);
    const uint64_t number = r->serial, size = la_piece_size(r->len);
    struct la_invitation i;
    uint64_t piece, at;

    memcpy(&i, la.control.replies[r->index] + LA_INVITATION, sizeof(i));
    if (la_add_now(la.job.rank, la_port()->id, la_reply_stadd(la_port()->id, r->index, LA_CLAIM),
                   &piece, "a piece of a message of its own") != UTOFU_SUCCESS ||
        !la_req_is_same(r, number)) {
        lc_op_drop(op);
        return;
    }
    piece &= ~LA_MOVED;
    if (piece >= la_pieces(r->len)) {
        lc_op_drop(op);
        say_helped(r, peer, i.in);
        return;
    }
    r->helped++;
    op->n = number;
    at = piece * size;
    lc_op_put(op, peer->id, r->stadd + at, i.stadd + at, r->len - at < size ? r->len - at : size,
              0);
}

bool la_send_help(void)
{
    struct la_req *r = la.requests.helpers;
    struct lc_op *op = r == NULL ? NULL : la_op_take(LA_KEEP_OPS, r->rank, piece_brought, r);

    if (op == NULL)
        return false;
    la_req_unlist_helper(r);
    bring_piece(r, op);
    return true;
}
