/* SPDX-License-Identifier: Apache-2.0 */
/* Failing connections: see fail.h. */
#include "fail.h"

#include "verbs/ep_types.h"
#include "qp.h"
#include "verbs/signalled.h"
#include "util/clock.h"
#include "verbs/wake.h"

/* After an error a device completes all requests at once: these limits are for dead devices. */
enum { DRAIN_MS = 2000, DRAIN_GONE_MS = 200, LOOK_MS = 10 };

void vp_conn_schedule_service(struct vp_conn *conn)
{
    if (vp_list_empty(&conn->service_link)) /* ep_close() iterates over the list */
        vp_list_append(&conn->ep->service_list, &conn->service_link);
    conn->ep->needs_slow_poll = true;
}

void vp_conn_set_reason(struct vp_conn *conn, enum prov_reason reason)
{
    conn->end.reason = (int8_t)reason;
}

/* An error of a part counts as an error of the whole transfer. */
bool vp_conn_record_error(struct vp_conn *conn, uint32_t seq, enum prov_status status)
{
    while (conn->ops[seq & conn->sq_mask].tag == VP_TAG_PART)
        seq++;
    if (conn->end.err_status && (int32_t)(seq - conn->end.err_seq) >= 0)
        return false;
    conn->end.err_seq = seq;
    conn->end.err_status = (uint8_t)status;
    return true;
}

void vp_conn_start_failing(struct vp_conn *conn)
{
    conn->state = VP_CONN_FAILING;
    /* while service_list is not empty, each poll takes send completions: sends_made_progress() in
     * poll.c */
    vp_clear_signalled(conn);
    uint64_t now = ut_clock_ms();
    conn->end.deadline = now + (conn->ep->port->dev->gone ? DRAIN_GONE_MS : DRAIN_MS);
    vp_conn_schedule_service(conn);
    /* some devices raise no event for flushed requests: arming schedules polls while draining */
    vp_ep_wake_later(conn->ep, now + LOOK_MS);
}

bool vp_conn_post_failed(struct vp_conn *conn, uint32_t seq, enum prov_status status)
{
    if (conn->state == VP_CONN_FAILING)
        return false;
    conn->sq_app = conn->sq_cap = 0;
    conn->inline_until = conn->head;
    conn->end.posted_to = seq;
    vp_conn_record_error(conn, seq, status);
    vp_conn_set_reason(conn, conn->ep->port->dev->gone ? PROV_REASON_LOCAL : PROV_REASON_BROKEN);
    bool flushes = vp_conn_qp_to_error(conn);
    vp_conn_start_failing(conn);
    return flushes;
}
