/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: takes descriptors from the TOQ, executes them against a link, and turns completions
 * and arrivals into TCQ and MRQ entries. Everything here runs with the VCQ's lock held.
 *
 * Uses desc, wire, stag, link, vcq, armw, provider.h. The life of a put is read from top to bottom:
 * ut_engine_reserve(), ut_engine_submit(), start, ut_engine_pump(), post_put, done, finish, retire.
 */
#ifndef UT_ENGINE_ENGINE_H
#define UT_ENGINE_ENGINE_H

#include "link/link.h"
#include "vcq/vcq.h"

static inline uint32_t ut_engine_room(const struct ut_vcq *vcq)
{
    return vcq->toq_mask + 1 - (vcq->toq_tail - vcq->toq_head);
}

/* Takes back what is complete, and makes progress once if that is not enough. */
int ut_engine_make_room(struct ut_vcq *vcq, uint32_t n);

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

/* A put with this SPS arrived (session mode). */
void ut_engine_schedule(struct ut_vcq *vcq, unsigned int sps);

/* Polls the endpoints and moves what waits. True if anything came. */
bool ut_engine_progress(struct ut_vcq *vcq);

/* Is there no TCQ entry to be read of a descriptor, unless something goes wrong? */
static inline bool ut_engine_is_silent(const struct ut_slot *slot)
{
    return !slot->tcq_rc && !(slot->desc.flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE);
}

/* The same as ut_engine_poll_tcq(), where the first look finds nothing. */
int ut_engine_look_for_tcq(struct ut_vcq *vcq, void **cbdata);

/* The next TCQ entry: its return code and callback data, or UTOFU_ERR_NOT_FOUND. */
static inline int ut_engine_poll_tcq(struct ut_vcq *vcq, void **cbdata)
{
    if (vcq->tcq_head != vcq->toq_exec) {
        const struct ut_slot *slot = ut_vcq_slot(vcq, vcq->tcq_head);
        if (slot->tcq_ready && !ut_engine_is_silent(slot)) {
            vcq->tcq_head++;
            *cbdata = slot->cbdata;
            return slot->tcq_rc;
        }
    }
    return ut_engine_look_for_tcq(vcq, cbdata);
}

/* TOQ entries whose TCQ entry was not read and that are not silently on their way. */
size_t ut_engine_unread_tcq(struct ut_vcq *vcq);

/* MRQ notices that were not read. */
size_t ut_engine_unread_mrq(struct ut_vcq *vcq);

/* Waits until what was posted is complete, at most so long. */
void ut_engine_drain(struct ut_vcq *vcq, uint64_t timeout_ms);

#endif
