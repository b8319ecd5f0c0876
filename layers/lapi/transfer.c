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
    PIECE = 4 << 20,
    IN_FLIGHT = 4,    /* pieces of a transfer */
    RESERVED_OPS = 8, /* ops reserved for replies */
};

void la_transfer_setup(void)
{
    for (uint32_t i = 0; i < LA_TRANSFERS; i++)
        la.transfer.slots[i] = (struct la_transfer){0};
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
    for (uint32_t i = 0; i < LA_TRANSFERS; i++) {
        struct la_transfer *in = &la.transfer.slots[la.transfer.next++ % LA_TRANSFERS];

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
    free(in->temp);
    in->used = false;
    la.transfer.used--;
    if (in < la.transfer.slots || in >= la.transfer.slots + LA_TRANSFERS)
        free(in);
}

void la_send_reply(const struct la_record *rec, uint32_t offset, uint64_t value)
{
    const struct la_peer *peer = la_peer_find(rec->rank);

    if (peer != NULL && peer->gone)
        return;
    la_put_word_notify(rec->id, value, la_reply_stadd(rec->id, rec->req, offset - 8));
}

static void add_active_transfer(struct la_transfer *in)
{
    if (in->listed)
        return;
    in->listed = true;
    LIST_INSERT_HEAD(&la.transfer.pending, in, next);
}

static void remove_active_transfer(struct la_transfer *in)
{
    if (in->listed)
        LIST_REMOVE(in, next);
    in->listed = false;
}

static void piece_done(struct lc_op *op, int rc, uint64_t old_value)
{
    struct la_transfer *in = op->arg;

    (void)old_value;
    in->in_flight--;
    if (rc != UTOFU_SUCCESS && in->status == 0) {
        in->status = rc == UTOFU_ERR_MRQ_PEER ? LAPI_ERR_TIMEOUT : LAPI_ERR_TGT_ADDR;
        if (rc != UTOFU_ERR_MRQ_PEER)
            la_log("cannot transfer %llu bytes of a message of task %u: %s",
                   (unsigned long long)in->rec.len, in->rec.rank, lc_utofu_error());
    }
    add_active_transfer(in);
}

/* Returns the number of bytes of the current phase: of the list of pieces, or of the data. */
static uint64_t phase_end(const struct la_transfer *in)
{
    return in->rec.kind == LA_GETV && !in->puts_data ? in->list_size : in->rec.len;
}

static void start_piece(struct la_transfer *in, struct lc_op *op, uint64_t at, uint64_t size)
{
    in->in_flight++;
    if (in->puts_data)
        lc_op_put(op, in->rec.id, in->stadd + at, in->rec.stadd + at, size, 0);
    else
        lc_op_get(op, in->rec.id, in->stadd + at, in->rec.stadd + at, size);
}

static bool start_next_piece(struct la_transfer *in)
{
    struct lc_op *op = la_op_alloc(RESERVED_OPS, in->rec.rank, piece_done, in);
    uint64_t left = phase_end(in) - in->started, at = in->started;
    uint64_t size = left < PIECE ? left : PIECE;

    if (op == NULL)
        return false;
    in->started += size;
    start_piece(in, op, at, size);
    return true;
}

/*
 * Pieces that both sides move
 */

static bool may_request_assist(const struct la_transfer *in)
{
    return in->assisted_by_origin && in->status == 0 && in >= la.transfer.slots &&
           in < la.transfer.slots + LA_TRANSFERS && la_rcache_is_shared(in->reg);
}

static void request_assist(struct la_transfer *in)
{
    struct la_assist_request i = {.stadd = in->stadd, .in = (uint64_t)(in - la.transfer.slots)};
    struct lc_op *op =
        may_request_assist(in) ? la_op_alloc(RESERVED_OPS, in->rec.rank, NULL, NULL) : NULL;

    if (op == NULL)
        return;
    memcpy(lc_op_bounce(op), &i, sizeof(i));
    lc_op_put(op, in->rec.id, lc_op_bounce_stadd(op),
              la_reply_stadd(in->rec.id, in->rec.req, LA_ASSIST_REQUEST), sizeof(i),
              UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER);
}

static int claim_next(struct la_transfer *in, uint64_t *piece)
{
    const struct la_record *rec = &in->rec;
    int rc = la_fetch_add_sync(rec->rank, rec->id, la_reply_stadd(rec->id, rec->req, LA_CLAIM),
                               piece, "a piece of its message");

    if (rc != UTOFU_SUCCESS || (*piece & LA_STADD_CHANGED) == 0 || (*piece & LA_CLOSED) != 0)
        return rc;
    *piece &= ~LA_STADD_CHANGED;
    if (!in->has_new_stadd)
        rc = la_get_sync(rec->rank, rec->id, &in->rec.stadd,
                         la_reply_stadd(rec->id, rec->req, LA_NEW_STADD), sizeof(in->rec.stadd),
                         "the address of its message");
    in->has_new_stadd = true;
    return rc;
}

/* After an error the remaining pieces are claimed, but not moved. */
static void claim_piece(struct la_transfer *in)
{
    struct lc_op *op = la_op_alloc(RESERVED_OPS, in->rec.rank, piece_done, in);
    uint64_t size = la_piece_size(in->rec.len), piece = 0, at;
    int rc;

    if (op == NULL)
        return;
    rc = claim_next(in, &piece);
    if (rc != UTOFU_SUCCESS && in->status == 0)
        in->status = LAPI_ERR_TIMEOUT;
    if (rc == UTOFU_SUCCESS && (piece & LA_CLOSED) != 0) {
        lc_op_free(op);
        return;
    }
    if (rc != UTOFU_SUCCESS || piece >= la_pieces(in->rec.len)) {
        in->all_claimed = true;
        lc_op_free(op);
        return;
    }
    in->moved++;
    at = piece * size;
    if (in->status == 0)
        start_piece(in, op, at, in->rec.len - at < size ? in->rec.len - at : size);
    else
        lc_op_free(op);
}

static bool move_assisted(struct la_transfer *in)
{
    if (la_watch_is_gone(in->rec.rank)) {
        in->status = LAPI_ERR_TIMEOUT;
        in->all_claimed = true;
    }
    if (in->in_flight == 0 && !in->all_claimed)
        claim_piece(in);
    if (in->in_flight > 0)
        return false;
    if (!in->all_claimed)
        add_active_transfer(in);
    return in->all_claimed &&
           (in->moved + in->assisted >= la_pieces(in->rec.len) || in->status == LAPI_ERR_TIMEOUT);
}

void la_transfer_assisted(uint32_t index)
{
    struct la_transfer *in = &la.transfer.slots[index];
    uint64_t word = la.control.assisted[index];

    if (!in->used || !in->assisted_by_origin || word >> LA_ASSISTED_SHIFT != in->rec.rank)
        return; /* from a transfer that was abandoned */
    in->assisted = (uint32_t)(word & (LA_ASSIST_FAILED - 1));
    if ((word & LA_ASSIST_FAILED) != 0 && in->status == 0)
        in->status = LAPI_ERR_TGT_ADDR;
    add_active_transfer(in);
}

void la_transfer_peer_lost(uint32_t rank)
{
    for (uint32_t i = 0; i < LA_TRANSFERS; i++)
        if (la.transfer.slots[i].used && la.transfer.slots[i].assisted_by_origin &&
            la.transfer.slots[i].rec.rank == rank)
            add_active_transfer(&la.transfer.slots[i]);
}

/* Moves the next pieces. True: the transfer is complete or has failed. */
static bool move_data(struct la_transfer *in)
{
    if (in->assisted_by_origin)
        return move_assisted(in);
    while (in->status == 0 && in->started < phase_end(in) && in->in_flight < IN_FLIGHT)
        if (!start_next_piece(in))
            break;
    return in->in_flight == 0 && (in->status != 0 || in->started == phase_end(in));
}

/* The list of pieces has arrived: gathers the data and puts them to the origin. */
static void gather_vector(struct la_transfer *in)
{
    la_vec_gather(in->buf, in->list_size, in->buf + in->list_size, in->rec.len - in->list_size);
    in->puts_data = true;
    in->started = in->list_size;
    add_active_transfer(in);
}

static void scatter_vector(struct la_transfer *in)
{
    if (in->rec.kind == LA_PUTV)
        la_vec_scatter(in->buf, in->rec.value, in->buf + in->rec.value,
                       in->rec.len - in->rec.value);
    else if (in->vec != NULL)
        la_vec_from_packed(in->vec, in->buf, in->rec.len);
}

static void finish_move(struct la_transfer *in)
{
    if (in->status == 0 && in->rec.kind == LA_GETV && !in->puts_data) {
        gather_vector(in);
        return;
    }
    if (in->reg != NULL)
        la_rcache_put(in->reg);
    in->reg = NULL;
    if (in->status != LAPI_ERR_TIMEOUT)
        la_send_reply(&in->rec, LA_FIN_END, (uint64_t)in->status);
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
    in->temp = malloc(in->rec.len + 1);
    in->buf = in->temp;
    return in->temp != NULL;
}

static bool needs_temp(const struct la_transfer *in)
{
    return in->temp == NULL &&
           (in->rec.kind == LA_PUTV || in->rec.kind == LA_GETV || in->vec != NULL);
}

void la_transfer_start(struct la_transfer *in)
{
    if (in->rec.kind == LA_GET)
        in->puts_data = true;
    if (needs_temp(in) && !alloc_temp_buffer(in))
        in->status = LAPI_ERR_MEMORY_EXHAUSTED;
    else
        in->reg = la_rcache_get(in->buf, in->rec.len + (in->temp != NULL ? 1 : 0), !in->puts_data,
                                &in->stadd);
    if (in->reg == NULL && in->status == 0) {
        la_log("cannot register %llu bytes for a message of task %u: %s",
               (unsigned long long)in->rec.len, in->rec.rank, lc_utofu_error());
        in->status = LAPI_ERR_TGT_ADDR;
    }
    in->assisted_by_origin = (in->rec.flags & LA_ASSIST) != 0;
    request_assist(in);
    add_active_transfer(in);
}

void la_transfer_start_list(struct la_transfer *in, const void *there)
{
    in->list_size = in->rec.value;
    if (!alloc_temp_buffer(in)) {
        in->status = LAPI_ERR_MEMORY_EXHAUSTED;
        add_active_transfer(in);
        return;
    }
    la_transfer_start(in);
    if ((in->rec.flags & LA_RENDEZVOUS) == 0 && in->status == 0) {
        memcpy(in->buf, there, in->list_size);
        gather_vector(in);
    }
}

static void finish_transfer(struct la_transfer *in)
{
    if (in->rec.tgt_cntr != 0)
        la_cntr_increment((lapi_cntr_t *)(uintptr_t)in->rec.tgt_cntr);
    if ((in->rec.flags & LA_WANTS_CMPL) != 0)
        la_send_reply(&in->rec, LA_CMPL_END, 0);
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
static void run_completion_job(struct la_work *job)
{
    run_handler((struct la_transfer *)((char *)job - offsetof(struct la_transfer, job)));
}

void la_transfer_complete(struct la_transfer *in)
{
    if (in->handler == NULL) {
        finish_transfer(in);
        return;
    }
    in->job.run = run_completion_job;
    if (in->how != LAPI_NORMAL || !la_cmpl_thread_enqueue(&in->job))
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
        in->listed = false;
        if (move_data(in)) {
            remove_active_transfer(in);
            finish_move(in);
            any = true;
        } else if (!in->assisted_by_origin && in->in_flight < IN_FLIGHT &&
                   in->started < phase_end(in)) {
            add_active_transfer(in);
        }
    }
    la.dispatching = false;
    return any;
}

bool la_transfer_busy(void)
{
    return la.transfer.used > 0;
}
