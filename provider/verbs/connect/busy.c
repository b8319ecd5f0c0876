/* SPDX-License-Identifier: Apache-2.0 */
/* Busy peers: see busy.h. Of two peers with the same hash the later one is remembered. */
#include "busy.h"

#include "util/hash.h"

static uint32_t place_of(uint64_t peer_id)
{
    return (uint32_t)ut_hash_index(peer_id, 32) % VP_BUSY_PEERS;
}

uint32_t vp_sq_depth(const struct vp_ep *ep, uint64_t peer_id)
{
    return ep->busy[place_of(peer_id)] == peer_id + 1 ? ep->sq_depth : ep->sq_first;
}

void vp_sq_mark_busy(struct vp_ep *ep, uint64_t peer_id)
{
    ep->busy[place_of(peer_id)] = peer_id + 1;
}
