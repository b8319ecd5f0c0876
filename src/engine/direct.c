/* SPDX-License-Identifier: Apache-2.0 */
/* Direct posting: see direct.h. */
#include "engine/direct.h"

#include "engine/posting.h"

#define unlikely(x) __builtin_expect(!!(x), 0)

/* Puts the slot into the TOQ and its link before posting, so that only the VCQ is live after the
 * call. If the provider refuses the slot, which is rare, the slot is removed again. */
__attribute__((hot)) void ut_post_inline(struct ut_vcq *vcq, struct ut_slot *slot, uint64_t remote)
{
    uint32_t number = vcq->toq_tail & vcq->toq_mask;
    struct ut_link *link = vcq->last_link;
    struct ut_desc *d = &slot->desc;

    slot->msg_number = 0;
    ut_slot_set_posted(slot, true, true);
    ut_link_append(link, slot, number, false);
    vcq->toq_exec = ++vcq->toq_tail;
    int rc = link->write_inline(link->conn, d->data, remote, link->hot_rkey, ut_desc_length(d),
                                ut_cookie(UT_COOKIE_SLOT, number));
    if (unlikely(rc != 0))
        ut_engine_requeue_inline(vcq, rc);
}

/* The provider has returned `rc` for the slot behind the tail of the TOQ. Adds the slot to the TOQ.
 */
static inline void finish_submit(struct ut_vcq *vcq, struct ut_link *link, struct ut_slot *slot,
                                 uint32_t number, int rc)
{
    if (unlikely(rc < 0)) {
        ut_engine_queue_refused(vcq, link, slot, rc);
        return;
    }
    vcq->toq_exec = ++vcq->toq_tail;
    ut_finish_post(link, slot, number, rc);
}

__attribute__((hot)) bool ut_post_put_direct(struct ut_vcq *vcq, struct ut_slot *slot,
                                             struct ut_link *link, struct ut_addrs addrs)
{
    uint32_t number = vcq->toq_tail & vcq->toq_mask;

    int rc = ut_write_put(vcq, slot, link, addrs, number, 0);
    if (rc == UT_NOT_DIRECT)
        return false;
    finish_submit(vcq, link, slot, number, rc);
    return true;
}

__attribute__((hot)) bool ut_post_get_direct(struct ut_vcq *vcq, struct ut_slot *slot,
                                             struct ut_link *link, struct ut_addrs addrs)
{
    struct ut_desc *d = &slot->desc;
    uint32_t number = vcq->toq_tail & vcq->toq_mask;
    struct prov_xfer x = {.lcl = addrs.local,
                          .rmt = addrs.remote,
                          .length = ut_desc_length(d),
                          .lkey = vcq->stags->hot_local->lkey[link->provider],
                          .rkey = link->hot_rkey,
                          .cookie = ut_cookie(UT_COOKIE_SLOT, number)};

    /* a message has to follow */
    if (ut_put_must_wait(link, d) || ut_slot_wants_remote_notice(slot))
        return false;
    if (d->flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE)
        x.flags |= PROV_SIGNAL;
    if (d->flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)
        x.flags |= PROV_SIGNAL | PROV_LANDED;
    slot->msg_number = 0;
    ut_slot_set_posted(slot, true, false); /* the provider sends the request immediately */
    int rc = link->ops->read(link->conn, &x);
    if (rc >= 0 && !(rc & PROV_COMPLETE))
        link->reads_out++;
    finish_submit(vcq, link, slot, number, rc);
    return true;
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
