/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queues of an endpoint: two completion queues, whose entries are given out as credits, a
 * shared receive queue, and the buffers behind them.
 */
#ifndef VP_QUEUES_H
#define VP_QUEUES_H

#include <stdbool.h>

#include "verbs/ep_types.h"

enum {
    VP_BATCH_MAX = 16, /* requests behind one doorbell */
    VP_SIGNAL_EVERY = 64,
    VP_BOUNCE_SLOTS = 256,
};

/* 0, or -errno after logging; vp_queues_close() frees what was made. */
int vp_queues_open(struct vp_ep *ep, unsigned int depth);
void vp_queues_close(struct vp_ep *ep);
/* Asks for an event when half of the receives are gone: then somebody has to poll. */
void vp_srq_arm_limit(struct vp_ep *ep);
/* Reserves the completion-queue entry for the last request of a connection; false: none is left. */
bool vp_ep_reserve_cqe(struct vp_ep *ep);
void vp_ep_release_cqe(struct vp_ep *ep);

#endif
