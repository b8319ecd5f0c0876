/* SPDX-License-Identifier: Apache-2.0 */
/* Accepts operations. All operations are reported by done(), even if they are executed immediately.
 * Exception: reads of STag tables, whose result the library may need in the same call. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "desc/desc.h"
#include "mapped.h"
#include "shuffle/inner.h"
#include "util/clock.h"

static struct sh_op *new_op(struct sh_conn *conn, enum sh_kind kind, size_t size)
{
    struct sh_op *op = calloc(1, sizeof(*op) + size);

    if (!op)
        return NULL;
    op->kind = (uint8_t)kind;
    op->size = (uint32_t)size;
    op->number = conn->num_posted;
    return op;
}

/* Appends the operation, and issues what is due. Returns `rc` unless posting fails. */
static int append_op(struct sh_conn *conn, struct sh_op *op, int rc)
{
    uint64_t now = ut_clock_us();

    sh_bind(conn, op);
    sh_plan(conn, op, now);
    TAILQ_INSERT_TAIL(&conn->ops, op, next);
    int error = conn->broken ? 0 : sh_issue(conn, op, now);
    bool ends = op->hidden && sh_op_is_complete(op) && op->status == PROV_OK;
    if (error < 0 || ends) {
        TAILQ_REMOVE(&conn->ops, op, next);
        free(op);
        conn->num_posted += ends;
        return ends ? PROV_COMPLETE : error;
    }
    conn->num_posted++;
    sh_ep_update_due(conn->ep, now);
    return rc;
}

static void copy_source(struct sh_op *op, const struct prov_xfer *x)
{
    op->copied = true;
    prov_tsan_ignore_begin();
    memcpy(op->copy, x->lcl, x->length);
    prov_tsan_ignore_end();
}

/* For small puts: either the TCQ entry precedes the sending of the data, or the source is read as
 * late as possible. */
static bool copies_early(const struct sh_conn *conn, const struct sh_op *op)
{
    return op->xfer.length <= UT_MAX_PIGGYBACK &&
           sh_draw(conn->ep->id, conn->peer_id, op->number, SH_DRAW_COPY) & 1;
}

int sh_write(struct prov_conn *base, const struct prov_xfer *x)
{
    struct sh_conn *conn = sh_conn_of(base);
    bool empty = x->length == 0 && !(x->flags & PROV_NOTIFY);

    if (conn->down)
        return -ENOTCONN;
    struct sh_op *op = new_op(conn, empty ? SH_EMPTY : SH_WRITE, 0);
    if (!op)
        return -EAGAIN;
    op->xfer = *x;
    if (x->flags & PROV_INLINE || copies_early(conn, op))
        copy_source(op, x);
    return append_op(conn, op, op->copied ? PROV_SRC_FREE : 0);
}

int sh_read(struct prov_conn *base, const struct prov_xfer *x)
{
    struct sh_conn *conn = sh_conn_of(base);

    if (conn->down)
        return -ENOTCONN;
    struct sh_op *op = new_op(conn, x->length ? SH_READ : SH_EMPTY, 0);
    if (!op)
        return -EAGAIN;
    op->xfer = *x;
    return append_op(conn, op, 0);
}

int sh_send(struct prov_conn *base, const void *data, size_t size, unsigned int flags,
            uint64_t cookie)
{
    struct sh_conn *conn = sh_conn_of(base);

    if (conn->down)
        return -ENOTCONN;
    struct sh_op *op = new_op(conn, SH_SEND, size);
    if (!op)
        return -EAGAIN;
    memcpy(op->data, data, size);
    op->xfer = (struct prov_xfer){.flags = flags, .cookie = cookie};
    return append_op(conn, op, PROV_SRC_FREE);
}

int sh_atomic(struct prov_conn *base, const struct prov_atomic *atomic)
{
    struct sh_conn *conn = sh_conn_of(base);

    if (conn->down)
        return -ENOTCONN;
    struct sh_op *op = new_op(conn, SH_ATOMIC, 0);
    if (!op)
        return -EAGAIN;
    op->atomic = *atomic;
    op->xfer = (struct prov_xfer){.flags = atomic->flags, .cookie = atomic->cookie};
    return append_op(conn, op, 0);
}
