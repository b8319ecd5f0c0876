/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of a connection are numbered without gaps. If later messages wait for a missing one for
 * long, it is lost: the connection breaks, and the core repeats the operations that did not arrive.
 * All data received are checked: a peer can only break its own connection.
 */
#include "serve.h"

#include <string.h>

#include "conn.h"
#include "order.h"
#include "place.h"
#include "pool.h"
#include "pull.h"
#include "region.h"
#include "send.h"
#include "util/log.h"

/* Sends a refusal after the answers to earlier operations, so that these end normally. */
static void send_refusal(struct fp_conn *conn)
{
    struct fp_head fail = {.kind = FP_FAIL, .flags = conn->refusal, .seq = conn->refused};

    if ((int32_t)(conn->executed + 1 - conn->refused) >= 0 &&
        fp_send(conn, &fail, sizeof(fail), NULL, 0) == 0) /* without memory: at the next poll */
        conn->refusal_due = false;
    else
        fp_mark_busy(conn);
}

/* Counts an executed operation. On a connection to the endpoint itself, its completion is reported
 * at once, before its notice: as adapters do. An endpoint that is closed waits for the completion
 * of all its operations, even unsignalled ones, while the program here may not poll for long. So a
 * message is acknowledged at once, as an answer to an ARMW may be the last one of the connection. A
 * write is acknowledged by an empty poll, because the program usually answers it. */
static int count(struct fp_conn *conn, const struct fp_head *head)
{
    struct fp_conn *origin = conn->is_self ? fp_conn_find(conn->ep, conn->rmt_name) : NULL;

    conn->executed++;
    if (origin) {
        fp_conn_acked(origin, conn->executed);
        return fp_conn_report(origin);
    }
    if ((head->flags & FP_SIGNAL) || head->kind == FP_MESSAGE ||
        conn->executed - conn->told >= FP_SAVED)
        fp_mark_due(conn);
    else
        fp_mark_owing(conn);
    return 0;
}

static int finish_write(struct fp_conn *conn, const struct fp_xfer *m)
{
    int calls = count(conn, &m->head);

    if (!(m->head.flags & FP_NOTIFY) || conn->state != FP_UP)
        return calls;
    fp_callbacks(conn)->notify(conn->ctx, m->imm);
    return calls + 1;
}

static int take_write(struct fp_conn *conn, const struct fp_xfer *m, size_t size)
{
    size_t n = size - sizeof(*m);

    if (m->offset != conn->written || n > m->length - m->offset ||
        (n == 0 && m->offset < m->length)) {
        fp_break(conn, "a piece of a write was lost");
        return 0;
    }
    enum prov_status status =
        fp_copy_in(conn->ep->prov, m->rkey, m->rmt, m->length, m + 1, m->offset, n);
    if (status != PROV_OK) {
        fp_refuse(conn, m->head.seq, status);
        return 0;
    }
    conn->written += (uint32_t)n;
    if (conn->written != m->length)
        return 0;
    conn->written = 0;
    conn->taken++;
    return finish_write(conn, m);
}

/* The fabric has checked only its own part of the write; the key for the last line is checked
 * here. */
static int take_placed(struct fp_conn *conn, const struct fp_xfer *m, size_t size)
{
    size_t n = size - sizeof(*m);

    if (conn->written != 0 || n == 0 || n > PROV_LINE || m->offset > m->length ||
        n != m->length - m->offset) {
        fp_break(conn, "the end of a write was lost");
        return 0;
    }
    enum prov_status status =
        fp_copy_in(conn->ep->prov, m->rkey, m->rmt, m->length, m + 1, m->offset, n);
    if (status != PROV_OK) {
        fp_refuse(conn, m->head.seq, status);
        return 0;
    }
    conn->taken++;
    return finish_write(conn, m);
}

static int take_read(struct fp_conn *conn, const struct fp_xfer *m)
{
    if (conn->last_answer - conn->first_answer == FP_READS) {
        fp_break(conn, "more reads than are allowed");
        return 0;
    }
    if (!fp_allows(conn->ep->prov, m->rkey, m->rmt, m->length, PROV_ACCESS_READ)) {
        fp_refuse(conn, m->head.seq, PROV_RMT_ACCESS);
        return 0;
    }
    conn->answers[conn->last_answer++ & (FP_READS - 1)] =
        (struct fp_answer){.rmt = m->rmt, .rkey = m->rkey, .length = m->length, .seq = m->head.seq};
    conn->taken++;
    int calls = count(conn, &m->head);
    fp_serve_reads(conn);
    return calls;
}

static int take_message(struct fp_conn *conn, const struct fp_head *head, size_t size)
{
    conn->taken++;
    int calls = count(conn, head);
    if (conn->state != FP_UP)
        return calls;
    fp_callbacks(conn)->message(conn->ctx, head + 1, size - sizeof(*head));
    return calls + 1;
}

/* The operation to which the answer belongs; NULL: none. */
static struct fp_op *answered_op(struct fp_conn *conn, uint32_t seq)
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
        conn->reads_out--;
}

