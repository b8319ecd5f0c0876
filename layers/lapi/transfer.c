/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of other tasks that are not complete: their data (fetched into the destination, or put
 * to the origin), their completion handlers, and their replies.
 */
#include "transfer.h"
#include "cmpl_thread.h"
#include "control.h"
#include "errors.h"
#include "lock.h"
#include "net.h"
#include "peers.h"
#include "rcache.h"
#include "vector.h"
#include "watch.h"

#include <stdlib.h>
#include <string.h>

enum {
    FRAGMENT_SIZE = 4 << 20, /* bytes of a get or put */
    MAX_FRAGMENTS = 4,       /* of a transfer, in flight */
    RESERVED_OPS = 8,        /* ops reserved for replies */
};

void la_transfer_setup(void)
{
    for (uint32_t i = 0; i < LA_NUM_TRANSFERS; i++)
        la.transfer.entries[i] = (struct la_transfer){0};
    la.transfer.used = 0;
    LIST_INIT(&la.transfer.pending);
}

/* A completion handler that waits may need a message behind many others: then one more transfer is
 * allocated. */
bool la_transfer_has_spare(void)
{
    if (la.transfer.spare == NULL && la_cmpl_handler_waits())
        la.transfer.spare = calloc(1, sizeof(*la.transfer.spare));
    return la.transfer.spare != NULL;
}

static struct la_transfer *alloc_spare_transfer(void)
{
    struct la_transfer *in = la.transfer.spare;

    la.transfer.spare = NULL;
    in->used = true;
    la.transfer.used++;
    return in;
}

struct la_transfer *la_transfer_alloc(void)
{
    for (uint32_t i = 0; i < LA_NUM_TRANSFERS; i++) {
        struct la_transfer *in = &la.transfer.entries[la.transfer.next_entry++ % LA_NUM_TRANSFERS];

        if (in->used)
            continue;
        *in = (struct la_transfer){.used = true};
        la.transfer.used++;
        return in;
    }
    return alloc_spare_transfer();
}

void la_transfer_free(struct la_transfer *in)
{
    free(in->temp_buf);
    in->used = false;
    la.transfer.used--;
    if (in < la.transfer.entries || in >= la.transfer.entries + LA_NUM_TRANSFERS)
        free(in);
}

void la_send_reply(const struct la_record *rec, uint8_t flag, uint64_t value)
{
    const struct la_peer *peer = la_peer_find(rec->rank);

    const uint32_t offset = flag == LA_WANTS_CMPL ? LA_REPLY_OFFSET(cmpl) : LA_REPLY_OFFSET(fin);

    if (peer != NULL && peer->gone)
        return;
    la_put_word_notify(rec->vcq_id, value, la_reply_stadd(rec->vcq_id, rec->req_index, offset));
}

static void add_pending_transfer(struct la_transfer *in)
{
    if (in->is_pending)
        return;
    in->is_pending = true;
    LIST_INSERT_HEAD(&la.transfer.pending, in, next);
}

static void remove_pending_transfer(struct la_transfer *in)
{
    if (in->is_pending)
        LIST_REMOVE(in, next);
    in->is_pending = false;
}

static void fragment_done(struct lc_op *op, int rc, uint64_t old_value)
{
    struct la_transfer *in = op->arg;

    (void)old_value;
    in->fragments_in_flight--;
    if (rc != UTOFU_SUCCESS && in->status == 0) {
        in->status = rc == UTOFU_ERR_MRQ_PEER ? LAPI_ERR_TIMEOUT : LAPI_ERR_TGT_ADDR;
        if (rc != UTOFU_ERR_MRQ_PEER)
            la_log("cannot transfer %llu bytes of a message of task %u: %s",
                   (unsigned long long)in->rec.total_len, in->rec.rank, lc_utofu_error());
    }
    add_pending_transfer(in);
}

