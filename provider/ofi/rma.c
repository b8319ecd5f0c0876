/* SPDX-License-Identifier: Apache-2.0 */
/* Long transfers by RMA reads and RMA writes of the fabric: see rma.h. */
#include "rma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "pool.h"
#include "region.h"
#include "send.h"
#include "util/log.h"

static bool is_alive(const struct fp_conn *conn)
{
    return (conn->state == FP_UP || conn->state == FP_CLOSING) && !conn->broken;
}

bool fp_rma_read_make_offer(const struct fp_conn *conn, uint32_t key, uint64_t addr,
                            uint32_t length, struct fp_offer *offer)
{
    uint32_t min = conn->ep->prov->rma_min;

    return min > 0 && length >= min &&
           fp_memory_is_mapped(conn->ep->prov, (const void *)(uintptr_t)addr, length, false) &&
           fp_region_register(conn->ep, key, addr, length, &offer->key, &offer->at);
}

bool fp_rma_read_add(struct fp_conn *conn, const struct fp_offer *offer, bool is_read)
{
    struct fp_rma_read *transfer =
        conn->num_rma_reads == FP_RMA_READS ? NULL : calloc(1, sizeof(*transfer));

    if (!transfer)
        return false;
    transfer->offer = *offer;
    transfer->is_read = is_read;
    STAILQ_INSERT_TAIL(&conn->rma_reads, transfer, next);
    conn->num_rma_reads++;
    if (!conn->posting)
        conn->posting = transfer;
    return true;
}

/* True if the transfer has failed: the rest is not fetched. */
static bool has_failed(const struct fp_conn *conn, const struct fp_rma_read *transfer)
{
    return transfer->status != PROV_OK ||
           (!transfer->is_read && fp_is_op_refused(conn, transfer->offer.x.head.seq));
}

/* False: no read was posted, as none is possible now or the connection has broken. */
static bool post_read(struct fp_conn *conn, struct fp_rma_read *transfer)
{
    struct fp_ep *ep = conn->ep;
    uint32_t left = transfer->offer.x.length - transfer->requested;
    uint32_t n = left < ep->prov->chunk ? left : ep->prov->chunk;
    struct fp_buf *buf = fp_pool_get(&ep->chunks, FP_BUF_RMA_READ, conn);

    if (!buf)
        return false;
    ssize_t rc =
        fi_read(ep->fids.ep, buf->bytes, n, buf->desc, conn->at,
                transfer->offer.at + transfer->requested, transfer->offer.key, &buf->context);
    if (rc != 0) {
        fp_pool_put(buf);
        if (rc != -FI_EAGAIN)
            fp_conn_break(conn, fp_strerror(rc));
        return false;
    }
    buf->size = n;
    conn->num_sending++;
    transfer->requested += n;
    conn->chunks[conn->last_chunk++ % FP_CHUNKS] =
        (struct fp_chunk){.buf = buf, .transfer = transfer};
    return true;
}

void fp_rma_read_post(struct fp_conn *conn)
{
    while (conn->posting && is_alive(conn)) {
        struct fp_rma_read *transfer = conn->posting;
        if (transfer->requested == transfer->offer.x.length || has_failed(conn, transfer)) {
            conn->posting = STAILQ_NEXT(transfer, next);
            continue;
        }
        if (conn->last_chunk - conn->first_chunk == FP_CHUNKS)
            return;
        if (!post_read(conn, transfer)) {
            fp_mark_busy(conn);
            return;
        }
    }
}

static void copy_chunk(struct fp_conn *conn, const struct fp_chunk *chunk)
{
    struct fp_rma_read *transfer = chunk->transfer;
    const struct fp_xfer *x = &transfer->offer.x;

    if (!has_failed(conn, transfer))
        transfer->status =
            (uint8_t)fp_region_copy_in(conn->ep->prov, x->rkey, x->rmt, x->length,
                                       chunk->buf->bytes, transfer->transferred, chunk->buf->size);
    if (transfer->status != PROV_OK && !transfer->is_read)
        fp_refuse_op(conn, x->head.seq, transfer->status);
    transfer->transferred += chunk->buf->size;
}

void fp_rma_read_completed(struct fp_buf *buf)
{
    struct fp_conn *conn = buf->owner;
    bool known = false;

    conn->num_sending--;
    for (uint32_t n = conn->first_chunk; n != conn->last_chunk; n++) {
        struct fp_chunk *chunk = &conn->chunks[n % FP_CHUNKS];
        if (chunk->buf == buf)
            known = chunk->arrived = true;
    }
    if (!known)
        fp_pool_put(buf); /* the connection went down meanwhile */
    while (conn->first_chunk != conn->last_chunk && is_alive(conn)) {
        struct fp_chunk *chunk = &conn->chunks[conn->first_chunk % FP_CHUNKS];
        if (!chunk->arrived)
            break;
        copy_chunk(conn, chunk);
        fp_pool_put(chunk->buf);
        conn->first_chunk++;
    }
}

