/* SPDX-License-Identifier: Apache-2.0 */
/* Connection manager operations (cm_ops.h) by librdmacm. */
#ifndef VP_RDMACM_H
#define VP_RDMACM_H

#include "cm_ops.h"

/* Context of the listeners' ids. */
extern struct vp_cm_id vp_rdmacm_listener;

/* Takes the next event; false: no event. The caller holds prov->lock. */
bool vp_rdmacm_next(struct vp_prov *prov, struct vp_cm_event *event);
enum vp_reject_reason vp_rdmacm_reject_reason(const struct rdma_cm_event *event);

#endif
