/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of an endpoint: see queues.h. */
#include "queues.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/ports/device.h"
#include "recvs.h"
#include "util/assert.h"
#include "util/hash.h"
#include "util/log.h"

enum {
    MAX_CQ_DEPTH = 1 << 20, /* maximum number of entries that an owner can request */
    MAX_CQ_EXTRA = 4096,    /* maximum number of additional entries, for messages and connections */
    CQ_CONN_PART = 24,      /* this fraction of a new queue is for connections */
    SHORT_SQ = 63,          /* a send queue of this length or less is not halved */
    FIRST_RQS = 8,          /* receive queues for which a new completion queue has room */
};

static int create_buffers(struct vp_ep *ep)
{
    uint32_t max = ep->recv_cq_size;
    int rc = ep->srq ? vp_recvs_init(ep, &ep->recvs, vp_srq_first(max), max, 0) : 0;

    if (!rc)
        rc = vp_slab_new(ep, (size_t)(VP_BOUNCE_SLOTS + 1) * PROV_MSG_MAX, &ep->bounce_slab,
                         &ep->bounce_mr);
    if (rc)
        return rc;
    ep->bounce_free = calloc(VP_BOUNCE_SLOTS, sizeof(*ep->bounce_free));
    ep->chain = calloc(VP_BATCH_MAX, sizeof(*ep->chain));
    if (!ep->bounce_free || !ep->chain)
        return -ENOMEM;
    for (uint16_t i = 0; i < VP_BOUNCE_SLOTS; i++)
        ep->bounce_free[ep->bounce_count++] = i;
    return 0;
}

void vp_srq_arm_limit(struct vp_ep *ep)
{
    struct ibv_srq_attr attr = {.srq_limit = ep->recvs.depth / 2};
    int rc = ibv_modify_srq(ep->srq, &attr, IBV_SRQ_LIMIT);

    if (rc)
        ut_debug(VP_CAT, "arming the receive queue of %s: %s", ep->port->name, strerror(rc));
}

/* Selects one of the adapter's interrupts for this process, since each may go to another CPU. */
static int completion_vector(const struct vp_ep *ep)
{
    int vectors = ep->port->dev->context->num_comp_vectors;

    return vectors > 1 ? (int)(ep->prov->config.local_rank % (unsigned int)vectors) : 0;
}

/* If connections have their own receives, recv_cq grows with their number. */
static int create_receive_queues(struct vp_ep *ep)
{
    struct vp_device *dev = ep->port->dev;
    uint32_t size = vp_srq_depth(ep->prov, dev);

    ep->rq_depth = vp_rq_depth(ep->prov, dev);
    if (ep->rq_depth) {
        size = vp_at_most(FIRST_RQS * ep->rq_depth, dev->attr.max_cqe);
        ep->recv_room = size;
    }
    struct ibv_srq_init_attr attr = {.srq_context = ep, .attr = {.max_wr = size, .max_sge = 1}};
    ep->recv_cq_size = size;
    ep->recv_cq = ibv_create_cq(dev->context, (int)size, ep, dev->channel, completion_vector(ep));
    if (dev->has_srq && ep->recv_cq)
        ep->srq = ibv_create_srq(dev->pd, &attr);
    return ep->recv_cq && (ep->srq || !dev->has_srq) ? 0 : -errno;
}

