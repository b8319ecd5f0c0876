/* SPDX-License-Identifier: Apache-2.0 */
#include "send.h"

#include <errno.h>
#include <string.h>

#include "mapped.h"
#include "life.h"
#include "order.h"
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

void fp_mark_due(struct fp_conn *conn)
{
    if (conn->due)
        return;
    conn->due = true;
    conn->next_due = conn->ep->due;
    conn->ep->due = conn;
}

void fp_break(struct fp_conn *conn, const char *why)
{
    if (conn->broken || conn->state >= FP_DOWN)
        return;
    ut_info(FP_CAT, "a connection breaks: %s", why);
    conn->broken = true;
    fp_kept_drop(conn);
    conn->wanted_answer = fp_peer_ask(conn->peer);
    fp_mark_busy(conn);
}

/* A notice of a later operation would come before the data of this one, and again when the peer
 * repeats the failed operation. The peer ends the connection when it receives the refusal. */
void fp_refuse(struct fp_conn *conn, uint32_t seq, enum prov_status status)
{
    if (fp_is_refused(conn, seq))
        return;
    ut_info(FP_CAT, "operation %u of a connection is refused (status %d), with what is behind it",
            seq, (int)status);
    conn->refusal = (uint8_t)status;
    conn->refused = seq;
    conn->refusal_due = true;
    fp_mark_busy(conn);
}

void fp_mark_owing(struct fp_conn *conn)
{
    if (conn->owing)
        return;
    conn->owing = true;
    conn->next_owing = conn->ep->owing;
    conn->ep->owing = conn;
}

void fp_owing_are_due(struct fp_ep *ep)
{
    while (ep->owing) {
        struct fp_conn *conn = ep->owing;
        ep->owing = conn->next_owing;
        conn->owing = false;
        fp_mark_due(conn);
    }
}

static void assemble(uint64_t *bytes, const void *head, size_t head_size, const void *data,
                     size_t size)
{
    memcpy(bytes, head, head_size);
    if (size == 0)
        return;
    prov_unwatched_begin();
    memcpy((uint8_t *)bytes + head_size, data, size);
    prov_unwatched_end();
}

/* False: the message must be queued. */
static bool inject(struct fp_conn *conn, const void *head, size_t head_size, const void *data,
                   size_t size)
{
    uint64_t bytes[FP_SMALL / 8];

    if (conn->first || head_size + size > conn->ep->inject)
        return false;
    assemble(bytes, head, head_size, data, size);
    ssize_t rc = fi_inject(conn->ep->fids.ep, bytes, head_size + size, conn->at);
    if (rc != 0 && rc != -FI_EAGAIN)
        fp_break(conn, fp_strerror(rc));
    return rc != -FI_EAGAIN;
}

int fp_send(struct fp_conn *conn, void *head, size_t head_size, const void *data, size_t size)
{
    struct fp_head *h = head;
    size_t total = head_size + size;

    h->secret = conn->secret_out;
    h->to = conn->rmt_name;
    h->ack = conn->executed;
    h->number = conn->next_out;
    conn->told = conn->executed;
    if (inject(conn, head, head_size, data, size)) {
        conn->next_out++;
        return 0;
    }
    struct fp_buf *buf =
        fp_pool_get(total <= FP_SMALL ? &conn->ep->small : &conn->ep->large, FP_BUF_SEND, conn);
    if (!buf)
        return -ENOMEM;
    assemble(buf->bytes, head, head_size, data, size);
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
            fp_break(conn, fp_strerror(rc));
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

void fp_sent(struct fp_buf *buf)
{
    struct fp_conn *conn = buf->owner;

    conn->num_sending--;
    fp_pool_put(buf);
    if (conn->state == FP_CLOSING)
        fp_mark_busy(conn);
}

void fp_send_acks(struct fp_ep *ep)
{
    while (ep->due) {
        struct fp_conn *conn = ep->due;
        struct fp_head ack = {.kind = FP_ACK};
        ep->due = conn->next_due;
        conn->due = false;
        if (conn->executed != conn->told && !conn->broken &&
            (conn->state == FP_UP || conn->state == FP_CLOSING))
            fp_send(conn, &ack, sizeof(ack), NULL, 0); /* no memory: sent later */
    }
}
