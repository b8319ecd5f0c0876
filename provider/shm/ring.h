/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring of an endpoint: many producers in many processes, one consumer, no locks.
 *
 * A producer claims the slot at the tail by a compare-and-swap on the slot's state, which then has
 * the producer's producer id. The tail is a hint: a producer advances it when it publishes the
 * slot, or when it sees the tail lag. Slots are published, and freed for the next lap, by a store
 * with release order. A killed producer leaves at most one claimed slot with its producer id, which
 * the consumer skips when it learns of the death.
 *
 * The consumer polls the slot's cache line, and so takes it away from a producer between claim and
 * publication. Therefore a producer only fills the slot between the two, and x86 publishes a
 * notice, the most frequent message, without a claim, by a compare-and-swap of 16 bytes. Neither a
 * claim nor a notice reads the slot first: the cache line would travel once for the read and again
 * for the write, and the content of a free slot at the tail is known.
 *
 * All connected processes can write to the ring, by mistake or on purpose. So no loop depends on
 * its values: each ends after SP_RING_TRIES rounds, and sp_ring_is_damaged() detects damage.
 */
#ifndef SP_RING_H
#define SP_RING_H

#include <stdbool.h>

#include "layout.h"

/* On x86 a compare-and-swap is a full barrier; other CPUs need a fence. The verifier of tests/order
 * defines UV_X86 or UV_AARCH64, and so verifies both on any CPU. */
#if (defined(__x86_64__) || defined(__i386__)) && !defined(UV_AARCH64)
#    define SP_SWAP_IS_FENCE
#endif

/* x86 can compare and swap 16 bytes. ThreadSanitizer does not understand the instruction. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#    define SP_HAS_CMPXCHG16B
#endif

enum {
    SP_PHASE_FREE = 0,
    SP_PHASE_CLAIMED = 1, /* a producer fills the slot */
    SP_PHASE_READY = 2,   /* published */
    SP_PHASE_NOTICE = 3,  /* a notice published by sp_ring_publish_notice(), with `conn` and `imm`
                             alone (`kind` is stale) */
};

/* The tail is at most one slot behind, so that only other producers can cause another round. */
enum { SP_RING_TRIES = 4 * SP_SLOTS };

#define SP_LAP_SHIFT         28
#define SP_PRODUCER_ID_SHIFT 4
#define SP_PRODUCER_ID_MAX   ((1u << (SP_LAP_SHIFT - SP_PRODUCER_ID_SHIFT)) - 1)

/* Returns the value of sp_slot.state for the slot at this position. */
static inline uint64_t sp_slot_make_state(uint64_t pos, uint32_t producer_id, unsigned int phase)
{
    return (pos >> SP_SLOT_BITS) << SP_LAP_SHIFT | (uint64_t)producer_id << SP_PRODUCER_ID_SHIFT |
           phase;
}

/* True if a slot has state `a` before state `b`. The lap is in the upper bits and wraps around,
 * after 2^45 slots; states of one slot that are compared are a few laps apart. */
static inline bool sp_slot_state_is_before(uint64_t a, uint64_t b)
{
    return (int64_t)(a - b) < 0;
}

/* Returns SP_PHASE_... */
static inline unsigned int sp_slot_state_phase(uint64_t state)
{
    return state & 15;
}

static inline uint32_t sp_slot_state_producer_id(uint64_t state)
{
    return (uint32_t)(state >> SP_PRODUCER_ID_SHIFT) & SP_PRODUCER_ID_MAX;
}

/* Returns the slot at this position, which counts all slots since the ring was created. */
static inline struct sp_slot *sp_ring_slot(struct sp_ring *ring, uint64_t pos)
{
    return &ring->slots[pos & (SP_SLOTS - 1)];
}

/* Advances the tail from this position, unless another producer did. */
static inline void sp_ring_advance_tail(struct sp_ring *ring, uint64_t tail)
{
    __atomic_compare_exchange_n(&ring->tail, &tail, tail + 1, false, __ATOMIC_RELEASE,
                                __ATOMIC_RELAXED);
}

/* Claims a slot; returns the slot and its position, or NULL: the ring is full or damaged. */
static inline struct sp_slot *sp_ring_claim(struct sp_ring *ring, uint32_t producer_id,
                                            uint64_t *pos)
{
    for (int i = 0; i < SP_RING_TRIES; i++) {
        uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
        struct sp_slot *slot = sp_ring_slot(ring, tail);
        uint64_t state = sp_slot_make_state(tail, 0, SP_PHASE_FREE);

        if (__builtin_expect(
                __atomic_compare_exchange_n(&slot->state, &state,
                                            sp_slot_make_state(tail, producer_id, SP_PHASE_CLAIMED),
                                            false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE),
                1)) {
            *pos = tail;
            return slot;
        }
        if (sp_slot_state_is_before(state, sp_slot_make_state(tail, 0, SP_PHASE_FREE)))
            return NULL; /* not consumed since the last lap */
        /* claimed or consumed by now: the producer of the slot may have died before it advanced the
         * tail */
        sp_ring_advance_tail(ring, tail);
    }
    return NULL;
}

/* Replaces state `vacant`, with conn and imm 0, by `state`, conn and imm in one atomic step. False:
 * the slot had another content. */
static inline bool sp_slot_swap(struct sp_slot *slot, uint64_t vacant, uint64_t state,
                                uint32_t conn, uint32_t imm)
{
#ifdef SP_HAS_CMPXCHG16B
    struct pair {
        uint64_t words[2];
    } __attribute__((may_alias)) *pair = (struct pair *)(void *)slot;
    uint64_t low = vacant, high = 0;
    bool done;

    __asm__ volatile("lock cmpxchg16b %1"
                     : "=@ccz"(done), "+m"(*pair), "+a"(low), "+d"(high)
                     : "b"(state), "c"(conn | (uint64_t)imm << 32)
                     : "memory");
    return done;
#elif defined(UV_X86)
    return uv_swap16(&slot->state, vacant, state, conn | (uint64_t)imm << 32);
#else
    (void)slot, (void)vacant, (void)state, (void)conn, (void)imm;
    return false;
#endif
}

