/* SPDX-License-Identifier: Apache-2.0 */
/* Bookkeeping of the outstanding signalled requests of a connection. */
#ifndef VP_SIGNALLED_H
#define VP_SIGNALLED_H

#include <stdbool.h>

#include "conn_types.h"
#include "ep_types.h"
#include "util/assert.h"

/* Sets the limit up to which vp_write_inline() checks nothing: the ring has room, and no request
 * has to be signalled. Both limits only grow. Called at least for each signalled request, so that
 * inline_until never falls so far behind `head` that it seems to be ahead. */
static inline void vp_update_inline_until(struct vp_conn *conn)
{
    uint32_t full = conn->tail + conn->sq_xfer_max, due = conn->signal_due - 1;

    if (!conn->qpx || !vp_is_postable(conn))
        conn->inline_until = conn->head;
    else
        conn->inline_until = (int32_t)(due - full) < 0 ? due : full;
}

/* Call after posting a signalled request. */
static inline void vp_count_signalled(struct vp_conn *conn)
{
    conn->signal_due = conn->head + conn->ep->signal_every;
    vp_update_inline_until(conn);
    conn->signalled++;
    conn->ep->signalled++;
}

/* True if the last posted request is signalled. */
static inline bool vp_all_signalled(const struct vp_conn *conn)
{
    return conn->signal_due - conn->ep->signal_every == conn->head;
}

/* Stops waiting for signalled requests. */
static inline void vp_clear_signalled(struct vp_conn *conn)
{
    UT_ASSERT(conn->signalled <= conn->ep->signalled);
    conn->ep->signalled -= conn->signalled;
    conn->signalled = 0;
}

#endif