/* Ends the fetched or failed transfers in the order of their offers. */
static int finish_pulls(struct fp_conn *conn)
{
    struct fp_pull pull;
    int calls = 0;

    while (fp_pull_take(conn, &pull)) {
        const struct fp_xfer *x = &pull.offer.x;
        if (!pull.is_read) {
            if (!fp_is_refused(conn, x->head.seq))
                calls += finish_write(conn, x);
            continue;
        }
        struct fp_op *op = answered_op(conn, x->head.seq);
        if (op)
            end_op(conn, op, pull.status == PROV_OK ? PROV_OK : PROV_LCL_ACCESS);
    }
    return calls;
}

static int take_offered_write(struct fp_conn *conn, const struct fp_offer *offer, size_t size)
{
    const struct fp_xfer *x = &offer->x;

    if (size != sizeof(*offer) || conn->written != 0) {
        fp_break(conn, "an offer of the wrong size");
        return 0;
    }
    if (!fp_allows(conn->ep->prov, x->rkey, x->rmt, x->length, PROV_ACCESS_WRITE)) {
        fp_refuse(conn, x->head.seq, PROV_RMT_ACCESS);
        return 0;
    }
    if (!fp_pull_add(conn, offer, false)) {
        fp_break(conn, "more to fetch than is allowed, or no memory");
        return 0;
    }
    conn->taken++;
    fp_pull_ask(conn);
    return finish_pulls(conn);
}

/* Processes an operation of the peer. */
static int take_operation(struct fp_conn *conn, const void *bytes, size_t size)
{
    const struct fp_head *head = bytes;

    if (conn->refusal != PROV_OK)
        return 0;
    if (head->seq != conn->taken + 1) {
        fp_break(conn, "an operation was lost");
        return 0;
    }
    if (head->kind == FP_PULL)
        return take_offered_write(conn, bytes, size);
    if (conn->taken != conn->executed) {
        fp_break(conn, "an operation before its turn");
        return 0;
    }
    if (head->kind == FP_MESSAGE)
        return take_message(conn, head, size);
    if (size < sizeof(struct fp_xfer)) {
        fp_break(conn, "a message is too short");
        return 0;
    }
    if (head->kind == FP_PLACED)
        return take_placed(conn, bytes, size);
    return head->kind == FP_WRITE ? take_write(conn, bytes, size) : take_read(conn, bytes);
}

static void take_data(struct fp_conn *conn, const struct fp_xfer *m, size_t size)
{
    struct fp_op *op = answered_op(conn, m->head.seq);
    size_t n = size - sizeof(*m);

    if (size < sizeof(*m) || !op || op->kind != FP_READ || m->offset != op->moved ||
        n > op->length - op->moved || (n == 0 && op->length > 0)) {
        fp_break(conn, "a piece of a read was lost");
        return;
    }
    bool good = fp_copy_in(conn->ep->prov, op->lkey, (uintptr_t)op->lcl, op->length, m + 1,
                           op->moved, n) == PROV_OK;
    op->moved += (uint32_t)n;
    if (!good || op->moved == op->length)
        end_op(conn, op, good ? PROV_OK : PROV_LCL_ACCESS);
}

static void take_offered_read(struct fp_conn *conn, const struct fp_offer *m, size_t size)
{
    struct fp_op *op = answered_op(conn, m->x.head.seq);
    struct fp_offer offer;

    if (size != sizeof(*m) || !op || op->kind != FP_READ || op->moved != 0 ||
        m->x.length != op->length) {
        fp_break(conn, "an offer of the wrong size");
        return;
    }
    offer = *m;
    offer.x.rmt = (uintptr_t)op->lcl;
    offer.x.rkey = op->lkey;
    op->moved = op->length;
    if (!fp_pull_add(conn, &offer, true))
        fp_break(conn, "more to fetch than is allowed, or no memory");
    fp_pull_ask(conn);
}

int fp_serve_pulled(struct fp_buf *buf)
{
    struct fp_conn *conn = buf->owner;

    fp_pull_came(buf);
    int calls = finish_pulls(conn);
    fp_pull_ask(conn);
    if (conn->reported != conn->sent && conn->state < FP_DOWN)
        calls += fp_conn_report(conn);
    return calls;
}

/* The failed operation may be partly unsent. */
static void take_failure(struct fp_conn *conn, const struct fp_head *head)
{
    if (!fp_conn_failed(conn, head->seq - 1, head->flags))
        fp_break(conn, "an answer to nothing");
}

/* The peer has waited for long, and sends the number of its operations. */
static void take_nudge(struct fp_conn *conn, const struct fp_head *head)
{
    if (conn->refusal != PROV_OK)
        return; /* the refusal is the answer */
    if ((int32_t)(head->seq - conn->taken) > 0) {
        fp_break(conn, "operations were lost");
        return;
    }
    conn->told = conn->executed - 1;
    fp_mark_due(conn);
}

