/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives the messages of connections. The messages are numbered without gaps. If later messages
 * wait too long for a missing message, that message is lost: the connection breaks, and the core
 * repeats the operations that did not arrive. All received data are checked, so a peer can only
 * break its own connection.
 */
#include "recv.h"

#include <string.h>

#include "conn.h"
#include "pool.h"
#include "rma.h"
#include "region.h"
#include "send.h"
#include "util/log.h"

/* Sends a refusal after the replies to earlier operations, so that the earlier operations complete
 * normally. */
static void send_refusal(struct fp_conn *conn)
{
    struct fp_head fail = {
        .kind = FP_REFUSAL, .flags = conn->lcl_refusal, .seq = conn->lcl_refused_seq};

    if ((int32_t)(conn->executed + 1 - conn->lcl_refused_seq) >= 0 &&
        fp_send(conn, &fail, sizeof(fail), NULL, 0) == 0) /* without memory: at the next poll */
        conn->lcl_refusal_due = false;
    else
        fp_mark_busy(conn);
}

/*
 * Counts an executed operation. On a loopback connection, its completion is reported at once,
 * before its notice, as adapters do.
 *
 * Acknowledgements: an endpoint that is being closed waits for the completion of all its
 * operations, even unsignalled ones, and this program may not poll for long. So a message is
 * acknowledged at once, because the reply to an ARMW may be the last message of the connection. A
 * write is acknowledged by an empty poll, because the program usually replies to it.
 */
static int count_executed_op(struct fp_conn *conn, const struct fp_head *head)
{
    struct fp_conn *origin = conn->is_self ? fp_conn_find(conn->ep, conn->rmt_id) : NULL;

    conn->executed++;
    if (origin) {
        fp_conn_handle_ack(origin, conn->executed);
        return fp_conn_report_done(origin);
    }
    if ((head->flags & FP_SIGNAL) || head->kind == FP_MESSAGE ||
        conn->executed - conn->acks_sent >= FP_UNACKED_MAX)
        fp_ack_now(conn);
    else
        fp_ack_later(conn);
    return 0;
}

static int finish_write(struct fp_conn *conn, const struct fp_xfer *m)
{
    int calls = count_executed_op(conn, &m->head);

    if (!(m->head.flags & FP_NOTIFY) || conn->state != FP_UP)
        return calls;
    fp_callbacks(conn)->notify(conn->ctx, m->imm);
    return calls + 1;
}

/* Stores the data of a message. False: the write was refused. */
static bool store_piece(struct fp_conn *conn, const struct fp_xfer *m, size_t size)
{
    enum prov_status status =
        fp_region_copy_in(conn->ep->prov, m->rkey, m->rmt, m->length, m + 1, m->offset, size);

    if (status != PROV_OK)
        fp_refuse_op(conn, m->head.seq, status);
    return status == PROV_OK;
}

static int handle_write(struct fp_conn *conn, const struct fp_xfer *m, size_t size)
{
    size_t n = size - sizeof(*m);

    if (m->offset != conn->written || m->offset > m->length || n > m->length - m->offset ||
        (n == 0 && m->offset < m->length)) {
        fp_conn_break(conn, "a piece of a write was lost");
        return 0;
    }
    if (!store_piece(conn, m, n))
        return 0;
    conn->written += (uint32_t)n;
    if (conn->written != m->length)
        return 0;
    conn->written = 0;
    conn->received++;
    return finish_write(conn, m);
}

/* Handles the last line of a write by RMA. The fabric has checked only its own part of the write,
 * so the key is checked here. */
static int handle_rma_write_tail(struct fp_conn *conn, const struct fp_xfer *m, size_t size)
{
    size_t n = size - sizeof(*m);

    if (conn->written != 0 || n == 0 || n > PROV_TOFU_LINE || m->offset > m->length ||
        n != m->length - m->offset) {
        fp_conn_break(conn, "the end of a write was lost");
        return 0;
    }
    if (!store_piece(conn, m, n))
        return 0;
    conn->received++;
    return finish_write(conn, m);
}

