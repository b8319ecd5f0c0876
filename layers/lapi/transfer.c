/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of others of which something is still to be done: data to fetch straight into its
 * buffer, or to bring; completion handlers; notices.
 */
#include "receive.h"
#include "handlers.h"
#include "buffers.h"
#include "net.h"
#include "tasks.h"
#include "base.h"

#include <stdlib.h>
#include <string.h>

enum {
    PIECE = 4 << 20,
    IN_FLIGHT = 4, /* pieces */
    KEEP = 8,      /* ops, for replies */
};

void la_transfer_setup(void)
{
    for (uint32_t i = 0; i < LA_INS; i++)
        la.transfer.ins[i] = (struct la_in){0};
    la.transfer.used = 0;
    la.transfer.pending = NULL;
}

/* A completion handler that waits may wait for what comes behind many others: then there are more.
 */
bool la_in_spare(void)
{
    if (la.transfer.spare == NULL && la_handlers_wait())
        la.transfer.spare = calloc(1, sizeof(*la.transfer.spare));
    return la.transfer.spare != NULL;
}

static struct la_in *take_spare(void)
{
    struct la_in *in = la.transfer.spare;

    la.transfer.spare = NULL;
    in->used = true;
    la.transfer.used++;
    return in;
}

struct la_in *la_in_take(void)
{
    for (uint32_t i = 0; i < LA_INS; i++) {
        struct la_in *in = &la.transfer.ins[la.transfer.next++ % LA_INS];

        if (in->used)
            continue;
        *in = (struct la_in){.used = true};
        la.transfer.used++;
        return in;
    }
    return take_spare();
}

void la_in_drop(struct la_in *in)
{
    free(in->temp);
    in->used = false;
    la.transfer.used--;
    if (in < la.transfer.ins || in >= la.transfer.ins + LA_INS)
        free(in);
}

void la_return(const struct la_record *rec, uint32_t offset, uint64_t value)
{
    const struct la_peer *peer = la_peer(rec->rank);

    if (peer != NULL && peer->gone)
        return;
    la_put8_notice(rec->id, value, la_reply_stadd(rec->id, rec->req, offset - 8));
}

static void list_transfer(struct la_in *in)
{
    if (in->listed)
        return;
    in->listed = true;
    in->next = la.transfer.pending;
    la.transfer.pending = in;
}

static void unlist_transfer(struct la_in *in)
{
    struct la_in **at = &la.transfer.pending;

    while (in->listed && *at != in)
        at = &(*at)->next;
    if (in->listed)
        *at = in->next;
    in->listed = false;
}

static void piece_done(struct lc_op *op, int rc, uint64_t old_value)
{
    struct la_in *in = op->arg;

    (void)old_value;
    in->in_flight--;
    if (rc != UTOFU_SUCCESS && in->status == 0) {
        in->status = rc == UTOFU_ERR_MRQ_PEER ? LAPI_ERR_TIMEOUT : LAPI_ERR_TGT_ADDR;
        if (rc != UTOFU_ERR_MRQ_PEER)
            la_log("%llu bytes of a message of task %u cannot be transferred: %s",
                   (unsigned long long)in->rec.len, in->rec.rank, lc_utofu_error());
    }
    list_transfer(in);
}

/* Where the current part ends. */
static uint64_t end_of(const struct la_in *in)
{
    return in->rec.kind == LA_GETV && !in->bring ? in->list_size : in->rec.len;
}

static void start_piece(struct la_in *in, struct lc_op *op, uint64_t at, uint64_t size)
{
    in->in_flight++;
    if (in->bring)
        lc_op_put(op, in->rec.id, in->stadd + at, in->rec.stadd + at, size, 0);
    else
        lc_op_get(op, in->rec.id, in->stadd + at, in->rec.stadd + at, size);
}

static bool start_next_piece(struct la_in *in)
{
    struct lc_op *op = la_op_take(KEEP, in->rec.rank, piece_done, in);
    uint64_t left = end_of(in) - in->started, at = in->started;
    uint64_t size = left < PIECE ? left : PIECE;

    if (op == NULL)
        return false;
    in->started += size;
    start_piece(in, op, at, size);
    return true;
}

/*
 * Data that both sides move.
 */

