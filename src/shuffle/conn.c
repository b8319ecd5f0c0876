/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of an endpoint, and the time at which something delayed is due. */
#include <stdlib.h>
#include <unistd.h>

#include "shuffle/inner.h"
#include "util/fd_check.h"

struct sh_conn *sh_conn_new(struct sh_ep *ep, uint64_t peer_id)
{
    struct sh_conn *conn = calloc(1, sizeof(*conn));

    if (!conn)
        return NULL;
    conn->ep = ep;
    conn->peer_id = peer_id;
    TAILQ_INIT(&conn->ops);
    STAILQ_INIT(&conn->events);
    LIST_INSERT_HEAD(&ep->conns, conn, next);
    return conn;
}

/* Frees the operations and events of a connection. */
static void clear_conn(struct sh_conn *conn)
{
    struct sh_event *e;
    struct sh_op *op;

    while ((op = TAILQ_FIRST(&conn->ops))) {
        TAILQ_REMOVE(&conn->ops, op, next);
        free(op);
    }
    while ((e = STAILQ_FIRST(&conn->events))) {
        STAILQ_REMOVE_HEAD(&conn->events, next);
        free(e);
    }
}

/* Frees a connection whose inner connection is closed. While the endpoint is polled, the list of
 * connections does not change. */
void sh_conn_free(struct sh_conn *conn)
{
    conn->inside = NULL;
    conn->closed = true;
    clear_conn(conn);
    if (conn->ep->polling)
        return;
    LIST_REMOVE(conn, next);
    free(conn);
}

/* Wakes the background thread, which then visits the endpoints until nothing is delayed. */
static void wake_watcher(struct sh_prov *p)
{
    const uint64_t one = 1;

    if (__atomic_exchange_n(&p->watching, 1, __ATOMIC_SEQ_CST) == 0 &&
        ut_fd_check_still_ours(p->event_fd) && write(p->event_fd, &one, sizeof(one)) < 0)
        return; /* the counter is full, so the eventfd is readable */
}

static void earlier_time(uint64_t *due, uint64_t us)
{
    if (*due == 0 || us < *due)
        *due = us ? us : 1;
}

void sh_ep_update_due(struct sh_ep *ep, uint64_t now_us)
{
    uint64_t due = !STAILQ_EMPTY(&ep->requests) || ep->missed ? now_us : 0;
    const struct sh_conn *conn;

    LIST_FOREACH (conn, &ep->conns, next) {
        if (!STAILQ_EMPTY(&conn->events))
            earlier_time(&due, STAILQ_FIRST(&conn->events)->due_us);
        if (!TAILQ_EMPTY(&conn->ops) || (conn->down && !conn->closed))
            earlier_time(&due, now_us + 1);
    }
    __atomic_store_n(&ep->due_us, due, __ATOMIC_SEQ_CST);
    if (due)
        wake_watcher(ep->prov);
}
