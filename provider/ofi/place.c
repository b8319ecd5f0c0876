/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include <errno.h>
#include <string.h>

#include "conn.h"
#include "pool.h"
#include "region.h"
#include "send.h"
#include "util/log.h"

bool fp_any_order(struct prov_conn *base)
{
    return fp_places(((struct fp_conn *)base)->ep->prov);
}

static struct fp_grant *grant_at(struct fp_conn *conn, uint32_t rkey)
{
    return &conn->grants[rkey % FP_GRANTS];
}

static bool find_source(struct fp_conn *conn, const struct prov_xfer *x, void **desc)
{
    struct fp_prov *prov = conn->ep->prov;
    uint64_t from = (uintptr_t)x->lcl;

    *desc = NULL;
    return fp_memory_is_there(prov, x->lcl, x->length, false) &&
           (prov->mr_mode & FI_MR_LOCAL ? fp_expose_own(conn->ep, x->lkey, from, x->length, desc)
                                        : fp_allows(prov, x->lkey, from, x->length, 0));
}

bool fp_place_may(struct fp_conn *conn, const struct prov_xfer *x, void **desc)
{
    struct fp_prov *prov = conn->ep->prov;
    const struct fp_grant *g = grant_at(conn, x->rkey);

    if (!fp_places(prov) || (x->flags & (PROV_COPY | PROV_STRONG)) || x->length < prov->pull_min ||
        x->length <= prov->piece || (g->rkey == x->rkey && g->state == FP_REFUSED))
        return false;
    return find_source(conn, x, desc);
}

/* The number of bytes in the message: the last line. */
static uint32_t tail_of(const struct fp_op *op)
{
    return (uint32_t)((op->rmt + op->length - 1) % PROV_LINE) + 1;
}

static void ask(struct fp_conn *conn, const struct fp_op *op, struct fp_grant *g)
{
    struct fp_xfer m = {.head = {.kind = FP_WANT, .seq = conn->sent + 1},
                        .rmt = op->rmt,
                        .rkey = op->rkey,
                        .length = op->length};

    if (fp_send(conn, &m, sizeof(m), NULL, 0) == 0)
        *g = (struct fp_grant){.rkey = op->rkey, .seq = conn->sent + 1, .state = FP_WANTED};
}

void fp_place_ask_again(struct fp_conn *conn)
{
    const struct fp_op *op = fp_op_at(conn, conn->sent);
    struct fp_grant *g = grant_at(conn, op->rkey);

    if (conn->sent != conn->posted && op->kind == FP_PLACED && g->rkey == op->rkey &&
        g->seq == conn->sent + 1 && g->state == FP_WANTED)
        ask(conn, op, g);
}

static bool covers(const struct fp_grant *g, const struct fp_op *op)
{
    return op->rmt >= g->addr && op->length <= g->size && op->rmt - g->addr <= g->size - op->length;
}

/* 0: the write can continue. */
static int await_key(struct fp_conn *conn, const struct fp_op *op)
{
    struct fp_grant *g = grant_at(conn, op->rkey);
    bool is_its = g->rkey == op->rkey && g->seq == conn->sent + 1;
    bool is_kept = g->rkey == op->rkey && (conn->ep->prov->mr_mode & FI_MR_ALLOCATED);

    if (g->state == FP_GRANTED && (is_its || is_kept) && covers(g, op))
        return 0;
    if (is_its && g->state != FP_WANTED)
        return -ENOKEY;
    if (!is_its)
        ask(conn, op, g); /* without memory: at the next poll */
    return -EAGAIN;
}

static ssize_t write_part(struct fp_conn *conn, const struct fp_op *op, uint32_t n,
                          struct fp_buf *buf)
{
    const struct fp_grant *g = grant_at(conn, op->rkey);
    void *desc = op->desc;
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
    uint64_t delivered = conn->ep->prov->keeps_order ? 0 : FI_DELIVERY_COMPLETE;

    return fi_writemsg(conn->ep->fids.ep, &m, FI_COMPLETION | delivered);
}

