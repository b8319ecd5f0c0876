/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shortest way of a put or a get: of one word of peer memory that this process's CPU reaches by
 * itself (see view.h), without a remote notice. It is moved here, and the TOQ has of it what is
 * still asked for. No provider is asked, so nobody would notice here that the owner of the memory
 * is dead: but once in a lap of the TOQ there is no room, and the communication goes the long way.
 */
#ifndef UT_ENGINE_WORD_H
#define UT_ENGINE_WORD_H

#include "engine/inner.h"
#include "view.h"

enum { UT_WORD = sizeof(uint64_t) };

#define UT_INLINE static inline __attribute__((always_inline))

/* Where the words are, if they can be moved here and now: everything before them on the link is
 * executed, and their STags are the ones used last. */
UT_INLINE bool ut_word_find(const struct ut_stag_table *stags, const struct ut_link *link, bool get,
                            utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd, void **local,
                            void **remote)
{
    uint64_t before = 0;

    if ((link->state ^ (uint32_t)UT_LINK_UP) | (link->first ^ (uint32_t)UT_NO_SLOT) |
        (uintptr_t)link->msg_to_post)
        return false;
    if (!ut_stadd_range_ends(get ? &stags->hot_writable : &stags->hot, lcl_stadd, UT_WORD,
                             &before) ||
        !ut_stadd_range_ends(&link->hot, rmt_stadd, UT_WORD, &before) || (int64_t)before < 0 ||
        !link->view)
        return false;
    *local = (void *)(uintptr_t)ut_stadd_range_at(&stags->hot, lcl_stadd);
    *remote = prov_view_at(link->view, link->hot_rkey, ut_stadd_range_at(&link->hot, rmt_stadd),
                           UT_WORD);
    return *remote && prov_is_word(get ? *local : *remote, UT_WORD);
}

/* With the slot behind the tail of the TOQ, where ut_engine_starts_at_once().
 * False: nothing was done. */
UT_INLINE bool ut_word_move(struct ut_vcq *vcq, const struct ut_link *link, bool get,
                            utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd, uint8_t edata,
                            uint16_t flags, void *cbdata)
{
    const struct ut_slot executed = {.tcq_ready = true};
    void *local, *remote;

    if (!ut_word_find(vcq->stags, link, get, lcl_stadd, rmt_stadd, &local, &remote))
        return false;
    if (get)
        prov_move_word(local, remote);
    else
        prov_move_word(remote, local);
    struct ut_slot *slot = ut_vcq_slot(vcq, vcq->toq_tail);
    slot->cbdata = cbdata;
    slot->desc.flags = flags;
    slot->as_new[2] = executed.as_new[2];
    slot->as_new[3] = executed.as_new[3];
    slot->state = UT_SLOT_RETIRED;
    vcq->toq_exec = ++vcq->toq_tail;
    if (flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)
        ut_mrq_push(vcq, 0,
                    (struct utofu_mrq_notice){
                        .notice_type = get ? UTOFU_MRQ_TYPE_LCL_GET : UTOFU_MRQ_TYPE_LCL_PUT,
                        .vcq_id = link->peer,
                        .edata = edata,
                        .lcl_stadd = get ? lcl_stadd + UT_WORD : 0,
                        .rmt_stadd = get ? 0 : rmt_stadd + UT_WORD,
                    });
    return true;
}

#undef UT_INLINE
#endif
