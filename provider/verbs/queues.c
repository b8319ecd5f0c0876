/* SPDX-License-Identifier: Apache-2.0 */
/* The queues of an endpoint: see queues.h. */
#include "queues.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "table.h"
#include "util/assert.h"
#include "util/log.h"

enum {
    CQ_DEPTH_MOST = 1 << 20, /* of what an owner asks for */
    CQ_EXTRA_MOST = 4096,    /* entries beyond that: for messages, and for connections */
    CQ_CONN_PART = 24,       /* of a new queue: more connections make it grow */
};

/* Buffers for receives and for outgoing messages: whole pages, as ibv_fork_init() needs them. */
static int slab_new(struct vp_ep *ep, size_t size, uint8_t **slab, struct ibv_mr **mr)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *mem;

    size = (size + page - 1) & ~(page - 1);
    if (posix_memalign(&mem, page, size))
        return -ENOMEM;
    memset(mem, 0, size);
    *slab = mem;
    *mr = ibv_reg_mr(ep->port->dev->pd, mem, size, IBV_ACCESS_LOCAL_WRITE);
    if (!*mr) {
        int err = errno;
        vp_log_nomem("registering message buffers", ep->port->name, err);
        return -err;
    }
    return 0;
}

static int buffers_new(struct vp_ep *ep)
{
    int rc = slab_new(ep, (size_t)ep->srq_depth * PROV_MSG_MAX, &ep->recv_slab, &ep->recv_mr);

    if (!rc)
        rc = slab_new(ep, (size_t)(VP_BOUNCE_SLOTS + 1) * PROV_MSG_MAX, &ep->bounce_slab,
                      &ep->bounce_mr);
    if (rc)
        return rc;
    ep->bounce_free = calloc(VP_BOUNCE_SLOTS, sizeof(*ep->bounce_free));
    ep->recv_wrs = calloc(ep->srq_depth, sizeof(*ep->recv_wrs));
    ep->recv_sges = calloc(ep->srq_depth, sizeof(*ep->recv_sges));
    ep->chain = calloc(VP_BATCH_MAX, sizeof(*ep->chain));
    if (!ep->bounce_free || !ep->recv_wrs || !ep->recv_sges || !ep->chain)
        return -ENOMEM;
    for (uint16_t i = 0; i < VP_BOUNCE_SLOTS; i++)
        ep->bounce_free[ep->bounce_count++] = i;
    return vp_table_new(ep);
}

static int fill_srq(struct vp_ep *ep)
{
    struct ibv_recv_wr *bad;

    for (uint32_t i = 0; i < ep->srq_depth; i++) {
        ep->recv_sges[i] = (struct ibv_sge){
            .addr = (uintptr_t)ep->recv_slab + (size_t)i * PROV_MSG_MAX,
            .length = PROV_MSG_MAX,
            .lkey = ep->recv_mr->lkey,
        };
        ep->recv_wrs[i] = (struct ibv_recv_wr){
            .wr_id = i,
            .next = i + 1 < ep->srq_depth ? &ep->recv_wrs[i + 1] : NULL,
            .sg_list = &ep->recv_sges[i],
            .num_sge = 1,
        };
    }
    int rc = ibv_post_srq_recv(ep->srq, ep->recv_wrs, &bad);
    if (rc)
        ut_error(VP_CAT, "posting receives on %s failed: %s", ep->port->name, strerror(rc));
    return -rc;
}

void vp_srq_rearm(struct vp_ep *ep)
{
    struct ibv_srq_attr attr = {.srq_limit = ep->srq_depth / 2};
    int rc = ibv_modify_srq(ep->srq, &attr, IBV_SRQ_LIMIT);

    if (rc)
        ut_debug(VP_CAT, "arming the receive queue of %s: %s", ep->port->name, strerror(rc));
}

static uint32_t at_most(uint32_t value, int limit)
{
    return limit > 0 && value > (uint32_t)limit ? (uint32_t)limit : value;
}

static int queues_new(struct vp_ep *ep, unsigned int depth)
{
    struct vp_device *dev = ep->port->dev;
    const struct vp_tuning *tuning = &ep->prov->tuning;
    uint32_t requests = at_most(depth, CQ_DEPTH_MOST), extra = at_most(2 * requests, CQ_EXTRA_MOST);
    uint32_t cq_size = at_most(requests + extra, dev->attr.max_cqe);

    ep->srq_depth = at_most(at_most(tuning->srq_depth, dev->attr.max_srq_wr), dev->attr.max_cqe);
    struct ibv_srq_init_attr attr = {.srq_context = ep,
                                     .attr = {.max_wr = ep->srq_depth, .max_sge = 1}};
    ep->send_cq = ibv_create_cq(dev->context, (int)cq_size, ep, dev->channel, 0);
    ep->recv_cq = ibv_create_cq(dev->context, (int)ep->srq_depth, ep, dev->channel, 0);
    ep->srq = ibv_create_srq(dev->pd, &attr);
    if (!ep->send_cq || !ep->recv_cq || !ep->srq) {
        int err = errno;
        vp_log_nomem("creating queues", ep->port->name, err);
        return -err;
    }
    ep->cq_size = ep->room = cq_size;
    ep->cq_wanted = cq_size - cq_size / CQ_CONN_PART;
    ep->room_app = cq_size / 8;
    ep->room_signal = cq_size / 2;
    ep->max_inline = dev->max_inline;
    ep->max_msg = ep->port->max_msg;
    ep->sq_depth = at_most(tuning->sq_depth, dev->attr.max_qp_wr);
    ep->signal_every = ep->sq_depth / 4;
    if (ep->signal_every > VP_SIGNAL_EVERY)
        ep->signal_every = VP_SIGNAL_EVERY;
    return 0;
}

int vp_queues_open(struct vp_ep *ep, unsigned int depth)
{
    int rc = queues_new(ep, depth);

    if (!rc)
        rc = buffers_new(ep);
    if (!rc)
        rc = fill_srq(ep);
    if (!rc)
        vp_srq_rearm(ep);
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
    if (ep->recv_mr)
        ibv_dereg_mr(ep->recv_mr);
    if (ep->bounce_mr)
        ibv_dereg_mr(ep->bounce_mr);
    free(ep->recv_slab);
    free(ep->bounce_slab);
    free(ep->bounce_free);
    free(ep->recv_wrs);
    free(ep->recv_sges);
    free(ep->table);
    free(ep->chain);
}

/* Doubles the entries for requests. A device that cannot resize is not asked again. */
static void grow_cq(struct vp_ep *ep)
{
    uint32_t size = at_most(ep->cq_size * 2, ep->port->dev->attr.max_cqe);
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

bool vp_ep_take_credit(struct vp_ep *ep)
{
    bool is_low = ep->room <= ep->room_app / 2; /* messages may have used them */

    if (ep->cq_wanted && (is_low || ep->cq_size - ep->credits <= ep->cq_wanted))
        grow_cq(ep);
    /* enough must be left for writes, which leave room_app to messages */
    if (!ep->room || ep->cq_size - ep->credits <= 2 * ep->room_app)
        return false;
    ep->room--;
    ep->credits++;
    UT_ASSERT(ep->room + ep->credits <= ep->cq_size);
    return true;
}

void vp_ep_give_credit(struct vp_ep *ep)
{
    UT_ASSERT(ep->credits > 0 && ep->room + ep->credits <= ep->cq_size);
    ep->room++;
    ep->credits--;
}
