/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends messages of this task. A message is a record in a slot of the target: a header, the user
 * header, and the data if they fit. Otherwise the target fetches the data (rendezvous). Requests
 * without a slot wait in a queue.
 */
#include "send.h"
#include "assist.h"
#include "cmpl_thread.h"
#include "control.h"
#include "lock.h"
#include "net.h"
#include "peers.h"
#include "rcache.h"
#include "requests.h"
#include "slots.h"

#include <stdlib.h>
#include <string.h>

void la_send_setup(void)
{
    SLIST_INIT(&la.send.waiting);
}

/*
 * Requests
 */

/* True inside a header or completion handler: other threads wait until it returns. */
static bool is_in_handler(void)
{
    return la.dispatching || la_cmpl_thread_is_self();
}

static void log_no_free_request(const struct lc_stall_timer *stall, uint32_t rank)
{
    char text[LC_TEXT_SIZE];

    la_log("has waited %llu s for a free request for a message to task %u: %s",
           lc_stall_seconds(stall), rank, la_requests_describe(text));
}

/* Waits until a request is free; messages are handled meanwhile. */
static struct la_req *alloc_request(const struct la_req *template)
{
    struct lc_stall_timer stall = {0};
    uint32_t idle_count = 0;
    struct la_req *r;

    while (la.requests.num_free <= (is_in_handler() ? 0 : LA_HANDLER_REQ_RESERVE)) {
        if (lc_stall_should_log(&stall, idle_count))
            log_no_free_request(&stall, template->rank);
        if (!la_may_wait()) {
            la_net_poll();
            la_send_queued();
            la_assist_put_chunk(); /* the target may wait for this chunk */
        } else {
            la.upcalls->progress(&idle_count);
        }
    }
    r = la_req_alloc(template);
    r->by_handler = is_in_handler();
    return r;
}

static void push_peer(struct la_peer *peer, struct la_peer_list *list)
{
    peer->queued = true;
    SLIST_INSERT_HEAD(list, peer, next);
}

static void append_request(struct la_peer *peer, struct la_req *r)
{
    r->queued = true;
    STAILQ_INSERT_TAIL(r->by_handler ? &peer->handler_queue : &peer->program_queue, r, next);
    if (!peer->queued)
        push_peer(peer, &la.send.waiting);
}

/* Number of bytes that travel in the record itself behind the user header: data, or a list. */
static size_t data_len_of(const struct la_req *r)
{
    if (r->kind == LA_GETV)
        return (r->flags & LA_RENDEZVOUS) != 0 ? 0 : r->list_size;
    return r->kind == LA_GET || (r->flags & LA_RENDEZVOUS) != 0 || r->data == NULL ? 0
                                                                                   : r->total_len;
}

/*
 * Records
 */

/* Offset of the user header, which the data follow. */
static size_t header_size(const struct la_req *r, size_t data_len)
{
    if ((r->flags & LA_LONG_HEADER_FLAGS) != 0)
        return LA_LONG_HEADER_SIZE;
    return la_padded_len(r->uhdr_len) + data_len <= LA_INLINE_CAPACITY ? LA_INLINE_HEADER_SIZE
                                                                       : LA_SHORT_HEADER_SIZE;
}

/* Builds the record in the bounce buffer `slot`. seq: its sequence number, used only if it fits
 * inline; 0 in the shared lane. Returns its size. */