static bool may_invite(const struct la_in *in)
{
    return in->shared && in->status == 0 && in >= la.transfer.ins &&
           in < la.transfer.ins + LA_INS && la_reg_is_shared(in->reg);
}

static void invite_origin(struct la_in *in)
{
    struct la_invitation i = {.stadd = in->stadd, .in = (uint64_t)(in - la.transfer.ins)};
    struct lc_op *op = may_invite(in) ? la_op_take(KEEP, in->rec.rank, NULL, NULL) : NULL;

    if (op == NULL)
        return;
    memcpy(lc_op_bounce(op), &i, sizeof(i));
    lc_op_put(op, in->rec.id, lc_op_bounce_stadd(op),
              la_reply_stadd(in->rec.id, in->rec.req, LA_INVITATION), sizeof(i),
              UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER);
}

static int claim_next(struct la_in *in, uint64_t *piece)
{
    const struct la_record *rec = &in->rec;
    int rc = la_add_now(rec->rank, rec->id, la_reply_stadd(rec->id, rec->req, LA_CLAIM), piece,
                        "a piece of its message");

    if (rc != UTOFU_SUCCESS || (*piece & LA_MOVED) == 0 || (*piece & LA_CLOSED) != 0)
        return rc;
    *piece &= ~LA_MOVED;
    if (!in->elsewhere)
        rc = la_get_now(rec->rank, rec->id, &in->rec.stadd,
                        la_reply_stadd(rec->id, rec->req, LA_ELSEWHERE), sizeof(in->rec.stadd),
                        "the address of its message");
    in->elsewhere = true;
    return rc;
}

/* After an error the rest is claimed all the same, and not moved. */
static void claim_piece(struct la_in *in)
{
    struct lc_op *op = la_op_take(KEEP, in->rec.rank, piece_done, in);
    uint64_t size = la_piece_size(in->rec.len), piece = 0, at;
    int rc;

    if (op == NULL)
        return;
    rc = claim_next(in, &piece);
    if (rc != UTOFU_SUCCESS && in->status == 0)
        in->status = LAPI_ERR_TIMEOUT;
    if (rc == UTOFU_SUCCESS && (piece & LA_CLOSED) != 0) {
        lc_op_drop(op);
        return;
    }
    if (rc != UTOFU_SUCCESS || piece >= la_pieces(in->rec.len)) {
        in->all_claimed = true;
        lc_op_drop(op);
        return;
    }
    in->moved++;
    at = piece * size;
    if (in->status == 0)
        start_piece(in, op, at, in->rec.len - at < size ? in->rec.len - at : size);
    else
        lc_op_drop(op);
}

static bool move_shared(struct la_in *in)
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
        list_transfer(in);
    return in->all_claimed &&
           (in->moved + in->helped >= la_pieces(in->rec.len) || in->status == LAPI_ERR_TIMEOUT);
}

void la_transfer_helped(uint32_t index)
{
    struct la_in *in = &la.transfer.ins[index];
    uint64_t word = la.control.helped[index];

    if (!in->used || !in->shared || word >> LA_HELPED_SHIFT != in->rec.rank)
        return; /* of a task that was given up */
    in->helped = (uint32_t)(word & (LA_HELP_FAILED - 1));
    if ((word & LA_HELP_FAILED) != 0 && in->status == 0)
        in->status = LAPI_ERR_TGT_ADDR;
    list_transfer(in);
}

void la_transfer_lost(uint32_t rank)
{
    for (uint32_t i = 0; i < LA_INS; i++)
        if (la.transfer.ins[i].used && la.transfer.ins[i].shared &&
            la.transfer.ins[i].rec.rank == rank)
            list_transfer(&la.transfer.ins[i]);
}

/* true: all is there, or it has failed. */
static bool move_data(struct la_in *in)
{
    if (in->shared)
        return move_shared(in);
    while (in->status == 0 && in->started < end_of(in) && in->in_flight < IN_FLIGHT)
        if (!start_next_piece(in))
            break;
    return in->in_flight == 0 && (in->status != 0 || in->started == end_of(in));
}

/* The list of a get has come: what it says goes back. */
static void gather_pieces(struct la_in *in)
{
    la_vec_gather(in->buf, in->list_size, in->buf + in->list_size, in->rec.len - in->list_size);
    in->bring = true;
    in->started = in->list_size;
    list_transfer(in);
}

