/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of the shm provider in states that a killed producer can leave, written by the test. */
#include <string.h>

#include "../../provider/shm/ring.h"
#include "../harness/check.h"

static struct sp_ring *ring;

static void put(uint32_t producer_id, uint64_t expected)
{
    uint64_t pos = 0;
    struct sp_slot *slot = sp_ring_claim(ring, producer_id, &pos);

    CHECK(slot == sp_ring_slot(ring, pos) && pos == expected);
    sp_ring_publish(ring, slot, pos, producer_id);
}

static void put_notice(uint32_t producer_id, uint64_t expected)
{
    uint64_t pos = 0;

    CHECK(sp_ring_publish_notice(ring, producer_id, (uint32_t)~expected, (uint32_t)expected, &pos));
    CHECK(pos == expected);
}

static void take_notice(uint64_t pos, uint32_t producer_id)
{
    struct sp_slot *slot = sp_ring_slot(ring, pos);

    CHECK(slot->state == sp_slot_make_state(pos, producer_id, SP_PHASE_NOTICE));
    CHECK(slot->conn == (uint32_t)~pos && slot->imm == (uint32_t)pos);
    sp_slot_free(slot, pos);
}

static void take(uint64_t pos, uint32_t producer_id, unsigned int phase)
{
    CHECK(sp_ring_slot(ring, pos)->state == sp_slot_make_state(pos, producer_id, phase));
    sp_slot_free(sp_ring_slot(ring, pos), pos);
}

static void fills_and_empties_over_many_laps(void)
{
    uint64_t pos, free_until = 0;

    for (uint64_t lap = 0; lap < 5; lap++) {
        for (uint64_t i = 0; i < SP_SLOTS; i++) {
            CHECK(sp_ring_has_room(ring, &free_until));
            put(7, lap * SP_SLOTS + i);
        }
        CHECK(!sp_ring_has_room(ring, &free_until) && !sp_ring_claim(ring, 7, &pos));
        for (uint64_t i = 0; i < SP_SLOTS; i++)
            take(lap * SP_SLOTS + i, 7, SP_PHASE_READY);
        CHECK(sp_ring_has_room(ring, &free_until));
    }
    ring->tail = 0;
    memset(ring->slots, 0, sizeof(ring->slots));
}

/* Killed right after its compare-and-swap, before it moved the tail. */
static void claim_without_tail_is_stepped_over(void)
{
    ring->slots[0].state = sp_slot_make_state(0, 3, SP_PHASE_CLAIMED);
    put(4, 1);
    take(0, 3, SP_PHASE_CLAIMED);
    take(1, 4, SP_PHASE_READY);
    /* the same, but the consumer was first */
    ring->slots[2].state = sp_slot_make_state(2, 3, SP_PHASE_CLAIMED);
    take(2, 3, SP_PHASE_CLAIMED);
    CHECK(ring->tail == 2 && sp_ring_has_room(ring, &(uint64_t){0}));
    put(4, 3);
    take(3, 4, SP_PHASE_READY);
    /* killed right after publishing: its message counts */
    ring->slots[4].state = sp_slot_make_state(4, 3, SP_PHASE_READY);
    CHECK(ring->tail == 4 && sp_ring_find_tail(ring) == 5);
    take(4, 3, SP_PHASE_READY);
    CHECK(sp_ring_find_tail(ring) == 5);
}

static void clear(uint64_t tail)
{
    ring->tail = tail;
    for (uint64_t pos = tail; pos < tail + SP_SLOTS; pos++)
        sp_ring_slot(ring, pos)->state = sp_slot_make_state(pos, 0, SP_PHASE_FREE);
}

/* At once, where the CPU can; and only into a free slot at the tail. */
static void notices_are_published_at_once(void)
{
    enum { START = 6 * SP_SLOTS + 3 };
    uint64_t pos;

    clear(START);
#ifdef SP_HAS_CMPXCHG16B
    for (uint64_t i = 0; i < SP_SLOTS; i++)
        put_notice(SP_PRODUCER_ID_MAX, START + i);
    CHECK(!sp_ring_publish_notice(ring, 7, 1, 2, &pos) && !sp_ring_is_damaged(ring));
    for (uint64_t i = 0; i < SP_SLOTS; i++)
        take_notice(START + i, SP_PRODUCER_ID_MAX);
    put(7, START + SP_SLOTS);
    put_notice(7, START + SP_SLOTS + 1);
    take(START + SP_SLOTS, 7, SP_PHASE_READY);
    take_notice(START + SP_SLOTS + 1, 7);
    /* a producer_id was killed after it had named its connection, which a notice in the next lap
     * finds gone */
    put(7, START + SP_SLOTS + 2);
    sp_ring_slot(ring, START + SP_SLOTS + 2)->conn = 5;
    take(START + SP_SLOTS + 2, 7, SP_PHASE_READY);
    for (uint64_t i = 3; i < SP_SLOTS + 3; i++) {
        put_notice(7, START + SP_SLOTS + i);
        take_notice(START + SP_SLOTS + i, 7);
    }
    /* its producer was killed before it moved the tail */
    ring->tail--;
    CHECK(!sp_ring_publish_notice(ring, 7, 1, 2, &pos));
    put(7, START + 2 * SP_SLOTS + 3);
    put_notice(7, START + 2 * SP_SLOTS + 4);
#else
    CHECK(!sp_ring_publish_notice(ring, 7, 1, 2, &pos) && ring->tail == START);
#endif
    clear(0);
}