static int create_queues(struct vp_ep *ep, unsigned int depth)
{
    struct vp_device *dev = ep->port->dev;
    const struct vp_tuning *tuning = &ep->prov->tuning;
    uint32_t requests = vp_at_most(depth, MAX_CQ_DEPTH),
             extra = vp_at_most(2 * requests, MAX_CQ_EXTRA);
    uint32_t cq_size = vp_at_most(requests + extra, dev->attr.max_cqe);

    ep->send_cq =
        ibv_create_cq(dev->context, (int)cq_size, ep, dev->channel, completion_vector(ep));
    int rc = ep->send_cq ? create_receive_queues(ep) : -errno;
    if (rc) {
        vp_log_nomem("creating queues", ep->port->name, -rc);
        return rc;
    }
    ep->cq_size = ep->room = cq_size;
    ep->cq_wanted = cq_size - cq_size / CQ_CONN_PART;
    ep->room_msgs = cq_size / 8;
    ep->room_signal = ep->room_inline = cq_size / 2;
    ep->max_inline = dev->max_inline;
    ep->max_msg = ep->port->max_msg;
    ep->notice_apart = tuning->notice_apart;
    ep->sq_depth = vp_at_most(tuning->sq_depth, dev->attr.max_qp_wr);
    ep->sq_first = ep->sq_depth > SHORT_SQ ? (ep->sq_depth + 1) / 2 - 1 : ep->sq_depth;
    ep->signal_every =
        ep->sq_depth /
        4; /* half of a short queue: it must not be full without a signalled request */
    if (ep->signal_every > VP_SIGNAL_EVERY)
        ep->signal_every = VP_SIGNAL_EVERY;
    return 0;
}

int vp_queues_open(struct vp_ep *ep, unsigned int depth)
{
    int rc = create_queues(ep, depth);

    if (!rc)
        rc = create_buffers(ep);
    if (rc || !ep->srq)
        return rc;
    rc = vp_recvs_post_all(ep, &ep->recvs);
    if (!rc)
        vp_srq_arm_limit(ep);
    return rc;
}

void vp_queues_close(struct vp_ep *ep)
{
    if (ep->srq)
        ibv_destroy_srq(ep->srq);
    if (ep->send_cq)
        ibv_destroy_cq(ep->send_cq);
    if (ep->recv_cq)
        ibv_destroy_cq(ep->recv_cq);
    vp_recvs_free(&ep->recvs);
    if (ep->bounce_mr)
        ibv_dereg_mr(ep->bounce_mr);
    free(ep->bounce_slab);
    free(ep->bounce_free);
    ut_hash_free(&ep->by_qp);
    free(ep->chain);
    ut_hash_free(&ep->by_origin);
}

/* Doubles the entries for requests. A device that cannot resize is not asked again. */
static void grow_cq(struct vp_ep *ep)
{
    uint32_t size = vp_at_most(ep->cq_size * 2, ep->port->dev->attr.max_cqe);
    int rc = size > ep->cq_size ? ibv_resize_cq(ep->send_cq, (int)size) : E2BIG;

    if (rc) {
        ut_info(VP_CAT, "the completion queue of %s stays at %u entries: %s", ep->port->name,
                ep->cq_size, strerror(rc));
        ep->cq_wanted = 0;
        return;
    }
    ut_debug(VP_CAT, "a completion queue of %s has %u entries now", ep->port->name, size);
    ep->room += size - ep->cq_size;
    ep->cq_size = size;
}

bool vp_ep_reserve_cqe(struct vp_ep *ep)
{
    bool is_low = ep->room <= ep->room_msgs / 2; /* messages may have used the entries */

    if (ep->cq_wanted && (is_low || ep->cq_size - ep->credits <= ep->cq_wanted))
        grow_cq(ep);
    /* leaves enough entries for writes, which leave room_msgs to messages */
    if (!ep->room || ep->cq_size - ep->credits <= 2 * ep->room_msgs)
        return false;
    ep->room--;
    ep->credits++;
    UT_ASSERT(ep->room + ep->credits <= ep->cq_size);
    return true;
}

void vp_ep_release_cqe(struct vp_ep *ep)
{
    UT_ASSERT(ep->credits > 0 && ep->room + ep->credits <= ep->cq_size);
    ep->room++;
    ep->credits--;
}

/* Of two peers with the same index, the endpoint remembers the later one. */
static uint32_t busy_index(uint64_t peer_id)
{
    return (uint32_t)ut_hash_index(peer_id, 32) % VP_BUSY_PEERS;
}

uint32_t vp_sq_depth(const struct vp_ep *ep, uint64_t peer_id)
{
    return ep->busy[busy_index(peer_id)] == peer_id + 1 ? ep->sq_depth : ep->sq_first;
}

void vp_sq_mark_busy(struct vp_ep *ep, uint64_t peer_id)
{
    ep->busy[busy_index(peer_id)] = peer_id + 1;
}
