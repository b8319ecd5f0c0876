/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The direct path of a put or a get, for the common case: no communication waits on the link, the
 * STags are the ones used last, and the remote notice, if requested, travels with the data. The
 * data leave at once, in one of three forms: this CPU moves a word in memory of the peer that is
 * mapped here; an inline put, which the provider copies from the slot; or any other request of the
 * provider.
 * A slot that the provider refuses takes the queued path, ut_engine_submit().
 * The functions for addresses and for the word are inlined, so that the request stays in registers.
 */
#ifndef UT_ENGINE_DIRECT_H
#define UT_ENGINE_DIRECT_H

#include "desc/request.h"
#include "engine/put.h"

#define UT_INLINE static inline __attribute__((always_inline))

enum { UT_WORD = sizeof(uint64_t) };

/* Finds the peer's word in this process. True if this CPU may move the data as one word: no SPS, no
 * remote notice, and all earlier communications on the link are complete. */
UT_INLINE bool ut_find_word(const struct ut_link *link, const struct ut_request *r,
                            const struct ut_addrs *addrs, void **word)
{
    const struct prov_mapping *mapping = link->mapping;

    if (r->length != UT_WORD || !mapping || link->first != UT_NO_SLOT || ut_flags_sps(r->flags) ||
        (r->flags & UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE) ||
        !prov_is_mapped(mapping, link->last_stag_rkey, addrs->remote, UT_WORD))
        return false;
    *word = (void *)(uintptr_t)(addrs->remote + mapping->delta);
    return prov_is_word(r->kind == UT_DESC_GET ? addrs->local : *word, UT_WORD);
}

/* Moves the word with a load or a store of this CPU. */
UT_INLINE void ut_move_word(const struct ut_request *r, const struct ut_addrs *addrs, void *word)
{
    if (r->kind == UT_DESC_GET)
        prov_move_word(addrs->local, word);
    else
        prov_move_word(word, r->kind == UT_DESC_PIGGYBACK ? r->data : addrs->local);
}

/* Submits the slot behind the tail as complete. Only the flags of its descriptor are written, which
 * say whether the slot has a TCQ entry. This path does not call the provider, so it does not notice
 * a dead peer. But the TOQ fills up once per TOQ length, and then ut_engine_submit_direct() starts
 * the put and calls the provider. */
UT_INLINE void ut_retire_at_once(struct ut_vcq *vcq, struct ut_link *link, struct ut_slot *slot,
                                 const struct ut_request *r)
{
    const struct ut_slot executed = {.tcq_ready = true};

    slot->desc.flags = ut_desc_flags(r->flags);
    slot->progress = executed.progress;
    slot->state = UT_SLOT_RETIRED;
    vcq->toq_exec = ++vcq->toq_tail;
    if (!(r->flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE))
        return;
    if (r->kind == UT_DESC_GET)
        ut_mrq_push(vcq, 0,
                    (struct utofu_mrq_notice){.notice_type = UTOFU_MRQ_TYPE_LCL_GET,
                                              .vcq_id = link->peer,
                                              .edata = r->edata,
                                              .lcl_stadd = r->lcl_stadd + UT_WORD});
    else
        ut_mrq_push(vcq, 0,
                    (struct utofu_mrq_notice){.notice_type = UTOFU_MRQ_TYPE_LCL_PUT,
                                              .vcq_id = link->peer,
                                              .edata = r->edata,
                                              .rmt_stadd = r->rmt_stadd + UT_WORD});
}

/* Defined in direct.c. ut_post_inline() always posts the inline put in the slot, on last_link. The
 * other functions return false if nothing was done. */
void ut_post_inline(struct ut_vcq *vcq, struct ut_slot *slot, uint64_t remote);
bool ut_post_put_direct(struct ut_vcq *vcq, struct ut_slot *slot, struct ut_link *link,
                        struct ut_addrs addrs);
bool ut_post_get_direct(struct ut_vcq *vcq, struct ut_slot *slot, struct ut_link *link,
                        struct ut_addrs addrs);

/* Is this an inline put: short, without SPS, without any notice but the TCQ entry, and does the
 * provider have inline puts? */
UT_INLINE bool ut_is_inline(const struct ut_link *link, const struct ut_request *r)
{
    enum {
        NOT_INLINE = UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE |
                     UTOFU_ONESIDED_FLAG_STRONG_ORDER
    };

    return r->length - 1 < link->inline_max && !(r->flags & NOT_INLINE) && !ut_flags_sps(r->flags);
}

/* Submits and posts a put, a piggyback put or a get in the slot behind the tail of the TOQ. The
 * caller has checked ut_toq_is_direct(). `encoded`: the descriptor is in the slot already, and the
 * provider sends it. Else this CPU may move the data; the descriptor is encoded only if the CPU
 * does not. False: nothing else was done, and the caller calls ut_engine_submit(). */
UT_INLINE bool ut_submit_direct(struct ut_vcq *vcq, struct ut_slot *slot, struct ut_link *link,
                                const struct ut_request *r, bool encoded)
{
    struct ut_addrs addrs;
    void *word;

    UT_ASSERT(ut_is_locked(&vcq->lock) && ut_toq_is_sound(vcq) && ut_toq_is_direct(vcq));
    UT_ASSERT(slot == ut_engine_slot(vcq, 0) && slot->state == UT_SLOT_FREE);
    UT_ASSERT(link == vcq->last_link || link == &ut_link_none);
    bool found = ut_link_is_ready(link) && ut_find_addrs(vcq->stags, link, slot, r, &addrs);
    if (!encoded) {
        if (found && ut_find_word(link, r, &addrs, &word)) {
            ut_move_word(r, &addrs, word);
            ut_retire_at_once(vcq, link, slot, r);
            return true;
        }
        ut_request_encode(&slot->desc, r, 0);
    }
    if (!found)
        return false;
    if (r->kind == UT_DESC_GET)
        return ut_post_get_direct(vcq, slot, link, addrs);
    if (!ut_is_inline(link, r))
        return ut_post_put_direct(vcq, slot, link, addrs);
    if (r->kind == UT_DESC_PUT)
        ut_copy_source(&slot->desc, addrs.local, (uint32_t)r->length);
    ut_post_inline(vcq, slot, addrs.remote);
    return true;
}

#undef UT_INLINE
#endif
