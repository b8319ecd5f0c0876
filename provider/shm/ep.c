/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: directory entry, ring, polling, arming. */
#include "ep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "op_queue.h"
#include "peer.h"
#include "ring.h"
#include "sock.h"
#include "types.h"
#include "util/assert.h"
#include "util/log.h"
#include "wake.h"

enum {
    POLL_BUDGET = 64,       /* maximum number of slots that a poll consumes */
    MAX_CLAIMED_POLLS = 64, /* see is_claim_stale() */
};

/* Sets the fields that each poll reads, after ep->head has changed. */
static inline void cache_head_slot(struct sp_ep *ep)
{
    ep->next_slot = sp_ring_slot(ep->ring, ep->head);
    ep->vacant = sp_slot_make_state(ep->head, 0, SP_PHASE_FREE);
}

/*
 * Open and close
 */

/* Returns the index of a free directory entry; -ENOSPC: none; -EEXIST: an endpoint has this id. */
static int find_free_entry(struct sp_prov *prov, uint64_t id)
{
    int index = -ENOSPC;

    for (uint32_t i = 0; i < prov->eps_high_water; i++) {
        if (!prov->eps[i])
            index = (int)i;
        else if (prov->eps[i]->id == id)
            return -EEXIST;
    }
    return index < 0 && prov->eps_high_water < prov->num_rings ? (int)prov->eps_high_water++
                                                               : index;
}

static void add_to_directory(struct sp_prov *prov, struct sp_ep *ep, uint32_t index)
{
    struct sp_dir_entry *entry = &prov->seg->table.dir[index];

    ep->index = index;
    ep->ring = sp_ring_of(prov->seg, index);
    ep->head = prov->ep_history[index].head;
    cache_head_slot(ep);
    __atomic_store_n(&ep->ring->armed, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&ep->ring->rung, 0, __ATOMIC_SEQ_CST);
    UT_ASSERT(!prov->eps[index] && !(entry->state & 1));
    prov->eps[index] = ep;
    __atomic_store_n(&entry->id, ep->id, __ATOMIC_RELEASE);
    __atomic_store_n(&entry->state, entry->state + 1, __ATOMIC_RELEASE); /* odd: open */
}

int sp_ep_open(struct prov *base, const struct prov_ep_attr *attr, struct prov_ep **out)
{
    struct sp_prov *prov = sp_prov_of(base);
    struct sp_ep *ep = calloc(1, sizeof(*ep));

    if (!ep)
        return -ENOMEM;
    ep->prov = prov;
    ep->owner = attr->owner;
    ep->callbacks = attr->callbacks;
    ep->id = attr->id;
    pthread_mutex_lock(&prov->lock);
    int index = prov->in_fork_child ? -EIO : find_free_entry(prov, attr->id);
    if (index >= 0)
        add_to_directory(prov, ep, (uint32_t)index);
    pthread_mutex_unlock(&prov->lock);
    if (index < 0) {
        if (index == -ENOSPC)
            ut_error(SP_LOG,
                     "no further VCQ: with shared memory a process has at most %u%s; free some "
                     "with utofu_free_vcq()",
                     prov->num_rings,
                     prov->num_rings < SP_MAX_EPS ? ", as the size of files is limited (ulimit "
                                                    "-f)"
                                                  : "");
        else
            ut_error(SP_LOG, "cannot open endpoint %#llx: %s", (unsigned long long)attr->id,
                     strerror(-index));
        free(ep);
        return index;
    }
    *out = (struct prov_ep *)ep;
    return 0;
}

/* Removes the endpoint from the directory, and notifies all peers. */
static void remove_from_directory(struct sp_prov *prov, struct sp_ep *ep)
{
    struct sp_seg_table *table = &prov->seg->table;
    struct sp_peer *peer;

    pthread_mutex_lock(&prov->lock);
    UT_ASSERT(prov->eps[ep->index] == ep && (table->dir[ep->index].state & 1));
    __atomic_add_fetch(&table->dir[ep->index].state, 1, __ATOMIC_SEQ_CST); /* even: closed */
    __atomic_add_fetch(&table->header.num_closed_eps, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&ep->ring->armed, 0, __ATOMIC_SEQ_CST);
    prov->ep_history[ep->index].head = ep->head;
    prov->eps[ep->index] = NULL;
    LIST_FOREACH (peer, &prov->peers, next)
        sp_send_notification(peer, SP_DGRAM_CLOSED);
    sp_request_peer_checks(prov);
    sp_kick(prov);
    pthread_mutex_unlock(&prov->lock);
}

static void free_discarded(struct sp_ep *ep)
{
    struct sp_conn *conn;

    while ((conn = SLIST_FIRST(&ep->discarded))) {
        SLIST_REMOVE_HEAD(&ep->discarded, next_discarded);
        sp_conn_free(conn);
    }
}

