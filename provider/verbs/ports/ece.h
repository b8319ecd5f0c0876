/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Enhanced connection establishment (ECE): adapters of one vendor agree on what their queue pairs
 * do beyond the specification, as other retransmission or congestion control. The origin of a
 * connection offers what its queue pair can do, the accepting side answers with its choice, and the
 * origin must use the same: see vp_conn_connect_qp(). Only the vendor knows the meaning of options.
 */
#ifndef VP_ECE_H
#define VP_ECE_H

#include "verbs/prov_types.h"

/* What a queue pair offers before enhancements are set; after that, and from RTR on, which of them
 * it uses. Options 0: none, or not supported by the device or libibverbs. */
struct vp_ece vp_ece_of(struct ibv_qp *qp);
/* Sets the enhancements of a queue pair in RESET. 0; -EOPNOTSUPP: of another vendor; -errno. */
int vp_ece_use(struct ibv_qp *qp, const struct vp_ece *ece);

/* For an id of librdmacm: sets those of its request or answer, and returns the peer's. Options 0:
 * none. */
void vp_ece_send(struct rdma_cm_id *id, const struct vp_ece *ece);
struct vp_ece vp_ece_received(struct rdma_cm_id *id);

#endif
