/* SPDX-License-Identifier: Apache-2.0 */
/* Receives: see recvs.h. */
#include "recvs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs/ports/device.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/log.h"
#include "verbs/wake.h"

enum { MAX_REFILL = 32, REFILL_PART = 4, REFILL_RETRY_MS = 10 };

static size_t whole_pages(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (size + page - 1) & ~(page - 1);
}

static uint8_t *slab_alloc(size_t size)
{
    void *mem;

    return posix_memalign(&mem, (size_t)sysconf(_SC_PAGESIZE), whole_pages(size)) ? NULL : mem;
}

/* Registers memory at its first use: untouched memory costs nothing. */
static struct ibv_mr *slab_register(struct vp_ep *ep, uint8_t *from, size_t size)
{
    memset(from, 0, size);
    return ibv_reg_mr(ep->port->dev->pd, from, size,
                      IBV_ACCESS_LOCAL_WRITE | vp_mr_access_flags(ep->port->dev));
}

int vp_slab_new(struct vp_ep *ep, size_t size, uint8_t **slab, struct ibv_mr **mr)
{
    *slab = slab_alloc(size);
    if (!*slab)
        return -ENOMEM;
    *mr = slab_register(ep, *slab, whole_pages(size));
    if (!*mr) {
        int err = errno;
        vp_log_nomem("registering message buffers", ep->port->name, err);
        return -err;
    }
    return 0;
}

/* Returns the number of consumed buffers that are posted together: posting several receives costs
 * little more than posting one. Enough receives stay posted in the meantime. */
static uint32_t refill_at(uint32_t depth, uint32_t posted_min)
{
    uint32_t n = (depth + REFILL_PART - 1) / REFILL_PART;

    if (n > MAX_REFILL)
        n = MAX_REFILL;
    if (n > depth - posted_min)
        n = depth > posted_min ? depth - posted_min : 1;
    return n ? n : 1;
}

/* Prepares receives up to `depth` as one list behind the existing ones. */
static int prepare_receives(struct vp_ep *ep, struct vp_recvs *recvs, uint32_t depth)
{
    uint32_t first = recvs->depth, part = 0;
    size_t from = (size_t)first * PROV_MSG_MAX, to = (size_t)depth * PROV_MSG_MAX;

    while (recvs->mrs[part])
        part++;
    UT_ASSERT(part < VP_RECVS_STEPS && depth <= recvs->max_depth);
    recvs->mrs[part] = slab_register(ep, recvs->slab + from,
                                     (depth == recvs->max_depth ? whole_pages(to) : to) - from);
    if (!recvs->mrs[part])
        return -errno;
    for (uint32_t i = first; i < depth; i++) {
        recvs->sges[i] = (struct ibv_sge){
            .addr = (uintptr_t)recvs->slab + (size_t)i * PROV_MSG_MAX,
            .length = PROV_MSG_MAX,
            .lkey = recvs->mrs[part]->lkey,
        };
        recvs->wrs[i] = (struct ibv_recv_wr){
            .wr_id = i,
            .next = i + 1 < depth ? &recvs->wrs[i + 1] : NULL,
            .sg_list = &recvs->sges[i],
            .num_sge = 1,
        };
    }
    recvs->depth = depth;
    return 0;
}

int vp_recvs_init(struct vp_ep *ep, struct vp_recvs *recvs, uint32_t depth, uint32_t max,
                  uint32_t posted_min)
{
    recvs->max_depth = max;
    recvs->refill_at = refill_at(depth, posted_min < depth ? posted_min : depth - 1);
    recvs->slab = slab_alloc((size_t)max * PROV_MSG_MAX);
    recvs->wrs = calloc(max, sizeof(*recvs->wrs));
    recvs->sges = calloc(max, sizeof(*recvs->sges));
    if (!recvs->slab || !recvs->wrs || !recvs->sges)
        return -ENOMEM;
    int rc = prepare_receives(ep, recvs, depth);
    if (rc)
        vp_log_nomem("registering message buffers", ep->port->name, -rc);
    return rc;
}

void vp_recvs_free(struct vp_recvs *recvs)
{
    for (int i = 0; i < VP_RECVS_STEPS && recvs->mrs[i]; i++)
        ibv_dereg_mr(recvs->mrs[i]);
    free(recvs->slab);
    free(recvs->wrs);
    free(recvs->sges);
}

/* `bad`: the first receive that the device did not accept. */
static int post_list(struct vp_ep *ep, struct vp_recvs *recvs, struct ibv_recv_wr *first,
                     struct ibv_recv_wr **bad)
{
    *bad = first;
    int rc =
        recvs->qp ? ibv_post_recv(recvs->qp, first, bad) : ibv_post_srq_recv(ep->srq, first, bad);

    if (__builtin_expect(rc, 0))
        ut_error(VP_CAT, "posting receives on %s failed: %s", ep->port->name, strerror(rc));
    return -rc;
}

/* Queues the receives from `first` on: they are posted together with the next consumed ones, at the
 * latest by the owner's next poll, since peers would wait for them for ever. */
static void __attribute__((noinline, cold))
requeue_unposted(struct vp_ep *ep, struct vp_recvs *recvs, struct ibv_recv_wr *first)
{
    if (recvs->to_post)
        recvs->last->next = first;
    else
        recvs->first = first;
    for (struct ibv_recv_wr *wr = first; wr; wr = wr->next) {
        recvs->last = wr;
        recvs->to_post++;
        recvs->posted--;
    }
    UT_ASSERT(recvs->to_post <= recvs->depth);
    __atomic_fetch_or(&ep->pending, VP_PEND_REFILL, __ATOMIC_RELEASE);
    vp_ep_wake_later(ep, ut_clock_ms() + REFILL_RETRY_MS);
}