/* After 2^45 slots. */
static void laps_wrap(void)
{
    const uint64_t laps = UINT64_C(1) << (64 - SP_LAP_SHIFT), start = (laps - 2) * SP_SLOTS + 7;
    uint64_t pos, free_until = 0;

    clear(start);
    for (uint64_t first = start; first < start + 4 * SP_SLOTS; first += SP_SLOTS) {
        for (uint64_t i = 0; i < SP_SLOTS; i++) {
            CHECK(sp_ring_has_room(ring, &free_until) && !sp_ring_is_damaged(ring));
            CHECK(sp_ring_is_half_full(ring, first + i) == (i >= SP_SLOTS / 2));
            put(7, first + i);
            CHECK(sp_ring_find_tail(ring) == first + i + 1);
        }
        CHECK(!sp_ring_has_room(ring, &free_until) && !sp_ring_claim(ring, 7, &pos));
        CHECK(!sp_ring_is_damaged(ring) && ring->tail == first + SP_SLOTS);
        sp_ring_slot(ring, first)->state =
            sp_slot_make_state(first + 100 * SP_SLOTS, 0, SP_PHASE_FREE);
        CHECK(sp_ring_is_damaged(ring));
        sp_ring_slot(ring, first)->state =
            sp_slot_make_state(first, 7, SP_PHASE_NOTICE + 1); /* there is none */
        CHECK(sp_ring_is_damaged(ring));
        sp_ring_slot(ring, first)->state = sp_slot_make_state(first, 7, SP_PHASE_READY);
        for (uint64_t i = 0; i < SP_SLOTS; i++)
            take(first + i, 7, SP_PHASE_READY);
    }
    clear(0);
}

static void busy_means_more_than_half(void)
{
    uint64_t pos = ring->tail;

    for (int i = 0; i < SP_SLOTS / 2; i++)
        put(5, pos + (uint64_t)i);
    CHECK(!sp_ring_is_half_full(ring, pos + SP_SLOTS / 2 - 1));
    put(5, pos + SP_SLOTS / 2);
    CHECK(sp_ring_is_half_full(ring, pos + SP_SLOTS / 2));
}

/* Every state of a ring in use. */
static void used_ring_is_not_damaged(void)
{
    enum { START = 3 * SP_SLOTS + 5 };

    clear(START);
    CHECK(!sp_ring_is_damaged(ring));
    for (uint64_t pos = START; pos < START + SP_SLOTS; pos++) {
        put(SP_PRODUCER_ID_MAX, pos);
        CHECK(!sp_ring_is_damaged(ring));
    }
    sp_ring_slot(ring, START)->state = sp_slot_make_state(START, 1, SP_PHASE_CLAIMED); /* killed */
    CHECK(!sp_ring_is_damaged(ring));
    for (uint64_t pos = START; pos < START + SP_SLOTS; pos++) {
        sp_slot_free(sp_ring_slot(ring, pos), pos);
        CHECK(!sp_ring_is_damaged(ring));
    }
    /* claimed, and consumed, before the tail was moved */
    uint64_t tail = ring->tail;
    sp_ring_slot(ring, tail)->state = sp_slot_make_state(tail, 3, SP_PHASE_CLAIMED);
    CHECK(!sp_ring_is_damaged(ring));
    sp_slot_free(sp_ring_slot(ring, tail), tail);
    CHECK(!sp_ring_is_damaged(ring));
}

/* Neither a producer nor the consumer waits for ever on a damaged ring. */
static void overwritten_ring_is_damaged(void)
{
    uint64_t pos;

    clear(7 * SP_SLOTS);
    for (int i = 0; i < SP_SLOTS; i++)
        ring->slots[i].state = UINT64_MAX;
    CHECK(!sp_ring_claim(ring, 7, &pos) && sp_ring_is_damaged(ring));
    CHECK(sp_ring_find_tail(ring) <= 7 * SP_SLOTS + 2 * SP_RING_TRIES);
    clear(7 * SP_SLOTS);
    ring->tail = 1ull << 40;
    CHECK(!sp_ring_claim(ring, 7, &pos) && sp_ring_is_damaged(ring));
    clear(7 * SP_SLOTS);
    ring->tail = 9 * SP_SLOTS; /* its slots were free two laps ago */
    CHECK(!sp_ring_claim(ring, 7, &pos) && sp_ring_is_damaged(ring));
    clear(23 * SP_SLOTS);
    ring->tail =
        7 *
        SP_SLOTS; /* its slots are ahead: a claim steps over them, but not all the way to lap 23 */
    CHECK(!sp_ring_claim(ring, 7, &pos) && sp_ring_is_damaged(ring));
    CHECK(ring->tail == 7 * SP_SLOTS + SP_RING_TRIES);
}

int main(void)
{
    ring = aligned_alloc(4096, sizeof(*ring));
    CHECK(ring);
    memset(ring, 0, sizeof(*ring));
    fills_and_empties_over_many_laps();
    claim_without_tail_is_stepped_over();
    notices_are_published_at_once();
    laps_wrap();
    busy_means_more_than_half();
    used_ring_is_not_damaged();
    overwritten_ring_is_damaged();
    free(ring);
    return 0;
}
