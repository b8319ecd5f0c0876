/* SPDX-License-Identifier: Apache-2.0 */
/* Connection objects and their queue pairs: creation, state transitions, destruction. */
#ifndef VP_QP_H
#define VP_QP_H

#include <stdbool.h>
#include <stdint.h>

#include "verbs/conn_types.h"
#include "verbs/ep_types.h"

struct vp_conn *vp_conn_new(struct vp_ep *ep, bool active);
/* Returns 0 or -errno, which the caller logs. */
int vp_conn_create_qp(struct vp_conn *conn);
/* (active) Returns the ECE options that the connect request offers. */
struct vp_ece vp_conn_ece_offer(const struct vp_conn *conn);
/* Brings the queue pair to INIT, RTR and RTS with the parameters of the handshake and the limits of
 * this library. conn->ece has the peer's offer (passive) or choice (active), and after the call the
 * choice of this side. -ECONNABORTED: the peer has given up the handshake, the route to the peer is
 * lost, or this side cannot use its ECE options: the next attempt offers none. */
int vp_conn_connect_qp(struct vp_conn *conn);
void vp_conn_drop_qp(struct vp_conn *conn);
bool vp_conn_qp_to_error(struct vp_conn *conn);
/* The connection must have no queue pair, or no completion or event may refer to it any more. */
void vp_conn_free(struct vp_conn *conn);

/*
 * Failing connections: posting ends, outstanding requests drain, and vp_service_all() reports the
 * end. Under the endpoint's lock.
 */

/* Adds the connection to ep->service_list: the next polls continue its closing, draining or
 * connecting. */
void vp_conn_schedule_service(struct vp_conn *conn);
void vp_conn_set_reason(struct vp_conn *conn, enum prov_reason reason);
/* Records the first failed request. False: an earlier failed request is recorded. */
bool vp_conn_record_error(struct vp_conn *conn, uint32_t seq, enum prov_status status);
/* Ends posting and starts draining. */
void vp_conn_start_failing(struct vp_conn *conn);
/* Handles the device's refusal of request number `seq` and later ones. True: the queue pair is now
 * in the error state, and flushes later requests. */
bool vp_conn_post_failed(struct vp_conn *conn, uint32_t seq, enum prov_status status);

#endif
