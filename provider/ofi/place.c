/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include <errno.h>
#include <string.h>

#include "common/there.h"
#include "conn.h"
#include "pool.h"
#include "region.h"
#include "send.h"

bool fp_any_order(struct prov_conn *base)
{
    return fp_places(((struct fp_conn *)base)->ep->prov);
}

static struct fp_grant *grant_at(struct fp_conn *conn, uint32_t rkey)
{
    return &conn->grants[rkey % FP_GRANTS];
}

static bool covers(const struct fp_grant *g, uint64_t rmt, uint32_t length)
{
    return rmt >= g->addr && length <= g->size && rmt - g->addr <= g->size - length;
}

/* Where a peer of the fabric finds the source of a write. */
static bool find_source(struct fp_conn *conn, const struct prov_xfer *x, void **desc)
{
    struct fp_prov *prov = conn->ep->prov;
    uint64_t from = (uintptr_t)x->lcl;

    *desc = NULL;
    return prov_memory_is_there(x->lcl, x->length, false) &&
           (prov->mr_mode & FI_MR_LOCAL ? fp_expose_own(conn->ep, x->lkey, from, x->length, desc)
                                        : fp_allows(prov, x->lkey, from, x->length, 0));
}

static void ask(struct fp_conn *conn, struct fp_grant *g, uint32_t rkey)
{
    struct fp_xfer m = {.head = {.kind = FP_WANT}, .rkey = rkey};

    if (fp_send(conn, &m, sizeof(m), NULL, 0) == 0)
        *g = (struct fp_grant){.rkey = rkey};
}

bool fp_place_may(struct fp_conn *conn, const struct prov_xfer *x)
{
    struct fp_prov *prov = conn->ep->prov;
    struct fp_grant *g = grant_at(conn, x->rkey);
    void *desc;

    if (!fp_places(prov) || (x->flags & (PROV_COPY | PROV_STRONG)) || x->length < prov->pull_min ||
        x->length <= prov->piece || conn->state != FP_UP || conn->broken ||
        conn->sent != conn->posted) /* which uses what is remembered */
        return false;
    if (g->rkey != x->rkey && fp_send_has_room(conn))
        ask(conn, g, x->rkey);
    return g->rkey == x->rkey && g->is_granted && covers(g, x->rmt, x->length) &&
           find_source(conn, x, &desc);
}

uint32_t fp_place_tail(const struct fp_op *op)
{
    return (uint32_t)((op->rmt + op->length - 1) % PROV_LINE) + 1;
}

static ssize_t write_part(struct fp_conn *conn, const struct fp_op *op, uint32_t n, void *desc,
                          const struct fp_grant *g, struct fp_buf *buf)
{
    struct iovec from = {.iov_base = op->lcl + op->moved, .iov_len = n};
    struct fi_rma_iov to = {
        .addr = g->at + (op->rmt - g->addr) + op->moved, .len = n, .key = g->key};
    struct fi_msg_rma m = {.msg_iov = &from,
                           .desc = &desc,
                           .iov_count = 1,
                           .addr = conn->at,
                           .rma_iov = &to,
                           .rma_iov_count = 1,
                           .context = &buf->context};
    bool keeps_order = conn->ep->prov->keeps_order;

    return fi_writemsg(conn->ep->fids.ep, &m,
                       FI_COMPLETION | (keeps_order ? 0 : FI_DELIVERY_COMPLETE));
}

/* Where it is for FI_DELIVERY_COMPLETE, which the fabric has not, no more are tried. */
static void refused(struct fp_conn *conn, ssize_t rc)
{
    struct fp_prov *prov = conn->ep->prov;

    if (!prov->keeps_order && rc != -FI_ENOMEM)
        __atomic_store_n(&prov->places, 0, __ATOMIC_RELAXED);
    fp_break(conn, fp_strerror(rc));
}

int fp_place(struct fp_conn *conn, struct fp_op *op, uint32_t seq)
{
    struct fp_prov *prov = conn->ep->prov;
    struct fp_grant *g = grant_at(conn, op->rkey);
    struct prov_xfer x = {.lcl = op->lcl, .length = op->length, .lkey = op->lkey};
    uint32_t bulk = op->length - fp_place_tail(op);
    void *desc = NULL;

    if (op->moved < bulk &&
        (g->rkey != op->rkey || !g->is_granted || !find_source(conn, &x, &desc)))
        return -EFAULT;
    while (op->moved < bulk) {
        uint32_t n = bulk - op->moved < prov->part ? bulk - op->moved : prov->part;
        struct fp_buf *buf = fp_pool_get(&conn->ep->small, FP_BUF_PLACE, conn);
        if (!buf)
            return -EAGAIN;
        buf->bytes[0] = seq;
        ssize_t rc = write_part(conn, op, n, desc, g, buf);
        if (rc != 0) {
            fp_pool_put(buf);
            if (rc != -FI_EAGAIN)
                refused(conn, rc);
            return -EAGAIN;
        }
        conn->num_sending++;
        op->writes++;
        op->moved += n;
    }
    return prov->keeps_order || op->writes == 0;
}

void fp_place_done(struct fp_buf *buf)
{
    struct fp_conn *conn = buf->owner;
    uint32_t n = (uint32_t)buf->bytes[0] - 1;

    conn->num_sending--;
    fp_pool_put(buf);
    if (n - conn->reported >= conn->posted - conn->reported)
        return; /* the connection went down meanwhile */
    fp_op_at(conn, n)->writes--;
    fp_mark_busy(conn);
}

void fp_place_failed(struct fp_buf *buf, int error)
{
    struct fp_conn *conn = buf->owner;

    conn->num_sending--;
    fp_pool_put(buf);
    fp_break(conn, fp_strerror(-error));
}

void fp_place_asked(struct fp_conn *conn, const struct fp_xfer *m, size_t size)
{
    struct fp_key answer = {.head = {.kind = FP_KEY}};

    if (size != sizeof(*m)) {
        fp_break(conn, "a question of the wrong size");
        return;
    }
    answer.rkey = m->rkey;
    answer.is_granted = fp_grant(conn->ep, m->rkey, &answer);
    fp_send(conn, &answer, sizeof(answer), NULL, 0); /* without memory: its writes are fetched */
}

void fp_place_answered(struct fp_conn *conn, const struct fp_key *m, size_t size)
{
    struct fp_grant *g = grant_at(conn, m->rkey);

    if (size != sizeof(*m)) {
        fp_break(conn, "a key of the wrong size");
        return;
    }
    if (g->rkey != m->rkey || g->is_granted || !m->is_granted)
        return; /* forgotten meanwhile, or refused */
    g->addr = m->addr;
    g->size = m->size;
    g->key = m->key;
    g->at = m->at;
    g->is_granted = true;
}
