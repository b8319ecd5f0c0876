/* SPDX-License-Identifier: Apache-2.0 */
/* Active handshakes, which this side starts. The steps run in progress(), as those of
 * handshake.h. */
#ifndef VP_ACTIVE_H
#define VP_ACTIVE_H

#include "verbs/conn_types.h"
#include "cm_ops.h"

int vp_connect(struct prov_ep *ep, const void *addr, size_t addr_size, unsigned int peer_tni,
               uint64_t peer_id, const void *hello, size_t hello_size, void *ctx,
               struct prov_conn **conn);

/* The steps of an attempt, in order: begin, resolve the route, send the request, handle the reply
 * or the reject. */
void vp_active_begin(struct vp_conn *conn);
void vp_active_resolve_route(struct vp_conn *conn);
void vp_active_send_request(struct vp_conn *conn);
void vp_active_handle_response(struct vp_conn *conn, const struct vp_cm_event *event);
void vp_active_handle_reject(struct vp_conn *conn, const struct vp_cm_event *event);

#endif