static size_t build_record(const struct la_req *r, void *slot, uint64_t seq)
{
    struct la_record *rec = slot;
    size_t data_len = data_len_of(r), header_len = header_size(r, data_len);
    uint8_t *dst = (uint8_t *)slot + header_len;

    rec->kind = r->kind;
    rec->flags = r->flags;
    rec->uhdr_len = r->uhdr_len;
    rec->rank = la.job.rank;
    rec->tgt_addr = r->tgt_addr;
    rec->tgt_cntr = r->tgt_cntr;
    rec->data_len = (uint32_t)data_len;
    rec->req_index = r->index;
    rec->rmw_op = r->rmw_op;
    if ((r->flags & LA_LONG_HEADER_FLAGS) != 0) {
        rec->vcq_id = la_port()->id;
        rec->total_len = r->total_len;
        rec->org_stadd = r->stadd;
        rec->operand = r->operand;
    }
    rec->seq = 0;
    if (header_len == LA_INLINE_HEADER_SIZE) {
        rec->flags |= LA_INLINE;
        rec->seq = seq;
    }
    if (r->uhdr_len > 0)
        memcpy(dst, r->uhdr, r->uhdr_len);
    dst += la_padded_len(r->uhdr_len);
    if (data_len > 0)
        memcpy(dst, r->data, data_len);
    return header_len == LA_INLINE_HEADER_SIZE ? LA_CACHE_LINE
                                               : (size_t)(dst - (uint8_t *)slot) + data_len;
}

/* A message must wait behind earlier ones; messages of handlers overtake those of the program. */
static bool has_earlier_queued(const struct la_peer *peer)
{
    return !STAILQ_EMPTY(&peer->handler_queue) ||
           (!STAILQ_EMPTY(&peer->program_queue) && !is_in_handler());
}

/* Copies a header or data; most have one word. */
static void copy_short(uint8_t *to, const void *from, size_t size)
{
    if (__builtin_expect(size == 8, 1))
        memcpy(to, from, 8);
    else if (size > 0)
        memcpy(to, from, size);
}

bool la_send_inline(enum la_kind kind, uint32_t rank, uint64_t tgt_addr, const void *uhdr,
                    uint32_t uhdr_len, const void *data, uint64_t len, uint64_t tgt_cntr)
{
    struct la_peer *peer = la_peer_find(rank);
    const uint32_t padded_uhdr_len = la_padded_len(uhdr_len);
    struct la_record *rec;

    if (peer == NULL || padded_uhdr_len > LA_INLINE_CAPACITY ||
        len > LA_INLINE_CAPACITY - padded_uhdr_len || peer->gone || peer->purged ||
        !la_has_private_lane(peer) || peer->lane_used >= peer->lane_freed + LA_LANE_SLOTS ||
        has_earlier_queued(peer) || (rec = la_inline_alloc()) == NULL)
        return false;
    rec->kind = (uint8_t)kind;
    rec->flags = LA_INLINE;
    rec->uhdr_len = (uint16_t)uhdr_len;
    rec->rank = la.job.rank;
    rec->tgt_addr = tgt_addr;
    rec->tgt_cntr = tgt_cntr;
    rec->data_len = (uint32_t)len;
    rec->req_index = rec->rmw_op = 0;
    rec->seq = peer->lane_used + 1;
    copy_short((uint8_t *)rec + LA_INLINE_HEADER_SIZE, uhdr, uhdr_len);
    copy_short((uint8_t *)rec + LA_INLINE_HEADER_SIZE + padded_uhdr_len, data, len);
    la_inline_put(peer->id, peer->lane_stadd + peer->lane_used++ % LA_LANE_SLOTS * LA_SLOT_SIZE);
    if (peer->lane_used > peer->lane_freed + LA_LANE_SLOTS / 2)
        la_slots_read_freed(peer);
    la_count_local_completion();
    return true;
}

/* False: no slot or no op is free. */
static bool post_record(struct la_peer *peer, const struct la_req *r)
{
    struct lc_op *op = la_op_alloc(LA_RECORD_OP_RESERVE, peer->rank, NULL, NULL);
    uint32_t slot = op == NULL ? LA_NUM_SLOTS : la_slots_alloc(peer);
    size_t size;

    if (slot == LA_NUM_SLOTS) {
        if (op != NULL)
            lc_op_free(op);
        return false;
    }
    size = build_record(r, lc_op_bounce(op), la_has_private_lane(peer) ? peer->lane_used : 0);
    lc_op_put(op, peer->id, lc_op_bounce_stadd(op), la_slot_stadd(peer->id, slot), size,
              UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER);
    if (peer->lane_used > peer->lane_freed + la_lane_size(peer) / 2)
        la_slots_read_freed(peer);
    return true;
}

