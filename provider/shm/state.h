/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a connection as all that work on it change it. */
#ifndef SP_STATE_H
#define SP_STATE_H

#include <stdbool.h>

#include "conn_types.h"
#include "ep_types.h"
#include "provider.h"

/* The timer wakes the owner: a peer's ring is full or a completion is due, and no peer rings the
 * bell for these. */
void sp_ep_wake_soon(struct sp_ep *ep);
void sp_ep_activate(struct sp_conn *conn);
void sp_ep_deactivate(struct sp_conn *conn);
/* sp_conn_report() tells its owner. */
void sp_conn_go_down(struct sp_conn *conn, enum prov_reason reason);
/* No slot could be claimed in the peer's ring. True: never again, it is damaged; the connection
 * goes down if it has not yet. */
bool sp_conn_is_cut_off(struct sp_conn *conn);

#endif
