/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slots of this task, in which other tasks put records: which record of a lane comes next, and
 * how many slots of each lane are free again.
 */
#include "inbox.h"

void la_inbox_setup(void)
{
    la.inbox = (struct la_inbox){0};
}

static uint32_t lane_of(uint32_t slot)
{
    return slot / LA_LANE_SLOTS < LA_PRIVATE_LANES ? slot / LA_LANE_SLOTS : LA_PRIVATE_LANES;
}

/* Skips slots whose records were handled before their turn. */
static void skip_consumed_slots(uint32_t lane)
{
    while ((la.inbox.consumed_early[lane] & 1u << la.inbox.num_consumed[lane] % LA_LANE_SLOTS) != 0)
        la.inbox.consumed_early[lane] &= ~(1u << la.inbox.num_consumed[lane]++ % LA_LANE_SLOTS);
}

void la_inbox_mark_consumed(uint32_t slot)
{
    uint32_t lane = lane_of(slot);

    if (lane == LA_PRIVATE_LANES)
        return;
    la.inbox.consumed_early[lane] |= 1u << slot % LA_LANE_SLOTS;
    skip_consumed_slots(lane);
}

void la_inbox_advance(uint32_t lane)
{
    la.inbox.num_consumed[lane]++;
    if (__builtin_expect(la.inbox.consumed_early[lane] != 0, 0))
        skip_consumed_slots(lane);
}

uint32_t la_inbox_next_slot(uint32_t lane)
{
    return lane * LA_LANE_SLOTS + (uint32_t)(la.inbox.num_consumed[lane] % LA_LANE_SLOTS);
}

bool la_inbox_has_next(uint32_t lane)
{
    const struct la_record *rec =
        (const struct la_record *)la.control.inbox[la_inbox_next_slot(lane)];

    return __atomic_load_n(&rec->seq, __ATOMIC_ACQUIRE) == la.inbox.num_consumed[lane] + 1;
}

uint32_t la_inbox_num_lanes(void)
{
    uint64_t lanes = __atomic_load_n(&la.control.words->lanes_requested, __ATOMIC_RELAXED);

    return lanes < LA_PRIVATE_LANES ? (uint32_t)lanes : LA_PRIVATE_LANES;
}

/* Fast path: slots usually become free in order. */
bool la_inbox_free_next(uint32_t lane, uint32_t slot)
{
    uint64_t freed = la.control.words->freed[lane];

    if (__builtin_expect(la.inbox.freed_early[lane] != 0 || (slot - freed) % LA_LANE_SLOTS != 0, 0))
        return false;
    __atomic_store_n(&la.control.words->freed[lane], freed + 1, __ATOMIC_RELEASE);
    return true;
}

/* Masks replace divisions, because both sizes of a lane are powers of two; a division would cost
 * more than the rest of this function. */
void la_inbox_free(uint32_t slot)
{
    uint32_t lane = lane_of(slot);
    uint32_t last = (lane < LA_PRIVATE_LANES ? LA_LANE_SLOTS : LA_SHARED_SLOTS) - 1u;
    uint64_t freed = la.control.words->freed[lane];
    uint64_t bits = la.inbox.freed_early[lane] | 1ull << ((slot - lane * LA_LANE_SLOTS) & last);

    _Static_assert((LA_LANE_SLOTS & (LA_LANE_SLOTS - 1)) == 0 &&
                       (LA_SHARED_SLOTS & (LA_SHARED_SLOTS - 1)) == 0,
                   "powers of two");
    while ((bits & 1ull << (freed & last)) != 0)
        bits &= ~(1ull << (freed++ & last));
    la.inbox.freed_early[lane] = bits;
    __atomic_store_n(&la.control.words->freed[lane], freed, __ATOMIC_RELEASE);
}