/* Publishes a notice without claiming a slot first. Later loads are ordered after the publication.
 * False: nothing was done; sp_ring_claim() finds out why, or succeeds. */
static inline bool sp_ring_publish_notice(struct sp_ring *ring, uint32_t producer_id, uint32_t conn,
                                          uint32_t imm, uint64_t *pos)
{
    *pos = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
    if (!sp_slot_swap(sp_ring_slot(ring, *pos), sp_slot_make_state(*pos, 0, SP_PHASE_FREE),
                      sp_slot_make_state(*pos, producer_id, SP_PHASE_NOTICE), conn, imm))
        return false;
    sp_ring_advance_tail(ring, *pos);
    return true;
}

/* True if the ring contains a value that no producer and no consumer writes. The states of the slot
 * at the tail go from "claimed in the previous lap" (in lap 0 from "free") to "free for the next
 * lap". For a later state the tail would have moved on. */
static inline bool sp_ring_is_damaged(struct sp_ring *ring)
{
    uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
    uint64_t state = __atomic_load_n(&sp_ring_slot(ring, tail)->state, __ATOMIC_ACQUIRE);
    uint64_t first = tail < SP_SLOTS ? sp_slot_make_state(tail, 0, SP_PHASE_FREE)
                                     : sp_slot_make_state(tail - SP_SLOTS, 0, SP_PHASE_CLAIMED);

    if (__atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) != tail)
        return false; /* the tail moved; the next check will still find damage */
    return sp_slot_state_phase(state) > SP_PHASE_NOTICE || sp_slot_state_is_before(state, first) ||
           sp_slot_state_is_before(sp_slot_make_state(tail + SP_SLOTS, 0, SP_PHASE_FREE), state);
}

/* Publishes a claimed slot that the producer has filled. */
static inline void sp_ring_publish(struct sp_ring *ring, struct sp_slot *slot, uint64_t pos,
                                   uint32_t producer_id)
{
    __atomic_store_n(&slot->state, sp_slot_make_state(pos, producer_id, SP_PHASE_READY),
                     __ATOMIC_RELEASE);
    sp_ring_advance_tail(ring, pos);
}

/* Loads `armed` after the preceding publication and its compare-and-swap on the tail. The consumer
 * arms, then checks the slot: either the consumer sees the slot, or this load sees `armed`. */
static inline uint32_t sp_ring_load_armed(struct sp_ring *ring)
{
#ifdef SP_SWAP_IS_FENCE
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
    return __atomic_load_n(&ring->armed, __ATOMIC_RELAXED);
}

/* Returns the position of the first unclaimed slot: the exact tail. */
static inline uint64_t sp_ring_find_tail(struct sp_ring *ring)
{
    for (int i = 0;; i++) {
        uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_SEQ_CST);
        struct sp_slot *slot = sp_ring_slot(ring, tail);
        uint64_t state = __atomic_load_n(&slot->state, __ATOMIC_SEQ_CST);
        if (!sp_slot_state_is_before(sp_slot_make_state(tail, 0, SP_PHASE_FREE), state))
            return tail;
        if (i == SP_RING_TRIES)
            return tail;
        sp_ring_advance_tail(ring, tail);
    }
}

/* True if a claim would probably succeed. The consumer frees slots in order, so all slots before a
 * free one are free, too: up to `*free_until`, which the caller stores. So a producer reads the
 * slot at the tail, whose cache line the consumer polls, only if the ring is half full. */
static inline bool sp_ring_has_room(struct sp_ring *ring, uint64_t *free_until)
{
    uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED), ahead = tail + SP_SLOTS / 2;

    if (__builtin_expect(tail < *free_until, 1))
        return true;
    if (!sp_slot_state_is_before(
            __atomic_load_n(&sp_ring_slot(ring, ahead)->state, __ATOMIC_RELAXED),
            sp_slot_make_state(ahead, 0, SP_PHASE_FREE))) {
        *free_until = ahead;
        return true;
    }
    return !sp_slot_state_is_before(
        __atomic_load_n(&sp_ring_slot(ring, tail)->state, __ATOMIC_RELAXED),
        sp_slot_make_state(tail, 0, SP_PHASE_FREE));
}

/* True if the slots from the consumer's head to this position, which was just published, are more
 * than half of the ring. */
static inline bool sp_ring_is_half_full(struct sp_ring *ring, uint64_t pos)
{
    pos += SP_SLOTS / 2;
    return sp_slot_state_is_before(
        __atomic_load_n(&sp_ring_slot(ring, pos)->state, __ATOMIC_RELAXED),
        sp_slot_make_state(pos, 0, SP_PHASE_FREE));
}

/* Frees a slot for the next lap; sp_slot_swap() expects `conn` and `imm` of a free slot to be 0. */
static inline void sp_slot_free(struct sp_slot *slot, uint64_t pos)
{
    slot->conn = slot->imm = 0;
    __atomic_store_n(&slot->state, sp_slot_make_state(pos + SP_SLOTS, 0, SP_PHASE_FREE),
                     __ATOMIC_RELEASE);
}

/* Returns the payload bytes of the slot at this position, for SP_SLOT_BIG. */
static inline uint8_t *sp_ring_payload(struct sp_ring *ring, uint64_t pos)
{
    return ring->payload[pos & (SP_SLOTS - 1)];
}

#endif