/* A fabric without FI_DELIVERY_COMPLETE refuses the first write, and no more are tried: writes that
 * have not begun are sent in messages. */
static int refused(struct fp_conn *conn, const struct fp_op *op, ssize_t rc)
{
    struct fp_prov *prov = conn->ep->prov;

    if (rc == -FI_EAGAIN)
        return -EAGAIN;
    if (!prov->keeps_order && rc != -FI_ENOMEM) {
        __atomic_store_n(&prov->places, 0, __ATOMIC_RELAXED);
        if (op->moved == 0) {
            ut_info(FP_CAT, "the fabric does not say when data are delivered (%s): no RMA writes",
                    fp_strerror(rc));
            return -ENOKEY;
        }
    }
    fp_break(conn, fp_strerror(rc));
    return -EAGAIN;
}

int fp_place(struct fp_conn *conn, struct fp_op *op)
{
    struct fp_prov *prov = conn->ep->prov;
    uint32_t bulk = op->length - tail_of(op);
    int rc = op->moved < bulk ? await_key(conn, op) : 0;

    if (rc != 0)
        return rc;
    if (op->desc && !fp_allows(prov, op->lkey, (uintptr_t)op->lcl, op->length, 0))
        return -EFAULT; /* deregistered meanwhile, with its descriptor */
    while (op->moved < bulk) {
        uint32_t n = bulk - op->moved < prov->part ? bulk - op->moved : prov->part;
        struct fp_buf *buf = fp_pool_get(&conn->ep->small, FP_BUF_PLACE, conn);
        if (!buf)
            return -EAGAIN;
        buf->bytes[0] = conn->sent;
        ssize_t written = write_part(conn, op, n, buf);
        if (written != 0) {
            fp_pool_put(buf);
            return refused(conn, op, written);
        }
        conn->num_sending++;
        conn->num_placing++;
        op->writes++;
        op->moved += n;
    }
    return prov->keeps_order || op->writes == 0 ? 1 : -EAGAIN;
}

void fp_place_done(struct fp_buf *buf)
{
    struct fp_conn *conn = buf->owner;
    uint32_t n = (uint32_t)buf->bytes[0];

    conn->num_placing--;
    fp_sent(buf);
    if (n - conn->reported >= conn->posted - conn->reported)
        return; /* the connection went down meanwhile */
    fp_op_at(conn, n)->writes--;
    fp_mark_busy(conn);
}

void fp_place_failed(struct fp_buf *buf, int error)
{
    struct fp_conn *conn = buf->owner;

    conn->num_placing--;
    fp_sent(buf);
    fp_break(conn, fp_strerror(-error));
}

void fp_place_asked(struct fp_conn *conn, const struct fp_xfer *m, size_t size)
{
    struct fp_key answer = {.head = {.kind = FP_KEY, .seq = m->head.seq}};

    if (size != sizeof(*m)) {
        fp_break(conn, "a question of the wrong size");
        return;
    }
    answer.rkey = m->rkey;
    answer.is_granted =
        fp_memory_is_there(conn->ep->prov, (void *)(uintptr_t)m->rmt, m->length, true) &&
        fp_grant(conn->ep, m->rkey, m->rmt, m->length, &answer);
    fp_send(conn, &answer, sizeof(answer), NULL, 0); /* without memory: the peer asks again */
}

void fp_place_answered(struct fp_conn *conn, const struct fp_key *m, size_t size)
{
    struct fp_grant *g = grant_at(conn, m->rkey);

    if (size != sizeof(*m)) {
        fp_break(conn, "a key of the wrong size");
        return;
    }
    if (g->rkey != m->rkey || g->seq != m->head.seq || g->state != FP_WANTED)
        return; /* another answer came before */
    g->addr = m->addr;
    g->size = m->size;
    g->key = m->key;
    g->at = m->at;
    g->state = m->is_granted ? FP_GRANTED : FP_REFUSED;
    fp_mark_busy(conn);
}
