/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Incomplete messages of other tasks: their data (fetched into the destination, or put to the
 * origin), their completion handlers, and their replies.
 */
#include "incoming.h"
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
    FRAGMENT_SIZE = 4 << 20, /* maximum bytes of a get or put */
    MAX_FRAGMENTS = 4,       /* gets or puts of one message in flight */
    FRAGMENT_OP_RESERVE = 8, /* ops that fragments leave free for replies */
};

void la_incoming_setup(void)
{
    for (uint32_t i = 0; i < LA_NUM_INCOMING; i++)
        la.incoming.entries[i] = (struct la_incoming){0};
    la.incoming.used = 0;
    LIST_INIT(&la.incoming.pending);
}

/* A completion handler that waits may need a message behind many others: then one more entry is
 * allocated. */
bool la_incoming_reserve_spare(void)
{
    if (la.incoming.spare == NULL && la_cmpl_handler_waits())
        la.incoming.spare = calloc(1, sizeof(*la.incoming.spare));
    return la.incoming.spare != NULL;
}

/* Uses the reserved entry. */
static struct la_incoming *take_spare(void)
{
    struct la_incoming *msg = la.incoming.spare;

    la.incoming.spare = NULL;
    msg->used = true;
    la.incoming.used++;
    return msg;
}

struct la_incoming *la_incoming_alloc(void)
{
    for (uint32_t i = 0; i < LA_NUM_INCOMING; i++) {
        struct la_incoming *msg = &la.incoming.entries[la.incoming.next_entry++ % LA_NUM_INCOMING];

        if (msg->used)
            continue;
        *msg = (struct la_incoming){.used = true};
        la.incoming.used++;
        return msg;
    }
    return take_spare();
}

void la_incoming_free(struct la_incoming *msg)
{
    free(msg->temp_buf);
    msg->used = false;
    la.incoming.used--;
    if (msg < la.incoming.entries || msg >= la.incoming.entries + LA_NUM_INCOMING)
        free(msg);
}

void la_send_reply(const struct la_record *rec, uint8_t flag, uint64_t value)
{
    const struct la_peer *peer = la_peer_find(rec->rank);

    const uint32_t offset = flag == LA_WANTS_CMPL ? LA_REPLY_OFFSET(cmpl) : LA_REPLY_OFFSET(fin);

    if (peer != NULL && peer->gone)
        return;
    la_put_word_notify(rec->vcq_id, value, la_reply_stadd(rec->vcq_id, rec->req_index, offset));
}

/* The list of messages that la_incoming_progress() looks at. */
static void add_pending(struct la_incoming *msg)
{
    if (msg->is_pending)
        return;
    msg->is_pending = true;
    LIST_INSERT_HEAD(&la.incoming.pending, msg, next);
}

static void remove_pending(struct la_incoming *msg)
{
    if (msg->is_pending)
        LIST_REMOVE(msg, next);
    msg->is_pending = false;
}

static void fragment_done(struct lc_op *op, int rc, uint64_t old_value)
{
    struct la_incoming *msg = op->arg;

    (void)old_value;
    msg->fragments_in_flight--;
    if (rc != UTOFU_SUCCESS && msg->status == 0) {
        msg->status = rc == UTOFU_ERR_MRQ_PEER ? LAPI_ERR_TIMEOUT : LAPI_ERR_TGT_ADDR;
        if (rc != UTOFU_ERR_MRQ_PEER)
            la_log("cannot transfer %llu bytes of a message of task %u: %s",
                   (unsigned long long)msg->rec.total_len, msg->rec.rank, lc_utofu_error());
    }
    add_pending(msg);
}

/* Returns the number of bytes of the current phase: of the list of segments, or of the data. */
static uint64_t phase_end(const struct la_incoming *msg)
{
    return msg->rec.kind == LA_GETV && !msg->puts_data ? msg->rec.list_size : msg->rec.total_len;
}

