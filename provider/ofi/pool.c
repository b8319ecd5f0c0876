/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of an endpoint, and the order of messages: see pool.h. */
#include "pool.h"

#include <stdlib.h>
#include <string.h>

#include "fabric.h"
#include "util/log.h"

enum { BUFFERS_AT_ONCE = 32, LONG_AT_ONCE = FP_CHUNKS, LONG = 65536 };

struct fp_slab {
    struct fp_slab *next;
    struct fid_mr *mr;
    uint64_t bytes[];
};

void fp_pool_init(struct fp_pool *pool, struct fp_prov *prov, const struct fp_fids *fids,
                  size_t buf_size)
{
    *pool = (struct fp_pool){.prov = prov, .fids = fids, .buf_size = (buf_size + 15) & ~(size_t)15};
}

static int register_slab(struct fp_pool *pool, struct fp_slab *slab, size_t size)
{
    struct fp_prov *prov = pool->prov;

    if (!(prov->mr_mode & FI_MR_LOCAL))
        return 0;
    return fp_fabric_mr_reg(prov, pool->fids, slab->bytes, size,
                            FI_SEND | FI_RECV | (prov->rma_min > 0 ? FI_READ : 0), &slab->mr);
}

static bool grow_pool(struct fp_pool *pool)
{
    size_t count = pool->buf_size >= LONG ? LONG_AT_ONCE : BUFFERS_AT_ONCE;
    size_t stride = sizeof(struct fp_buf) + pool->buf_size, size = count * stride;
    struct fp_slab *slab = calloc(1, sizeof(*slab) + size);

    if (!slab) {
        ut_error(FP_CAT, "no memory for %zu bytes of buffers", size);
        return false;
    }
    int rc = register_slab(pool, slab, size);
    if (rc != 0) {
        ut_error(FP_CAT, "cannot register %zu bytes of buffers: %s", size, fp_strerror(rc));
        free(slab);
        return false;
    }
    slab->next = pool->slabs;
    pool->slabs = slab;
    for (size_t i = 0; i < count; i++) {
        struct fp_buf *buf = (struct fp_buf *)(void *)((uint8_t *)slab->bytes + i * stride);
        buf->pool = pool;
        buf->desc = slab->mr ? fi_mr_desc(slab->mr) : NULL;
        fp_pool_put(buf);
    }
    return true;
}

struct fp_buf *fp_pool_get(struct fp_pool *pool, enum fp_buf_kind kind, void *owner)
{
    if (!pool->free && !grow_pool(pool))
        return NULL;
    struct fp_buf *buf = pool->free;
    pool->free = buf->next;
    buf->next = NULL;
    buf->kind = (uint8_t)kind;
    buf->owner = owner;
    return buf;
}

void fp_pool_put(struct fp_buf *buf)
{
    buf->next = buf->pool->free;
    buf->pool->free = buf;
}

void fp_pool_free(struct fp_pool *pool)
{
    while (pool->slabs) {
        struct fp_slab *slab = pool->slabs;
        pool->slabs = slab->next;
        if (slab->mr)
            fp_fabric_mr_close(slab->mr);
        free(slab);
    }
    pool->free = NULL;
}

bool fp_post_receive(struct fp_buf *buf, struct fid_ep *ep, struct fp_buf **unposted)
{
    if (fi_recv(ep, buf->bytes, buf->pool->buf_size, buf->desc, FI_ADDR_UNSPEC, &buf->context) == 0)
        return true;
    buf->next = *unposted;
    *unposted = buf;
    return false;
}

/*
 * Order of messages
 */

enum { STALL_CHECKS = 3 }; /* checks after which a missing message counts as lost */

/* Returns the number of messages that come before this one. */
static uint16_t messages_ahead(const struct fp_conn *conn, const struct fp_buf *buf)
{
    const struct fp_head *head = (const void *)buf->bytes;

    return (uint16_t)(head->number - conn->next_in);
}

bool fp_reorder_insert(struct fp_conn *conn, struct fp_buf *buf, size_t size)
{
    struct fp_buf **at = &conn->early_msgs;
    uint16_t ahead = messages_ahead(conn, buf);

    while (*at && messages_ahead(conn, *at) < ahead)
        at = &(*at)->next;
    if (ahead >= FP_RECEIVES || (*at && messages_ahead(conn, *at) == ahead))
        return false;
    buf->size = (uint32_t)size;
    buf->next = *at;
    *at = buf;
    return true;
}

struct fp_buf *fp_reorder_next(struct fp_conn *conn)
{
    struct fp_buf *buf = conn->early_msgs;

    if (!buf || messages_ahead(conn, buf) > 0)
        return NULL;
    conn->early_msgs = buf->next;
    return buf;
}

void fp_reorder_clear(struct fp_conn *conn)
{
    while (conn->early_msgs) {
        struct fp_buf *buf = conn->early_msgs;
        conn->early_msgs = buf->next;
        buf->next = conn->ep->unposted;
        conn->ep->unposted = buf;
    }
}

bool fp_reorder_is_stalled(struct fp_conn *conn)
{
    bool is_missing = conn->early_msgs && conn->next_in == conn->seen_in;

    conn->stall_checks = is_missing ? conn->stall_checks + 1 : 0;
    conn->seen_in = conn->next_in;
    return conn->stall_checks >= STALL_CHECKS;
}
