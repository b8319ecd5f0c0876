/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which peers of an endpoint are sent so much that their connections have long send queues: the
 * whole sq_depth of UTOFU_VERBS_TUNE instead of half of it. Under the endpoint's lock.
 */
#ifndef VP_BUSY_H
#define VP_BUSY_H

#include "verbs/ep_types.h"

/* Length of the send queue of a new connection to the peer. */
uint32_t vp_sq_depth(const struct vp_ep *ep, uint64_t peer_id);
/* Call when the send queue to the peer was full again and again. An endpoint remembers a limited
 * number of peers. */
void vp_sq_mark_busy(struct vp_ep *ep, uint64_t peer_id);

#endif
