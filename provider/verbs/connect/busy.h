/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which peers of an endpoint are sent so much that their connections have long send queues: all of
 * the sq_depth of UTOFU_VERBS_TUNE instead of half of it. Under the endpoint's lock.
 */
#ifndef VP_BUSY_H
#define VP_BUSY_H

#include "verbs/ep_types.h"

/* How long the send queue of a new connection to this peer is. */
uint32_t vp_sq_depth(const struct vp_ep *ep, uint64_t peer_id);
/* A connection to it was full again and again. Of very many such peers some are forgotten: they
 * have to show it again. */
void vp_sq_lengthen(struct vp_ep *ep, uint64_t peer_id);

#endif
