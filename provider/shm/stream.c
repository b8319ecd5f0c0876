/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of operations that cannot be executed at once: writes and reads through the rings, if
 * the peer's memory is not accessible or its CPU has to store the bytes; and notices that found the
 * ring full after their data.
 *
 * The origin sends the operations of its queue in order. The target copies the data and counts the
 * operation in the origin's memory, which needs no slot of a ring: so consuming a ring never waits
 * for another ring, and two processes that write to each other cannot deadlock. The target sends
 * read data when slots of the origin's ring are free.
 */
#include "stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/copy_ordered.h"
#include "mr.h"
#include "ring.h"
#include "sock.h"
#include "state.h"
#include "types.h"
#include "util/assert.h"
#include "util/log.h"

enum { MAX_OPS = 256, MAX_READS = 16 }; /* powers of two */

enum op_kind { OP_DONE, OP_NOTICE, OP_WRITE, OP_READ };

struct op {
    uint64_t cookie, rmt;
    uint8_t *lcl;
    uint32_t rkey, lkey, imm, flags;
    uint32_t length, moved; /* bytes in all; bytes sent (write) or received (read) so far */
    uint32_t seq;           /* position in the target's count of executed operations */
    uint8_t kind;
    uint8_t status; /* result, if the operation failed */
};

struct read_response {
    uint64_t rmt;
    uint32_t rkey, length, moved, seq;
};

struct sp_op_queue {
    uint32_t first, sent, last; /* ops: [first, sent) are sent, [sent, last) wait */
    uint32_t seq;
    uint32_t num_reads;
    uint32_t first_response, last_response;
    struct op ops[MAX_OPS];
    struct read_response responses[MAX_READS];
};

static struct op *op_at(struct sp_op_queue *s, uint32_t n)
{
    return &s->ops[n & (MAX_OPS - 1)];
}

static struct sp_op_queue *get_op_queue(struct sp_conn *conn)
{
    if (!conn->stream)
        conn->stream = calloc(1, sizeof(*conn->stream));
    conn->mapping.size = 0; /* stores must not bypass the queue */
    if (!conn->stream)
        ut_error(SP_LOG, "no memory for a queue of operations");
    return conn->stream;
}

void sp_op_queue_free(struct sp_conn *conn)
{
    free(conn->stream);
    conn->stream = NULL;
}

bool sp_stream_empty(const struct sp_conn *conn)
{
    return conn->stream->first == conn->stream->last;
}

bool sp_op_queue_is_idle(const struct sp_conn *conn)
{
    const struct sp_op_queue *s = conn->stream;

    return !s || (s->first == s->last && s->first_response == s->last_response);
}

bool sp_op_queue_has_reads(const struct sp_conn *conn)
{
    return conn->stream->num_reads > 0;
}

int sp_op_queue_check_room(struct sp_conn *conn)
{
    const struct sp_op_queue *s = conn->stream;

    return s->sent == s->last && s->last - s->first < MAX_OPS ? 0 : -EAGAIN;
}

static struct op *push_op(struct sp_conn *conn, enum op_kind kind, const struct prov_xfer *x)
{
    struct sp_op_queue *s = conn->stream;
    UT_ASSERT(s->last - s->first < MAX_OPS && s->sent - s->first <= s->last - s->first);
    struct op *op = op_at(s, s->last++);

    *op = (struct op){.kind = (uint8_t)kind,
                      .cookie = x->cookie,
                      .lcl = x->lcl,
                      .rmt = x->rmt,
                      .rkey = x->rkey,
                      .lkey = x->lkey,
                      .imm = x->imm,
                      .flags = x->flags,
                      .length = x->length,
                      .status = PROV_OK};
    if (kind == OP_WRITE || kind == OP_READ)
        op->seq = ++s->seq;
    sp_conn_activate(conn);
    return op;
}

void sp_op_queue_push_complete(struct sp_conn *conn, uint64_t cookie)
{
    struct prov_xfer x = {.cookie = cookie};

    push_op(conn, OP_DONE, &x);
    conn->stream->sent++;
}

void sp_op_queue_push_notice(struct sp_conn *conn, const struct prov_xfer *xfer)
{
    if (get_op_queue(conn))
        push_op(conn, OP_NOTICE, xfer);
    else
        sp_conn_go_down(conn, PROV_REASON_LOCAL);
}

/*
 * Sending
 */

