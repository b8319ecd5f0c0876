/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring of an endpoint: many producers in many processes, one consumer, no locks.
 *
 * A producer claims the slot at the tail by compare-and-swap on the slot's own state, with its name
 * in it; the tail is a hint, which it moves along when the slot is published, and whoever sees it
 * lag does as well. Nothing stands between claim and publication but filling the slot: the consumer
 * watches that line, and would take it away from the producer. So a producer that is killed leaves
 * at most a slot that says who claimed it, which the consumer skips once it knows of the death.
 * Slots are published by a store with release and freed for the next lap the same way.
 *
 * All processes that are connected can write there, by mistake or on purpose, so no loop lasts
 * longer for what they write: it ends after SP_RING_TRIES rounds, and sp_ring_is_damaged() tells.
 */
#ifndef SP_RING_H
#define SP_RING_H

#include <stdbool.h>

#include "layout.h"

enum { SP_PHASE_FREE = 0, SP_PHASE_CLAIMED = 1, SP_PHASE_READY = 2 };

/* The tail is never more than one slot behind, so that only other producers make a round more
 * necessary. */
enum { SP_RING_TRIES = 4 * SP_SLOTS };

#define SP_LAP_SHIFT     28
#define SP_CLAIMER_SHIFT 4
#define SP_CLAIMER_MAX   ((1u << (SP_LAP_SHIFT - SP_CLAIMER_SHIFT)) - 1)

static inline uint64_t sp_state(uint64_t pos, uint32_t claimer, unsigned int phase)
{
    return (pos >> SP_SLOT_BITS) << SP_LAP_SHIFT | (uint64_t)claimer << SP_CLAIMER_SHIFT | phase;
}

static inline unsigned int sp_state_phase(uint64_t state)
{
    return state & 15;
}

static inline uint32_t sp_state_claimer(uint64_t state)
{
    return (uint32_t)(state >> SP_CLAIMER_SHIFT) & SP_CLAIMER_MAX;
}

static inline struct sp_slot *sp_ring_slot(struct sp_ring *ring, uint64_t pos)
{
    return &ring->slots[pos & (SP_SLOTS - 1)];
}

static inline void sp_ring_help(struct sp_ring *ring, uint64_t tail)
{
    __atomic_compare_exchange_n(&ring->tail, &tail, tail + 1, false, __ATOMIC_RELEASE,
                                __ATOMIC_RELAXED);
}

/* A slot of one's own and its position, or NULL: the ring is full, or damaged. */
static inline struct sp_slot *sp_ring_claim(struct sp_ring *ring, uint32_t claimer, uint64_t *pos)
{
    for (int i = 0; i < SP_RING_TRIES; i++) {
        uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
        struct sp_slot *slot = sp_ring_slot(ring, tail);
        uint64_t s = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
        uint64_t vacant = sp_state(tail, 0, SP_PHASE_FREE);

        if (__builtin_expect(s == vacant, 1)) {
            bool mine = __atomic_compare_exchange_n(&slot->state, &s,
                                                    sp_state(tail, claimer, SP_PHASE_CLAIMED),
                                                    false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
            if (mine) {
                *pos = tail;
                return slot;
            }
            sp_ring_help(ring, tail);
        } else if (s < vacant) {
            return NULL; /* not consumed since the last lap */
        } else {
            /* claimed, or even consumed, by now: whoever claimed it may not live to say so */
            sp_ring_help(ring, tail);
        }
    }
    return NULL;
}

/* Does it hold what no producer and no consumer writes? Where the tail is, the slot was claimed in
 * the last lap at the earliest, and is free for the next one at the latest: whoever claims it then
 * has seen the tail there. */
static inline bool sp_ring_is_damaged(struct sp_ring *ring)
{
    uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
    uint64_t s = __atomic_load_n(&sp_ring_slot(ring, tail)->state, __ATOMIC_ACQUIRE);

    if (__atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) != tail)
        return false; /* it moves; damage is still there the next time */
    return s > sp_state(tail + SP_SLOTS, 0, SP_PHASE_FREE) ||
           (tail >= SP_SLOTS && s < sp_state(tail - SP_SLOTS, 0, SP_PHASE_CLAIMED));
}

static inline void sp_ring_publish(struct sp_ring *ring, struct sp_slot *slot, uint64_t pos,
                                   uint32_t claimer)
{
    __atomic_store_n(&slot->state, sp_state(pos, claimer, SP_PHASE_READY), __ATOMIC_RELEASE);
    sp_ring_help(ring, pos);
}

/* The same, and whatever is read next is read after it was published. */
static inline void sp_ring_publish_fenced(struct sp_ring *ring, struct sp_slot *slot, uint64_t pos,
                                          uint32_t claimer)
{
    __atomic_exchange_n(&slot->state, sp_state(pos, claimer, SP_PHASE_READY), __ATOMIC_SEQ_CST);
    sp_ring_help(ring, pos);
}

/* `armed`, read behind the publication before it: either the owner, who arms and then looks at the
 * slot, sees it, or this sees it armed. The compare-and-swap on the tail is a full barrier on x86;
 * elsewhere one is needed. */
static inline uint32_t sp_ring_armed_behind_help(struct sp_ring *ring)
{
#if defined(__x86_64__) || defined(__i386__)
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
    return __atomic_load_n(&ring->armed, __ATOMIC_RELAXED);
}

/* The first position that is not claimed: where the tail ought to be. */
static inline uint64_t sp_ring_end(struct sp_ring *ring)
{
    for (int i = 0;; i++) {
        uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_SEQ_CST);
        struct sp_slot *slot = sp_ring_slot(ring, tail);
        if (__atomic_load_n(&slot->state, __ATOMIC_SEQ_CST) <= sp_state(tail, 0, SP_PHASE_FREE))
            return tail;
        if (i == SP_RING_TRIES)
            return tail;
        sp_ring_help(ring, tail);
    }
}

/* Would a claim (probably) succeed? */
static inline bool sp_ring_has_room(struct sp_ring *ring)
{
    uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED);

    return __atomic_load_n(&sp_ring_slot(ring, tail)->state, __ATOMIC_RELAXED) >=
           sp_state(tail, 0, SP_PHASE_FREE);
}

/* Is the ring more than half full behind this position? */
static inline bool sp_ring_is_busy(struct sp_ring *ring, uint64_t pos)
{
    pos += SP_SLOTS / 2;
    return __atomic_load_n(&sp_ring_slot(ring, pos)->state, __ATOMIC_RELAXED) <
           sp_state(pos, 0, SP_PHASE_FREE);
}

static inline void sp_ring_free(struct sp_slot *slot, uint64_t pos)
{
    __atomic_store_n(&slot->state, sp_state(pos + SP_SLOTS, 0, SP_PHASE_FREE), __ATOMIC_RELEASE);
}

static inline uint8_t *sp_ring_payload(struct sp_ring *ring, uint64_t pos)
{
    return ring->payload[pos & (SP_SLOTS - 1)];
}

#endif
