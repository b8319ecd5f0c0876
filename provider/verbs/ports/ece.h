/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Enhanced connection establishment (ECE): adapters of one vendor agree on what their queue pairs
 * do beyond the specification, as other retransmission or congestion control. The origin of a
 * connection offers what its queue pair can; the accepting side uses what it can of that, and says
 * so in its answer; the origin uses the same. Both ends must: see vp_conn_ready_qp(). What the
 * options mean only the vendor knows.
 */
#ifndef VP_ECE_H
#define VP_ECE_H

#include "verbs/prov_types.h"

/* What a queue pair can, as long as nothing was set; after that, and from RTR on, what it uses of
 * what was set. Options 0: nothing, or the device or libibverbs has no such thing. */
struct vp_ece vp_ece_of(struct ibv_qp *qp);
/* A queue pair that is in RESET is to use this. 0; -EOPNOTSUPP: it is of another vendor; -errno. */
int vp_ece_use(struct ibv_qp *qp, const struct vp_ece *ece);

/* For an id of librdmacm: what its request or answer carries, and what the peer's did. Options 0:
 * nothing. */
void vp_ece_send(struct rdma_cm_id *id, const struct vp_ece *ece);
struct vp_ece vp_ece_received(struct rdma_cm_id *id);

#endif