int sp_handle_full_ring(struct sp_conn *conn)
{
    if (!sp_conn_check_ring(conn) && __atomic_load_n(&conn->ring->armed, __ATOMIC_SEQ_CST))
        sp_send_doorbell(conn->peer, conn->ring);
    return -EAGAIN;
}

static struct sp_slot *claim_slot(struct sp_conn *conn, uint64_t *pos)
{
    struct sp_slot *slot = sp_ring_claim(conn->ring, conn->peer->id_in_peer_rings, pos);

    if (slot) {
        slot->conn = conn->rmt_conn_id;
        slot->flags = 0;
    } else {
        sp_handle_full_ring(conn);
    }
    return slot;
}

static uint32_t fill_chunk(struct sp_conn *conn, struct sp_slot *slot, uint64_t pos,
                           const uint8_t *from, uint32_t left)
{
    uint32_t n = left < SP_PAYLOAD ? left : SP_PAYLOAD;
    bool big = n > SP_INLINE_CHUNK;

    slot->size = (uint16_t)n;
    slot->flags = (uint8_t)((big ? SP_SLOT_BIG : 0) | (n == left ? SP_SLOT_LAST : 0));
    prov_tsan_ignore_begin();
    if (n > 0)
        memcpy(big ? sp_ring_payload(conn->ring, pos) : slot->chunk.bytes, from, n);
    prov_tsan_ignore_end();
    return n;
}

/* Sends one slot of an operation; false: no slot is free. */
static bool send_chunk(struct sp_conn *conn, struct op *op)
{
    uint64_t pos;
    bool solicited = true;

    if (!sp_conn_rmt_ep_is_open(conn)) {
        __atomic_store_n(&conn->ep->must_check_peers, 1, __ATOMIC_SEQ_CST); /* down() follows */
        return false;
    }
    struct sp_slot *slot = claim_slot(conn, &pos);
    if (!slot)
        return false;
    slot->imm = op->imm;
    slot->extra = op->rkey;
    switch ((enum op_kind)op->kind) {
    case OP_WRITE:
        slot->kind = SP_KIND_WRITE;
        slot->chunk.addr = op->rmt + op->moved;
        op->moved += fill_chunk(conn, slot, pos, op->lcl + op->moved, op->length - op->moved);
        if (op->moved == op->length && (op->flags & PROV_NOTIFY))
            slot->flags |= SP_SLOT_NOTICE;
        break;
    case OP_READ:
        slot->kind = SP_KIND_READ;
        slot->read.addr = op->rmt;
        slot->read.length = op->length;
        break;
    default:
        slot->kind = SP_KIND_NOTICE;
        solicited = op->flags & PROV_SOLICITED;
    }
    sp_publish_slot(conn, slot, pos, solicited);
    return true;
}

static void send_ops(struct sp_conn *conn)
{
    struct sp_op_queue *s = conn->stream;

    while (s->sent != s->last && conn->state == SP_CONN_UP) {
        struct op *op = op_at(s, s->sent);
        if (!send_chunk(conn, op))
            return;
        if (op->kind == OP_WRITE && op->moved < op->length)
            continue;
        if (op->kind == OP_NOTICE)
            op->kind = OP_DONE;
        s->sent++;
    }
}

static bool must_wait(struct sp_conn *conn, const struct prov_xfer *x)
{
    const struct sp_op_queue *s = conn->stream;

    return sp_op_queue_check_room(conn) != 0 || ((x->flags & PROV_FENCE) && s->num_reads > 0);
}

/* Does not queue a write whose first chunk finds no slot: up to max_inline of the caps, the source
 * must be free when this returns. */
int sp_op_queue_write(struct sp_conn *conn, const struct prov_xfer *x)
{
    struct sp_op_queue *s = get_op_queue(conn);

    if (!s)
        return -EIO;
    if (must_wait(conn, x))
        return -EAGAIN;
    struct op *op = push_op(conn, OP_WRITE, x);
    send_ops(conn);
    if (s->sent == s->last)
        return PROV_SRC_FREE;
    if (op->moved > 0)
        return 0;
    s->last--;
    s->seq--;
    return -EAGAIN;
}

int sp_op_queue_read(struct sp_conn *conn, const struct prov_xfer *x)
{
    struct sp_op_queue *s = get_op_queue(conn);

    if (!s)
        return -EIO;
    if (must_wait(conn, x) || s->num_reads == MAX_READS)
        return -EAGAIN;
    push_op(conn, OP_READ, x);
    send_ops(conn);
    if (s->sent == s->last) {
        s->num_reads++;
        UT_ASSERT(s->num_reads <= MAX_READS);
        return 0;
    }
    s->last--;
    s->seq--;
    return -EAGAIN;
}