/* Returns the number of bytes of the current phase: of the list of segments, or of the data. */
static uint64_t phase_end(const struct la_transfer *in)
{
    return in->rec.kind == LA_GETV && !in->puts_data ? in->rec.list_size : in->rec.total_len;
}

static void start_fragment(struct la_transfer *in, struct lc_op *op, uint64_t at, uint64_t size)
{
    in->fragments_in_flight++;
    if (in->puts_data)
        lc_op_put(op, in->rec.vcq_id, in->stadd + at, in->rec.org_stadd + at, size, 0);
    else
        lc_op_get(op, in->rec.vcq_id, in->stadd + at, in->rec.org_stadd + at, size);
}

static bool start_next_fragment(struct la_transfer *in)
{
    struct lc_op *op = la_op_alloc(RESERVED_OPS, in->rec.rank, fragment_done, in);
    uint64_t left = phase_end(in) - in->bytes_started, at = in->bytes_started;
    uint64_t size = left < FRAGMENT_SIZE ? left : FRAGMENT_SIZE;

    if (op == NULL)
        return false;
    in->bytes_started += size;
    start_fragment(in, op, at, size);
    return true;
}

/*
 * Chunks that both sides move
 */

static bool may_request_assist(const struct la_transfer *in)
{
    return in->origin_may_assist && in->status == 0 && in >= la.transfer.entries &&
           in < la.transfer.entries + LA_NUM_TRANSFERS && la_rcache_is_file_backed(in->region);
}

static void request_assist(struct la_transfer *in)
{
    struct la_assist_request request = {.stadd = in->stadd,
                                        .transfer = (uint64_t)(in - la.transfer.entries)};
    struct lc_op *op =
        may_request_assist(in) ? la_op_alloc(RESERVED_OPS, in->rec.rank, NULL, NULL) : NULL;

    if (op == NULL)
        return;
    memcpy(lc_op_bounce(op), &request, sizeof(request));
    lc_op_put(op, in->rec.vcq_id, lc_op_bounce_stadd(op),
              la_reply_stadd(in->rec.vcq_id, in->rec.req_index, LA_REPLY_OFFSET(assist_request)),
              sizeof(request),
              UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER);
}

static int claim_next(struct la_transfer *in, uint64_t *chunk)
{
    const struct la_record *rec = &in->rec;
    int rc =
        la_fetch_add_sync(rec->rank, rec->vcq_id,
                          la_reply_stadd(rec->vcq_id, rec->req_index, LA_REPLY_OFFSET(claim_word)),
                          chunk, "a chunk of its message");

    if (rc != UTOFU_SUCCESS || (*chunk & LA_STADD_CHANGED) == 0 || (*chunk & LA_CLAIMS_CLOSED) != 0)
        return rc;
    *chunk &= ~LA_STADD_CHANGED;
    if (!in->stadd_updated)
        rc = la_get_sync(rec->rank, rec->vcq_id, &in->rec.org_stadd,
                         la_reply_stadd(rec->vcq_id, rec->req_index, LA_REPLY_OFFSET(new_stadd)),
                         sizeof(in->rec.org_stadd), "the address of its message");
    in->stadd_updated = true;
    return rc;
}

/* After an error the remaining chunks are claimed, but not moved. */
static void claim_chunk(struct la_transfer *in)
{
    struct lc_op *op = la_op_alloc(RESERVED_OPS, in->rec.rank, fragment_done, in);
    uint64_t size = la_chunk_size(in->rec.total_len), chunk = 0, at;
    int rc;

    if (op == NULL)
        return;
    rc = claim_next(in, &chunk);
    if (rc != UTOFU_SUCCESS && in->status == 0)
        in->status = LAPI_ERR_TIMEOUT;
    if (rc == UTOFU_SUCCESS && (chunk & LA_CLAIMS_CLOSED) != 0) {
        lc_op_free(op);
        return;
    }
    if (rc != UTOFU_SUCCESS || chunk >= la_num_chunks(in->rec.total_len)) {
        in->all_claimed = true;
        lc_op_free(op);
        return;
    }
    in->chunks_claimed++;
    at = chunk * size;
    if (in->status == 0)
        start_fragment(in, op, at, in->rec.total_len - at < size ? in->rec.total_len - at : size);
    else
        lc_op_free(op);
}

