/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast path of a put of a few bytes through a provider that takes them at once (write_few),
 * with no notice but that of the TCQ. The bytes are kept in the slot, in case they have to be sent
 * again, and the provider reads them there. The slot enters the TOQ and its link before they are
 * posted, so that hardly a value is needed after that call; where it is refused, which is rare, it
 * is taken out again.
 */
#ifndef UT_ENGINE_FEW_H
#define UT_ENGINE_FEW_H

#include "engine/fast.h"

#define UT_INLINE static inline __attribute__((always_inline))

/* Nothing on the link has to be waited for, and the STags are the ones used last. */
UT_INLINE bool ut_few_find(const struct ut_stag_table *stags, const struct ut_link *link,
                           const struct ut_request *r)
{
    bool piggyback = r->kind == UT_DESC_PIGGYBACK;
    uint64_t before = 0;

    return ut_link_is_clear(link) && __builtin_expect(r->length - 1 < link->few, 1) &&
           (piggyback || ut_stadd_range_ends(&stags->hot, r->lcl_stadd, r->length, &before)) &&
           ut_stadd_range_ends(&link->hot, r->rmt_stadd, r->length, &before) &&
           (int64_t)before >= 0;
}

/* Submits and posts a put with the slot behind the tail of the TOQ. Call it only where
 * ut_toq_is_fast(). False: nothing was done. */
UT_INLINE bool ut_few_fast(struct ut_vcq *vcq, struct ut_link *link, const struct ut_request *r,
                           void *cbdata)
{
    uint32_t length = (uint32_t)r->length;

    if (!ut_few_find(vcq->stags, link, r))
        return false;
    uint32_t number = vcq->toq_tail & vcq->toq_mask;
    struct ut_slot *slot = &vcq->toq[number];
    struct ut_desc *d = &slot->desc;
    UT_ASSERT(ut_is_locked(&vcq->lock) && ut_toq_is_sound(vcq) && ut_toq_is_fast(vcq));
    UT_ASSERT(slot->state == UT_SLOT_FREE && link->vcq == vcq);
    UT_ASSERT(link == vcq->last_link && r->rmt_vcq_id == vcq->last_id);
    ut_copy_few(d->data,
                r->kind == UT_DESC_PIGGYBACK
                    ? r->data
                    : (void *)(uintptr_t)ut_stadd_range_at(&vcq->stags->hot, r->lcl_stadd),
                length);
    d->kind = UT_DESC_PIGGYBACK;
    d->edata = (uint8_t)r->edata;
    d->flags = ut_desc_flags(r->flags);
    d->word = length;
    d->rmt_vcq_id = r->rmt_vcq_id;
    d->rmt_stadd = r->rmt_stadd;
    slot->cbdata = cbdata;
    slot->msg_number = 0;
    ut_slot_is_posted(slot, true, true);
    ut_link_append(link, slot, number, false);
    vcq->toq_exec = ++vcq->toq_tail;
    int rc = link->write_few(link->conn, d->data, ut_stadd_range_at(&link->hot, r->rmt_stadd),
                             link->hot_rkey, length, ut_cookie(UT_COOKIE_SLOT, number));
    if (__builtin_expect(rc != 0, 0))
        ut_engine_few_refused(vcq, rc);
    return true;
}

#undef UT_INLINE
#endif
