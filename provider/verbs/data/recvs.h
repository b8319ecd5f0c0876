/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives of an endpoint in its shared receive queue, or of each connection in its own queue if
 * the device has no shared ones (or with UTOFU_TEST=srq=0). Peers that send faster than receives
 * are posted retry without limit (RNR).
 */
#ifndef VP_RECVS_H
#define VP_RECVS_H

#include "verbs/conn_types.h"
#include "verbs/ep_types.h"

enum { VP_SRQ_MIN = 128 }; /* more than VP_SOLICIT_EVERY for each of two busy peers */

static inline uint32_t vp_at_most(uint32_t value, int limit)
{
    return limit > 0 && value > (uint32_t)limit ? (uint32_t)limit : value;
}

/* Returns the depth of an endpoint's shared receive queue; 0: no shared receive queue. */
static inline uint32_t vp_srq_depth(const struct vp_prov *prov, const struct vp_device *dev)
{
    uint32_t depth = vp_at_most(prov->tuning.srq_depth, dev->attr.max_srq_wr);

    return dev->has_srq ? vp_at_most(depth, dev->attr.max_cqe) : 0;
}

/* Returns the initial number of receives of a shared receive queue. */
static inline uint32_t vp_srq_first(uint32_t max)
{
    uint32_t part = (max + 3) / 4;

    return part > VP_SRQ_MIN ? part : vp_at_most(VP_SRQ_MIN, (int)max);
}

/* Returns the depth of a connection's receive queue; 0: the receives are shared. */
static inline uint32_t vp_rq_depth(const struct vp_prov *prov, const struct vp_device *dev)
{
    return dev->has_srq ? 0 : vp_at_most(prov->tuning.rq_depth, dev->attr.max_qp_wr);
}

/* Allocates memory that the device reads or writes: whole pages, as ibv_fork_init() requires. */
int vp_slab_new(struct vp_ep *ep, size_t size, uint8_t **slab, struct ibv_mr **mr);
/* Creates buffers for `depth` receives, which can grow to `max`. At least `posted_min` receives
 * stay posted while the owner sleeps. After an error, vp_recvs_free() frees what was created. */
int vp_recvs_init(struct vp_ep *ep, struct vp_recvs *recvs, uint32_t depth, uint32_t max,
                  uint32_t posted_min);
void vp_recvs_free(struct vp_recvs *recvs);
/* Posts all receives, to the endpoint's queue or to the queue pair. */
int vp_recvs_post_all(struct vp_ep *ep, struct vp_recvs *recvs);
/* Doubles the receives up to the maximum: call when more than half of them were consumed before a
 * poll. Without memory their number stays. Only ep_poll() calls this. */
void vp_recvs_grow(struct vp_ep *ep, struct vp_recvs *recvs);
/* Posts the consumed receives again. */
void vp_recvs_refill(struct vp_ep *ep, struct vp_recvs *recvs);

/* Creates the receives of a connection's own queue, and reserves as many entries of the endpoint's
 * completion queue. -ENOSPC: the completion queue cannot grow. Only progress() calls this. */
int vp_recvs_create(struct vp_conn *conn);
/* Call when the queue pair is destroyed. */
void vp_recvs_destroy(struct vp_conn *conn);
/* Completion-queue entries that may hold receives of destroyed queue pairs. The caller takes them
 * before it polls the queue until it is empty, and then releases them with
 * vp_recvs_release_deferred(). */
uint32_t vp_recvs_take_deferred_locked(struct vp_ep *ep);
void vp_recvs_release_deferred(struct vp_ep *ep, uint32_t deferred);

/* Builds with assertions check that every consumed receive is posted again. */
#ifdef UT_ASSERTIONS
static inline void vp_recvs_completed(struct vp_recvs *recvs, int n)
{
    recvs->completed += (uint64_t)n;
}
#else
static inline void vp_recvs_completed(struct vp_recvs *recvs, int n)
{
    (void)recvs, (void)n;
}
#endif

#endif
