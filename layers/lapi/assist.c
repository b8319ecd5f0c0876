/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sender assistance for large messages: the target fetches chunks of the data, and the origin puts
 * other chunks at the same time. In this file the origin claims one chunk at a time and puts it, or
 * finds that no chunk is left.
 */
#include "assist.h"
#include "control.h"
#include "net.h"
#include "peers.h"
#include "requests.h"

bool la_assist_is_pending(void)
{
    return la.requests.assist_list != NULL;
}

static void assist_put_done(struct lc_op *op, int rc, uint64_t old_value)
{
    struct la_req *r = op->arg;

    (void)old_value;
    if (!la_req_is_same(r, op->user_data))
        return;
    r->assist_failed |= rc != UTOFU_SUCCESS;
    la_req_list_assist(r);
}

/* Tells the target how many chunks this task has put. */
static void report_assist(const struct la_req *r, const struct la_peer *peer,
                          uint64_t incoming_index)
{
    uint64_t word = (uint64_t)la.job.rank << LA_ASSIST_RANK_SHIFT | r->chunks_put;

    if (r->chunks_put > 0 && incoming_index < LA_NUM_INCOMING)
        la_put_word_notify(peer->id, word | (r->assist_failed ? LA_ASSIST_FAILED : 0),
                           la_assist_report_stadd(peer->id, (uint32_t)incoming_index));
}

/* The target may complete the request while this task waits for the claim. */
static void claim_and_put_chunk(struct la_req *r, struct lc_op *op)
{
    const struct la_peer *peer = la_peer_find(r->rank);
    const uint64_t serial = r->serial, size = la_chunk_size(r->total_len);
    const struct la_assist_request request = la_req_reply_area(r)->assist_request;
    uint64_t chunk, at;

    if (la_fetch_add_sync(la.job.rank, la_port()->id,
                          la_reply_stadd(la_port()->id, r->index, LA_REPLY_OFFSET(claim_word)),
                          &chunk, "a chunk of a message of its own") != UTOFU_SUCCESS ||
        !la_req_is_same(r, serial)) {
        lc_op_free(op);
        return;
    }
    chunk &= ~LA_STADD_CHANGED;
    if (chunk >= la_num_chunks(r->total_len)) {
        lc_op_free(op);
        report_assist(r, peer, request.incoming_index);
        return;
    }
    r->chunks_put++;
    op->user_data = serial;
    at = chunk * size;
    lc_op_put(op, peer->id, r->stadd + at, request.stadd + at,
              r->total_len - at < size ? r->total_len - at : size, 0);
}

bool la_assist_put_chunk(void)
{
    struct la_req *r = la.requests.assist_list;
    struct lc_op *op =
        r == NULL ? NULL : la_op_alloc(LA_RECORD_OP_RESERVE, r->rank, assist_put_done, r);

    if (op == NULL)
        return false;
    la_req_unlist_assist(r);
    claim_and_put_chunk(r, op);
    return true;
}
