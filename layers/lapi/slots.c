/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of a target. The first origins that contact a target each have a private lane of slots. All
 * other origins share one lane, and take a ticket for each slot with an atomic add. The target
 * counts freed slots; the origin reads the count before it runs out of slots.
 */
#include "slots.h"
#include "control.h"
#include "net.h"

static void store_lane_freed(struct lc_op *op, int rc, uint64_t old_value)
{
    struct la_peer *peer = op->arg;
    uint64_t freed = *(const uint64_t *)lc_op_bounce(op);

    (void)old_value;
    peer->freed_read_pending = false;
    if (rc == UTOFU_SUCCESS && freed > peer->lane_freed)
        peer->lane_freed = freed;
}

void la_slots_read_freed(struct la_peer *peer)
{
    struct lc_op *op = peer->freed_read_pending || peer->gone
                           ? NULL
                           : la_op_alloc(0, peer->rank, store_lane_freed, peer);

    if (op == NULL)
        return;
    peer->freed_read_pending = true;
    lc_op_get(op, peer->id, lc_op_bounce_stadd(op),
              la_control_stadd(peer->id,
                               offsetof(struct la_control_words, freed) + 8 * (uint64_t)peer->lane),
              8);
}

static bool fetch_ticket(struct la_peer *peer)
{
    if (!peer->has_ticket)
        peer->has_ticket =
            la_fetch_add_sync(
                peer->rank, peer->id,
                la_control_stadd(peer->id, offsetof(struct la_control_words, next_ticket)),
                &peer->ticket, "a slot for a message to it") == UTOFU_SUCCESS;
    return peer->has_ticket;
}

uint32_t la_slots_alloc(struct la_peer *peer)
{
    uint64_t next = peer->lane_used;

    if (!la_has_private_lane(peer)) {
        if (!fetch_ticket(peer))
            return LA_NUM_SLOTS;
        next = peer->ticket;
    }
    if (next >= peer->lane_freed + la_lane_size(peer)) {
        la_slots_read_freed(peer);
        return LA_NUM_SLOTS;
    }
    peer->lane_used = next + 1;
    peer->has_ticket = false;
    return peer->lane * LA_LANE_SLOTS + (uint32_t)(next % la_lane_size(peer));
}