static int dispatch(struct fp_conn *conn, const void *bytes, size_t size)
{
    const struct fp_head *head = bytes;

    switch ((enum fp_kind)head->kind) {
    case FP_START:
        return fp_conn_started(conn);
    case FP_WRITE:
    case FP_READ:
    case FP_MESSAGE:
    case FP_PULL:
    case FP_PLACED:
        return take_operation(conn, bytes, size);
    case FP_DATA:
        take_data(conn, bytes, size);
        return 0;
    case FP_OFFER:
        take_offered_read(conn, bytes, size);
        return 0;
    case FP_FAIL:
        take_failure(conn, head);
        return 0;
    case FP_NUDGE:
        take_nudge(conn, head);
        return 0;
    case FP_WANT:
        fp_place_asked(conn, bytes, size);
        return 0;
    case FP_KEY:
        fp_place_answered(conn, bytes, size);
        return 0;
    case FP_ACK:
        return 0;
    }
    fp_break(conn, "a message of an unknown kind");
    return 0;
}

/* Processes the next message in order. */
static int take(struct fp_conn *conn, const void *bytes, size_t size)
{
    const struct fp_head *head = bytes;

    conn->next_in++;
    if (conn->state == FP_ACCEPTED && head->kind != FP_START)
        return 0;
    fp_conn_acked(conn, head->ack);
    int calls = dispatch(conn, bytes, size);
    if (conn->reported != conn->sent || conn->state == FP_CLOSING)
        calls += fp_conn_report(conn);
    return calls;
}

static bool listens(const struct fp_conn *conn)
{
    return !conn->broken &&
           (conn->state == FP_UP || conn->state == FP_CLOSING || conn->state == FP_ACCEPTED);
}

/* False: its receive is kept. */
static bool is_in_turn(struct fp_conn *conn, struct fp_buf *buf, size_t size)
{
    const struct fp_head *head = (const void *)buf->bytes;

    if (head->number == conn->next_in)
        return true;
    if (fp_keep(conn, buf, size))
        return false;
    fp_break(conn, "a message was lost, or came twice");
    fp_receive_later(conn->ep, buf);
    return false;
}

int fp_serve(struct fp_ep *ep, struct fp_buf *buf, size_t size)
{
    const struct fp_head *head = (const void *)buf->bytes;
    struct fp_conn *conn = size < sizeof(*head) ? NULL : fp_conn_find(ep, head->to);
    int calls = 0;

    if (!conn || head->secret != conn->secret_in ||
        !listens(conn)) { /* the connection has ended, or has another secret */
        fp_receive_later(ep, buf);
        return 0;
    }
    if (!is_in_turn(conn, buf, size))
        return 0;
    do {
        calls += take(conn, buf->bytes, size);
        fp_receive_later(ep, buf);
        buf = conn->kept ? fp_kept_next(conn) : NULL;
        size = buf ? buf->size : 0;
    } while (buf);
    return calls;
}

/* Offers the data to the peer for fetching, if allowed. */
static bool offer_read(struct fp_conn *conn, struct fp_answer *a)
{
    struct fp_offer offer = {.x = {.head = {.kind = FP_OFFER, .seq = a->seq}, .length = a->length}};

    if (!fp_allows(conn->ep->prov, a->rkey, a->rmt, a->length, PROV_ACCESS_READ) ||
        !fp_pull_offers(conn, a->rkey, a->rmt, a->length, &offer) ||
        fp_send(conn, &offer, sizeof(offer), NULL, 0) != 0)
        return false;
    a->moved = a->length;
    return true;
}

/* Sends the next piece. False: no room. */
static bool answer(struct fp_conn *conn, struct fp_answer *a)
{
    struct fp_prov *prov = conn->ep->prov;
    uint64_t bytes[FP_PIECE / 8];
    uint32_t n = a->length - a->moved < prov->piece ? a->length - a->moved : prov->piece;
    struct fp_xfer m = {.head = {.kind = FP_DATA, .seq = a->seq}, .offset = a->moved};

    if (a->moved == 0 && a->length > prov->piece && offer_read(conn, a))
        return true;

    enum prov_status status = fp_copy_out(prov, a->rkey, a->rmt, a->length, bytes, a->moved, n);
    if (status != PROV_OK) {
        fp_refuse(conn, a->seq, status);
        conn->first_answer = conn->last_answer;
        return false;
    }
    if (fp_send(conn, &m, sizeof(m), bytes, n) != 0)
        return false;
    a->moved += n;
    return true;
}

void fp_serve_reads(struct fp_conn *conn)
{
    while (conn->first_answer != conn->last_answer && fp_send_has_room(conn) && !conn->broken) {
        struct fp_answer *a = &conn->answers[conn->first_answer & (FP_READS - 1)];
        if (!answer(conn, a))
            break;
        if (a->moved == a->length)
            conn->first_answer++;
    }
    if (conn->first_answer != conn->last_answer)
        fp_mark_busy(conn);
    else if (conn->refusal_due && !conn->broken)
        send_refusal(conn);
}
