/* SPDX-License-Identifier: Apache-2.0 */
/* A connection and its queue pair: made, set up, destroyed. */
#ifndef VP_QP_H
#define VP_QP_H

#include <stdbool.h>

#include "verbs/conn_types.h"
#include "verbs/ep_types.h"

struct vp_conn *vp_conn_new(struct vp_ep *ep, bool active);
/* Its caller logs an error. */
int vp_conn_create_qp(struct vp_conn *conn);
/* (active) The enhancements that its request offers. */
struct vp_ece vp_conn_offer(const struct vp_conn *conn);
/* INIT, ready to receive, ready to send: with what the handshake agreed on, and our own limits.
 * conn->ece is what the peer offers (passive) or uses (active), and then what this side uses.
 * -ECONNABORTED: the peer has given the handshake up meanwhile, or the way to it is lost; or what
 * the peer uses cannot be used here, and the next attempt offers less. */
int vp_conn_ready_qp(struct vp_conn *conn);
void vp_conn_drop_qp(struct vp_conn *conn);
bool vp_conn_qp_to_error(struct vp_conn *conn);
/* It has no queue pair any more, or no completion or event can name it. */
void vp_conn_free(struct vp_conn *conn);

#endif
