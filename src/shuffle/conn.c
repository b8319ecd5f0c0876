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
    conn->last = &conn->first;
    conn->last_event = &conn->first_event;
    conn->next = ep->conns;
    ep->conns = conn;
    return conn;
}

/* Frees the operations and events of a connection. */
static void clear_conn(struct sh_conn *conn)
{
    while (conn->first) {
        struct sh_op *op = conn->first;
        conn->first = op->next;
        free(op);
    }
    conn->last = &conn->first;
    while (conn->first_event) {
        struct sh_event *e = conn->first_event;
        conn->first_event = e->next;
        free(e);
    }
    conn->last_event = &conn->first_event;
}

/* Frees a connection whose inner connection is closed. While the endpoint is polled, the list of
 * connections does not change. */
void sh_conn_free(struct sh_conn *conn)
{
    struct sh_conn **at = &conn->ep->conns;

    conn->inside = NULL;
    conn->closed = true;
    clear_conn(conn);
    if (conn->ep->polling)
        return;
    while (*at != conn)
        at = &(*at)->next;
    *at = conn->next;
    free(conn);
}

/* Wakes the background thread, which then visits the endpoints until nothing is delayed. */
static void wake_watcher(struct sh_prov *p)
{
    const uint64_t one = 1;

    if (__atomic_exchange_n(&p->watching, 1, __ATOMIC_SEQ_CST) == 0 &&
        ut_fd_check_own(p->event_fd) && write(p->event_fd, &one, sizeof(one)) < 0)
        return; /* the counter is full, so the eventfd is readable */
}

static void earlier_time(uint64_t *due, uint64_t us)
{
    if (*due == 0 || us < *due)
        *due = us ? us : 1;
}

void sh_ep_update_due(struct sh_ep *ep, uint64_t now_us)
{
    uint64_t due = ep->first_request || ep->missed ? now_us : 0;

    for (const struct sh_conn *conn = ep->conns; conn; conn = conn->next) {
        if (conn->first_event)
            earlier_time(&due, conn->first_event->due_us);
        if (conn->first || (conn->down && !conn->closed))
            earlier_time(&due, now_us + 1);
    }
    __atomic_store_n(&ep->due_us, due, __ATOMIC_SEQ_CST);
    if (due)
        wake_watcher(ep->prov);
}