static int handle_read(struct fp_conn *conn, const struct fp_xfer *m)
{
    if (conn->last_served - conn->first_served == FP_READS) {
        fp_conn_break(conn, "too many reads");
        return 0;
    }
    if (!fp_region_allows(conn->ep->prov, m->rkey, m->rmt, m->length, PROV_ACCESS_READ)) {
        fp_refuse_op(conn, m->head.seq, PROV_RMT_ACCESS);
        return 0;
    }
    conn->served_reads[conn->last_served++ & (FP_READS - 1)] = (struct fp_served_read){
        .rmt = m->rmt, .rkey = m->rkey, .length = m->length, .seq = m->head.seq};
    conn->received++;
    int calls = count_executed_op(conn, &m->head);
    fp_recv_continue_reads(conn);
    return calls;
}

static int handle_message(struct fp_conn *conn, const struct fp_head *head, size_t size)
{
    conn->received++;
    int calls = count_executed_op(conn, head);
    if (conn->state != FP_UP)
        return calls;
    fp_callbacks(conn)->message(conn->ctx, head + 1, size - sizeof(*head));
    return calls + 1;
}

/* Returns the operation to which the reply belongs; NULL: none. */
static struct fp_op *op_of_reply(struct fp_conn *conn, uint32_t seq)
{
    uint32_t n = seq - 1;

    if (n - conn->reported >= conn->sent - conn->reported)
        return NULL;
    struct fp_op *op = fp_op_at(conn, n);
    return op->ended ? NULL : op;
}

static void end_op(struct fp_conn *conn, struct fp_op *op, enum prov_status status)
{
    op->ended = true;
    op->status = (uint8_t)status;
    if (op->kind == FP_READ)
        conn->reads_in_flight--;
}

/* Ends the fetched or failed transfers in the order of their offers. */
static int finish_rma_reads(struct fp_conn *conn)
{
    struct fp_rma_read transfer;
    int calls = 0;

    while (fp_rma_read_take_finished(conn, &transfer)) {
        const struct fp_xfer *x = &transfer.offer.x;
        if (!transfer.is_read) {
            if (!fp_is_op_refused(conn, x->head.seq))
                calls += finish_write(conn, x);
            continue;
        }
        struct fp_op *op = op_of_reply(conn, x->head.seq);
        if (op)
            end_op(conn, op, transfer.status == PROV_OK ? PROV_OK : PROV_LCL_ACCESS);
    }
    return calls;
}

static int handle_write_offer(struct fp_conn *conn, const struct fp_offer *offer, size_t size)
{
    const struct fp_xfer *x = &offer->x;

    if (size != sizeof(*offer) || conn->written != 0) {
        fp_conn_break(conn, "an offer of the wrong size");
        return 0;
    }
    if (!fp_region_allows(conn->ep->prov, x->rkey, x->rmt, x->length, PROV_ACCESS_WRITE)) {
        fp_refuse_op(conn, x->head.seq, PROV_RMT_ACCESS);
        return 0;
    }
    if (!fp_rma_read_add(conn, offer, false)) {
        fp_conn_break(conn, "too many transfers, or no memory");
        return 0;
    }
    conn->received++;
    fp_rma_read_post(conn);
    return finish_rma_reads(conn);
}

/* Processes an operation of the peer. */
static int handle_operation(struct fp_conn *conn, const void *bytes, size_t size)
{
    const struct fp_head *head = bytes;

    if (conn->lcl_refusal != PROV_OK)
        return 0;
    if (head->seq != conn->received + 1) {
        fp_conn_break(conn, "an operation was lost");
        return 0;
    }
    if (head->kind == FP_WRITE_OFFER)
        return handle_write_offer(conn, bytes, size);
    if (conn->received != conn->executed) {
        fp_conn_break(conn, "an operation overtook another one");
        return 0;
    }
    if (head->kind == FP_MESSAGE)
        return handle_message(conn, head, size);
    if (size < sizeof(struct fp_xfer)) {
        fp_conn_break(conn, "a message is too short");
        return 0;
    }
    if (head->kind == FP_RMA_WRITE)
        return handle_rma_write_tail(conn, bytes, size);
    return head->kind == FP_WRITE ? handle_write(conn, bytes, size) : handle_read(conn, bytes);
}