static bool progress_assisted(struct la_transfer *in)
{
    if (la_watch_is_gone(in->rec.rank)) {
        in->status = LAPI_ERR_TIMEOUT;
        in->all_claimed = true;
    }
    if (in->fragments_in_flight == 0 && !in->all_claimed)
        claim_chunk(in);
    if (in->fragments_in_flight > 0)
        return false;
    if (!in->all_claimed)
        add_pending_transfer(in);
    return in->all_claimed &&
           (in->chunks_claimed + in->chunks_by_origin >= la_num_chunks(in->rec.total_len) ||
            in->status == LAPI_ERR_TIMEOUT);
}

void la_transfer_handle_assist_report(uint32_t index)
{
    struct la_transfer *in = &la.transfer.entries[index];
    uint64_t word = la.control.assist_reports[index];

    if (!in->used || !in->origin_may_assist || word >> LA_ASSIST_RANK_SHIFT != in->rec.rank)
        return; /* from a transfer that was abandoned */
    in->chunks_by_origin = (uint32_t)(word & (LA_ASSIST_FAILED - 1));
    if ((word & LA_ASSIST_FAILED) != 0 && in->status == 0)
        in->status = LAPI_ERR_TGT_ADDR;
    add_pending_transfer(in);
}

void la_transfer_peer_gone(uint32_t rank)
{
    for (uint32_t i = 0; i < LA_NUM_TRANSFERS; i++)
        if (la.transfer.entries[i].used && la.transfer.entries[i].origin_may_assist &&
            la.transfer.entries[i].rec.rank == rank)
            add_pending_transfer(&la.transfer.entries[i]);
}

/* Starts the next fragments or claims a chunk. True: the transfer is complete or has failed. */
static bool progress_data(struct la_transfer *in)
{
    if (in->origin_may_assist)
        return progress_assisted(in);
    while (in->status == 0 && in->bytes_started < phase_end(in) &&
           in->fragments_in_flight < MAX_FRAGMENTS)
        if (!start_next_fragment(in))
            break;
    return in->fragments_in_flight == 0 && (in->status != 0 || in->bytes_started == phase_end(in));
}

/* The list of segments has arrived: gathers the data and puts them to the origin. */
static void gather_vector(struct la_transfer *in)
{
    la_vec_gather(in->buf, in->rec.list_size, in->buf + in->rec.list_size,
                  in->rec.total_len - in->rec.list_size);
    in->puts_data = true;
    in->bytes_started = in->rec.list_size;
    add_pending_transfer(in);
}

static void scatter_vector(struct la_transfer *in)
{
    if (in->rec.kind == LA_PUTV)
        la_vec_scatter(in->buf, in->rec.list_size, in->buf + in->rec.list_size,
                       in->rec.total_len - in->rec.list_size);
    else if (in->vec != NULL)
        la_vec_unpack(in->vec, in->buf, in->rec.total_len);
}

static void finish_data_phase(struct la_transfer *in)
{
    if (in->status == 0 && in->rec.kind == LA_GETV && !in->puts_data) {
        gather_vector(in);
        return;
    }
    if (in->region != NULL)
        la_rcache_put(in->region);
    in->region = NULL;
    if (in->status != LAPI_ERR_TIMEOUT)
        la_send_reply(&in->rec, LA_WANTS_FIN, (uint64_t)in->status);
    if (in->status != 0) {
        la_report_error(in->status, in->rec.rank);
        la_transfer_free(in);
        return;
    }
    scatter_vector(in);
    la_transfer_complete(in);
}

