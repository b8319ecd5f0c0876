/* SPDX-License-Identifier: Apache-2.0 */
/* The slots of targets: how many are free, and which one the next record goes to. */
#ifndef LA_SLOTS_H
#define LA_SLOTS_H

#include "context.h"

#pragma GCC visibility push(hidden)

static inline bool la_has_private_lane(const struct la_peer *peer)
{
    return peer->lane < LA_PRIVATE_LANES;
}
/* Number of slots of the lane that this task uses at the peer. */
static inline uint32_t la_lane_size(const struct la_peer *peer)
{
    return la_has_private_lane(peer) ? LA_LANE_SLOTS : LA_SHARED_SLOTS;
}
/* Starts a get into peer->lane_freed, if none is in flight. */
void la_slots_read_freed(struct la_peer *peer);
/* The index of the slot for the next record, or LA_NUM_SLOTS if none is free. */
uint32_t la_slots_alloc(struct la_peer *peer);

#pragma GCC visibility pop

#endif