static void handle_read_data(struct fp_conn *conn, const struct fp_xfer *m, size_t size)
{
    struct fp_op *op = op_of_reply(conn, m->head.seq);
    size_t n = size - sizeof(*m);

    if (size < sizeof(*m) || !op || op->kind != FP_READ || m->offset != op->transferred ||
        n > op->length - op->transferred || (n == 0 && op->length > 0)) {
        fp_conn_break(conn, "a piece of a read was lost");
        return;
    }
    bool is_stored = fp_region_copy_in(conn->ep->prov, op->lkey, (uintptr_t)op->lcl, op->length,
                                       m + 1, op->transferred, n) == PROV_OK;
    op->transferred += (uint32_t)n;
    if (!is_stored || op->transferred == op->length)
        end_op(conn, op, is_stored ? PROV_OK : PROV_LCL_ACCESS);
}

static void handle_read_offer(struct fp_conn *conn, const struct fp_offer *m, size_t size)
{
    struct fp_op *op = op_of_reply(conn, m->x.head.seq);
    struct fp_offer offer;

    if (size != sizeof(*m) || !op || op->kind != FP_READ || op->transferred != 0 ||
        m->x.length != op->length) {
        fp_conn_break(conn, "an offer of the wrong size");
        return;
    }
    offer = *m;
    offer.x.rmt = (uintptr_t)op->lcl;
    offer.x.rkey = op->lkey;
    op->transferred = op->length;
    if (!fp_rma_read_add(conn, &offer, true))
        fp_conn_break(conn, "too many transfers, or no memory");
    fp_rma_read_post(conn);
}

int fp_recv_rma_read_data(struct fp_buf *buf)
{
    struct fp_conn *conn = buf->owner;

    fp_rma_read_completed(buf);
    int calls = finish_rma_reads(conn);
    fp_rma_read_post(conn);
    if (conn->reported != conn->sent && conn->state < FP_DOWN)
        calls += fp_conn_report_done(conn);
    return calls;
}

/* Handles the peer's refusal. This side may not have sent the refused operation completely. */
static void handle_refusal(struct fp_conn *conn, const struct fp_head *head)
{
    if (!fp_conn_handle_refusal(conn, head->seq - 1, head->flags))
        fp_conn_break(conn, "a refusal without an operation");
}

/* Acknowledges again: the peer has waited for long, and sends the number of its operations. If this
 * side has refused one, the acknowledgement shows whether the refusal was lost. */
static void handle_ack_request(struct fp_conn *conn, const struct fp_head *head)
{
    if (conn->lcl_refusal == PROV_OK && (int32_t)(head->seq - conn->received) > 0)
        fp_conn_break(conn, "operations were lost");
    else
        fp_ack_again(conn);
}

static int dispatch_message(struct fp_conn *conn, const void *bytes, size_t size)
{
    const struct fp_head *head = bytes;

    switch ((enum fp_kind)head->kind) {
    case FP_START:
        return fp_conn_handle_start(conn);
    case FP_WRITE:
    case FP_READ:
    case FP_MESSAGE:
    case FP_WRITE_OFFER:
    case FP_RMA_WRITE:
        return handle_operation(conn, bytes, size);
    case FP_READ_DATA:
        handle_read_data(conn, bytes, size);
        return 0;
    case FP_READ_OFFER:
        handle_read_offer(conn, bytes, size);
        return 0;
    case FP_REFUSAL:
        handle_refusal(conn, head);
        return 0;
    case FP_ACK_REQUEST:
        handle_ack_request(conn, head);
        return 0;
    case FP_RKEY_REQUEST:
        fp_rma_write_key_requested(conn, bytes, size);
        return 0;
    case FP_RKEY_REPLY:
        fp_rma_write_key_received(conn, bytes, size);
        return 0;
    case FP_ACK:
        return 0;
    }
    fp_conn_break(conn, "a message of an unknown kind");
    return 0;
}

