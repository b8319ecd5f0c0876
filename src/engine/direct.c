/* SPDX-License-Identifier: Apache-2.0 */
/* Posting on the direct path: see direct.h. */
#include "engine/direct.h"

#include <errno.h>
#include <limits.h>

#include "engine/posting.h"

#define unlikely(x) __builtin_expect(!!(x), 0)
#define likely(x)   __builtin_expect(!!(x), 1)

/* The slot enters the TOQ and its link before it is posted, so that only the VCQ is live after the
 * call. If the provider refuses the slot, which is rare, it is removed again. */
__attribute__((hot)) void ut_post_few(struct ut_vcq *vcq, struct ut_slot *slot, uint64_t remote)
{
    uint32_t number = vcq->toq_tail & vcq->toq_mask;
    struct ut_link *link = vcq->last_link;
    struct ut_desc *d = &slot->desc;

    slot->msg_number = 0;
    ut_slot_is_posted(slot, true, true);
    ut_link_append(link, slot, number, false);
    vcq->toq_exec = ++vcq->toq_tail;
    int rc = link->write_few(link->conn, d->data, remote, link->hot_rkey, ut_desc_length(d),
                             ut_cookie(UT_COOKIE_SLOT, number));
    if (unlikely(rc != 0))
        ut_engine_few_refused(vcq, rc);
}

/* The provider has returned `rc` for a write or a read. */
static inline bool end_post(struct ut_vcq *vcq, struct ut_link *link, struct ut_slot *slot, int rc)
{
    bool lcl_notice = slot->desc.flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE;
    uint32_t number = vcq->toq_tail & vcq->toq_mask;

    if (unlikely(rc < 0)) {
        ut_engine_refused(vcq, link, slot, rc);
        return true;
    }
    vcq->toq_exec = ++vcq->toq_tail;
    if (!(rc & PROV_COMPLETE)) {
        ut_link_append(link, slot, number, lcl_notice);
        return true;
    }
    slot->tcq_ready = true;
    if (likely(link->first == UT_NO_SLOT)) {
        if (lcl_notice)
            ut_engine_local_notice_called(link, slot);
        slot->state = UT_SLOT_RETIRED;
        return true;
    }
    slot->pending = 0;
    ut_link_append(link, slot, number, lcl_notice);
    ut_engine_finish(link, slot);
    return true;
}

/* Are reads in flight, or puts whose order the device does not keep? */
static inline bool waits_for_order(const struct ut_link *link, const struct ut_desc *d)
{
    return unlikely(link->strong_waits != 0) && (d->flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER);
}

/* Adds the remote notice and the SPS of a put as an immediate. False: the put's STADD is not
 * announced. */
static inline bool add_immediate(struct ut_link *link, struct ut_slot *slot, struct prov_xfer *x)
{
    slot->msg_number = 0;
    if (!ut_slot_wants_remote_notice(slot) && !ut_desc_sps(&slot->desc))
        return true;
    if (!ut_notice_fits_immediate(link, &slot->desc, &x->imm))
        return false;
    x->flags |= ut_notify_flags(&slot->desc);
    slot->msg_number = ut_link_count_tx(link);
    return true;
}

/* Marks a put as posted; returns the flags for its completion. `kept`: its source is copied, so its
 * TCQ entry is written at posting. */
static inline uint32_t mark_put(struct ut_slot *slot, bool kept)
{
    uint32_t flags = !kept && slot->desc.flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE ? PROV_SIGNAL : 0u;

    if (slot->desc.flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE) {
        ut_slot_is_posted(slot, kept, false);
        return flags | PROV_SIGNAL | PROV_LANDED;
    }
    ut_slot_is_posted(slot, kept, true);
    return flags | PROV_UNSIGNALLED;
}

__attribute__((hot)) bool ut_post_put_direct(struct ut_vcq *vcq, struct ut_slot *slot,
                                             struct ut_link *link, struct ut_ends ends)
{
    struct ut_desc *d = &slot->desc;
    struct prov_xfer x = {.lcl = ends.local,
                          .rmt = ends.remote,
                          .length = ut_desc_length(d),
                          .rkey = link->hot_rkey,
                          .cookie = ut_cookie(UT_COOKIE_SLOT, vcq->toq_tail & vcq->toq_mask)};

    if (waits_for_order(link, d) || !add_immediate(link, slot, &x))
        return false;
    if (d->kind == UT_DESC_PIGGYBACK) {
        x.flags |= PROV_COPY;
    } else {
        x.lkey = vcq->stags->hot_local->lkey[link->provider];
        ut_post_from_copy(link, slot, &x);
    }
    x.flags |= mark_put(slot, d->kind == UT_DESC_PIGGYBACK);
    int rc = link->ops->write(link->conn, &x);
    if ((rc & (INT_MIN | PROV_COMPLETE | PROV_SRC_FREE)) == PROV_SRC_FREE && d->kind == UT_DESC_PUT)
        ut_keep_source(slot, x.lcl);
    return end_post(vcq, link, slot, rc);
}

__attribute__((hot)) bool ut_post_get_direct(struct ut_vcq *vcq, struct ut_slot *slot,
                                             struct ut_link *link, struct ut_ends ends)
{
    struct ut_desc *d = &slot->desc;
    struct prov_xfer x = {.lcl = ends.local,
                          .rmt = ends.remote,
                          .length = ut_desc_length(d),
                          .lkey = vcq->stags->hot_local->lkey[link->provider],
                          .rkey = link->hot_rkey,
                          .cookie = ut_cookie(UT_COOKIE_SLOT, vcq->toq_tail & vcq->toq_mask)};

    if (waits_for_order(link, d) || ut_slot_wants_remote_notice(slot)) /* a message follows */
        return false;
    if (d->flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE)
        x.flags |= PROV_SIGNAL;
    if (d->flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)
        x.flags |= PROV_SIGNAL | PROV_LANDED;
    slot->msg_number = 0;
    ut_slot_is_posted(slot, true, false); /* the request is sent as soon as it is posted */
    int rc = link->ops->read(link->conn, &x);
    if (rc >= 0 && !(rc & PROV_COMPLETE))
        link->reads_out++;
    return end_post(vcq, link, slot, rc);
}

bool ut_engine_submit_direct(struct ut_vcq *vcq)
{
    struct ut_slot *slot = ut_engine_slot(vcq, 0);
    const struct ut_desc *d = &slot->desc;
    struct ut_request r = {.kind = d->kind,
                           .rmt_vcq_id = d->rmt_vcq_id,
                           .lcl_stadd = d->lcl_stadd,
                           .rmt_stadd = d->rmt_stadd,
                           .length = ut_desc_length(d),
                           .edata = d->edata,
                           .flags = d->flags | (d->word & UT_DESC_WORD_FLAGS)};

    if (!ut_toq_is_direct(vcq))
        return false;
    switch (d->kind) {
    case UT_DESC_PUT:
    case UT_DESC_PIGGYBACK:
    case UT_DESC_GET:
        return ut_submit_direct(vcq, slot, ut_link_if_any(vcq, r.rmt_vcq_id), &r, true);
    default:
        return false;
    }
}
