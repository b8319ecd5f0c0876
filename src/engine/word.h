/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast path of a put, with or without piggyback, or a get of one word of peer memory that this
 * process has mapped (see mapped.h), without a remote notice. The CPU moves the word here, and the
 * TOQ gets an entry that is complete. The provider is not called, which would find that the owner
 * of the memory is dead: but at least once in as many puts as the TOQ has entries the TOQ is full,
 * and the put takes the slow path.
 */
#ifndef UT_ENGINE_WORD_H
#define UT_ENGINE_WORD_H

#include "desc/request.h"
#include "engine/inner.h"
#include "mapped.h"

enum { UT_WORD = sizeof(uint64_t) };

#define UT_INLINE static inline __attribute__((always_inline))

/* The addresses of the words, if they can be moved now: everything before them on the link is
 * complete, and their STags are the ones used last. */
UT_INLINE bool ut_word_find(const struct ut_stag_table *stags, const struct ut_link *link,
                            const struct ut_request *r, void **local, void **remote)
{
    bool get = r->kind == UT_DESC_GET, piggyback = r->kind == UT_DESC_PIGGYBACK;
    uint64_t before = 0;

    if ((link->state ^ (uint32_t)UT_LINK_UP) | (link->first ^ (uint32_t)UT_NO_SLOT) |
        (uintptr_t)link->msg_to_post)
        return false;
    if ((!piggyback && !ut_stadd_range_ends(get ? &stags->hot_writable : &stags->hot, r->lcl_stadd,
                                            UT_WORD, &before)) ||
        !ut_stadd_range_ends(&link->hot, r->rmt_stadd, UT_WORD, &before) || (int64_t)before < 0 ||
        !link->mapping)
        return false;
    *local = piggyback ? (void *)r->data
                       : (void *)(uintptr_t)ut_stadd_range_at(&stags->hot, r->lcl_stadd);
    *remote = prov_mapped_at(link->mapping, link->hot_rkey,
                             ut_stadd_range_at(&link->hot, r->rmt_stadd), UT_WORD);
    return *remote && prov_is_word(get ? *local : *remote, UT_WORD);
}

/* Moves the word and fills the slot behind the tail of the TOQ. Call it only where
 * ut_toq_is_fast(). False: nothing was done. */
UT_INLINE bool ut_word_fast(struct ut_vcq *vcq, const struct ut_link *link,
                            const struct ut_request *r, void *cbdata)
{
    const struct ut_slot executed = {.tcq_ready = true};
    bool get = r->kind == UT_DESC_GET;
    void *local, *remote;

    if (!ut_word_find(vcq->stags, link, r, &local, &remote))
        return false;
    if (get)
        prov_move_word(local, remote);
    else
        prov_move_word(remote, local);
    struct ut_slot *slot = ut_vcq_slot(vcq, vcq->toq_tail);
    UT_ASSERT(ut_is_locked(&vcq->lock) && ut_toq_is_sound(vcq) && ut_toq_is_fast(vcq));
    UT_ASSERT(slot->state == UT_SLOT_FREE && link->vcq == vcq);
    slot->cbdata = cbdata;
    slot->desc.flags = ut_desc_flags(r->flags);
    slot->progress = executed.progress;
    slot->history = 0;
    slot->state = UT_SLOT_RETIRED;
    vcq->toq_exec = ++vcq->toq_tail;
    if (__builtin_expect((r->flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE) != 0, 0))
        ut_mrq_push(vcq, 0,
                    (struct utofu_mrq_notice){
                        .notice_type = get ? UTOFU_MRQ_TYPE_LCL_GET : UTOFU_MRQ_TYPE_LCL_PUT,
                        .vcq_id = link->peer,
                        .edata = (uint8_t)r->edata,
                        .lcl_stadd = get ? r->lcl_stadd + UT_WORD : 0,
                        .rmt_stadd = get ? 0 : r->rmt_stadd + UT_WORD,
                    });
    return true;
}

#undef UT_INLINE
#endif