/* Vector data go through a temporary buffer. */
static bool alloc_temp_buffer(struct la_transfer *in)
{
    in->temp_buf = malloc(in->rec.total_len + 1);
    in->buf = in->temp_buf;
    return in->temp_buf != NULL;
}

static bool needs_temp(const struct la_transfer *in)
{
    return in->temp_buf == NULL &&
           (in->rec.kind == LA_PUTV || in->rec.kind == LA_GETV || in->vec != NULL);
}

void la_transfer_start(struct la_transfer *in)
{
    if (in->rec.kind == LA_GET)
        in->puts_data = true;
    if (needs_temp(in) && !alloc_temp_buffer(in))
        in->status = LAPI_ERR_MEMORY_EXHAUSTED;
    else
        in->region = la_rcache_get(in->buf, in->rec.total_len + (in->temp_buf != NULL ? 1 : 0),
                                   !in->puts_data, &in->stadd);
    if (in->region == NULL && in->status == 0) {
        la_log("cannot register %llu bytes for a message of task %u: %s",
               (unsigned long long)in->rec.total_len, in->rec.rank, lc_utofu_error());
        in->status = LAPI_ERR_TGT_ADDR;
    }
    in->origin_may_assist = (in->rec.flags & LA_ASSIST) != 0;
    request_assist(in);
    add_pending_transfer(in);
}

void la_transfer_start_getv(struct la_transfer *in, const void *list)
{
    if (!alloc_temp_buffer(in)) {
        in->status = LAPI_ERR_MEMORY_EXHAUSTED;
        add_pending_transfer(in);
        return;
    }
    la_transfer_start(in);
    if ((in->rec.flags & LA_RENDEZVOUS) == 0 && in->status == 0) {
        memcpy(in->buf, list, in->rec.list_size);
        gather_vector(in);
    }
}

static void finish_transfer(struct la_transfer *in)
{
    if (in->rec.tgt_cntr != 0)
        la_cntr_increment((lapi_cntr_t *)(uintptr_t)in->rec.tgt_cntr);
    if ((in->rec.flags & LA_WANTS_CMPL) != 0)
        la_send_reply(&in->rec, LA_WANTS_CMPL, 0);
    la_transfer_free(in);
}

static void run_handler(struct la_transfer *in)
{
    lapi_handle_t hndl = la.handle;

    in->handler(&hndl, in->user_info);
    la_lock();
    finish_transfer(in);
    la_unlock();
}

/* Runs in the completion-handler thread. */
static void run_queued_handler(struct la_work *work)
{
    run_handler((struct la_transfer *)((char *)work - offsetof(struct la_transfer, work)));
}

void la_transfer_complete(struct la_transfer *in)
{
    if (in->handler == NULL) {
        finish_transfer(in);
        return;
    }
    in->work.run = run_queued_handler;
    if (in->ret_flags != LAPI_NORMAL || !la_cmpl_thread_enqueue(&in->work))
        run_handler(in);
}

bool la_transfer_progress(void)
{
    struct la_transfer *in = LIST_FIRST(&la.transfer.pending), *next;
    bool any = false;

    if (la.dispatching || in == NULL)
        return false;
    LIST_INIT(&la.transfer.pending); /* the loop adds those that have more to do again */
    la.dispatching = true;
    for (; in != NULL; in = next) {
        next = LIST_NEXT(in, next);
        in->is_pending = false;
        if (progress_data(in)) {
            remove_pending_transfer(in);
            finish_data_phase(in);
            any = true;
        } else if (!in->origin_may_assist && in->fragments_in_flight < MAX_FRAGMENTS &&
                   in->bytes_started < phase_end(in)) {
            add_pending_transfer(in);
        }
    }
    la.dispatching = false;
    return any;
}

bool la_transfer_busy(void)
{
    return la.transfer.used > 0;
}