void fp_rma_read_failed(struct fp_buf *buf, int error)
{
    struct fp_conn *conn = buf->owner;

    conn->num_sending--;
    fp_pool_put(buf); /* its chunk has not arrived, so nothing uses it */
    fp_conn_break(conn, fp_strerror(-error));
}

bool fp_rma_read_take_finished(struct fp_conn *conn, struct fp_rma_read *ended)
{
    struct fp_rma_read *first = STAILQ_FIRST(&conn->rma_reads);

    if (!first || first->transferred != first->requested ||
        (first->requested != first->offer.x.length && !has_failed(conn, first)))
        return false;
    if (conn->posting == first)
        conn->posting = STAILQ_NEXT(first, next);
    STAILQ_REMOVE_HEAD(&conn->rma_reads, next);
    conn->num_rma_reads--;
    *ended = *first;
    free(first);
    return true;
}

void fp_rma_read_drop_all(struct fp_conn *conn)
{
    struct fp_rma_read *transfer;

    for (; conn->first_chunk != conn->last_chunk; conn->first_chunk++) {
        struct fp_chunk *chunk = &conn->chunks[conn->first_chunk % FP_CHUNKS];
        if (chunk->arrived)
            fp_pool_put(chunk->buf);
    }
    while ((transfer = STAILQ_FIRST(&conn->rma_reads))) {
        STAILQ_REMOVE_HEAD(&conn->rma_reads, next);
        free(transfer);
    }
    conn->posting = NULL;
}

/*
 * RMA writes
 */

bool fp_any_order(struct prov_conn *base)
{
    return fp_can_rma_write(((struct fp_conn *)base)->ep->prov);
}

static struct fp_rkey *rkey_slot(struct fp_conn *conn, uint32_t rkey)
{
    return &conn->rkeys[rkey % FP_RKEY_CACHE];
}

static bool find_source(struct fp_conn *conn, const struct prov_xfer *x, void **desc)
{
    struct fp_prov *prov = conn->ep->prov;
    uint64_t from = (uintptr_t)x->lcl;

    *desc = NULL;
    return fp_memory_is_mapped(prov, x->lcl, x->length, false) &&
           (prov->mr_mode & FI_MR_LOCAL
                ? fp_region_register_local(conn->ep, x->lkey, from, x->length, desc)
                : fp_region_allows(prov, x->lkey, from, x->length, 0));
}

bool fp_rma_write_possible(struct fp_conn *conn, const struct prov_xfer *x, void **desc)
{
    struct fp_prov *prov = conn->ep->prov;
    const struct fp_rkey *g = rkey_slot(conn, x->rkey);

    if (!fp_can_rma_write(prov) || (x->flags & (PROV_INLINE | PROV_STRONG_ORDER)) ||
        x->length < prov->rma_min || x->length <= prov->piece ||
        (g->rkey == x->rkey && g->state == FP_RKEY_REFUSED))
        return false;
    return find_source(conn, x, desc);
}

/* Returns the size of the data in the final message: the last cache line. */
static uint32_t tail_size(const struct fp_op *op)
{
    return (uint32_t)((op->rmt + op->length - 1) % PROV_TOFU_LINE) + 1;
}

static void request_key(struct fp_conn *conn, const struct fp_op *op, struct fp_rkey *g)
{
    struct fp_xfer m = {.head = {.kind = FP_RKEY_REQUEST, .seq = conn->sent + 1},
                        .rmt = op->rmt,
                        .rkey = op->rkey,
                        .length = op->length};

    if (fp_send(conn, &m, sizeof(m), NULL, 0) == 0)
        *g = (struct fp_rkey){.rkey = op->rkey, .seq = conn->sent + 1, .state = FP_RKEY_REQUESTED};
}

void fp_rma_write_repeat_key_request(struct fp_conn *conn)
{
    const struct fp_op *op = fp_op_at(conn, conn->sent);
    struct fp_rkey *g = rkey_slot(conn, op->rkey);

    if (conn->sent != conn->posted && op->kind == FP_RMA_WRITE && g->rkey == op->rkey &&
        g->seq == conn->sent + 1 && g->state == FP_RKEY_REQUESTED)
        request_key(conn, op, g);
}

static bool covers_range(const struct fp_rkey *g, const struct fp_op *op)
{
    return op->rmt >= g->addr && op->length <= g->size && op->rmt - g->addr <= g->size - op->length;
}

/* Returns 0: the key is there; -EAGAIN: wait for the key; -ENOKEY: the peer refuses the key. */
static int wait_for_rkey(struct fp_conn *conn, const struct fp_op *op)
{
    struct fp_rkey *g = rkey_slot(conn, op->rkey);
    bool is_for_op = g->rkey == op->rkey && g->seq == conn->sent + 1;
    bool is_cached = g->rkey == op->rkey && (conn->ep->prov->mr_mode & FI_MR_ALLOCATED);

    if (g->state == FP_RKEY_GRANTED && (is_for_op || is_cached) && covers_range(g, op))
        return 0;
    if (is_for_op && g->state != FP_RKEY_REQUESTED)
        return -ENOKEY;
    if (!is_for_op)
        request_key(conn, op, g); /* without memory: at the next poll */
    return -EAGAIN;
}

