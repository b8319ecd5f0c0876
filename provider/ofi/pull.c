/* SPDX-License-Identifier: Apache-2.0 */
#include "pull.h"

#include <stdlib.h>

#include "pool.h"
#include "region.h"
#include "send.h"
#include "util/log.h"

static bool is_alive(const struct fp_conn *conn)
{
    return (conn->state == FP_UP || conn->state == FP_CLOSING) && !conn->broken;
}

bool fp_pull_offers(const struct fp_conn *conn, uint32_t key, uint64_t addr, uint32_t length,
                    struct fp_offer *offer)
{
    uint32_t least = conn->ep->prov->pull_min;

    return least > 0 && length >= least &&
           fp_memory_is_there(conn->ep->prov, (const void *)(uintptr_t)addr, length, false) &&
           fp_expose(conn->ep, key, addr, length, &offer->key, &offer->at);
}

bool fp_pull_add(struct fp_conn *conn, const struct fp_offer *offer, bool is_read)
{
    struct fp_pull *pull = conn->num_pulls == FP_PULLS ? NULL : calloc(1, sizeof(*pull));

    if (!pull)
        return false;
    pull->offer = *offer;
    pull->is_read = is_read;
    *conn->last_pull = pull;
    conn->last_pull = &pull->next;
    conn->num_pulls++;
    if (!conn->asking)
        conn->asking = pull;
    return true;
}

/* Has the transfer failed? Then no more of it is fetched. */
static bool has_failed(const struct fp_conn *conn, const struct fp_pull *pull)
{
    return pull->status != PROV_OK ||
           (!pull->is_read && fp_is_refused(conn, pull->offer.x.head.seq));
}

/* False: not possible now, or the connection breaks. */
static bool ask(struct fp_conn *conn, struct fp_pull *pull)
{
    struct fp_ep *ep = conn->ep;
    uint32_t left = pull->offer.x.length - pull->asked;
    uint32_t n = left < ep->prov->chunk ? left : ep->prov->chunk;
    struct fp_buf *buf = fp_pool_get(&ep->chunks, FP_BUF_PULL, conn);

    if (!buf)
        return false;
    ssize_t rc = fi_read(ep->fids.ep, buf->bytes, n, buf->desc, conn->at,
                         pull->offer.at + pull->asked, pull->offer.key, &buf->context);
    if (rc != 0) {
        fp_pool_put(buf);
        if (rc != -FI_EAGAIN)
            fp_break(conn, fp_strerror(rc));
        return false;
    }
    buf->size = n;
    conn->num_sending++;
    pull->asked += n;
    conn->chunks[conn->last_chunk++ % FP_CHUNKS] = (struct fp_chunk){.buf = buf, .pull = pull};
    return true;
}

void fp_pull_ask(struct fp_conn *conn)
{
    while (conn->asking && is_alive(conn)) {
        struct fp_pull *pull = conn->asking;
        if (pull->asked == pull->offer.x.length || has_failed(conn, pull)) {
            conn->asking = pull->next;
            continue;
        }
        if (conn->last_chunk - conn->first_chunk == FP_CHUNKS)
            return;
        if (!ask(conn, pull)) {
            fp_mark_busy(conn);
            return;
        }
    }
}

static void land(struct fp_conn *conn, const struct fp_chunk *chunk)
{
    struct fp_pull *pull = chunk->pull;
    const struct fp_xfer *x = &pull->offer.x;

    if (!has_failed(conn, pull))
        pull->status = (uint8_t)fp_copy_in(conn->ep->prov, x->rkey, x->rmt, x->length,
                                           chunk->buf->bytes, pull->moved, chunk->buf->size);
    if (pull->status != PROV_OK && !pull->is_read)
        fp_refuse(conn, x->head.seq, pull->status);
    pull->moved += chunk->buf->size;
}

void fp_pull_came(struct fp_buf *buf)
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
        land(conn, chunk);
        fp_pool_put(chunk->buf);
        conn->first_chunk++;
    }
}

void fp_pull_failed(struct fp_buf *buf, int error)
{
    struct fp_conn *conn = buf->owner;

    conn->num_sending--;
    for (uint32_t n = conn->first_chunk; n != conn->last_chunk; n++) {
        struct fp_chunk *chunk = &conn->chunks[n % FP_CHUNKS];
        if (chunk->buf == buf)
            chunk->buf = NULL; /* it will not be used */
    }
    fp_pool_put(buf);
    fp_break(conn, fp_strerror(-error));
}

bool fp_pull_take(struct fp_conn *conn, struct fp_pull *ended)
{
    struct fp_pull *first = conn->pulls;

    if (!first || first->moved != first->asked ||
        (first->asked != first->offer.x.length && !has_failed(conn, first)))
        return false;
    if (conn->asking == first)
        conn->asking = first->next;
    conn->pulls = first->next;
    if (!conn->pulls)
        conn->last_pull = &conn->pulls;
    conn->num_pulls--;
    *ended = *first;
    free(first);
    return true;
}

void fp_pulls_drop(struct fp_conn *conn)
{
    for (; conn->first_chunk != conn->last_chunk; conn->first_chunk++) {
        struct fp_chunk *chunk = &conn->chunks[conn->first_chunk % FP_CHUNKS];
        if (chunk->came)
            fp_pool_put(chunk->buf);
    }
    while (conn->pulls) {
        struct fp_pull *pull = conn->pulls;
        conn->pulls = pull->next;
        free(pull);
    }
    conn->last_pull = &conn->pulls;
    conn->asking = NULL;
    conn->num_pulls = 0;
}
