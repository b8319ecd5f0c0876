/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Enhanced connection establishment (ECE): adapters of one vendor agree on features of their queue
 * pairs beyond the specification, such as other retransmission or congestion control. The origin of
 * a connection offers the options of its queue pair, the accepting side replies with its choice,
 * and the origin must use the same options: see vp_conn_connect_qp(). Only the vendor knows the
 * meaning of the options.
 */
#ifndef VP_ECE_H
#define VP_ECE_H

#include "verbs/prov_types.h"

/* Returns the options that a queue pair offers before ECE is set; later, and from RTR on, those
 * that it uses. Options 0: none, or not supported by the device or libibverbs. */
struct vp_ece vp_ece_of(struct ibv_qp *qp);
/* Sets the options of a queue pair in RESET. Returns 0; -EOPNOTSUPP: options of another vendor;
 * -errno. */
int vp_ece_use(struct ibv_qp *qp, const struct vp_ece *ece);

/* Set the options of a librdmacm request or reply, and get those of the peer. Options 0: none. */
void vp_ece_send(struct rdma_cm_id *id, const struct vp_ece *ece);
struct vp_ece vp_ece_received(struct rdma_cm_id *id);

#endif