static ssize_t write_part(struct fp_conn *conn, const struct fp_op *op, uint32_t n,
                          struct fp_buf *buf)
{
    const struct fp_rkey *g = rkey_slot(conn, op->rkey);
    void *desc = op->desc;
    struct iovec from = {.iov_base = op->lcl + op->transferred, .iov_len = n};
    struct fi_rma_iov to = {
        .addr = g->at + (op->rmt - g->addr) + op->transferred, .len = n, .key = g->key};
    struct fi_msg_rma m = {.msg_iov = &from,
                           .desc = &desc,
                           .iov_count = 1,
                           .addr = conn->at,
                           .rma_iov = &to,
                           .rma_iov_count = 1,
                           .context = &buf->context};
    uint64_t delivered = conn->ep->prov->keeps_order ? 0 : FI_DELIVERY_COMPLETE;

    return fi_writemsg(conn->ep->fids.ep, &m, FI_COMPLETION | delivered);
}

/* A fabric without FI_DELIVERY_COMPLETE refuses the first RMA write. Then RMA writes are disabled,
 * and writes that have not begun are sent in messages. */
static int handle_write_error(struct fp_conn *conn, const struct fp_op *op, ssize_t rc)
{
    struct fp_prov *prov = conn->ep->prov;

    if (rc == -FI_EAGAIN)
        return -EAGAIN;
    if (!prov->keeps_order && rc != -FI_ENOMEM) {
        __atomic_store_n(&prov->can_rma_write, 0, __ATOMIC_RELAXED);
        if (op->transferred == 0) {
            ut_info(FP_CAT, "the fabric does not report delivery (%s): RMA writes are disabled",
                    fp_strerror(rc));
            return -ENOKEY;
        }
    }
    fp_conn_break(conn, fp_strerror(rc));
    return -EAGAIN;
}

int fp_rma_write_continue(struct fp_conn *conn, struct fp_op *op)
{
    struct fp_prov *prov = conn->ep->prov;
    uint32_t bulk = op->length - tail_size(op);
    int rc = op->transferred < bulk ? wait_for_rkey(conn, op) : 0;

    if (rc != 0)
        return rc;
    if (op->desc && !fp_region_allows(prov, op->lkey, (uintptr_t)op->lcl, op->length, 0))
        return -EFAULT; /* deregistered meanwhile, with its descriptor */
    while (op->transferred < bulk) {
        uint32_t n = bulk - op->transferred < prov->rma_write_size ? bulk - op->transferred
                                                                   : prov->rma_write_size;
        struct fp_buf *buf = fp_pool_get(&conn->ep->small, FP_BUF_RMA_WRITE, conn);
        if (!buf)
            return -EAGAIN;
        buf->bytes[0] = conn->sent;
        ssize_t written = write_part(conn, op, n, buf);
        if (written != 0) {
            fp_pool_put(buf);
            return handle_write_error(conn, op, written);
        }
        conn->num_sending++;
        conn->num_rma_writes++;
        op->writes++;
        op->transferred += n;
    }
    return prov->keeps_order || op->writes == 0 ? 1 : -EAGAIN;
}

void fp_rma_write_completed(struct fp_buf *buf)
{
    struct fp_conn *conn = buf->owner;
    uint32_t n = (uint32_t)buf->bytes[0];

    conn->num_rma_writes--;
    fp_send_completed(buf);
    fp_op_at(conn, n)->writes--;
    fp_mark_busy(conn);
}

void fp_rma_write_failed(struct fp_buf *buf, int error)
{
    struct fp_conn *conn = buf->owner;

    conn->num_rma_writes--;
    fp_send_completed(buf);
    fp_conn_break(conn, fp_strerror(-error));
}

void fp_rma_write_key_requested(struct fp_conn *conn, const struct fp_xfer *m, size_t size)
{
    struct fp_rkey_reply answer = {.head = {.kind = FP_RKEY_REPLY, .seq = m->head.seq}};

    if (size != sizeof(*m)) {
        fp_conn_break(conn, "a key request of the wrong size");
        return;
    }
    answer.rkey = m->rkey;
    answer.is_granted =
        fp_memory_is_mapped(conn->ep->prov, (void *)(uintptr_t)m->rmt, m->length, true) &&
        fp_region_grant_rkey(conn->ep, m->rkey, m->rmt, m->length, &answer);
    /* without memory: the peer repeats the request */
    fp_send(conn, &answer, sizeof(answer), NULL, 0);
}

void fp_rma_write_key_received(struct fp_conn *conn, const struct fp_rkey_reply *m, size_t size)
{
    struct fp_rkey *g = rkey_slot(conn, m->rkey);

    if (size != sizeof(*m)) {
        fp_conn_break(conn, "a key reply of the wrong size");
        return;
    }
    if (g->rkey != m->rkey || g->seq != m->head.seq || g->state != FP_RKEY_REQUESTED)
        return; /* a duplicate reply */
    g->addr = m->addr;
    g->size = m->size;
    g->key = m->key;
    g->at = m->at;
    g->state = m->is_granted ? FP_RKEY_GRANTED : FP_RKEY_REFUSED;
}
