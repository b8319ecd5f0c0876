/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the files of the engine: engine.c starts, post.c and armw.c post, complete.c ends
 * communications and writes notices, arrive.c takes what comes from peers. With the VCQ's lock held.
 */
#ifndef UT_ENGINE_INNER_H
#define UT_ENGINE_INNER_H

#include "engine/engine.h"

static inline uint32_t ut_slot_number(const struct ut_vcq *vcq, const struct ut_slot *slot)
{
    return (uint32_t)(slot - vcq->toq);
}

static inline bool ut_slot_wants_remote_notice(const struct ut_slot *slot)
{
    return slot->desc.flags & UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE;
}

/* What the MRQ says of its end, but for the return code. */
static inline __attribute__((always_inline)) struct utofu_mrq_notice
ut_engine_told(const struct ut_link *link, const struct ut_slot *slot)
{
    const struct ut_desc *d = &slot->desc;
    struct utofu_mrq_notice n = {.vcq_id = link->peer, .edata = d->edata};

    switch (d->kind) {
    case UT_DESC_GET:
        n.notice_type = UTOFU_MRQ_TYPE_LCL_GET;
        n.lcl_stadd = d->lcl_stadd + ut_desc_length(d);
        break;
    case UT_DESC_ARMW:
        n.notice_type = UTOFU_MRQ_TYPE_LCL_ARMW;
        n.rmt_value = slot->rmt_value;
        n.rmt_stadd = d->rmt_stadd;
        break;
    default:
        n.notice_type = UTOFU_MRQ_TYPE_LCL_PUT;
        n.rmt_stadd = d->rmt_stadd + ut_desc_length(d);
    }
    return n;
}

static inline __attribute__((always_inline)) void ut_engine_local_notice(struct ut_vcq *vcq,
                                                                         struct ut_link *link,
                                                                         struct ut_slot *slot)
{
    ut_mrq_push(vcq, slot->mrq_rc, ut_engine_told(link, slot));
}

/* The same, called. */
void ut_engine_tell(struct ut_link *link, struct ut_slot *slot);

/* DONE; retires what can be retired on the link. */
void ut_engine_finish(struct ut_link *link, struct ut_slot *slot);
void ut_engine_retire(struct ut_link *link);

/* Callbacks of the providers. */
void ut_engine_done(void *ctx, uint64_t cookie, enum prov_status status);
void ut_engine_streak(void *ctx, uint64_t cookie);

/* A remote notice came: it goes into the MRQ, behind local notices of its link that are still to
 * come. */
void ut_engine_early_notice(struct ut_link *link, uint8_t type, uint8_t edata,
                            utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd);
static inline void ut_engine_push_remote_notice(struct ut_link *link, uint8_t type, uint8_t edata,
                                                utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd)
{
    /* the target of a put has the value of rmt_stadd in rmt_value too: some programs look there */
    const struct utofu_mrq_notice n = {
        .notice_type = type,
        .vcq_id = link->peer,
        .edata = edata,
        .rmt_value = type != UTOFU_MRQ_TYPE_RMT_GET ? rmt_stadd : 0,
        .lcl_stadd = lcl_stadd,
        .rmt_stadd = rmt_stadd,
    };

    ut_mrq_push(link->vcq, 0, n);
}
static inline void ut_engine_remote_notice(struct ut_link *link, uint8_t type, uint8_t edata,
                                           utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd)
{
    if (__builtin_expect(link->told_begun != link->told_ended || link->early_first, 0))
        ut_engine_early_notice(link, type, edata, lcl_stadd, rmt_stadd);
    else
        ut_engine_push_remote_notice(link, type, edata, lcl_stadd, rmt_stadd);
}

/* An atomic of the device came back. */
void ut_engine_atomic_done(struct ut_link *link, struct ut_slot *slot);

#endif
