/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Polling. Queues the callbacks of the inner provider, and reports to the owner those that are due:
 * completions and arrivals of one connection in order, those of different connections in any order.
 */
#include <stdlib.h>
#include <string.h>

#include "shuffle/freedoms.h"
#include "shuffle/inner.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/self.h"

static UT_THREAD_LOCAL struct sh_ep *polled; /* the endpoint whose inner endpoint is being polled */

/*
 * Callbacks of the inner provider
 */

static void add_event(struct sh_conn *conn, enum sh_event_kind kind, const void *data, size_t size,
                      uint32_t imm)
{
    struct sh_event *e = malloc(sizeof(*e) + size);

    if (!e) { /* if memory is short, the message is lost, and the library ends the link */
        ut_error("process", "UTOFU_SHUFFLE: no memory for a message of a peer");
        conn->down = true;
        conn->reason = PROV_REASON_BROKEN;
        return;
    }
    *e = (struct sh_event){.kind = (uint8_t)kind, .imm = imm, .size = size};
    if (size)
        memcpy(e->data, data, size);
    if (kind != SH_UP && sh_delays_reports())
        e->due_us = ut_clock_us() + sh_delay_us(sh_draw(conn->ep->id, conn->peer_id,
                                                        conn->num_arrived++, SH_DRAW_ARRIVAL));
    STAILQ_INSERT_TAIL(&conn->events, e, next);
}

static void on_message(void *ctx, const void *data, size_t size)
{
    add_event(ctx, SH_MESSAGE, data, size, 0);
}

static void on_notify(void *ctx, uint32_t imm)
{
    add_event(ctx, SH_NOTIFY, NULL, 0, imm);
}

static void on_up(void *ctx, const void *hello, size_t size)
{
    add_event(ctx, SH_UP, hello, size, 0);
}

static void on_down(void *ctx, enum prov_reason reason)
{
    struct sh_conn *conn = ctx;

    conn->down = true;
    conn->reason = reason;
}

static void on_request(void *owner, struct prov *prov, struct prov_conn *inside, uint64_t peer_id,
                       const void *hello, size_t size)
{
    struct sh_ep *ep = polled;
    struct sh_request *r = size <= PROV_PRIVATE_DATA_MAX ? calloc(1, sizeof(*r)) : NULL;
    struct sh_conn *conn = r ? sh_conn_new(ep, peer_id) : NULL;

    (void)owner;
    if (!conn) { /* without memory the request is dropped: the peer repeats it */
        free(r);
        prov->ops->reject(inside);
        return;
    }
    conn->inside = inside;
    r->conn = conn;
    r->size = size;
    memcpy(r->hello, hello, size);
    STAILQ_INSERT_TAIL(&ep->requests, r, next);
}

static void on_srq_low(void *owner)
{
    polled->callbacks->srq_low(owner);
}

#define CALLBACKS                                                                                  \
    .done = sh_piece_done, .message = on_message, .notify = on_notify, .request = on_request,      \
    .up = on_up, .down = on_down
const struct prov_callbacks sh_callbacks = {CALLBACKS};
const struct prov_callbacks sh_callbacks_srq_low = {CALLBACKS, .srq_low = on_srq_low};

/*
 * Reporting to the owner. Each function returns whether it called back: in the callback the owner
 * may close the connection.
 */

static bool report_done(struct sh_conn *conn, enum prov_status status)
{
    struct sh_op *op = TAILQ_FIRST(&conn->ops);
    uint64_t cookie = op->xfer.cookie;

    TAILQ_REMOVE(&conn->ops, op, next);
    free(op);
    conn->ep->callbacks->done(conn->ctx, cookie, status);
    return true;
}

/* Reports the oldest operation, if it is complete and its delay is over. */
static bool report_oldest(struct sh_conn *conn, uint64_t now_us)
{
    struct sh_op *op = TAILQ_FIRST(&conn->ops);

    if (!op || conn->down || op->breaks || !sh_op_is_complete(op))
        return false;
    if (op->report_us == 0) {
        uint64_t drawn = sh_draw(conn->ep->id, conn->peer_id, op->number, SH_DRAW_DONE);
        op->report_us = now_us + (sh_delays_reports() && !conn->broken ? sh_delay_us(drawn) : 0);
    }
    if (op->report_us > now_us)
        sh_freedom_met(SH_FREEDOM_LATE);
    return op->report_us <= now_us && report_done(conn, op->status);
}

