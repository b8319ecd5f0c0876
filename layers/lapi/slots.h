/* SPDX-License-Identifier: Apache-2.0 */
/* Free slots of the targets. */
#ifndef LA_SLOTS_H
#define LA_SLOTS_H

#include "context.h"

#pragma GCC visibility push(hidden)

static inline bool la_has_own_lane(const struct la_peer *peer)
{
    return peer->lane < LA_LANES;
}
static inline uint32_t la_slots_of(const struct la_peer *peer)
{
    return la_has_own_lane(peer) ? LA_LANE_SLOTS : LA_SHARED_SLOTS;
}
void la_slots_read_freed(struct la_peer *peer); /* reads how many slots are free again */
/* The slot of the next record, or LA_SLOTS if no slot is free. */
uint32_t la_slots_alloc(struct la_peer *peer);

#pragma GCC visibility pop

#endif
