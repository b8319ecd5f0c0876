/* SPDX-License-Identifier: Apache-2.0 */
/* The ids of librdmacm: starting a handshake, refusing one, ending one. */
#ifndef VP_RDMACM_H
#define VP_RDMACM_H

#include "conn_types.h"
#include "prov_types.h"

/* What a rejected request means to the one who asked. */
enum vp_refusal {
    VP_REFUSED_NO_ENDPOINT = 1, /* this one and the next three: said by the peer's provider */
    VP_REFUSED_BY_CORE,
    VP_REFUSED_STRANGER,
    VP_REFUSED_BUSY,  /* also what the kernel says for it when it is overrun */
    VP_REFUSED_ALIVE, /* the answer to a probe */
    VP_REFUSED_DEAD,  /* nobody listens there */
};

/* Gives the connection UTOFU_VERBS_TRAFFIC_CLASS: before its route is resolved. */
void vp_cm_mark(struct rdma_cm_id *id);
/* Starts a handshake from the port to the peer. 0 or -errno. */
int vp_cm_resolve(struct vp_prov *prov, struct vp_id *id, struct vp_port *port,
                  const union vp_sockaddr *peer);
void vp_cm_refuse(struct rdma_cm_id *id, enum vp_refusal refusal);
enum vp_refusal vp_cm_refusal(const struct rdma_cm_event *event);
/* Ends the handshake or the connection on the wire. */
void vp_cm_drop_id(struct vp_conn *conn);

#endif
