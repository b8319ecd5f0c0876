/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of an endpoint: two completion queues with reserved entries (credits), a shared receive
 * queue, and the buffers behind them.
 */
#ifndef VP_QUEUES_H
#define VP_QUEUES_H

#include <stdbool.h>
#include <stdint.h>

#include "verbs/ep_types.h"

enum {
    VP_BATCH_MAX = 16, /* maximum number of requests behind one doorbell */
    VP_SIGNAL_EVERY = 64,
    VP_BOUNCE_SLOTS = 256,
};

/* Returns 0, or -errno after logging: then vp_queues_close() frees what was created. */
int vp_queues_open(struct vp_ep *ep, unsigned int depth);
void vp_queues_close(struct vp_ep *ep);
/* Requests an event when half of the receives are consumed: the owner then has to poll. */
void vp_srq_arm_limit(struct vp_ep *ep);
/* Reserves a completion-queue entry for the last request of a connection. False: no entry is
 * left. */
bool vp_ep_reserve_cqe(struct vp_ep *ep);
void vp_ep_release_cqe(struct vp_ep *ep);

/* Length of the send queue of a new connection to this peer: the whole sq_depth of
 * UTOFU_VERBS_TUNE for a busy peer, half of it for others. Under the endpoint's lock. */
uint32_t vp_sq_depth(const struct vp_ep *ep, uint64_t peer_id);
/* Marks the peer as busy: the send queue to it was full repeatedly. An endpoint remembers a limited
 * number of busy peers. Under the endpoint's lock. */
void vp_sq_mark_busy(struct vp_ep *ep, uint64_t peer_id);

#endif