static bool wants_reply(const struct la_req *r)
{
    return (r->flags & (LA_WANTS_FIN | LA_WANTS_CMPL)) != 0;
}

/* Posting may reveal that the target is gone, which ends its requests. A queued request is only
 * cancelled, so `r` stays valid. */
static bool post_request(struct la_peer *peer, struct la_req *r)
{
    bool posted;

    r->queued = true;
    posted = post_record(peer, r);
    r->queued = false;
    return posted || r->cancelled;
}

/* After the record was posted: frees the request if it needs no reply, and completes the message
 * locally if it needs no FIN. The send handler may make progress and receive the reply, so `r` may
 * be reused. */
static void complete_after_posting(struct la_req *r)
{
    const struct la_req before = *r;

    if (!wants_reply(r) || r->cancelled)
        la_req_free(r);
    if ((before.flags & LA_WANTS_FIN) == 0 && !before.cancelled)
        la_req_complete_locally(&before);
}

/* Copies the buffers for a sender that cannot wait until its memory may be reused. */
static bool copy_buffers(struct la_req *r)
{
    size_t data_len = data_len_of(r);

    if (r->copy != NULL)
        return true; /* vectors are always copied */
    r->copy = malloc(r->uhdr_len + data_len + 1);
    if (r->copy == NULL)
        return false;
    if (r->uhdr_len > 0)
        memcpy(r->copy, r->uhdr, r->uhdr_len);
    if (data_len > 0)
        memcpy((char *)r->copy + r->uhdr_len, r->data, data_len);
    r->uhdr = r->copy;
    if (data_len > 0)
        r->data = (char *)r->copy + r->uhdr_len;
    return true;
}

/* Returns rc. */
static int free_request(struct la_req *r, int rc)
{
    la_req_free(r);
    return rc;
}

/* Appends the request to a queue of the peer unless it can be sent at once. */
static int send_or_append(struct la_peer *peer, struct la_req *r)
{
    if (!has_earlier_queued(peer) && post_request(peer, r)) {
        complete_after_posting(r);
        return LAPI_SUCCESS;
    }
    if ((r->by_handler || r->lightweight) && !copy_buffers(r))
        return free_request(r, LAPI_ERR_MEMORY_EXHAUSTED);
    append_request(peer, r);
    return LAPI_SUCCESS;
}

/* Registers the memory again if its mapping has changed. */
static bool refresh_registration(struct la_req *r)
{
    if (la_rcache_is_current(r->region))
        return true;
    la_rcache_put(r->region);
    r->region = la_rcache_get(r->data, r->total_len, false, &r->stadd);
    return r->region != NULL;
}

/* True if the origin may put chunks of the message; a message of one chunk needs no help. */
static bool may_assist(const struct la_req *r, const struct la_peer *peer)
{
    return peer->same_node && r->kind <= LA_PUT && r->copy == NULL &&
           la_num_chunks(r->total_len) > 1 && la_rcache_is_file_backed(r->region);
}

/* False: the data cannot be registered. */
static bool prepare_rendezvous(struct la_req *r, const struct la_peer *peer)
{
    if ((r->flags & LA_RENDEZVOUS) == 0 || r->kind == LA_GETV)
        return true;
    if (!may_assist(r, peer))
        return refresh_registration(r);
    r->flags |= LA_ASSIST;
    la_req_reply_area(r)->claim_word = LA_CLAIMS_CLOSED;
    return true;
}

/* Initialises the claim word, so that both sides can claim chunks. If the memory cannot be
 * registered, stadd is 0, and the fetch of the target fails with an error. */