static void scatter_pieces(struct la_in *in)
{
    if (in->rec.kind == LA_PUTV)
        la_vec_scatter(in->buf, in->rec.value, in->buf + in->rec.value,
                       in->rec.len - in->rec.value);
    else if (in->vec != NULL)
        la_vec_fill(in->vec, in->buf, in->rec.len);
}

static void end_move(struct la_in *in)
{
    if (in->status == 0 && in->rec.kind == LA_GETV && !in->bring) {
        gather_pieces(in);
        return;
    }
    if (in->reg != NULL)
        la_unreg(in->reg);
    in->reg = NULL;
    if (in->status != LAPI_ERR_TIMEOUT)
        la_return(&in->rec, LA_FIN, (uint64_t)in->status);
    if (in->status != 0) {
        la_error(in->status, in->rec.rank);
        la_in_drop(in);
        return;
    }
    scatter_pieces(in);
    la_transfer_ended(in);
}

/* Vectors go through memory of the layer's. */
static bool take_temp(struct la_in *in)
{
    in->temp = malloc(in->rec.len + 1);
    in->buf = in->temp;
    return in->temp != NULL;
}

static bool needs_temp(const struct la_in *in)
{
    return in->temp == NULL &&
           (in->rec.kind == LA_PUTV || in->rec.kind == LA_GETV || in->vec != NULL);
}

void la_transfer_start(struct la_in *in)
{
    if (in->rec.kind == LA_GET)
        in->bring = true;
    if (needs_temp(in) && !take_temp(in))
        in->status = LAPI_ERR_MEMORY_EXHAUSTED;
    else
        in->reg = la_reg(in->buf, in->rec.len + (in->temp != NULL ? 1 : 0), !in->bring, &in->stadd);
    if (in->reg == NULL && in->status == 0) {
        la_log("%llu bytes of a message of task %u cannot be registered: %s",
               (unsigned long long)in->rec.len, in->rec.rank, lc_utofu_error());
        in->status = LAPI_ERR_TGT_ADDR;
    }
    in->shared = (in->rec.flags & LA_SHARE) != 0;
    invite_origin(in);
    list_transfer(in);
}

void la_transfer_start_list(struct la_in *in, const void *there)
{
    in->list_size = in->rec.value;
    if (!take_temp(in)) {
        in->status = LAPI_ERR_MEMORY_EXHAUSTED;
        list_transfer(in);
        return;
    }
    la_transfer_start(in);
    if ((in->rec.flags & LA_RENDEZVOUS) == 0 && in->status == 0) {
        memcpy(in->buf, there, in->list_size);
        gather_pieces(in);
    }
}

static void finish_transfer(struct la_in *in)
{
    if (in->rec.tgt_cntr != 0)
        la_bump((lapi_cntr_t *)(uintptr_t)in->rec.tgt_cntr);
    if ((in->rec.flags & LA_WANTS_CMPL) != 0)
        la_return(&in->rec, LA_CMPL, 0);
    la_in_drop(in);
}

static void run_handler(struct la_in *in)
{
    lapi_handle_t hndl = la.handle;

    in->handler(&hndl, in->user_info);
    la_take();
    finish_transfer(in);
    la_leave();
}

/* In the thread for completion handlers. */
static void run_job(struct la_job *job)
{
    run_handler((struct la_in *)((char *)job - offsetof(struct la_in, job)));
}

void la_transfer_ended(struct la_in *in)
{
    if (in->handler == NULL) {
        finish_transfer(in);
        return;
    }
    in->job.run = run_job;
    if (in->how != LAPI_NORMAL || !la_handlers_add(&in->job))
        run_handler(in);
}

bool la_transfer_step(void)
{
    struct la_in *in = la.transfer.pending, *next;
    bool any = false;

    if (la.dispatching || in == NULL)
        return false;
    la.transfer.pending = NULL;
    la.dispatching = true;
    for (; in != NULL; in = next) {
        next = in->next;
        in->listed = false;
        if (move_data(in)) {
            unlist_transfer(in);
            end_move(in);
            any = true;
        } else if (!in->shared && in->in_flight < IN_FLIGHT && in->started < end_of(in)) {
            list_transfer(in);
        }
    }
    la.dispatching = false;
    return any;
}

bool la_transfer_busy(void)
{
    return la.transfer.used > 0;
}
