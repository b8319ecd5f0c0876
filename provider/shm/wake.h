/* SPDX-License-Identifier: Apache-2.0 */
/* Wakes the background thread and the owners of endpoints; keeps the list of active connections;
 * takes connections down. All other files use these functions. */
#ifndef SP_WAKE_H
#define SP_WAKE_H

#include <stdbool.h>

#include "provider.h"
#include "types.h"

/* Makes every endpoint check its peers: one died or came up, or an endpoint was closed. Call with
 * prov->lock held. */
void sp_request_peer_checks(struct sp_prov *prov);
/* Makes progress() run; it wakes the owners of endpoints whose ring has `rung` set. */
void sp_kick(struct sp_prov *prov);
/* Makes progress() run in a millisecond; it wakes the owners of endpoints with `wake_by_timer`. */
void sp_start_timer(struct sp_prov *prov);

/* Wakes the owner by the timer: no peer will ring the doorbell when a full ring has room again or a
 * completion is due. */
void sp_ep_wake_soon(struct sp_ep *ep);
/* Adds the connection to ep->active, whose connections each poll visits, or removes it. Both do
 * nothing if that is done already. */
void sp_conn_activate(struct sp_conn *conn);
void sp_conn_deactivate(struct sp_conn *conn);
/* Takes the connection down, unless it is down; sp_conn_report() reports this to the owner. */
void sp_conn_go_down(struct sp_conn *conn, enum prov_reason reason);
/* Called if no slot could be claimed in the peer's ring. True: the ring is damaged, and the
 * connection is or goes down. */
bool sp_conn_check_ring(struct sp_conn *conn);

#endif