void sp_ep_close(struct prov_ep *base)
{
    struct sp_ep *ep = sp_ep_of(base);

    remove_from_directory(ep->prov, ep);
    while (ep->num_active > 0) { /* closed connections are in no other list */
        struct sp_conn *conn = ep->active[ep->num_active - 1];
        sp_conn_deactivate(conn);
        if (conn->closed)
            sp_conn_free(conn);
    }
    for (uint32_t i = 0; i < ep->conns_size; i++) {
        if (ep->conns[i])
            sp_conn_free(ep->conns[i]);
    }
    free_discarded(ep);
    UT_ASSERT(ep->num_live == 0);
    free(ep->active);
    free(ep->conns);
    free(ep);
}

/*
 * Connections with work
 */

/* Sends and reports what is pending on active connections. Returns the number of callbacks. */
static int progress_active(struct sp_ep *ep)
{
    int count = 0;

    /* downwards: the last connection, already visited, replaces a removed one */
    for (uint32_t i = ep->num_active; i-- > 0;) {
        if (i >= ep->num_active)
            continue;
        struct sp_conn *conn = ep->active[i];
        if (conn->ctl != SP_CTL_NONE)
            sp_conn_send_control(conn);
        if (conn->closed)
            continue;
        count += sp_conn_report(conn);
        if (!conn->closed && conn->op_queue)
            count += sp_op_queue_progress(conn);
        if (conn->down_due)
            count += sp_conn_report_failure(conn);
        if (!conn->closed && conn->ctl == SP_CTL_NONE && !conn->up_due && !conn->down_due &&
            sp_op_queue_is_idle(conn))
            sp_conn_deactivate(conn);
    }
    return count;
}

/*
 * Polling
 */

/* True if the process that claimed the slot is dead, and so will never publish the slot. */
static bool is_abandoned(struct sp_ep *ep, uint64_t state)
{
    struct sp_prov *prov = ep->prov;

    if (__atomic_load_n(&prov->deaths, __ATOMIC_ACQUIRE) == 0)
        return false;
    pthread_mutex_lock(&prov->lock);
    bool dead = !sp_peer_by_producer_id(prov, sp_slot_state_producer_id(state));
    pthread_mutex_unlock(&prov->lock);
    return dead;
}

/* Delivers a message, or a notice if `notice`. Returns the number of callbacks. */
static int handle_message(struct sp_ep *ep, const struct sp_slot *slot, bool notice)
{
    struct sp_conn *conn = sp_conn_by_id(ep, slot->conn);
    int count = 0;

    if (!conn)
        return 0;
    if (__builtin_expect(conn->up_due, 0))
        count = sp_conn_report(conn);
    if (conn->state != SP_CONN_UP)
        return count;
    if (notice)
        ep->callbacks->notify(conn->ctx, slot->imm);
    else
        ep->callbacks->message(conn->ctx,
                               slot->flags & SP_SLOT_BIG ? sp_ring_payload(ep->ring, ep->head)
                                                         : slot->bytes,
                               slot->size <= PROV_MSG_MAX ? slot->size : PROV_MSG_MAX);
    return count + 1;
}

/* Handles a slot with a chunk of a write, a read request, or a chunk of read data. Returns the
 * number of callbacks. */
static int handle_operation(struct sp_ep *ep, const struct sp_slot *slot)
{
    struct sp_conn *conn = sp_conn_by_id(ep, slot->conn);
    int count = 0;

    if (!conn)
        return 0;
    if (conn->up_due)
        count = sp_conn_report(conn);
    if (conn->closed || conn->state != SP_CONN_UP)
        return count;
    count += sp_op_queue_handle_slot(conn, slot, sp_ring_payload(ep->ring, ep->head));
    return conn->down_due ? count + sp_conn_report_failure(conn) : count;
}

/* Returns the number of callbacks, or -1: the slot has to wait. */
static int handle_slot(struct sp_ep *ep, const struct sp_slot *slot, uint64_t state)
{
    if (__builtin_expect(sp_slot_state_phase(state) == SP_PHASE_NOTICE, 1))
        return handle_message(ep, slot, true);
    switch ((enum sp_kind)slot->kind) {
    case SP_KIND_MESSAGE:
        return handle_message(ep, slot, false);
    case SP_KIND_NOTICE:
        return handle_message(ep, slot, true);
    case SP_KIND_WRITE:
    case SP_KIND_READ:
    case SP_KIND_DATA:
        return handle_operation(ep, slot);
    default:
        return sp_conn_handle_control(ep, slot, sp_slot_state_producer_id(state));
    }
}

/* Handles and frees published slots before position `until`. Returns the number of callbacks. */
static int consume_slots(struct sp_ep *ep, uint64_t until)
{
    int count = 0;

    while (ep->head < until) {
        struct sp_slot *slot = sp_ring_slot(ep->ring, ep->head);
        uint64_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
        if (state >> SP_LAP_SHIFT != sp_slot_make_state(ep->head, 0, 0) >> SP_LAP_SHIFT ||
            sp_slot_state_phase(state) == SP_PHASE_FREE)
            break;
        if (sp_slot_state_phase(state) == SP_PHASE_CLAIMED) {
            if (!is_abandoned(ep, state))
                break;
            /* its producer may have published it, and died, since it was read */
            if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != state)
                continue;
        } else {
            int n = handle_slot(ep, slot, state);
            if (n < 0)
                break;
            count += n;
        }
        sp_slot_free(slot, ep->head);
        ep->head++;
    }
    cache_head_slot(ep);
    return count;
}

