/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the engine. engine.c starts communications, post.c and armw.c post them,
 * complete.c handles completions of the provider, retire.c ends communications and writes notices,
 * arrive.c handles messages and immediates of peers. The caller holds the lock of the VCQ.
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

static inline bool ut_slot_is_to_local(const struct ut_slot *slot)
{
    return ut_kind_traits(slot->desc.kind) & UT_KIND_TO_LOCAL;
}

/* Fill in the fields of a local MRQ notice that depend on the kind of operation. */
static inline void notice_put(struct utofu_mrq_notice *n, const struct ut_slot *slot)
{
    n->notice_type = UTOFU_MRQ_TYPE_LCL_PUT;
    n->rmt_stadd = slot->desc.rmt_stadd + ut_desc_length(&slot->desc);
}
static inline void notice_get(struct utofu_mrq_notice *n, const struct ut_slot *slot)
{
    n->notice_type = UTOFU_MRQ_TYPE_LCL_GET;
    n->lcl_stadd = slot->desc.lcl_stadd + ut_desc_length(&slot->desc);
}
static inline void notice_armw(struct utofu_mrq_notice *n, const struct ut_slot *slot)
{
    n->notice_type = UTOFU_MRQ_TYPE_LCL_ARMW;
    n->rmt_value = slot->rmt_value;
    n->rmt_stadd = slot->desc.rmt_stadd;
}

/* Returns the local MRQ notice of a slot, without the return code. */
static inline __attribute__((always_inline)) struct utofu_mrq_notice ut_engine_make_notice(
    const struct ut_link *link, const struct ut_slot *slot)
{
    struct utofu_mrq_notice n = {.vcq_id = link->peer, .edata = slot->desc.edata};

    switch (slot->desc.kind) {
    case UT_DESC_PUT:
    case UT_DESC_PIGGYBACK:
        notice_put(&n, slot);
        break;
    case UT_DESC_GET:
        notice_get(&n, slot);
        break;
    case UT_DESC_ARMW:
        notice_armw(&n, slot);
        break;
    }
    return n;
}

/* Writes the local notice of a successful slot. For a failed slot: ut_mrq_push_failed(). */
static inline __attribute__((always_inline)) void ut_engine_local_notice(struct ut_vcq *vcq,
                                                                         struct ut_link *link,
                                                                         struct ut_slot *slot)
{
    ut_mrq_push(vcq, 0, ut_engine_make_notice(link, slot));
}

/* Does the same as ut_engine_local_notice(), not inlined. */
void ut_engine_local_notice_noinline(struct ut_link *link, struct ut_slot *slot);

void ut_engine_post_queued(struct ut_link *link);      /* posts all slots that can be posted */
void ut_engine_fail_all(struct ut_link *link, int rc); /* ends all slots */

/* Marks the slot as DONE. If the slot is the oldest of its link, retires it and the done slots
 * behind it. */
void ut_engine_finish(struct ut_link *link, struct ut_slot *slot);
void ut_engine_retire(struct ut_link *link);

/* A slot waits behind unsignalled requests: lets the next empty poll call
 * ut_engine_request_completions(). */
void ut_engine_want_completions(struct ut_vcq *vcq) __attribute__((cold));

/* Callbacks of the providers. */
void ut_engine_done(void *ctx, uint64_t cookie, enum prov_status status);
void ut_engine_unsignalled_done(void *ctx, uint64_t cookie);

/* Writes a remote notice into the MRQ, after the local notices of communications that were started
 * earlier on the link. */
void ut_engine_early_notice(struct ut_link *link, uint8_t type, uint8_t edata,
                            utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd);
static inline void ut_engine_push_remote_notice(struct ut_link *link, uint8_t type, uint8_t edata,
                                                utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd)
{
    /* at the target of a put rmt_value equals rmt_stadd: some programs read the STADD there */
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
    if (__builtin_expect(link->lcl_notices_begun != link->lcl_notices_ended || link->early_first,
                         0))
        ut_engine_early_notice(link, type, edata, lcl_stadd, rmt_stadd);
    else
        ut_engine_push_remote_notice(link, type, edata, lcl_stadd, rmt_stadd);
}

/* A request has ended with this status, neither OK, PEER nor FLUSHED. True: the slot ends with an
 * error, and its code is set. False: the slot is posted again. */
bool ut_engine_handle_error(struct ut_link *link, struct ut_slot *slot, enum prov_status status);
/* ut_engine_must_not_repeat(): the slot was posted, its execution is uncertain, and executing it
 * twice may do harm (UTOFU_AFTER_BREAK). ut_engine_must_not_repeat_put(): the same for a put. A put
 * with a notice is repeated, because the peer counts notices; without a notice the target does not
 * use the data. ut_engine_fail_unrepeated() sets the code of such a communication. */
bool ut_engine_must_not_repeat(const struct ut_slot *slot);
bool ut_engine_must_not_repeat_put(const struct ut_slot *slot);
void ut_engine_fail_unrepeated(struct ut_link *link, struct ut_slot *slot);

/* An atomic of the device has completed. */
void ut_engine_atomic_done(struct ut_link *link, struct ut_slot *slot);

#endif
