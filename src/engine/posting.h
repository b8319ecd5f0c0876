/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that post share: post.c for puts, gets and notices, armw.c for ARMW. */
#ifndef UT_ENGINE_POSTING_H
#define UT_ENGINE_POSTING_H

#include "engine/inner.h"

/* What posting one descriptor led to. */
enum ut_outcome {
    UT_POSTED,  /* all of it is with the provider, or it is finished */
    UT_NOT_NOW, /* the link is told when to go on */
};

/* An error that is not met by the local TNI: MRQ notice whether asked for or not. */
enum ut_outcome ut_post_fails(struct ut_link *link, struct ut_slot *slot, int rc);
/* A negative return of the provider, with nothing of the operation posted. */
enum ut_outcome ut_post_refused(struct ut_link *link, struct ut_slot *slot, int rc);

bool ut_post_waits_for_armw(const struct ut_link *link, const struct ut_slot *slot);

/* A STRONG_ORDER communication starts behind earlier reads and atomics: the device's fence orders
 * it behind its own; for an ARMW that the target's CPU executes it waits here. Remote notices come
 * in the order of the TOQ: the one of an ARMW by the device is sent when it has come back. */
static inline bool ut_post_must_wait(const struct ut_link *link, const struct ut_slot *slot)
{
    return __builtin_expect(link->armw_out != 0, 0) && ut_post_waits_for_armw(link, slot);
}

static inline uint32_t ut_post_fence(const struct ut_link *link, const struct ut_slot *slot)
{
    bool strong = slot->desc.flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER;

    return strong && link->reads_out > 0 ? PROV_FENCE : 0;
}

enum ut_outcome ut_armw_post(struct ut_link *link, struct ut_slot *slot);
/* Device ARMWs in the middle of the link that could not go on when they wanted to. */
void ut_armw_resume(struct ut_link *link);
/* The short way of an ARMW, on a word that this CPU reaches. False: nothing was done. */
bool ut_armw_at_once(struct ut_vcq *vcq, struct ut_link *link, struct ut_slot *slot);

#endif
