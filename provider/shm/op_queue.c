/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slow path of a connection. As the origin: a queue of the operations that cannot be executed
 * at once, which are writes and reads through the rings (the peer's memory is not accessible, or
 * the peer's CPU has to store the bytes), notices that found the ring full after their data were
 * written, and completed operations behind any of these. As the target: the responses to the peer's
 * reads.
 *
 * The origin sends the operations of its queue in order. The target copies the data and counts the
 * write or read in the origin's memory (executed_by_peer), which needs no slot of a ring: so
 * consuming a ring never waits for another ring, and two processes that write to each other cannot
 * deadlock. The target sends read data when slots of the origin's ring are free.
 *
 * A counted operation is a write or a read; the target counts a read when it has queued the
 * response. The operation number (op_number) is the position of an operation among the counted
 * operations of the connection in its direction, from 1 on, modulo 2^32.
 */
#include "op_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/copy_ordered.h"
#include "mr.h"
#include "ring.h"
#include "sock.h"
#include "types.h"
#include "util/assert.h"
#include "util/log.h"
#include "wake.h"

enum { MAX_OPS = 256, MAX_READS = 16 }; /* powers of two */

enum op_kind {
    OP_DONE,   /* executed; done() is called after that of all earlier operations */
    OP_NOTICE, /* the notice of a write whose data are written */
    OP_WRITE,
    OP_READ,
};

/* A queued operation: what it needs of its struct prov_xfer, and its progress. */
struct op {
    uint64_t cookie, rmt;
    uint8_t *lcl;
    uint32_t rkey, lkey, imm, flags;
    uint32_t length, moved; /* bytes in all; bytes sent (write) or received (read) so far */
    uint32_t op_number;     /* of a counted operation; else 0 */
    uint8_t kind;           /* enum op_kind */
    uint8_t status;         /* enum prov_status; not PROV_OK if the operation has failed */
};

/* A read of the peer that this process executes as the target. */
struct read_response {
    uint64_t rmt; /* address in this process; `rkey`: a key of this process */
    uint32_t rkey, length;
    uint32_t moved;     /* bytes sent so far */
    uint32_t op_number; /* in the peer's count */
};

struct sp_op_queue {
    uint32_t first, sent, last; /* ops: [first, sent) are sent, [sent, last) wait */
    uint32_t last_op_number;    /* number of counted operations that were queued so far */
    uint32_t num_reads;         /* sent reads whose data have not all arrived */
    uint32_t first_response, last_response; /* responses: [first_response, last_response) */
    struct op ops[MAX_OPS];
    struct read_response responses[MAX_READS];
};

static struct op *op_at(struct sp_op_queue *queue, uint32_t n)
{
    return &queue->ops[n & (MAX_OPS - 1)];
}

/* Returns the connection's queue, which is created if there is none, and ends direct stores to
 * mapped memory of the peer. NULL, after an error line: no memory. */
static struct sp_op_queue *get_op_queue(struct sp_conn *conn)
{
    if (!conn->op_queue)
        conn->op_queue = calloc(1, sizeof(*conn->op_queue));
    conn->mapping.size = 0; /* stores must not bypass the queue */
    if (!conn->op_queue)
        ut_error(SP_LOG, "no memory for a queue of operations");
    return conn->op_queue;
}

void sp_op_queue_free(struct sp_conn *conn)
{
    free(conn->op_queue);
    conn->op_queue = NULL;
}

bool sp_op_queue_has_ops(const struct sp_conn *conn)
{
    return conn->op_queue->first != conn->op_queue->last;
}

bool sp_op_queue_is_idle(const struct sp_conn *conn)
{
    const struct sp_op_queue *queue = conn->op_queue;

    return !queue || (queue->first == queue->last && queue->first_response == queue->last_response);
}

bool sp_op_queue_has_reads(const struct sp_conn *conn)
{
    return conn->op_queue->num_reads > 0;
}

int sp_op_queue_check_room(struct sp_conn *conn)
{
    const struct sp_op_queue *queue = conn->op_queue;

    return queue->sent == queue->last && queue->last - queue->first < MAX_OPS ? 0 : -EAGAIN;
}

/* Appends an operation; the queue must have room. */
static struct op *push_op(struct sp_conn *conn, enum op_kind kind, const struct prov_xfer *xfer)
{
    struct sp_op_queue *queue = conn->op_queue;
    UT_ASSERT(queue->last - queue->first < MAX_OPS &&
              queue->sent - queue->first <= queue->last - queue->first);
    struct op *op = op_at(queue, queue->last++);

    *op = (struct op){.kind = (uint8_t)kind,
                      .cookie = xfer->cookie,
                      .lcl = xfer->lcl,
                      .rmt = xfer->rmt,
                      .rkey = xfer->rkey,
                      .lkey = xfer->lkey,
                      .imm = xfer->imm,
                      .flags = xfer->flags,
                      .length = xfer->length,
                      .status = PROV_OK};
    if (kind == OP_WRITE || kind == OP_READ)
        op->op_number = ++queue->last_op_number;
    sp_conn_activate(conn);
    return op;
}

void sp_op_queue_push_complete(struct sp_conn *conn, uint64_t cookie)
{
    struct prov_xfer xfer = {.cookie = cookie};

    push_op(conn, OP_DONE, &xfer);
    conn->op_queue->sent++;
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

/* Claims a slot of the peer's ring and fills `conn` and `flags`. NULL: the ring is full. */
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

/* Copies a chunk of an operation of which `left` bytes remain into a claimed slot. Returns the size
 * of the chunk. */
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

/* Sends one slot of an operation. False: no slot is free, or the peer's endpoint was closed. */
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

/* Sends waiting operations until the ring is full. */
static void send_ops(struct sp_conn *conn)
{
    struct sp_op_queue *queue = conn->op_queue;

    while (queue->sent != queue->last && conn->state == SP_CONN_UP) {
        struct op *op = op_at(queue, queue->sent);
        if (!send_chunk(conn, op))
            return;
        if (op->kind == OP_WRITE && op->moved < op->length)
            continue;
        if (op->kind == OP_NOTICE)
            op->kind = OP_DONE;
        queue->sent++;
    }
}

/* True if a write or read must not be queued now. */
static bool must_wait(struct sp_conn *conn, const struct prov_xfer *xfer)
{
    const struct sp_op_queue *queue = conn->op_queue;

    return sp_op_queue_check_room(conn) != 0 ||
           ((xfer->flags & PROV_FENCE) && queue->num_reads > 0);
}

/* Does not queue a write whose first chunk finds no slot: up to max_inline of the caps, the source
 * must be free when this returns. */
int sp_op_queue_write(struct sp_conn *conn, const struct prov_xfer *xfer)
{
    struct sp_op_queue *queue = get_op_queue(conn);

    if (!queue)
        return -EIO;
    if (must_wait(conn, xfer))
        return -EAGAIN;
    struct op *op = push_op(conn, OP_WRITE, xfer);
    send_ops(conn);
    if (queue->sent == queue->last)
        return PROV_SRC_FREE;
    if (op->moved > 0)
        return 0;
    queue->last--;
    queue->last_op_number--;
    return -EAGAIN;
}

int sp_op_queue_read(struct sp_conn *conn, const struct prov_xfer *xfer)
{
    struct sp_op_queue *queue = get_op_queue(conn);

    if (!queue)
        return -EIO;
    if (must_wait(conn, xfer) || queue->num_reads == MAX_READS)
        return -EAGAIN;
    push_op(conn, OP_READ, xfer);
    send_ops(conn);
    if (queue->sent == queue->last) {
        queue->num_reads++;
        UT_ASSERT(queue->num_reads <= MAX_READS);
        return 0;
    }
    queue->last--;
    queue->last_op_number--;
    return -EAGAIN;
}

/*
 * Executing, as the target
 */

/* An operation of the peer cannot be executed: the connection goes down on both sides. The endpoint
 * calls sp_conn_report_failure(). */
static void fail_op(struct sp_conn *conn, uint32_t op_number, enum prov_status status)
{
    conn->error_op_number = op_number;
    conn->error_status = status;
    conn->ctl = SP_CTL_ERROR;
    sp_conn_go_down(conn, PROV_REASON_BROKEN);
}

/* Counts the operation in the origin's memory, if that counter still belongs to the connection. */
static void count_executed(struct sp_conn *conn)
{
    uint64_t *word = &conn->ring->executed_by_peer[conn->rmt_conn_id & (SP_MAX_CONNS - 1)];
    uint64_t mine = (uint64_t)(conn->rmt_conn_id >> SP_CONN_BITS & 0xffff);
    uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);

    conn->executed_here++;
    while (old >> 48 == mine &&
           !__atomic_compare_exchange_n(word, &old, mine << 48 | (conn->executed_here << 16 >> 16),
                                        false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

/* Stores a chunk of a write of the peer. Returns the number of callbacks. */
static int execute_write(struct sp_conn *conn, const struct sp_slot *slot, const uint8_t *payload)
{
    const struct sp_mr_entry *mrs = conn->ep->prov->seg->table.mrs;
    uint32_t n = slot->size;
    uint64_t addr = slot->chunk.addr;

    if (n > SP_PAYLOAD || (n > SP_INLINE_CHUNK && !(slot->flags & SP_SLOT_BIG))) {
        fail_op(conn, (uint32_t)conn->executed_here + 1, PROV_FAILED);
        return 0;
    }
    if (n > 0 && !sp_mr_allows(mrs, slot->extra, addr, n, PROV_ACCESS_WRITE)) {
        fail_op(conn, (uint32_t)conn->executed_here + 1, PROV_RMT_ACCESS);
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

/* Sends read data until the ring is full. */
static void send_read_responses(struct sp_conn *conn)
{
    const struct sp_mr_entry *mrs = conn->ep->prov->seg->table.mrs;
    struct sp_op_queue *queue = conn->op_queue;

    UT_ASSERT(queue->last_response - queue->first_response <= MAX_READS);
    while (queue->first_response != queue->last_response) {
        struct read_response *response = &queue->responses[queue->first_response & (MAX_READS - 1)];
        uint64_t pos;
        if (response->length > 0 &&
            !sp_mr_allows(mrs, response->rkey, response->rmt, response->length, PROV_ACCESS_READ)) {
            fail_op(conn, response->op_number, PROV_RMT_ACCESS);
            return;
        }
        struct sp_slot *slot = claim_slot(conn, &pos);
        if (!slot)
            return;
        slot->kind = SP_KIND_DATA;
        slot->extra = response->op_number;
        slot->chunk.addr = response->moved;
        response->moved +=
            fill_chunk(conn, slot, pos, (const uint8_t *)(uintptr_t)response->rmt + response->moved,
                       response->length - response->moved);
        if (response->moved == response->length)
            queue->first_response++;
        sp_publish_slot(conn, slot, pos, response->moved == response->length);
    }
}

/* Queues the response to a read request of the peer, and sends what fits into the ring. */
static void queue_read_response(struct sp_conn *conn, const struct sp_slot *slot)
{
    struct sp_op_queue *queue = get_op_queue(conn);

    count_executed(conn);
    if (!queue || queue->last_response - queue->first_response == MAX_READS) {
        fail_op(conn, (uint32_t)conn->executed_here, PROV_FAILED);
        return;
    }
    queue->responses[queue->last_response++ & (MAX_READS - 1)] =
        (struct read_response){.rmt = slot->read.addr,
                               .rkey = slot->extra,
                               .length = slot->read.length,
                               .op_number = (uint32_t)conn->executed_here};
    sp_conn_activate(conn);
    send_read_responses(conn);
}

/*
 * Completing, as the origin
 */

/* Stores a chunk of read data. Ignores a chunk that belongs to no outstanding read. */
static void handle_read_data(struct sp_conn *conn, const struct sp_slot *slot,
                             const uint8_t *payload)
{
    struct sp_op_queue *queue = conn->op_queue;
    struct op *op = NULL;
    uint32_t n = slot->size;

    for (uint32_t i = queue ? queue->first : 0; queue && i != queue->sent && !op; i++) {
        if (op_at(queue, i)->kind == OP_READ && op_at(queue, i)->op_number == slot->extra)
            op = op_at(queue, i);
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
        UT_ASSERT(queue->num_reads > 0);
        op->kind = OP_DONE;
        queue->num_reads--;
    }
}

/* Returns how many counted operations of this side the peer has executed. */
static uint32_t load_executed_by_peer(const struct sp_conn *conn)
{
    return (uint32_t)__atomic_load_n(
        &conn->ep->ring->executed_by_peer[conn->conn_id & (SP_MAX_CONNS - 1)], __ATOMIC_ACQUIRE);
}

bool sp_op_queue_waits_for_peer(const struct sp_conn *conn)
{
    return load_executed_by_peer(conn) != conn->op_queue->last_op_number ||
           conn->op_queue->num_reads > 0;
}

static bool is_executed(const struct sp_conn *conn, const struct op *op)
{
    return op->kind == OP_DONE ||
           (op->kind == OP_WRITE && (int32_t)(load_executed_by_peer(conn) - op->op_number) >= 0);
}

/* Calls done() for executed operations, in order. Returns the number of calls. */
static int report_ops(struct sp_conn *conn)
{
    struct sp_op_queue *queue = conn->op_queue;
    int count = 0;

    UT_ASSERT(queue->sent - queue->first <= queue->last - queue->first &&
              queue->last - queue->first <= MAX_OPS);
    while (!conn->closed && queue->first != queue->sent &&
           is_executed(conn, op_at(queue, queue->first))) {
        const struct op *op = op_at(queue, queue->first++);
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
    struct sp_op_queue *queue = conn->op_queue;
    enum prov_status status = conn->reason == PROV_REASON_PEER_DEAD ? PROV_PEER : PROV_FLUSHED;
    int count = 0;

    if (!queue)
        return 0;
    queue->first_response = queue->last_response;
    count += report_ops(conn);
    while (!conn->closed && queue->first != queue->last) {
        const struct op *op = op_at(queue, queue->first++);
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

int sp_op_queue_handle_slot(struct sp_conn *conn, const struct sp_slot *slot,
                            const uint8_t *payload)
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
    struct sp_op_queue *queue = conn->op_queue;

    for (uint32_t i = queue ? queue->first : 0; queue && i != queue->last; i++) {
        struct op *op = op_at(queue, i);
        if (op->op_number == slot->extra && op->kind != OP_DONE && op->kind != OP_NOTICE) {
            op->status = (uint8_t)slot->error.status;
            op->kind = OP_READ; /* is_executed() must not use the target's count */
            op->moved = 0;
        }
    }
}