/* True, after an error line, if the ring was overwritten: a claimed slot may never be published. */
static bool ring_is_damaged(const struct sp_ep *ep)
{
    if (__builtin_expect(!sp_ring_is_damaged(ep->ring), 1))
        return false;
    ut_error(SP_LOG,
             "the ring of endpoint %#llx was overwritten, by a process of this job that writes "
             "outside its memory; no more messages can be received there",
             (unsigned long long)ep->id);
    return true;
}

/* Checks all connections for dead peers and closed endpoints. Delivers earlier messages before
 * down() is called. Returns the number of callbacks. */
static int check_peers(struct sp_ep *ep)
{
    uint64_t tail;
    int count = 0;

    __atomic_exchange_n(&ep->must_check_peers, 0, __ATOMIC_SEQ_CST);
    tail = sp_ring_find_tail(ep->ring);
    count += consume_slots(ep, tail);
    if (ep->head < tail && !ring_is_damaged(ep)) { /* a slot is claimed, but not published yet */
        __atomic_store_n(&ep->must_check_peers, 1, __ATOMIC_SEQ_CST);
        return count;
    }
    for (uint32_t i = 0; i < ep->conns_size; i++) {
        if (ep->conns[i])
            count += sp_conn_check_peer(ep->conns[i]);
    }
    return count;
}

/* A poll that may find something. Returns the number of callbacks. */
static __attribute__((noinline)) int poll_slow(struct sp_ep *ep)
{
    int count = 0;

    UT_ASSERT(!ep->in_poll && SLIST_EMPTY(&ep->discarded));
    UT_ASSERT(ep->next_slot == sp_ring_slot(ep->ring, ep->head));
    ep->in_poll = true;
    if (ep->num_active > 0)
        count += progress_active(ep);
    count += consume_slots(ep, ep->head + POLL_BUDGET);
    if (__atomic_load_n(&ep->must_check_peers, __ATOMIC_ACQUIRE))
        count += check_peers(ep);
    ep->in_poll = false;
    if (!SLIST_EMPTY(&ep->discarded))
        free_discarded(ep);
    return count;
}

int sp_ep_poll(struct prov_ep *base)
{
    struct sp_ep *ep = sp_ep_of(base);

    if (__builtin_expect(__atomic_load_n(&ep->next_slot->state, __ATOMIC_ACQUIRE) == ep->vacant &&
                             ep->num_active == 0 &&
                             !__atomic_load_n(&ep->must_check_peers, __ATOMIC_ACQUIRE),
                         1))
        return 0;
    return poll_slow(ep);
}

/*
 * Arming
 */

void sp_ep_flush(struct prov_ep *ep)
{
    (void)ep; /* nothing to do: no operation is delayed for a doorbell */
}

/* True if the first slot has been claimed for many polls without being published: its producer may
 * have lost the CPU to this thread. The owner may then block. The producer rings the doorbell when
 * it publishes the slot, no later slot can be consumed before, and the death of the producer wakes
 * the owner. */
static bool is_claim_stale(struct sp_ep *ep, uint64_t state)
{
    if (state >> SP_LAP_SHIFT != ep->vacant >> SP_LAP_SHIFT ||
        sp_slot_state_phase(state) != SP_PHASE_CLAIMED) {
        ep->claimed = 0;
        return false;
    }
    if (ep->claimed_at != ep->head)
        ep->claimed = 0;
    ep->claimed_at = ep->head;
    return ++ep->claimed > MAX_CLAIMED_POLLS;
}

/* True if the owner must not block: a poll would find something. */
static bool has_work(struct sp_ep *ep)
{
    uint64_t state = __atomic_load_n(&ep->next_slot->state, __ATOMIC_SEQ_CST);
    bool claimed = is_claim_stale(ep, state);

    /* also if the slot is only claimed: a later slot may be ready, whose producer rang the doorbell
     * before */
    if (state != ep->vacant && !claimed)
        return true;
    for (uint32_t i = 0; i < ep->num_active; i++) {
        if (ep->active[i]->up_due || ep->active[i]->down_due)
            return true;
    }
    /* check_peers() waits for the claimed slot, too */
    return !claimed && __atomic_load_n(&ep->must_check_peers, __ATOMIC_SEQ_CST);
}

bool sp_ep_arm(struct prov_ep *base, enum prov_arm what)
{
    struct sp_ep *ep = sp_ep_of(base);

    __atomic_exchange_n(&ep->ring->armed, what, __ATOMIC_SEQ_CST);
    if (has_work(ep)) {
        __atomic_store_n(&ep->ring->armed, 0, __ATOMIC_RELAXED);
        return true;
    }
    if (ep->num_active > 0 || ep->claimed > 0)
        sp_ep_wake_soon(ep);
    return false;
}

void sp_ep_disarm(struct prov_ep *ep)
{
    __atomic_store_n(&sp_ep_of(ep)->ring->armed, 0, __ATOMIC_RELAXED);
}