/* at: offset in the buffers of both sides. */
static void start_fragment(struct la_incoming *msg, struct lc_op *op, uint64_t at, uint64_t size)
{
    msg->fragments_in_flight++;
    if (msg->puts_data)
        lc_op_put(op, msg->rec.vcq_id, msg->stadd + at, msg->rec.org_stadd + at, size, 0);
    else
        lc_op_get(op, msg->rec.vcq_id, msg->stadd + at, msg->rec.org_stadd + at, size);
}

static bool start_next_fragment(struct la_incoming *msg)
{
    struct lc_op *op = la_op_alloc(FRAGMENT_OP_RESERVE, msg->rec.rank, fragment_done, msg);
    uint64_t left = phase_end(msg) - msg->bytes_started, at = msg->bytes_started;
    uint64_t size = left < FRAGMENT_SIZE ? left : FRAGMENT_SIZE;

    if (op == NULL)
        return false;
    msg->bytes_started += size;
    start_fragment(msg, op, at, size);
    return true;
}

/*
 * Chunks that both sides move
 */

static bool may_request_assist(const struct la_incoming *msg)
{
    return msg->origin_may_assist && msg->status == 0 && msg >= la.incoming.entries &&
           msg < la.incoming.entries + LA_NUM_INCOMING && la_rcache_is_file_backed(msg->region);
}

/* Asks the origin to put chunks too, if its memory and ours are shared on this host. */
static void request_assist(struct la_incoming *msg)
{
    struct la_assist_request request = {.stadd = msg->stadd,
                                        .incoming_index = (uint64_t)(msg - la.incoming.entries)};
    struct lc_op *op = may_request_assist(msg)
                           ? la_op_alloc(FRAGMENT_OP_RESERVE, msg->rec.rank, NULL, NULL)
                           : NULL;

    if (op == NULL)
        return;
    memcpy(lc_op_bounce(op), &request, sizeof(request));
    lc_op_put(op, msg->rec.vcq_id, lc_op_bounce_stadd(op),
              la_reply_stadd(msg->rec.vcq_id, msg->rec.req_index, LA_REPLY_OFFSET(assist_request)),
              sizeof(request),
              UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER);
}

/* The atomic add. *chunk: index of the claimed chunk, or past the last one; LA_CLAIMS_CLOSED: none
 * yet. Reads the new STADD of the origin if it has changed. Returns a code of uTofu. */
static int claim_chunk(struct la_incoming *msg, uint64_t *chunk)
{
    const struct la_record *rec = &msg->rec;
    int rc =
        la_fetch_add_sync(rec->rank, rec->vcq_id,
                          la_reply_stadd(rec->vcq_id, rec->req_index, LA_REPLY_OFFSET(claim_word)),
                          chunk, "a chunk of its message");

    if (rc != UTOFU_SUCCESS || (*chunk & LA_STADD_CHANGED) == 0 || (*chunk & LA_CLAIMS_CLOSED) != 0)
        return rc;
    *chunk &= ~LA_STADD_CHANGED;
    if (!msg->stadd_updated)
        rc = la_get_sync(rec->rank, rec->vcq_id, &msg->rec.org_stadd,
                         la_reply_stadd(rec->vcq_id, rec->req_index, LA_REPLY_OFFSET(new_stadd)),
                         sizeof(msg->rec.org_stadd), "the address of its message");
    msg->stadd_updated = true;
    return rc;
}

/* Claims the next chunk and starts its fragment. After an error the remaining chunks are claimed,
 * but not moved. */
static void move_next_chunk(struct la_incoming *msg)
{
    struct lc_op *op = la_op_alloc(FRAGMENT_OP_RESERVE, msg->rec.rank, fragment_done, msg);
    uint64_t size = la_chunk_size(msg->rec.total_len), chunk = 0, at;
    int rc;

    if (op == NULL)
        return;
    rc = claim_chunk(msg, &chunk);
    if (rc != UTOFU_SUCCESS && msg->status == 0)
        msg->status = LAPI_ERR_TIMEOUT;
    if (rc == UTOFU_SUCCESS && (chunk & LA_CLAIMS_CLOSED) != 0) {
        lc_op_free(op);
        return;
    }
    if (rc != UTOFU_SUCCESS || chunk >= la_num_chunks(msg->rec.total_len)) {
        msg->all_claimed = true;
        lc_op_free(op);
        return;
    }
    msg->chunks_claimed++;
    at = chunk * size;
    if (msg->status == 0)
        start_fragment(msg, op, at,
                       msg->rec.total_len - at < size ? msg->rec.total_len - at : size);
    else
        lc_op_free(op);
}