/* Processes the next message in order. */
static int process_message(struct fp_conn *conn, const void *bytes, size_t size)
{
    const struct fp_head *head = bytes;

    conn->next_in++;
    if (conn->state == FP_ACCEPTED && head->kind != FP_START)
        return 0;
    fp_conn_handle_ack(conn, head->ack);
    int calls = dispatch_message(conn, bytes, size);
    if (conn->reported != conn->sent || conn->state == FP_CLOSING)
        calls += fp_conn_report_done(conn);
    return calls;
}

static bool accepts_messages(const struct fp_conn *conn)
{
    return !conn->broken &&
           (conn->state == FP_UP || conn->state == FP_CLOSING || conn->state == FP_ACCEPTED);
}

/* False: earlier messages are missing; the message stays in its receive. */
static bool is_in_turn(struct fp_conn *conn, struct fp_buf *buf, size_t size)
{
    const struct fp_head *head = (const void *)buf->bytes;

    if (head->number == conn->next_in)
        return true;
    if (fp_reorder_insert(conn, buf, size))
        return false;
    fp_conn_break(conn, "a message was lost or duplicated");
    fp_repost_later(conn->ep, buf);
    return false;
}

int fp_recv_message(struct fp_ep *ep, struct fp_buf *buf, size_t size)
{
    const struct fp_head *head = (const void *)buf->bytes;
    struct fp_conn *conn = size < sizeof(*head) ? NULL : fp_conn_find(ep, head->to);
    int calls = 0;

    /* the connection may have ended, or the message may not be from its peer */
    if (!conn || head->secret != conn->secret_in || !accepts_messages(conn)) {
        fp_repost_later(ep, buf);
        return 0;
    }
    if (!is_in_turn(conn, buf, size))
        return 0;
    do {
        calls += process_message(conn, buf->bytes, size);
        fp_repost_later(ep, buf);
        buf = conn->early_msgs ? fp_reorder_next(conn) : NULL;
        size = buf ? buf->size : 0;
    } while (buf);
    return calls;
}

/* Offers the data to the peer for an RMA read, if possible. */
static bool offer_read(struct fp_conn *conn, struct fp_served_read *a)
{
    struct fp_offer offer = {
        .x = {.head = {.kind = FP_READ_OFFER, .seq = a->seq}, .length = a->length}};

    if (!fp_region_allows(conn->ep->prov, a->rkey, a->rmt, a->length, PROV_ACCESS_READ) ||
        !fp_rma_read_make_offer(conn, a->rkey, a->rmt, a->length, &offer) ||
        fp_send(conn, &offer, sizeof(offer), NULL, 0) != 0)
        return false;
    a->transferred = a->length;
    return true;
}

/* Sends the next piece. False: no room. */
static bool send_read_data(struct fp_conn *conn, struct fp_served_read *a)
{
    struct fp_prov *prov = conn->ep->prov;
    uint64_t bytes[FP_PIECE / 8];
    uint32_t n =
        a->length - a->transferred < prov->piece ? a->length - a->transferred : prov->piece;
    struct fp_xfer m = {.head = {.kind = FP_READ_DATA, .seq = a->seq}, .offset = a->transferred};

    if (a->transferred == 0 && a->length > prov->piece && offer_read(conn, a))
        return true;

    enum prov_status status =
        fp_region_copy_out(prov, a->rkey, a->rmt, a->length, bytes, a->transferred, n);
    if (status != PROV_OK) {
        fp_refuse_op(conn, a->seq, status);
        conn->first_served = conn->last_served;
        return false;
    }
    if (fp_send(conn, &m, sizeof(m), bytes, n) != 0)
        return false;
    a->transferred += n;
    return true;
}

void fp_recv_continue_reads(struct fp_conn *conn)
{
    while (conn->first_served != conn->last_served && fp_send_has_room(conn) && !conn->broken) {
        struct fp_served_read *a = &conn->served_reads[conn->first_served & (FP_READS - 1)];
        if (!send_read_data(conn, a))
            break;
        if (a->transferred == a->length)
            conn->first_served++;
    }
    if (conn->first_served != conn->last_served)
        fp_mark_busy(conn);
    else if (conn->lcl_refusal_due && !conn->broken)
        send_refusal(conn);
}
