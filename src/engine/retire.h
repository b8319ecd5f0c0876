/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slot is DONE when it is complete, and RETIRED when all slots before it on its link are
 * complete, too. complete.c inlines these functions; other files call ut_engine_finish() and
 * ut_engine_retire().
 */
#ifndef UT_ENGINE_RETIRE_H
#define UT_ENGINE_RETIRE_H

#include "engine/inner.h"

/* Writes the notice of a slot of a counted VCQ. */
void ut_engine_retire_counted(struct ut_link *link, struct ut_slot *slot) __attribute__((cold));

/* Writes the early notices that are due: see ut_engine_early_notice(). */
void ut_engine_push_early(struct ut_link *link);

/* A done slot waits for earlier communications of the link, which may be unsignalled. (An ARMW
 * completes by itself.) */
void ut_engine_want_completions_before(struct ut_link *link) __attribute__((cold));

/* A communication with a local notice has ended. Early notices may be due now. */
static inline void ut_engine_count_local_notice(struct ut_link *link)
{
    UT_ASSERT(link->lcl_notices_ended != link->lcl_notices_begun);
    link->lcl_notices_ended++;
    if (__builtin_expect(link->early_first != NULL, 0))
        ut_engine_push_early(link);
}

static inline __attribute__((always_inline)) void ut_engine_retire_done(struct ut_link *link)
{
    struct ut_vcq *vcq = link->vcq;

    while (link->first != UT_NO_SLOT) {
        struct ut_slot *slot = &vcq->toq[link->first];
        UT_ASSERT(slot->link == link && slot->state >= UT_SLOT_WAITING &&
                  slot->state <= UT_SLOT_DONE);
        if (slot->state != UT_SLOT_DONE)
            return;
        ut_link_remove_first(link);
        if (slot->mrq_rc ||
            (slot->desc.flags & (UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UT_DESC_COUNTED))) {
            if (__builtin_expect(slot->desc.flags & UT_DESC_COUNTED, 0))
                ut_engine_retire_counted(link, slot);
            else if (__builtin_expect(slot->mrq_rc != 0, 0))
                ut_mrq_push_failed(link, slot);
            else if (!slot->tcq_rc)
                ut_engine_local_notice(vcq, link, slot);
        }
        if (slot->desc.flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)
            ut_engine_count_local_notice(link);
        slot->tcq_ready = true;
        slot->state = UT_SLOT_RETIRED;
    }
}

static inline __attribute__((always_inline)) void ut_engine_finish_slot(struct ut_link *link,
                                                                        struct ut_slot *slot)
{
    UT_ASSERT(ut_is_locked(&link->vcq->lock));
    UT_ASSERT(slot->link == link);
    UT_ASSERT(slot->state == UT_SLOT_WAITING || slot->state == UT_SLOT_POSTED);
    slot->state = UT_SLOT_DONE;
    ut_engine_retire_done(link);
    if (__builtin_expect(slot->state == UT_SLOT_DONE, 0))
        ut_engine_want_completions_before(link);
}

#endif
