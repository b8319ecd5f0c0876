/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: takes descriptors from the TOQ, executes them against a link, and turns completions
 * and arrivals into TCQ and MRQ entries. Everything here runs with the VCQ's lock held.
 *
 * Uses desc, wire, stag, link, vcq, armw, progress, provider.h. The life of a put:
 * ut_transfer_at_once (short.h) where nothing is in its way; else ut_engine_reserve(),
 * ut_engine_submit(), start, ut_engine_pump(), post_put, done, finish, retire.
 */
#ifndef UT_ENGINE_ENGINE_H
#define UT_ENGINE_ENGINE_H

#include "link/link.h"
#include "progress/progress.h"
#include "vcq/vcq.h"

int ut_engine_make_room(struct ut_vcq *vcq, uint32_t n);

static inline uint32_t ut_engine_room(const struct ut_vcq *vcq)
{
    return vcq->toq_mask + 1 - (vcq->toq_tail - vcq->toq_head);
}

static inline bool ut_engine_has_room(const struct ut_vcq *vcq)
{
    return vcq->toq_tail - vcq->toq_head <= vcq->toq_mask;
}

/* Room for n descriptors at the tail of the TOQ; makes progress once if there is none. 0 or
 * UTOFU_ERR_BUSY. */
static inline int ut_engine_reserve(struct ut_vcq *vcq, uint32_t n)
{
    return __builtin_expect(ut_engine_room(vcq) >= n, 1) ? 0 : ut_engine_make_room(vcq, n);
}

/* The i-th descriptor slot behind the tail; the caller fills desc and cbdata. */
static inline struct ut_slot *ut_engine_slot(struct ut_vcq *vcq, uint32_t i)
{
    return ut_vcq_slot(vcq, vcq->toq_tail + i);
}

/* Makes the n filled slots part of the TOQ; unless `delay`, starts everything that may start. */
void ut_engine_submit(struct ut_vcq *vcq, uint32_t n, bool delay);

/* Submits the slot behind the tail of the TOQ and starts it by the long way, where
 * ut_engine_starts_at_once(). */
void ut_engine_start_tail(struct ut_vcq *vcq);

/* The same after the provider refused it on the short way, with `rc`. */
void ut_engine_refused(struct ut_vcq *vcq, struct ut_link *link, struct ut_slot *slot, int rc)
    __attribute__((cold));

/* A descriptor that is submitted now is not kept back by the schedule pointer or by others that
 * are, and nobody watches. */
static inline bool ut_engine_starts_at_once(const struct ut_vcq *vcq)
{
    return ((vcq->toq_tail ^ vcq->toq_exec) | vcq->long_way) == 0;
}

/* A put with this SPS arrived (session mode). */
void ut_engine_schedule(struct ut_vcq *vcq, unsigned int sps);

/* Polls the endpoints and moves what waits. True if anything came. */
int ut_engine_progress_rest(struct ut_vcq *vcq);
static inline bool ut_engine_progress(struct ut_vcq *vcq)
{
    unsigned int i = 0;
    int events = 0;

    do
        events += vcq->eps[i].ops->ep_poll(vcq->eps[i].ep);
    while (++i < vcq->num_eps);
    if (__builtin_expect(vcq->waiting || vcq->more_to_do, 0))
        events += ut_engine_progress_rest(vcq);
    return events > 0;
}

/* Nobody wants to hear of it. */
static inline bool ut_slot_is_silent(const struct ut_slot *slot)
{
    return !slot->tcq_rc && !(slot->desc.flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE);
}

/* The next TCQ entry, its return code and callback data; false: none is there. */
static inline bool ut_engine_take_tcq(struct ut_vcq *vcq, void **cbdata, int *rc)
{
    while (vcq->tcq_head != vcq->toq_exec) {
        struct ut_slot *slot = ut_vcq_slot(vcq, vcq->tcq_head);
        if (!slot->tcq_ready)
            break;
        vcq->tcq_head++;
        if (!ut_slot_is_silent(slot)) {
            *cbdata = slot->cbdata;
            *rc = slot->tcq_rc;
            return true;
        }
    }
    return false;
}

/* Nothing was there: if the next entry waits for a communication without notice, to another target
 * perhaps, whose completion nobody asked for, asks for it. */
void ut_engine_unblock_tcq(struct ut_vcq *vcq);
/* The same for what has ended behind such communications: see ut_vcq.held_up. */
void ut_engine_release(struct ut_vcq *vcq);

/* TOQ entries whose TCQ entry was not read and that are not silently on their way. */
size_t ut_engine_unread_tcq(struct ut_vcq *vcq);

/* MRQ notices that were not read. */
size_t ut_engine_unread_mrq(struct ut_vcq *vcq);

/* Waits until what was posted is complete, at most so long. */
void ut_engine_drain(struct ut_vcq *vcq, uint64_t timeout_ms);

#endif
