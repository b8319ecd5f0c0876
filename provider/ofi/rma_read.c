/* SPDX-License-Identifier: Apache-2.0 */
#include "rma_read.h"

#include <stdlib.h>

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
    uint32_t least = conn->ep->prov->rma_min;

    return least > 0 && length >= least &&
           fp_memory_is_mapped(conn->ep->prov, (const void *)(uintptr_t)addr, length, false) &&
           fp_region_expose(conn->ep, key, addr, length, &offer->key, &offer->at);
}

bool fp_rma_read_add(struct fp_conn *conn, const struct fp_offer *offer, bool is_read)
{
    struct fp_rma_read *transfer =
        conn->num_rma_reads == FP_RMA_READS ? NULL : calloc(1, sizeof(*transfer));

    if (!transfer)
        return false;
    transfer->offer = *offer;
    transfer->is_read = is_read;
    *conn->last_rma_read = transfer;
    conn->last_rma_read = &transfer->next;
    conn->num_rma_reads++;
    if (!conn->posting)
        conn->posting = transfer;
    return true;
}

/* Has the transfer failed? Then the rest is not fetched. */
static bool has_failed(const struct fp_conn *conn, const struct fp_rma_read *transfer)
{
    return transfer->status != PROV_OK ||
           (!transfer->is_read && fp_is_op_refused(conn, transfer->offer.x.head.seq));
}

/* False: not possible now, or the connection has broken. */
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
            conn->posting = transfer->next;
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
                                       chunk->buf->bytes, transfer->moved, chunk->buf->size);
    if (transfer->status != PROV_OK && !transfer->is_read)
        fp_refuse_op(conn, x->head.seq, transfer->status);
    transfer->moved += chunk->buf->size;
}

void fp_rma_read_completed(struct fp_buf *buf)
{
    struct fp_conn *conn = buf->owner;
    bool known = false;

    conn->num_sending--;
    for (uint32_t n = conn->first_chunk; n != conn->last_chunk; n++) {
        struct fp_chunk *chunk = &conn->chunks[n % FP_CHUNKS];
        if (chunk->buf == buf)
            known = chunk->came = true;
    }
    if (!known)
        fp_pool_put(buf); /* the connection went down meanwhile */
    while (conn->first_chunk != conn->last_chunk && is_alive(conn)) {
        struct fp_chunk *chunk = &conn->chunks[conn->first_chunk % FP_CHUNKS];
        if (!chunk->came)
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
    for (uint32_t n = conn->first_chunk; n != conn->last_chunk; n++) {
        struct fp_chunk *chunk = &conn->chunks[n % FP_CHUNKS];
        if (chunk->buf == buf)
            chunk->buf = NULL; /* not used any more */
    }
    fp_pool_put(buf);
    fp_conn_break(conn, fp_strerror(-error));
}

bool fp_rma_read_take_finished(struct fp_conn *conn, struct fp_rma_read *ended)
{
    struct fp_rma_read *first = conn->rma_reads;

    if (!first || first->moved != first->requested ||
        (first->requested != first->offer.x.length && !has_failed(conn, first)))
        return false;
    if (conn->posting == first)
        conn->posting = first->next;
    conn->rma_reads = first->next;
    if (!conn->rma_reads)
        conn->last_rma_read = &conn->rma_reads;
    conn->num_rma_reads--;
    *ended = *first;
    free(first);
    return true;
}

void fp_rma_read_drop_all(struct fp_conn *conn)
{
    for (; conn->first_chunk != conn->last_chunk; conn->first_chunk++) {
        struct fp_chunk *chunk = &conn->chunks[conn->first_chunk % FP_CHUNKS];
        if (chunk->came)
            fp_pool_put(chunk->buf);
    }
    while (conn->rma_reads) {
        struct fp_rma_read *transfer = conn->rma_reads;
        conn->rma_reads = transfer->next;
        free(transfer);
    }
    conn->last_rma_read = &conn->rma_reads;
    conn->posting = NULL;
    conn->num_rma_reads = 0;
}