/* As progress_data(), for a message that both sides move. */
static bool progress_assisted(struct la_incoming *msg)
{
    if (la_watch_is_gone(msg->rec.rank)) {
        msg->status = LAPI_ERR_TIMEOUT;
        msg->all_claimed = true;
    }
    if (msg->fragments_in_flight == 0 && !msg->all_claimed)
        move_next_chunk(msg);
    if (msg->fragments_in_flight > 0)
        return false;
    if (!msg->all_claimed)
        add_pending(msg);
    return msg->all_claimed &&
           (msg->chunks_claimed + msg->chunks_by_origin >= la_num_chunks(msg->rec.total_len) ||
            msg->status == LAPI_ERR_TIMEOUT);
}

void la_incoming_handle_assist_report(uint32_t index)
{
    struct la_incoming *msg = &la.incoming.entries[index];
    uint64_t word = la.control.assist_reports[index];

    if (!msg->used || !msg->origin_may_assist || word >> LA_ASSIST_RANK_SHIFT != msg->rec.rank)
        return; /* about a message that was abandoned */
    msg->chunks_by_origin = (uint32_t)(word & (LA_ASSIST_FAILED - 1));
    if ((word & LA_ASSIST_FAILED) != 0 && msg->status == 0)
        msg->status = LAPI_ERR_TGT_ADDR;
    add_pending(msg);
}

void la_incoming_peer_gone(uint32_t rank)
{
    for (uint32_t i = 0; i < LA_NUM_INCOMING; i++)
        if (la.incoming.entries[i].used && la.incoming.entries[i].origin_may_assist &&
            la.incoming.entries[i].rec.rank == rank)
            add_pending(&la.incoming.entries[i]);
}

/* Starts the next gets or puts, or claims a chunk. True: the data are complete, or the message has
 * failed. */
static bool progress_data(struct la_incoming *msg)
{
    if (msg->origin_may_assist)
        return progress_assisted(msg);
    while (msg->status == 0 && msg->bytes_started < phase_end(msg) &&
           msg->fragments_in_flight < MAX_FRAGMENTS)
        if (!start_next_fragment(msg))
            break;
    return msg->fragments_in_flight == 0 &&
           (msg->status != 0 || msg->bytes_started == phase_end(msg));
}

/* The list of segments has arrived: gathers the data and puts them to the origin. */
static void gather_list(struct la_incoming *msg)
{
    la_list_gather(msg->buf, msg->rec.list_size, msg->buf + msg->rec.list_size,
                   msg->rec.total_len - msg->rec.list_size);
    msg->puts_data = true;
    msg->bytes_started = msg->rec.list_size;
    add_pending(msg);
}

/* From the temporary buffer to the segments, for vectors. */
static void scatter_data(struct la_incoming *msg)
{
    if (msg->rec.kind == LA_PUTV)
        la_list_scatter(msg->buf, msg->rec.list_size, msg->buf + msg->rec.list_size,
                        msg->rec.total_len - msg->rec.list_size);
    else if (msg->vec != NULL)
        la_vec_scatter(msg->vec, msg->buf, msg->rec.total_len);
}

/* All data are here: replies FIN. After the list of a get of vectors, the data follow. */
static void finish_data_phase(struct la_incoming *msg)
{
    if (msg->status == 0 && msg->rec.kind == LA_GETV && !msg->puts_data) {
        gather_list(msg);
        return;
    }
    if (msg->region != NULL)
        la_rcache_put(msg->region);
    msg->region = NULL;
    if (msg->status != LAPI_ERR_TIMEOUT)
        la_send_reply(&msg->rec, LA_WANTS_FIN, (uint64_t)msg->status);
    if (msg->status != 0) {
        la_report_error(msg->status, msg->rec.rank);
        la_incoming_free(msg);
        return;
    }
    scatter_data(msg);
    la_incoming_complete(msg);
}