int vp_recvs_post_all(struct vp_ep *ep, struct vp_recvs *recvs)
{
    struct ibv_recv_wr *bad;

    recvs->posted += recvs->depth;
    return post_list(ep, recvs, recvs->wrs, &bad);
}

void vp_recvs_grow(struct vp_ep *ep, struct vp_recvs *recvs)
{
    uint32_t before = recvs->depth,
             depth = before < recvs->max_depth / 2 ? 2 * before : recvs->max_depth;

    if (before == recvs->max_depth)
        return;
    int rc = prepare_receives(ep, recvs, depth);
    if (rc) {
        ut_info(VP_CAT, "an endpoint of %s keeps %u receives: %s", ep->port->name, before,
                strerror(-rc));
        recvs->max_depth = before;
        return;
    }
    ut_debug(VP_CAT, "an endpoint of %s has %u receives now", ep->port->name, depth);
    struct ibv_recv_wr *bad;
    recvs->posted += depth - before;
    if (post_list(ep, recvs, &recvs->wrs[before], &bad))
        requeue_unposted(ep, recvs, bad);
}

void vp_recvs_refill(struct vp_ep *ep, struct vp_recvs *recvs)
{
    if (!recvs->to_post)
        return;
    UT_ASSERT(recvs->posted - recvs->completed + recvs->to_post <= recvs->depth);
    recvs->last->next = NULL;
    recvs->posted += recvs->to_post;
    recvs->to_post = 0;
    struct ibv_recv_wr *bad;
    if (__builtin_expect(post_list(ep, recvs, recvs->first, &bad), 0))
        requeue_unposted(ep, recvs, bad);
}

/* Reserves entries of the completion queue for `depth` receives; grows the queue if necessary.
 * Other threads only release entries in the meantime. */
static bool reserve_cqes(struct vp_ep *ep, uint32_t depth)
{
    struct vp_prov *prov = ep->prov;
    uint32_t max = (uint32_t)ep->port->dev->attr.max_cqe, size = ep->recv_cq_size;

    pthread_mutex_lock(&prov->lock);
    bool fits = ep->recv_room >= depth;
    if (fits)
        ep->recv_room -= depth;
    pthread_mutex_unlock(&prov->lock);
    if (fits)
        return true;
    uint32_t larger = size > max / 2 ? max : 2 * size;
    int rc = larger >= size + depth ? ibv_resize_cq(ep->recv_cq, (int)larger) : E2BIG;
    if (rc) {
        ut_info(VP_CAT, "the completion queue for receives of %s stays at %u entries: %s",
                ep->port->name, size, strerror(rc));
        return false;
    }
    __atomic_store_n(&ep->recv_cq_size, larger, __ATOMIC_RELAXED);
    pthread_mutex_lock(&prov->lock);
    ep->recv_room += larger - size - depth;
    pthread_mutex_unlock(&prov->lock);
    return true;
}

static void release_cqes(struct vp_ep *ep, uint32_t n)
{
    pthread_mutex_lock(&ep->prov->lock);
    ep->recv_room += n;
    pthread_mutex_unlock(&ep->prov->lock);
}

/* Posted receives that did not complete may still be in the completion queue. */
static void defer_release(struct vp_ep *ep, uint32_t n)
{
    pthread_mutex_lock(&ep->prov->lock);
    ep->recv_deferred += n;
    __atomic_fetch_or(&ep->pending, VP_PEND_DEFERRED_CQES, __ATOMIC_RELEASE);
    vp_wake_locked(ep);
    pthread_mutex_unlock(&ep->prov->lock);
}

uint32_t vp_recvs_take_deferred_locked(struct vp_ep *ep)
{
    uint32_t deferred = ep->recv_deferred;

    UT_ASSERT_LOCKED(&ep->prov->lock);
    ep->recv_deferred = 0;
    return deferred;
}

void vp_recvs_release_deferred(struct vp_ep *ep, uint32_t deferred)
{
    if (deferred)
        release_cqes(ep, deferred);
}

int vp_recvs_create(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;

    if (!reserve_cqes(ep, ep->rq_depth))
        return -ENOSPC;
    struct vp_recvs *recvs = calloc(1, sizeof(*recvs));
    int rc =
        recvs ? vp_recvs_init(ep, recvs, ep->rq_depth, ep->rq_depth, VP_SOLICIT_EVERY) : -ENOMEM;
    if (rc) {
        if (recvs)
            vp_recvs_free(recvs);
        free(recvs);
        release_cqes(ep, ep->rq_depth);
        return rc;
    }
    conn->recvs = recvs;
    return 0;
}

void vp_recvs_destroy(struct vp_conn *conn)
{
    struct vp_recvs *recvs = conn->recvs;

    if (!recvs)
        return;
    conn->recvs = NULL;
    UT_ASSERT(!conn->end.drained || recvs->posted == recvs->completed);
    if (conn->end.drained || !recvs->posted)
        release_cqes(conn->ep, recvs->depth);
    else
        defer_release(conn->ep, recvs->depth);
    vp_recvs_free(recvs);
    free(recvs);
}