static void open_claims(struct la_req *r)
{
    const utofu_stadd_t before = r->stadd, stadd = refresh_registration(r) ? r->stadd : 0;

    la_req_reply_area(r)->new_stadd = stadd;
    la_set_word_sync(la_reply_stadd(la_port()->id, r->index, LA_REPLY_OFFSET(claim_word)),
                     stadd == before ? 0 : LA_STADD_CHANGED);
}

/* For a message that was not sent. Returns rc, as free_request() does. */
static int release_buffers(const struct la_req *template, int rc)
{
    if (template->region != NULL)
        la_rcache_put(template->region);
    free(template->copy);
    return rc;
}

int la_send(const struct la_req *template)
{
    int rc = LAPI_SUCCESS;
    struct la_peer *peer = la_peer_connect(template->rank, &rc);
    struct la_req *r;
    uint64_t serial;

    if (peer == NULL)
        return release_buffers(template, rc);
    if (peer->gone || peer->purged)
        return release_buffers(template, LAPI_ERR_TGT_PURGED);
    if (!wants_reply(template) && !has_earlier_queued(peer) && post_record(peer, template)) {
        la_req_complete_locally(template);
        return LAPI_SUCCESS;
    }
    r = alloc_request(template);
    if (peer->gone || peer->purged)
        return free_request(r, LAPI_ERR_TGT_PURGED);
    if (!prepare_rendezvous(r, peer))
        return free_request(r, LAPI_ERR_MEMORY_EXHAUSTED);
    serial = r->serial;
    rc = send_or_append(peer, r);
    if (rc == LAPI_SUCCESS && la_req_is_same(r, serial) && (r->flags & LA_ASSIST) != 0)
        open_claims(r);
    return rc;
}

/* The target fetches data that do not fit into the record; they stay registered until the fetch
 * ends. */
int la_send_data(struct la_req *r)
{
    if (r->total_len > LA_LONG_HEADER_CAPACITY - la_padded_len(r->uhdr_len)) {
        r->flags |= LA_RENDEZVOUS | LA_WANTS_FIN;
        r->region = la_rcache_get_unchecked(r->data, r->total_len, false, &r->stadd);
        if (r->region == NULL) {
            free(r->copy);
            return LAPI_ERR_MEMORY_EXHAUSTED;
        }
    }
    if (r->cmpl_cntr != NULL)
        r->flags |= LA_WANTS_CMPL;
    return la_send(r);
}

/*
 * Requests that wait for slots
 */

/* Sends requests of the queue in order until no slot is free. True: any was sent. */
static bool send_queue(struct la_peer *peer, struct la_req_queue *queue)
{
    struct la_req *r;
    bool sent = false;

    while ((r = STAILQ_FIRST(queue)) != NULL) {
        if (!r->cancelled && !post_record(peer, r))
            return sent;
        STAILQ_REMOVE_HEAD(queue, next);
        r->queued = false;
        complete_after_posting(r);
        sent = true;
    }
    return sent;
}

static struct la_peer *pop_peer(struct la_peer_list *list)
{
    struct la_peer *peer = SLIST_FIRST(list);

    SLIST_REMOVE_HEAD(list, next);
    peer->queued = false;
    return peer;
}

/* Send handlers may send, and so add peers to the list while this function runs. */
bool la_send_queued(void)
{
    struct la_peer_list still_waiting = SLIST_HEAD_INITIALIZER(still_waiting);
    bool sent = false;

    while (!SLIST_EMPTY(&la.send.waiting)) {
        struct la_peer *peer = pop_peer(&la.send.waiting);

        sent |= send_queue(peer, &peer->handler_queue);
        if (STAILQ_EMPTY(&peer->handler_queue))
            sent |= send_queue(peer, &peer->program_queue);
        if ((!STAILQ_EMPTY(&peer->handler_queue) || !STAILQ_EMPTY(&peer->program_queue)) &&
            !peer->queued)
            push_peer(peer, &still_waiting);
    }
    while (!SLIST_EMPTY(&still_waiting))
        push_peer(pop_peer(&still_waiting), &la.send.waiting);
    return sent;
}