/* Vector data go through a temporary buffer. */
static bool alloc_temp_buffer(struct la_incoming *msg)
{
    msg->temp_buf = malloc(msg->rec.total_len + 1);
    msg->buf = msg->temp_buf;
    return msg->temp_buf != NULL;
}

static bool needs_temp_buffer(const struct la_incoming *msg)
{
    return msg->temp_buf == NULL &&
           (msg->rec.kind == LA_PUTV || msg->rec.kind == LA_GETV || msg->vec != NULL);
}

void la_incoming_start(struct la_incoming *msg)
{
    if (msg->rec.kind == LA_GET)
        msg->puts_data = true;
    if (needs_temp_buffer(msg) && !alloc_temp_buffer(msg))
        msg->status = LAPI_ERR_MEMORY_EXHAUSTED;
    else
        msg->region = la_rcache_get(msg->buf, msg->rec.total_len + (msg->temp_buf != NULL ? 1 : 0),
                                    !msg->puts_data, &msg->stadd);
    if (msg->region == NULL && msg->status == 0) {
        la_log("cannot register %llu bytes for a message of task %u: %s",
               (unsigned long long)msg->rec.total_len, msg->rec.rank, lc_utofu_error());
        msg->status = LAPI_ERR_TGT_ADDR;
    }
    msg->origin_may_assist = (msg->rec.flags & LA_ASSIST) != 0;
    request_assist(msg);
    add_pending(msg);
}

void la_incoming_start_getv(struct la_incoming *msg, const void *list)
{
    if (!alloc_temp_buffer(msg)) {
        msg->status = LAPI_ERR_MEMORY_EXHAUSTED;
        add_pending(msg);
        return;
    }
    la_incoming_start(msg);
    if ((msg->rec.flags & LA_RENDEZVOUS) == 0 && msg->status == 0) {
        memcpy(msg->buf, list, msg->rec.list_size);
        gather_list(msg);
    }
}

/* The last step of each message: target counter, CMPL reply, free entry. */
static void finish_message(struct la_incoming *msg)
{
    if (msg->rec.tgt_cntr != 0)
        la_cntr_increment((lapi_cntr_t *)(uintptr_t)msg->rec.tgt_cntr);
    if ((msg->rec.flags & LA_WANTS_CMPL) != 0)
        la_send_reply(&msg->rec, LA_WANTS_CMPL, 0);
    la_incoming_free(msg);
}

static void run_cmpl_handler(struct la_incoming *msg)
{
    lapi_handle_t hndl = la.handle;

    msg->handler(&hndl, msg->user_info);
    la_lock();
    finish_message(msg);
    la_unlock();
}

/* Runs in the completion-handler thread. */
static void run_queued_handler(struct la_work *work)
{
    run_cmpl_handler((struct la_incoming *)((char *)work - offsetof(struct la_incoming, work)));
}

void la_incoming_complete(struct la_incoming *msg)
{
    if (msg->handler == NULL) {
        finish_message(msg);
        return;
    }
    msg->work.run = run_queued_handler;
    if (msg->ret_flags != LAPI_NORMAL || !la_cmpl_thread_enqueue(&msg->work))
        run_cmpl_handler(msg);
}

bool la_incoming_progress(void)
{
    struct la_incoming *msg = LIST_FIRST(&la.incoming.pending), *next;
    bool any = false;

    if (la.dispatching || msg == NULL)
        return false;
    LIST_INIT(&la.incoming.pending); /* the loop adds those that have more to do again */
    la.dispatching = true;
    for (; msg != NULL; msg = next) {
        next = LIST_NEXT(msg, next);
        msg->is_pending = false;
        if (progress_data(msg)) {
            remove_pending(msg);
            finish_data_phase(msg);
            any = true;
        } else if (!msg->origin_may_assist && msg->fragments_in_flight < MAX_FRAGMENTS &&
                   msg->bytes_started < phase_end(msg)) {
            add_pending(msg);
        }
    }
    la.dispatching = false;
    return any;
}

bool la_incoming_in_use(void)
{
    return la.incoming.used > 0;
}