static bool report_event(struct sh_conn *conn, uint64_t now_us)
{
    const struct prov_callbacks *cb = conn->ep->callbacks;
    struct sh_event *e = STAILQ_FIRST(&conn->events);

    if (e && e->due_us > now_us)
        sh_freedom_met(SH_FREEDOM_LATE);
    if (!e || e->due_us > now_us)
        return false;
    STAILQ_REMOVE_HEAD(&conn->events, next);
    if (e->kind == SH_NOTIFY)
        cb->notify(conn->ctx, e->imm);
    else if (e->kind == SH_MESSAGE)
        cb->message(conn->ctx, e->data, e->size);
    else
        cb->up(conn->ctx, e->data, e->size);
    free(e);
    return true;
}

/* An incomplete operation may not have been executed. The library repeats it, unless a later notice
 * has arrived. If that notice has overtaken the operation, the outcome is unknown, so the operation
 * fails. */
static enum prov_status status_at_end(const struct sh_conn *conn, const struct sh_op *op)
{
    if (op->status != PROV_OK || sh_op_is_complete(op))
        return op->status;
    if (!op->overtaken || conn->reason != PROV_REASON_BROKEN)
        return PROV_FLUSHED;
    ut_error("process",
             "UTOFU_SHUFFLE: a connection broke while a put was held back behind a later "
             "notice: the put fails");
    return PROV_FAILED;
}

static bool report_lost_conn(struct sh_conn *conn)
{
    while (!conn->closed && !STAILQ_EMPTY(&conn->events))
        report_event(conn, UINT64_MAX);
    while (!conn->closed && !TAILQ_EMPTY(&conn->ops))
        report_done(conn, status_at_end(conn, TAILQ_FIRST(&conn->ops)));
    if (!conn->closed)
        conn->ep->callbacks->down(conn->ctx, conn->reason);
    return true;
}

/* Breaks the connection when all earlier operations are reported. */
static bool report_break(struct sh_conn *conn)
{
    if (TAILQ_EMPTY(&conn->ops) || !TAILQ_FIRST(&conn->ops)->breaks)
        return false;
    conn->down = true;
    conn->reason = PROV_REASON_BROKEN;
    return report_lost_conn(conn);
}

static int report_conn(struct sh_conn *conn, uint64_t now_us)
{
    int told = 0;

    while (!conn->closed && report_oldest(conn, now_us))
        told++;
    while (!conn->closed && report_event(conn, now_us))
        told++;
    if (!conn->closed && conn->broken)
        told += report_break(conn);
    if (!conn->closed && conn->down)
        told += report_lost_conn(conn);
    return told;
}

/* The owner's answer to a request contains the number of its last arrival from that peer. So all
 * arrivals are reported first. */
static int report_requests(struct sh_ep *ep)
{
    struct sh_request *r;
    struct sh_conn *conn;
    int told = 0;

    if (STAILQ_EMPTY(&ep->requests))
        return 0;
    LIST_FOREACH (conn, &ep->conns, next)
        while (!conn->closed && report_event(conn, UINT64_MAX))
            told++;
    while ((r = STAILQ_FIRST(&ep->requests))) {
        STAILQ_REMOVE_HEAD(&ep->requests, next);
        ep->callbacks->request(ep->owner, &ep->prov->prov, (struct prov_conn *)r->conn,
                               r->conn->peer_id, r->hello, r->size);
        free(r);
        told++;
    }
    return told;
}

/* Half of the polls start in the middle of the list, so that no connection is always first. */
static int report_conns(struct sh_ep *ep, uint64_t now_us)
{
    uint64_t turn = sh_draw(ep->id, 0, ep->num_polls++, SH_DRAW_TURN);
    struct sh_conn *conn;
    int told = 0;

    for (unsigned int round = 0; round < 2; round++) {
        LIST_FOREACH (conn, &ep->conns, next) {
            bool first = ((conn->peer_id ^ turn) & 1) == 0;
            if (!conn->closed && first == (round == 0))
                told += report_conn(conn, now_us);
        }
    }
    return told;
}

static void free_closed_conns(struct sh_ep *ep)
{
    for (struct sh_conn *conn = LIST_FIRST(&ep->conns), *next; conn; conn = next) {
        next = LIST_NEXT(conn, next);
        if (conn->closed) {
            LIST_REMOVE(conn, next);
            free(conn);
        }
    }
}

int sh_ep_poll(struct prov_ep *base)
{
    struct sh_ep *ep = sh_ep_of(base);
    struct sh_ep *outer = polled;
    struct sh_conn *conn;

    polled = ep;
    ep->polling = true;
    ep->prov->inside->ops->ep_poll(ep->inside);
    uint64_t now = ut_clock_us();
    LIST_FOREACH (conn, &ep->conns, next)
        if (!conn->closed && !conn->down && !TAILQ_EMPTY(&conn->ops))
            sh_issue(conn, NULL, now);
    int told = report_conns(ep, now) + report_requests(ep);
    ep->polling = false;
    ep->missed |= ep->armed && told > 0;
    polled = outer;
    free_closed_conns(ep);
    sh_ep_update_due(ep, now);
    return told;
}
