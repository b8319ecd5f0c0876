/* SPDX-License-Identifier: Apache-2.0 */
/* A connection and its queue pair: made, set up, destroyed. */
#ifndef VP_QP_H
#define VP_QP_H

#include <stdbool.h>

#include "verbs/conn_types.h"
#include "verbs/ep_types.h"

struct vp_conn *vp_conn_new(struct vp_ep *ep, bool active);
/* The caller logs an error. */
int vp_conn_create_qp(struct vp_conn *conn);
/* (active) The enhancements that the connection's request offers. */
struct vp_ece vp_conn_ece_offer(const struct vp_conn *conn);
/* Brings the queue pair to INIT, RTR and RTS with the parameters of the handshake and the limits of
 * this library. conn->ece: the peer's offer (passive) or choice (active), then the choice of this
 * side. -ECONNABORTED: the peer has given up the handshake, the route to it is lost, or its
 * enhancements cannot be used here and the next attempt offers fewer. */
int vp_conn_connect_qp(struct vp_conn *conn);
void vp_conn_drop_qp(struct vp_conn *conn);
bool vp_conn_qp_to_error(struct vp_conn *conn);
/* The connection has no queue pair any more, or no completion or event can name it. */
void vp_conn_free(struct vp_conn *conn);

#endif
