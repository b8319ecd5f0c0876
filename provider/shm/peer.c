/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of peer processes: one socket and one segment mapping each, shared by all connections
 * to the peer. Peers are found by their producer id in this process's rings (producer_id) and by
 * their key, in hash tables: a list would make the start-up of a thousand peers quadratic.
 */
#include "peer.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "ring.h"
#include "segment.h"
#include "types.h"
#include "util/assert.h"
#include "util/fd.h"
#include "wake.h"

static void add_to_table(struct sp_prov *prov, struct sp_peer *peer)
{
    LIST_INSERT_HEAD(&prov->peers, peer, next);
    ut_hash_insert(&prov->by_producer_id, &peer->by_producer_id, peer->id_in_own_rings);
}

static void remove_from_table(struct sp_peer *peer)
{
    LIST_REMOVE(peer, next);
    ut_hash_remove(&peer->prov->by_producer_id, &peer->by_producer_id);
    ut_hash_remove(&peer->prov->by_key, &peer->by_key);
}

struct sp_peer *sp_peer_new(struct sp_prov *prov)
{
    struct sp_peer *peer = prov->last_producer_id < SP_PRODUCER_ID_MAX &&
                                   ut_hash_reserve(&prov->by_producer_id) &&
                                   ut_hash_reserve(&prov->by_key)
                               ? calloc(1, sizeof(*peer))
                               : NULL;

    UT_ASSERT_LOCKED(&prov->lock);
    if (!peer)
        return NULL;
    peer->prov = prov;
    peer->refs = 1;
    peer->fd = peer->remap_fd = -1;
    peer->id_in_own_rings = ++prov->last_producer_id;
    add_to_table(prov, peer);
    return peer;
}

void sp_peer_set_key(struct sp_peer *peer, uint64_t key)
{
    UT_ASSERT_LOCKED(&peer->prov->lock);
    ut_hash_remove(&peer->prov->by_key, &peer->by_key);
    peer->addr.key = key;
    ut_hash_insert(&peer->prov->by_key, &peer->by_key, key);
}

struct sp_peer *sp_peer_find(struct sp_prov *prov, uint64_t key)
{
    struct sp_peer *peer;

    UT_ASSERT_LOCKED(&prov->lock);
    UT_HASH_FOREACH (peer, &prov->by_key, key, by_key) {
        if (!sp_peer_is(peer, SP_PEER_INCOMING))
            break;
    }
    return peer;
}

struct sp_peer *sp_peer_by_producer_id(struct sp_prov *prov, uint32_t producer_id)
{
    struct sp_peer *peer;

    UT_ASSERT_LOCKED(&prov->lock);
    if (producer_id == prov->self.id_in_own_rings)
        return &prov->self;
    return UT_HASH_OBJECT(peer, by_producer_id, ut_hash_find(&prov->by_producer_id, producer_id));
}

void sp_peer_mark_dead(struct sp_peer *peer, enum prov_reason reason)
{
    struct sp_prov *prov = peer->prov;

    UT_ASSERT_LOCKED(&prov->lock);
    UT_ASSERT(!sp_peer_is(peer, SP_PEER_DEAD));
    remove_from_table(peer);
    LIST_INSERT_HEAD(&prov->dead, peer, next);
    peer->reason = (uint8_t)reason;
    if (ut_fd_is_still_ours(peer->fd))
        epoll_ctl(prov->epoll_fd, EPOLL_CTL_DEL, peer->fd, NULL);
    __atomic_store_n(&peer->state, SP_PEER_DEAD, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&prov->deaths, 1, __ATOMIC_SEQ_CST);
    sp_request_peer_checks(prov);
}

void sp_peer_free_dead(struct sp_prov *prov)
{
    struct sp_peer *peer;

    while ((peer = LIST_FIRST(&prov->dead))) {
        LIST_REMOVE(peer, next);
        sp_peer_unref(peer);
    }
}

/* The socket stays open until here, as a connection may still ring the doorbell. */
void sp_peer_unref(struct sp_peer *peer)
{
    if (peer->is_self)
        return;
    uint32_t before = __atomic_fetch_sub(&peer->refs, 1, __ATOMIC_ACQ_REL);
    UT_ASSERT(before > 0);
    if (before > 1)
        return;
    ut_fd_close(peer->fd);
    ut_fd_close(peer->remap_fd);
    sp_segment_unmap(peer->seg);
    free(peer);
}
