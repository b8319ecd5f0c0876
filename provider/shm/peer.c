/* SPDX-License-Identifier: Apache-2.0 */
/* The peer processes: one socket and one mapping each, shared by all connections to it. */
#include "peer.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "peer_types.h"
#include "prov_types.h"
#include "ring.h"
#include "segment.h"
#include "util/assert.h"
#include "wake.h"

struct sp_peer *sp_peer_new(struct sp_prov *prov)
{
    struct sp_peer *peer = prov->next_claimer < SP_CLAIMER_MAX ? calloc(1, sizeof(*peer)) : NULL;

    UT_ASSERT_LOCKED(&prov->lock);
    if (!peer)
        return NULL;
    peer->prov = prov;
    peer->refs = 1;
    peer->fd = peer->map_fd = -1;
    peer->claimer_here = ++prov->next_claimer;
    peer->next = prov->peers;
    prov->peers = peer;
    return peer;
}

struct sp_peer *sp_peer_find(struct sp_prov *prov, uint64_t key)
{
    struct sp_peer *peer = prov->peers;

    UT_ASSERT_LOCKED(&prov->lock);
    while (peer && (peer->addr.key != key || sp_peer_is(peer, SP_PEER_INCOMING)))
        peer = peer->next;
    return peer;
}

struct sp_peer *sp_peer_by_claimer(struct sp_prov *prov, uint32_t claimer)
{
    struct sp_peer *peer = prov->peers;

    UT_ASSERT_LOCKED(&prov->lock);
    if (claimer == prov->self.claimer_here)
        return &prov->self;
    while (peer && peer->claimer_here != claimer)
        peer = peer->next;
    return peer;
}

static void unlink_peer(struct sp_peer *peer)
{
    struct sp_peer **p = &peer->prov->peers;

    while (*p != peer)
        p = &(*p)->next;
    *p = peer->next;
}

void sp_peer_die(struct sp_peer *peer, enum prov_reason reason)
{
    struct sp_prov *prov = peer->prov;

    UT_ASSERT_LOCKED(&prov->lock);
    UT_ASSERT(!sp_peer_is(peer, SP_PEER_DEAD));
    unlink_peer(peer);
    peer->next = prov->dead;
    prov->dead = peer;
    peer->reason = (uint8_t)reason;
    if (peer->fd >= 0)
        epoll_ctl(prov->epoll_fd, EPOLL_CTL_DEL, peer->fd, NULL);
    __atomic_store_n(&peer->state, SP_PEER_DEAD, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&prov->deaths, 1, __ATOMIC_SEQ_CST);
    sp_attention(prov);
}

void sp_peer_free_dead(struct sp_prov *prov)
{
    while (prov->dead) {
        struct sp_peer *peer = prov->dead;
        prov->dead = peer->next;
        sp_peer_put(peer);
    }
}

/* The socket stays open until here: a connection may still ring the bell. */
void sp_peer_put(struct sp_peer *peer)
{
    if (peer->is_self)
        return;
    uint32_t before = __atomic_fetch_sub(&peer->refs, 1, __ATOMIC_ACQ_REL);
    UT_ASSERT(before > 0);
    if (before > 1)
        return;
    if (peer->fd >= 0)
        close(peer->fd);
    if (peer->map_fd >= 0)
        close(peer->map_fd);
    sp_segment_unmap(peer->seg);
    free(peer);
}
