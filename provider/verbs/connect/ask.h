/* SPDX-License-Identifier: Apache-2.0 */
/* Handshakes that this side begins. The steps run in progress(), as those of shake.h. */
#ifndef VP_ASK_H
#define VP_ASK_H

#include "verbs/conn_types.h"
#include "way.h"

int vp_connect(struct prov_ep *ep, const void *addr, size_t addr_size, unsigned int peer_tni,
               uint64_t peer_id, const void *hello, size_t hello_size, void *ctx,
               struct prov_conn **conn);

/* The steps: an attempt begins, the route is resolved, the request is sent, an answer or a refusal
 * arrives. */
void vp_ask_begin(struct vp_conn *conn);
void vp_ask_route(struct vp_conn *conn);
void vp_ask(struct vp_conn *conn);
void vp_ask_answered(struct vp_conn *conn, const struct vp_event *event);
void vp_ask_refused(struct vp_conn *conn, const struct vp_event *event);

#endif
