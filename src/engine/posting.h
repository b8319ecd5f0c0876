/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that post: post.c for puts, gets and notices, armw.c for ARMW. */
#ifndef UT_ENGINE_POSTING_H
#define UT_ENGINE_POSTING_H

#include "engine/inner.h"

/* What posting one descriptor led to. */
enum ut_outcome {
    UT_POSTED,  /* all of it is posted, or it has ended */
    UT_NOT_NOW, /* it is tried again when the link is pumped */
};

/* It ends with an error: of the TCQ, where Tofu's local TNI would find it; else of the MRQ, with a
 * notice whether asked for or not. */
enum ut_outcome ut_post_fails(struct ut_link *link, struct ut_slot *slot, int rc);
/* A negative return of the provider, with nothing of the operation posted. */
enum ut_outcome ut_post_refused(struct ut_link *link, struct ut_slot *slot, int rc);

bool ut_post_waits_for_armw(const struct ut_link *link, const struct ut_slot *slot);

/* A STRONG_ORDER communication is executed after earlier reads and atomics: a fence orders it
 * behind those of the device; for an ARMW by the target's CPU it waits here. Remote notices are
 * sent in the order of the TOQ: the one of an ARMW by the device is posted when its atomic is
 * complete. */
static inline bool ut_post_must_wait(const struct ut_link *link, const struct ut_slot *slot)
{
    return __builtin_expect(link->armw_out != 0, 0) && ut_post_waits_for_armw(link, slot);
}

/* Where puts and gets may pass each other, those of STRONG_ORDER say so. */
static inline uint32_t ut_post_strong(const struct ut_link *link, const struct ut_slot *slot)
{
    bool strong = slot->desc.flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER;

    return strong && link->any_order ? PROV_STRONG : 0;
}

static inline uint32_t ut_post_fence(const struct ut_link *link, const struct ut_slot *slot)
{
    bool strong = slot->desc.flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER;

    return strong && link->reads_out > 0 ? PROV_FENCE : 0;
}

/* What the target returns with its answer to an ARMW: the TOQ slot, and above it the era of the
 * link, in as many bits as the TOQ leaves of 32: at least 12, and 21 with 2,048 entries. */
static inline uint32_t ut_armw_name(const struct ut_link *link, uint32_t number)
{
    UT_ASSERT(number <= link->vcq->toq_mask);
    return link->era * (link->vcq->toq_mask + 1) + number;
}

enum ut_outcome ut_post_armw(struct ut_link *link, struct ut_slot *slot);
/* Goes on with device ARMWs whose next request could not be posted. */
void ut_armw_resume(struct ut_link *link);
/* The fast path of an ARMW, on a word that this process has mapped. False: nothing was done. */
bool ut_armw_fast(struct ut_vcq *vcq, struct ut_link *link, struct ut_slot *slot);

#endif
