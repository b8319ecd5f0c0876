/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives: an endpoint's in its shared receive queue, or each connection's in a queue of its own
 * if the device has no shared ones (or with UTOFU_TEST=srq=0). Peers that send faster than receives
 * are posted wait: they retry for ever (RNR).
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

/* Depth of the shared receive queue of an endpoint; 0: it has none. */
static inline uint32_t vp_srq_depth(const struct vp_prov *prov, const struct vp_device *dev)
{
    uint32_t depth = vp_at_most(prov->tuning.srq_depth, dev->attr.max_srq_wr);

    return dev->has_srq ? vp_at_most(depth, dev->attr.max_cqe) : 0;
}

/* How many of these receives an endpoint begins with. */
static inline uint32_t vp_srq_first(uint32_t max)
{
    uint32_t part = (max + 3) / 4;

    return part > VP_SRQ_MIN ? part : vp_at_most(VP_SRQ_MIN, (int)max);
}

/* Depth of the receive queue of a connection; 0: the receives are shared. */
static inline uint32_t vp_rq_depth(const struct vp_prov *prov, const struct vp_device *dev)
{
    return dev->has_srq ? 0 : vp_at_most(prov->tuning.rq_depth, dev->attr.max_qp_wr);
}

/* Memory that the device writes or reads: whole pages, as ibv_fork_init() requires. */
int vp_slab_new(struct vp_ep *ep, size_t size, uint8_t **slab, struct ibv_mr **mr);
/* Makes buffers for `depth` receives, up to `most` later; a sleeping owner need not post any until
 * `awake` more arrive. After an error, vp_recvs_free() frees what was made. */
int vp_recvs_init(struct vp_ep *ep, struct vp_recvs *recvs, uint32_t depth, uint32_t max,
                  uint32_t posted_min);
void vp_recvs_free(struct vp_recvs *recvs);
/* Posts all receives: to the endpoint's queue, or to the queue pair. */
int vp_recvs_post_all(struct vp_ep *ep, struct vp_recvs *recvs);
/* Doubles the receives, up to `most`: more than half of them were used up before anybody polled.
 * Without memory their number stays, without an error. Called from ep_poll() only. */
void vp_recvs_grow(struct vp_ep *ep, struct vp_recvs *recvs);
/* Posts the receives that were given back. */
void vp_recvs_refill(struct vp_ep *ep, struct vp_recvs *recvs);

/* Makes the receives of a connection's own queue, and reserves as many entries of the endpoint's
 * completion queue; -ENOSPC: the completion queue cannot grow. Called from progress() only. */
int vp_recvs_create(struct vp_conn *conn);
/* Called when the queue pair is gone. */
void vp_recvs_destroy(struct vp_conn *conn);
/* Completion-queue entries that may hold receives of destroyed queue pairs. Taken before the queue
 * is polled until it is empty, and free for others (vp_recvs_release_deferred()) after that. */
uint32_t vp_recvs_take_deferred_locked(struct vp_ep *ep);
void vp_recvs_release_deferred(struct vp_ep *ep, uint32_t owed);

/* In builds with assertions: checks that no posted receive is forgotten. */
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