/*
 * Executing, as the target
 */

/* An operation of the peer cannot be executed: the connection goes down on both sides. The endpoint
 * calls sp_conn_report_failure(). */
static void fail_op(struct sp_conn *conn, uint32_t seq, enum prov_status status)
{
    conn->error_op_number = seq;
    conn->error_status = status;
    conn->ctl = SP_CTL_ERROR;
    sp_conn_go_down(conn, PROV_REASON_BROKEN);
}

/* Counts the operation in the origin's memory, if that counter still belongs to the connection. */
static void count_executed(struct sp_conn *conn)
{
    uint64_t *word = &conn->ring->executed[conn->rmt_conn_id & (SP_MAX_CONNS - 1)];
    uint64_t mine = (uint64_t)(conn->rmt_conn_id >> SP_CONN_BITS & 0xffff);
    uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);

    conn->executed++;
    while (old >> 48 == mine &&
           !__atomic_compare_exchange_n(word, &old, mine << 48 | (conn->executed << 16 >> 16),
                                        false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

static int execute_write(struct sp_conn *conn, const struct sp_slot *slot, const uint8_t *payload)
{
    const struct sp_mr_entry *mrs = conn->ep->prov->seg->table.mrs;
    uint32_t n = slot->size;
    uint64_t addr = slot->chunk.addr;

    if (n > SP_PAYLOAD || (n > SP_INLINE_CHUNK && !(slot->flags & SP_SLOT_BIG))) {
        fail_op(conn, (uint32_t)conn->executed + 1, PROV_FAILED);
        return 0;
    }
    if (n > 0 && !sp_mr_allows(mrs, slot->extra, addr, n, PROV_ACCESS_WRITE)) {
        fail_op(conn, (uint32_t)conn->executed + 1, PROV_RMT_ACCESS);
        return 0;
    }
    prov_copy_ordered((void *)(uintptr_t)addr,
                      slot->flags & SP_SLOT_BIG ? payload : slot->chunk.bytes, n);
    if (!(slot->flags & SP_SLOT_LAST))
        return 0;
    count_executed(conn);
    if (!(slot->flags & SP_SLOT_NOTICE))
        return 0;
    conn->ep->callbacks->notify(conn->ctx, slot->imm);
    return 1;
}

static void send_read_responses(struct sp_conn *conn)
{
    const struct sp_mr_entry *mrs = conn->ep->prov->seg->table.mrs;
    struct sp_op_queue *s = conn->stream;

    UT_ASSERT(s->last_response - s->first_response <= MAX_READS);
    while (s->first_response != s->last_response) {
        struct read_response *a = &s->responses[s->first_response & (MAX_READS - 1)];
        uint64_t pos;
        if (a->length > 0 && !sp_mr_allows(mrs, a->rkey, a->rmt, a->length, PROV_ACCESS_READ)) {
            fail_op(conn, a->seq, PROV_RMT_ACCESS);
            return;
        }
        struct sp_slot *slot = claim_slot(conn, &pos);
        if (!slot)
            return;
        slot->kind = SP_KIND_DATA;
        slot->extra = a->seq;
        slot->chunk.addr = a->moved;
        a->moved += fill_chunk(conn, slot, pos, (const uint8_t *)(uintptr_t)a->rmt + a->moved,
                               a->length - a->moved);
        if (a->moved == a->length)
            s->first_response++;
        sp_publish_slot(conn, slot, pos, a->moved == a->length);
    }
}

static void queue_read_response(struct sp_conn *conn, const struct sp_slot *slot)
{
    struct sp_op_queue *s = get_op_queue(conn);

    count_executed(conn);
    if (!s || s->last_response - s->first_response == MAX_READS) {
        fail_op(conn, (uint32_t)conn->executed, PROV_FAILED);
        return;
    }
    s->responses[s->last_response++ & (MAX_READS - 1)] =
        (struct read_response){.rmt = slot->read.addr,
                               .rkey = slot->extra,
                               .length = slot->read.length,
                               .seq = (uint32_t)conn->executed};
    sp_conn_activate(conn);
    send_read_responses(conn);
}

/*
 * Completing, as the origin
 */

static void handle_read_data(struct sp_conn *conn, const struct sp_slot *slot,
                             const uint8_t *payload)
{
    struct sp_op_queue *s = conn->stream;
    struct op *op = NULL;
    uint32_t n = slot->size;

    for (uint32_t i = s ? s->first : 0; s && i != s->sent && !op; i++) {
        if (op_at(s, i)->kind == OP_READ && op_at(s, i)->seq == slot->extra)
            op = op_at(s, i);
    }
    if (!op || slot->chunk.addr != op->moved || n > op->length - op->moved || n > SP_PAYLOAD)
        return;
    if (n > 0 && !sp_mr_allows(conn->ep->prov->seg->table.mrs, op->lkey, (uintptr_t)op->lcl,
                               op->length, PROV_ACCESS_WRITE))
        op->status = PROV_LCL_ACCESS; /* the region was deregistered meanwhile */
    else if (n > 0)
        prov_copy_ordered(op->lcl + op->moved,
                          slot->flags & SP_SLOT_BIG ? payload : slot->chunk.bytes, n);
    op->moved += n;
    if (slot->flags & SP_SLOT_LAST) {
        UT_ASSERT(s->num_reads > 0);
        op->kind = OP_DONE;
        s->num_reads--;
    }
}

static uint32_t executed_by_peer(const struct sp_conn *conn)
{
    return (uint32_t)__atomic_load_n(&conn->ep->ring->executed[conn->conn_id & (SP_MAX_CONNS - 1)],
                                     __ATOMIC_ACQUIRE);
}

bool sp_op_queue_waits_for_peer(const struct sp_conn *conn)
{
    return executed_by_peer(conn) != conn->stream->seq || conn->stream->num_reads > 0;
}

static bool is_executed(const struct sp_conn *conn, const struct op *op)
{
    return op->kind == OP_DONE ||
           (op->kind == OP_WRITE && (int32_t)(executed_by_peer(conn) - op->seq) >= 0);
}

static int report_ops(struct sp_conn *conn)
{
    struct sp_op_queue *s = conn->stream;
    int count = 0;

    UT_ASSERT(s->sent - s->first <= s->last - s->first && s->last - s->first <= MAX_OPS);
    while (!conn->closed && s->first != s->sent && is_executed(conn, op_at(s, s->first))) {
        const struct op *op = op_at(s, s->first++);
        conn->ep->callbacks->done(conn->ctx, op->cookie, (enum prov_status)op->status);
        count++;
    }
    return count;
}

int sp_op_queue_progress(struct sp_conn *conn)
{
    if (conn->state == SP_CONN_UP)
        send_ops(conn);
    if (conn->state == SP_CONN_UP)
        send_read_responses(conn);
    return conn->state == SP_CONN_UP ? report_ops(conn) : 0;
}

int sp_op_queue_flush(struct sp_conn *conn)
{
    struct sp_op_queue *s = conn->stream;
    enum prov_status status = conn->reason == PROV_REASON_PEER_DEAD ? PROV_PEER : PROV_FLUSHED;
    int count = 0;

    if (!s)
        return 0;
    s->first_response = s->last_response;
    count += report_ops(conn);
    while (!conn->closed && s->first != s->last) {
        const struct op *op = op_at(s, s->first++);
        if (op->status != PROV_OK)
            status = (enum prov_status)op->status;
        conn->ep->callbacks->done(conn->ctx, op->cookie, status);
        status = PROV_FLUSHED;
        count++;
    }
    return count;
}

/*
 * Arrivals
 */

int sp_op_queue_handle_slot(struct sp_conn *conn, const struct sp_slot *slot, const uint8_t *payload)
{
    if (slot->kind == SP_KIND_WRITE)
        return execute_write(conn, slot, payload);
    if (slot->kind == SP_KIND_READ)
        queue_read_response(conn, slot);
    else
        handle_read_data(conn, slot, payload);
    return 0;
}

void sp_op_queue_handle_error(struct sp_conn *conn, const struct sp_slot *slot)
{
    struct sp_op_queue *s = conn->stream;

    for (uint32_t i = s ? s->first : 0; s && i != s->last; i++) {
        struct op *op = op_at(s, i);
        if (op->seq == slot->extra && op->kind != OP_DONE && op->kind != OP_NOTICE) {
            op->status = (uint8_t)slot->error.status;
            op->kind = OP_READ; /* is_executed() must not use the target's count */
            op->moved = 0;
        }
    }
}
