/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a connection as all that work on it change it. */
#ifndef SP_STATE_H
#define SP_STATE_H

#include "conn_types.h"
#include "ep_types.h"
#include "provider.h"

/* A peer's ring is full or an answer is due: nobody rings for that. */
void sp_ep_wake_in_a_moment(struct sp_ep *ep);
void sp_ep_activate(struct sp_conn *conn);
void sp_ep_deactivate(struct sp_conn *conn);
/* Its owner is told by the endpoint: sp_conn_tell(). */
void sp_conn_go_down(struct sp_conn *conn, enum prov_reason reason);

#endif
