/* SPDX-License-Identifier: Apache-2.0 */
/* Sends the messages of a connection: see send.h. */
#include "send.h"

#include <errno.h>
#include <string.h>

#include "mapped.h"
#include "control.h"
#include "pool.h"
#include "util/log.h"

void fp_mark_busy(struct fp_conn *conn)
{
    if (conn->busy)
        return;
    conn->busy = true;
    conn->next_busy = conn->ep->busy;
    conn->ep->busy = conn;
}

void fp_ack_now(struct fp_conn *conn)
{
    if (conn->ack_now)
        return;
    conn->ack_now = true;
    conn->next_ack_now = conn->ep->ack_now;
    conn->ep->ack_now = conn;
}

void fp_ack_again(struct fp_conn *conn)
{
    conn->acks_sent = conn->executed - 1;
    fp_ack_now(conn);
}

void fp_conn_break(struct fp_conn *conn, const char *why)
{
    if (conn->broken || conn->state >= FP_DOWN)
        return;
    ut_info(FP_CAT, "a connection breaks: %s", why);
    conn->broken = true;
    fp_reorder_clear(conn);
    conn->awaited_pong = fp_peer_ping(conn->peer);
    fp_mark_busy(conn);
}

/* Also refuses later operations: their notices would arrive before the data of this operation, and
 * again when the peer repeats it. The peer ends the connection when it receives the refusal. */
void fp_refuse_op(struct fp_conn *conn, uint32_t seq, enum prov_status status)
{
    if (fp_is_op_refused(conn, seq))
        return;
    ut_info(FP_CAT, "refused operation %u of a connection (status %d) and all later operations",
            seq, (int)status);
    conn->lcl_refusal = (uint8_t)status;
    conn->lcl_refused_seq = seq;
    conn->lcl_refusal_due = true;
    fp_mark_busy(conn);
}

void fp_ack_later(struct fp_conn *conn)
{
    if (conn->ack_later)
        return;
    conn->ack_later = true;
    conn->next_ack_later = conn->ep->ack_later;
    conn->ep->ack_later = conn;
}

void fp_ack_all_now(struct fp_ep *ep)
{
    while (ep->ack_later) {
        struct fp_conn *conn = ep->ack_later;
        ep->ack_later = conn->next_ack_later;
        conn->ack_later = false;
        fp_ack_now(conn);
    }
}

static void copy_message(uint64_t *bytes, const void *head, size_t head_size, const void *data,
                         size_t size)
{
    memcpy(bytes, head, head_size);
    if (size == 0)
        return;
    prov_tsan_ignore_begin();
    memcpy((uint8_t *)bytes + head_size, data, size);
    prov_tsan_ignore_end();
}

/* False: the message must be queued. */
static bool try_inject(struct fp_conn *conn, const void *head, size_t head_size, const void *data,
                       size_t size)
{
    uint64_t bytes[FP_SMALL / 8];

    if (conn->first || head_size + size > conn->ep->inject)
        return false;
    copy_message(bytes, head, head_size, data, size);
    ssize_t rc = fi_inject(conn->ep->fids.ep, bytes, head_size + size, conn->at);
    if (rc != 0 && rc != -FI_EAGAIN)
        fp_conn_break(conn, fp_strerror(rc));
    return rc != -FI_EAGAIN;
}

int fp_send(struct fp_conn *conn, void *head, size_t head_size, const void *data, size_t size)
{
    struct fp_head *h = head;
    size_t total = head_size + size;

    h->secret = conn->secret_out;
    h->to = conn->rmt_id;
    h->ack = conn->executed;
    h->number = conn->next_out;
    conn->acks_sent = conn->executed;
    if (try_inject(conn, head, head_size, data, size)) {
        conn->next_out++;
        return 0;
    }
    struct fp_buf *buf =
        fp_pool_get(total <= FP_SMALL ? &conn->ep->small : &conn->ep->large, FP_BUF_SEND, conn);
    if (!buf)
        return -ENOMEM;
    copy_message(buf->bytes, head, head_size, data, size);
    buf->size = (uint32_t)total;
    *conn->last = buf;
    conn->last = &buf->next;
    conn->next_out++;
    conn->num_queued++;
    fp_send_queued(conn);
    return 0;
}

void fp_send_queued(struct fp_conn *conn)
{
    while (conn->first && !conn->broken) {
        struct fp_buf *buf = conn->first, *next = buf->next;
        ssize_t rc =
            fi_send(conn->ep->fids.ep, buf->bytes, buf->size, buf->desc, conn->at, &buf->context);
        if (rc == -FI_EAGAIN)
            break;
        if (rc != 0) {
            fp_conn_break(conn, fp_strerror(rc));
            return;
        }
        conn->first = next;
        if (!next)
            conn->last = &conn->first;
        conn->num_queued--;
        conn->num_sending++;
    }
    if (conn->first)
        fp_mark_busy(conn);
}

void fp_send_drop_queued(struct fp_conn *conn)
{
    while (conn->first) {
        struct fp_buf *buf = conn->first;
        conn->first = buf->next;
        fp_pool_put(buf);
    }
    conn->last = &conn->first;
    conn->num_queued = 0;
}

void fp_send_completed(struct fp_buf *buf)
{
    struct fp_conn *conn = buf->owner;

    conn->num_sending--;
    fp_pool_put(buf);
    if (conn->state == FP_CLOSING)
        fp_mark_busy(conn);
}

void fp_send_acks(struct fp_ep *ep)
{
    while (ep->ack_now) {
        struct fp_conn *conn = ep->ack_now;
        struct fp_head ack = {.kind = FP_ACK};
        ep->ack_now = conn->next_ack_now;
        conn->ack_now = false;
        if (conn->executed != conn->acks_sent && !conn->broken &&
            (conn->state == FP_UP || conn->state == FP_CLOSING))
            fp_send(conn, &ack, sizeof(ack), NULL, 0); /* no memory: sent later */
    }
}
