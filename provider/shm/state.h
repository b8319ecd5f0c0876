/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of a connection's state, for all files that work on it. */
#ifndef SP_STATE_H
#define SP_STATE_H

#include <stdbool.h>

#include "provider.h"
#include "types.h"

/* Makes every endpoint check its peers: one died or came up, or an endpoint was closed. With
 * prov->lock held. */
void sp_request_peer_checks(struct sp_prov *prov);
/* Makes progress() run, which wakes the owners of endpoints whose ring has `rung`. */
void sp_kick(struct sp_prov *prov);
/* Makes progress() run in a millisecond, and wake the owners of `blocked` endpoints. */
void sp_start_timer(struct sp_prov *prov);

/* Wakes the owner by the timer: a peer's ring is full or a completion is due, for which no peer
 * rings the bell. */
void sp_ep_wake_soon(struct sp_ep *ep);
void sp_conn_activate(struct sp_conn *conn);
void sp_conn_deactivate(struct sp_conn *conn);
/* sp_conn_report() reports it to the owner. */
void sp_conn_go_down(struct sp_conn *conn, enum prov_reason reason);
/* No slot could be claimed in the peer's ring. True: the ring is damaged, and the connection goes
 * down if it has not yet. */
bool sp_conn_check_ring(struct sp_conn *conn);

#endif
