/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sender assistance for large messages: the target fetches pieces of the data, and the origin puts
 * other pieces at the same time. In this file the origin claims one piece at a time and puts it, or
 * finds that no piece is left.
 */
#include "assist.h"
#include "control.h"
#include "net.h"
#include "peers.h"
#include "requests.h"

#include <string.h>

bool la_assist_is_pending(void)
{
    return la.requests.assists != NULL;
}

static void finish_assist_put(struct lc_op *op, int rc, uint64_t old_value)
{
    struct la_req *r = op->arg;

    (void)old_value;
    if (!la_req_is_same(r, op->user_data))
        return;
    r->assist_failed |= rc != UTOFU_SUCCESS;
    la_req_list_assist(r);
}

static void report_assist(const struct la_req *r, const struct la_peer *peer, uint64_t in)
{
    uint64_t word = (uint64_t)la.job.rank << LA_ASSISTED_SHIFT | r->assisted;

    if (r->assisted > 0 && in < LA_TRANSFERS)
        la_put_word_notify(peer->id, word | (r->assist_failed ? LA_ASSIST_FAILED : 0),
                           la_assisted_stadd(peer->id, (uint32_t)in));
}

/* The target may complete the request while this task waits for the claim. */
static void put_piece(struct la_req *r, struct lc_op *op)
{
    const struct la_peer *peer = la_peer_find(r->rank);
    const uint64_t number = r->serial, size = la_piece_size(r->len);
    struct la_assist_request i;
    uint64_t piece, at;

    memcpy(&i, la.control.replies[r->index] + LA_ASSIST_REQUEST, sizeof(i));
    if (la_fetch_add_sync(la.job.rank, la_port()->id,
                          la_reply_stadd(la_port()->id, r->index, LA_CLAIM), &piece,
                          "a piece of a message of its own") != UTOFU_SUCCESS ||
        !la_req_is_same(r, number)) {
        lc_op_free(op);
        return;
    }
    piece &= ~LA_STADD_CHANGED;
    if (piece >= la_pieces(r->len)) {
        lc_op_free(op);
        report_assist(r, peer, i.in);
        return;
    }
    r->assisted++;
    op->user_data = number;
    at = piece * size;
    lc_op_put(op, peer->id, r->stadd + at, i.stadd + at, r->len - at < size ? r->len - at : size,
              0);
}

bool la_assist_put_piece(void)
{
    struct la_req *r = la.requests.assists;
    struct lc_op *op =
        r == NULL ? NULL : la_op_alloc(LA_RESERVED_OPS, r->rank, finish_assist_put, r);

    if (op == NULL)
        return false;
    la_req_unlist_assist(r);
    put_piece(r, op);
    return true;
}
