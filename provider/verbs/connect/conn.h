/* SPDX-License-Identifier: Apache-2.0 */
/* Connections after their handshake, until they are closed: see conn.c. */
#ifndef VP_CONN_H
#define VP_CONN_H

#include <stdint.h>

#include "verbs/conn_types.h"
#include "verbs/ep_types.h"

void vp_conn_up(struct vp_conn *conn);
/* Takes an established connection down for `reason`, or with VP_REASON_PROBE. */
void vp_conn_break(struct vp_conn *conn, int reason);
void vp_conn_error(struct vp_conn *conn, uint32_t seq, const struct ibv_wc *wc);
/* Handles a VP_CTL_* message of the peer's provider. */
void vp_conn_handle_control(struct vp_conn *conn, uint32_t control);
/* Handles VP_EV_* events that progress() has posted. */
void vp_conn_handle_events(struct vp_conn *conn, unsigned int events);
/* Completes the requests before number `upto`. A callback may close the connection. */
void vp_complete_requests(struct vp_conn *conn, uint32_t upto, enum prov_status status);
/* Continue connections that close, drain or have stalled (ep->service_list). Between the two calls
 * the caller delivers everything that has arrived. */
void vp_service_begin(struct vp_ep *ep);
void vp_service_all(struct vp_ep *ep);
void vp_check_stalls(struct vp_ep *ep);
int vp_accept(struct prov_conn *conn, const void *hello, size_t hello_size, void *ctx);
void vp_conn_close(struct prov_conn *conn);
void vp_reject(struct prov_conn *conn);
bool vp_any_order(struct prov_conn *conn);
void vp_set_split_threshold(struct prov_conn *conn, uint32_t min);

#endif
