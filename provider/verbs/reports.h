/* SPDX-License-Identifier: Apache-2.0 */
/* The signalled requests of a connection that are not reported yet. */
#ifndef VP_REPORTS_H
#define VP_REPORTS_H

#include <stdbool.h>

#include "conn_types.h"
#include "ep_types.h"
#include "util/assert.h"

/* How far vp_write_few() may go on without a look: the ring has room, and no request is to be
 * signalled. Both limits only grow. It is called with each signalled request at least, so that
 * few_until never lags so far behind `head` that it seems to be before it. */
static inline void vp_limit_few(struct vp_conn *conn)
{
    uint32_t full = conn->tail + conn->sq_app, due = conn->signal_due - 1;

    if (!conn->qpx || !vp_is_postable(conn))
        conn->few_until = conn->head;
    else
        conn->few_until = (int32_t)(due - full) < 0 ? due : full;
}

/* The request posted last is signalled. */
static inline void vp_expect_report(struct vp_conn *conn)
{
    conn->signal_due = conn->head + conn->ep->signal_every;
    vp_limit_few(conn);
    conn->reports++;
    conn->ep->reports++;
}

/* Is the request posted last a signalled one? */
static inline bool vp_all_signalled(const struct vp_conn *conn)
{
    return conn->signal_due - conn->ep->signal_every == conn->head;
}

/* None of them is waited for any more. */
static inline void vp_expect_no_reports(struct vp_conn *conn)
{
    UT_ASSERT(conn->reports <= conn->ep->reports);
    conn->ep->reports -= conn->reports;
    conn->reports = 0;
}

#endif
