/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives: an endpoint's in its shared receive queue, or where the device has none (or
 * UTOFU_TEST=srq=0 says so) each connection's in a queue of its own. Peers that send faster than
 * receives are posted again wait: they repeat for ever (RNR).
 */
#ifndef VP_RECVS_H
#define VP_RECVS_H

#include "verbs/conn_types.h"
#include "verbs/ep_types.h"

enum { VP_SRQ_LEAST = 128 }; /* more than VP_SOLICIT_EVERY of each of two busy peers */

static inline uint32_t vp_at_most(uint32_t value, int limit)
{
    return limit > 0 && value > (uint32_t)limit ? (uint32_t)limit : value;
}

/* Receives that the connections of an endpoint share; 0: they do not. */
static inline uint32_t vp_srq_depth(const struct vp_prov *prov, const struct vp_device *dev)
{
    uint32_t depth = vp_at_most(prov->tuning.srq_depth, dev->attr.max_srq_wr);

    return dev->has_srq ? vp_at_most(depth, dev->attr.max_cqe) : 0;
}

/* How many of those an endpoint begins with. */
static inline uint32_t vp_srq_first(uint32_t most)
{
    uint32_t part = (most + 3) / 4;

    return part > VP_SRQ_LEAST ? part : vp_at_most(VP_SRQ_LEAST, (int)most);
}

/* Receives of each connection; 0: they are shared. */
static inline uint32_t vp_rq_depth(const struct vp_prov *prov, const struct vp_device *dev)
{
    return dev->has_srq ? 0 : vp_at_most(prov->tuning.rq_depth, dev->attr.max_qp_wr);
}

/* Memory that the device writes, or reads: whole pages, as ibv_fork_init() needs them. */
int vp_slab_new(struct vp_ep *ep, size_t size, uint8_t **slab, struct ibv_mr **mr);
/* Buffers for `depth` receives, of `most` later, that a sleeping owner can leave alone until
 * `awake` more come. What there is after an error, vp_recvs_free() takes away. */
int vp_recvs_new(struct vp_ep *ep, struct vp_recvs *recvs, uint32_t depth, uint32_t most,
                 uint32_t awake);
void vp_recvs_free(struct vp_recvs *recvs);
/* Posts all of them: to the endpoint's queue, or to the queue pair. */
int vp_recvs_post_all(struct vp_ep *ep, struct vp_recvs *recvs);
/* Twice as many receives, up to the most: more has arrived than half of what there were, before
 * anybody polled. Where there is no memory for them it stays as it is, without an error. Only from
 * ep_poll(). */
void vp_recvs_grow(struct vp_ep *ep, struct vp_recvs *recvs);
/* Posts those that were given back. */
void vp_recvs_refill(struct vp_ep *ep, struct vp_recvs *recvs);

/* The receives of a connection that has a queue of its own, with as many entries of the endpoint's
 * completion queue; -ENOSPC: it cannot grow. Only from progress(). */
int vp_recvs_take(struct vp_conn *conn);
/* When its queue pair is gone. */
void vp_recvs_drop(struct vp_conn *conn);
/* Entries of the completion queue that may hold receives of queue pairs that are gone: taken before
 * it is polled until it is empty, and free for others after that. */
uint32_t vp_recvs_owed_locked(struct vp_ep *ep);
void vp_recvs_pay(struct vp_ep *ep, uint32_t owed);

/* In builds with assertions: nothing that was posted is forgotten. */
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
