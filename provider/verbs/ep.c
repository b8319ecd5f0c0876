/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints: completion queues, the shared receive queue and its buffers, the table that finds a
 * connection by its queue pair number, and arming.
 */
#include "vp.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CQ_DEPTH_MOST = 1 << 20, /* of what an owner asks for */
    CQ_EXTRA_MOST = 4096,    /* entries beyond that: for messages, and for connections */
    CQ_CONN_PART = 24,       /* of a new queue: more connections make it grow */
    TABLE_FIRST = 64,
    DRAIN_TICK_MS = 10,
    QUIET_AFTER = 7, /* peer timeouts: two looks for stalls and what comes of them */
    CLOSE_MS = 1000, /* ep_close() waits this long for goodbyes to arrive */
};

static uint32_t hash_of(uint32_t qp_num)
{
    return qp_num * 2654435769u >> 8;
}

static void table_put(struct vp_slot *table, uint32_t mask, struct vp_conn *conn)
{
    uint32_t i = hash_of(conn->qp->qp_num) & mask;

    while (table[i].conn)
        i = (i + 1) & mask;
    table[i] = (struct vp_slot){conn->qp->qp_num, conn};
}

int vp_table_add(struct vp_ep *ep, struct vp_conn *conn)
{
    if ((ep->table_used + 1) * 2 > ep->table_mask + 1) {
        uint32_t size = (ep->table_mask + 1) * 2;
        struct vp_slot *larger = calloc(size, sizeof(*larger));
        if (!larger)
            return -ENOMEM;
        for (uint32_t i = 0; i <= ep->table_mask; i++)
            if (ep->table[i].conn)
                table_put(larger, size - 1, ep->table[i].conn);
        free(ep->table);
        ep->table = larger;
        ep->table_mask = size - 1;
    }
    table_put(ep->table, ep->table_mask, conn);
    ep->table_used++;
    conn->in_table = true;
    return 0;
}

void vp_table_remove(struct vp_ep *ep, struct vp_conn *conn)
{
    uint32_t mask = ep->table_mask;

    if (!conn->in_table)
        return;
    conn->in_table = false;
    ep->last.conn = NULL;
    ep->table_used--;
    uint32_t hole = hash_of(conn->qp->qp_num) & mask;
    while (ep->table[hole].conn != conn)
        hole = (hole + 1) & mask;
    /* close the gap: move back what would not be found across it */
    for (uint32_t i = (hole + 1) & mask; ep->table[i].conn; i = (i + 1) & mask) {
        uint32_t home = hash_of(ep->table[i].qp_num) & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            ep->table[hole] = ep->table[i];
            hole = i;
        }
    }
    ep->table[hole].conn = NULL;
}

/* Buffers for receives and for outgoing messages, whole pages so that a fork cannot tear them. */
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
        rc = slab_new(ep, (size_t)VP_BOUNCE_SLOTS * PROV_MSG_MAX, &ep->bounce_slab, &ep->bounce_mr);
    if (rc)
        return rc;
    ep->bounce_free = calloc(VP_BOUNCE_SLOTS, sizeof(*ep->bounce_free));
    ep->recv_wrs = calloc(ep->srq_depth, sizeof(*ep->recv_wrs));
    ep->recv_sges = calloc(ep->srq_depth, sizeof(*ep->recv_sges));
    ep->table = calloc(TABLE_FIRST, sizeof(*ep->table));
    ep->chain = calloc(VP_BATCH_MAX, sizeof(*ep->chain));
    if (!ep->bounce_free || !ep->recv_wrs || !ep->recv_sges || !ep->table || !ep->chain)
        return -ENOMEM;
    ep->table_mask = TABLE_FIRST - 1;
    for (uint16_t i = 0; i < VP_BOUNCE_SLOTS; i++)
        ep->bounce_free[ep->bounce_count++] = i;
    return 0;
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

/* Asks for an event when half of the receives are gone: then somebody must poll. */
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

/* Twice as many entries for what is posted. A device that cannot is not asked again. */
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
    bool is_low = ep->room <= ep->room_app / 2; /* messages may use up all */

    if (ep->cq_wanted && (is_low || ep->cq_size - ep->credits <= ep->cq_wanted))
        grow_cq(ep);
    /* enough must be left for writes, which leave room_app to messages */
    if (!ep->room || ep->cq_size - ep->credits <= 2 * ep->room_app)
        return false;
    ep->room--;
    ep->credits++;
    return true;
}

void vp_ep_give_credit(struct vp_ep *ep)
{
    ep->room++;
    ep->credits--;
}

static void ep_free(struct vp_ep *ep)
{
    if (ep->srq)
        ibv_destroy_srq(ep->srq);
    if (ep->send_cq)
        ibv_destroy_cq(ep->send_cq);
    if (ep->recv_cq)
        ibv_destroy_cq(ep->recv_cq);
    while (!vp_list_empty(&ep->stuck))
        vp_conn_free(vp_container_of(ep->stuck.next, struct vp_conn, ep_link));
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
    free(ep);
}

int vp_ep_open(struct prov *base, const struct prov_ep_attr *attr, struct prov_ep **out)
{
    struct vp_prov *prov = vp_prov(base);
    struct vp_ep *ep = calloc(1, sizeof(*ep));
    int rc;

    if (!ep)
        return -ENOMEM;
    ep->prov = prov;
    ep->port = &prov->ports[attr->tni % prov->num_ports];
    ep->tni = attr->tni;
    ep->id = attr->id;
    ep->owner = attr->owner;
    ep->cb = *attr->callbacks;
    struct vp_list *lists[] = {&ep->tending, &ep->link,  &ep->wake_link, &ep->conns,
                               &ep->dying,   &ep->stuck, &ep->events};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        vp_list_init(lists[i]);
    rc = queues_new(ep, attr->depth);
    if (!rc)
        rc = buffers_new(ep);
    if (!rc)
        rc = fill_srq(ep);
    if (rc) {
        ep_free(ep);
        return rc;
    }
    vp_srq_rearm(ep);
    pthread_mutex_lock(&prov->lock);
    vp_list_append(&prov->eps, &ep->link);
    pthread_mutex_unlock(&prov->lock);
    *out = (struct prov_ep *)ep;
    return 0;
}

/* Closes every connection and waits, for a while, until the peers have got what was posted. */
static void close_conns(struct vp_ep *ep)
{
    struct vp_prov *prov = ep->prov;
    uint64_t deadline = vp_now_ms() + CLOSE_MS;

    pthread_mutex_lock(&prov->lock);
    for (struct vp_list *l = ep->conns.next, *next; l != &ep->conns; l = next) {
        struct vp_conn *conn = vp_container_of(l, struct vp_conn, ep_link);
        next = l->next;
        pthread_mutex_unlock(&prov->lock); /* the list is ours: nobody else takes from it */
        vp_conn_close((struct prov_conn *)conn);
        pthread_mutex_lock(&prov->lock);
    }
    pthread_mutex_unlock(&prov->lock);
    while (!vp_list_empty(&ep->tending)) {
        if (vp_now_ms() >= deadline) {
            for (struct vp_list *l = ep->tending.next; l != &ep->tending; l = l->next)
                vp_conn_break(vp_container_of(l, struct vp_conn, tend_link), PROV_REASON_CLOSED);
            deadline = UINT64_MAX; /* draining has its own limit */
        }
        vp_poll_quietly(ep);
        sched_yield();
    }
}

void vp_ep_close(struct prov_ep *base)
{
    struct vp_ep *ep = vp_ep(base);
    struct vp_prov *prov = ep->prov;

    vp_flush(ep);
    pthread_mutex_lock(&prov->lock);
    ep->closing = true;
    pthread_mutex_unlock(&prov->lock);
    close_conns(ep);
    vp_cm_reap(prov, ep);
    pthread_mutex_lock(&prov->lock);
    while (!vp_list_empty(&ep->dying)) { /* progress() is busy with the last ones */
        pthread_cond_wait(&prov->changed, &prov->lock);
        pthread_mutex_unlock(&prov->lock);
        vp_cm_reap(prov, ep);
        pthread_mutex_lock(&prov->lock);
    }
    vp_list_remove(&ep->link);
    vp_list_remove(&ep->wake_link);
    while (prov->waking == ep)
        pthread_cond_wait(&prov->changed, &prov->lock);
    pthread_mutex_unlock(&prov->lock);
    ep_free(ep);
}

/* Soft-RoCE raises no event for a failed or flushed request. While something is outstanding the
 * owner is woken now and then; once nothing was posted for some peer timeouts, all has ended one
 * way or other. Connections that drain are looked at sooner: it takes microseconds. */
static void arm_tick(struct vp_ep *ep)
{
    struct vp_prov *prov = ep->prov;
    unsigned int timeout = prov->config.peer_timeout_ms;
    uint64_t now = vp_now_ms(), when = now + timeout / 4 + 1;
    bool draining = !vp_list_empty(&ep->tending);

    if (vp_posts(ep) != ep->posts_seen) {
        ep->posts_seen = vp_posts(ep);
        ep->posts_seen_at = now;
    }
    if (draining)
        when = now + DRAIN_TICK_MS;
    else if (!ep->posts_seen_at || now - ep->posts_seen_at > QUIET_AFTER * (uint64_t)timeout)
        return;
    pthread_mutex_lock(&prov->lock);
    if (!ep->wake_at || when < ep->wake_at) {
        ep->wake_at = when;
        if (!prov->sleeps_until || when < prov->sleeps_until)
            vp_kick(prov);
    }
    pthread_mutex_unlock(&prov->lock);
}

bool vp_ep_arm(struct prov_ep *base)
{
    struct vp_ep *ep = vp_ep(base);

    vp_flush(ep);
    if (ep->stash_send || ep->stash_recv)
        return true;
    if (ibv_req_notify_cq(ep->recv_cq, 1) || ibv_req_notify_cq(ep->send_cq, 1))
        ut_debug(VP_CAT, "arming %s: %s", ep->port->name, strerror(errno));
    arm_tick(ep);
    /* what came before the arming raises no event any more */
    int n = ibv_poll_cq(ep->send_cq, VP_POLL_BATCH / 2, ep->stash);
    ep->stash_send = n > 0 ? n : 0;
    n = ibv_poll_cq(ep->recv_cq, VP_POLL_BATCH / 2, ep->stash + ep->stash_send);
    ep->stash_recv = n > 0 ? n : 0;
    ep->aside = true;
    return ep->stash_send || ep->stash_recv || __atomic_load_n(&ep->pending, __ATOMIC_ACQUIRE);
}

/* A hint: an armed completion queue raises one event at the most. */
void vp_ep_disarm(struct prov_ep *base)
{
    (void)base;
}
