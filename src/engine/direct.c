/* SPDX-License-Identifier: Apache-2.0 */
/* Direct posting: see direct.h. */
#include "engine/direct.h"

#include <errno.h>

#include "engine/posting.h"

#define unlikely(x) __builtin_expect(!!(x), 0)

/* Puts the slot into the TOQ and its link, and writes the data inline. Returns the result of the
 * provider. The slot is in both before the call, so that only the VCQ is live after the call. */
static inline int write_inline(struct ut_vcq *vcq, struct ut_link *link, struct ut_slot *slot,
                               uint64_t remote)
{
    uint32_t number = vcq->toq_tail & vcq->toq_mask;
    struct ut_desc *d = &slot->desc;

    slot->msg_number = 0;
    ut_slot_set_posted(slot, true, true);
    ut_link_append(link, slot, number, false);
    vcq->toq_exec = ++vcq->toq_tail;
    return link->write_inline(link->conn, d->data, remote, link->last_stag_rkey, ut_desc_length(d),
                              ut_cookie(UT_COOKIE_SLOT, number));
}

/* Removes the last slot of the link. Usually the previous slot in the TOQ is also the previous slot
 * of the link. */
static void remove_from_link(struct ut_vcq *vcq, struct ut_link *link, uint32_t number)
{
    uint32_t before = (number - 1) & vcq->toq_mask;

    UT_ASSERT(link->list_end == &vcq->toq[number].next);
    if (link->first == number) {
        link->first = UT_NO_SLOT;
        link->list_end = &link->first;
        return;
    }
    if (vcq->toq[before].state != UT_SLOT_POSTED || vcq->toq[before].link != link ||
        vcq->toq[before].next != number)
        for (before = link->first; vcq->toq[before].next != number;)
            before = vcq->toq[before].next;
    vcq->toq[before].next = UT_NO_SLOT;
    link->list_end = &vcq->toq[before].next;
}

/* The provider has refused the inline put in the last slot of the TOQ: removes the slot from the
 * TOQ and its link. */
static struct ut_slot *take_back_inline(struct ut_vcq *vcq)
{
    struct ut_slot *slot = ut_vcq_slot(vcq, vcq->toq_tail - 1);

    remove_from_link(vcq, slot->link, ut_slot_number(vcq, slot));
    slot->state = UT_SLOT_FREE;
    vcq->toq_exec = --vcq->toq_tail;
    return slot;
}

/* May the put in the slot still be posted inline, after progress? */
static bool is_still_inline(const struct ut_vcq *vcq, const struct ut_link *link,
                            const struct ut_slot *slot, uint64_t *remote)
{
    uint32_t length = ut_desc_length(&slot->desc), rkey;

    return ut_toq_is_direct(vcq) && ut_link_is_ready(link) && length <= link->inline_max &&
           ut_link_find_last_stag(link, slot->desc.rmt_stadd, length, remote, &rkey);
}

/* The provider has returned `rc` for an inline put. Progress may free an entry of the send queue,
 * or end the link. */
static void __attribute__((cold, noinline)) handle_refused_inline(struct ut_vcq *vcq, int rc)
{
    struct ut_slot *slot = take_back_inline(vcq);
    struct ut_link *link = slot->link;
    uint64_t remote;

    if (rc == -EAGAIN && ut_engine_progress(vcq) && is_still_inline(vcq, link, slot, &remote)) {
        rc = write_inline(vcq, link, slot, remote);
        if (rc == 0)
            return;
        take_back_inline(vcq);
    }
    ut_engine_queue_refused(vcq, link, slot, rc);
}

__attribute__((hot)) void ut_post_inline(struct ut_vcq *vcq, struct ut_slot *slot, uint64_t remote)
{
    int rc = write_inline(vcq, vcq->last_link, slot, remote);

    if (unlikely(rc != 0))
        handle_refused_inline(vcq, rc);
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

    int rc = ut_post_put_unqueued(vcq, slot, link, addrs, number, 0);
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
                          .rkey = link->last_stag_rkey,
                          .cookie = ut_cookie(UT_COOKIE_SLOT, number)};

    /* a message has to follow */
    if (ut_put_must_wait(link, d) || ut_slot_wants_remote_notice(slot))
        return false;
    if (d->flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE)
        x.flags |= PROV_SIGNAL;
    if (d->flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)
        x.flags |= PROV_SIGNAL | PROV_DELIVERY_COMPLETE;
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
        return ut_submit_direct(vcq, slot, ut_link_or_none(vcq, r.rmt_vcq_id), &r, true);
    default:
        return false;
    }
}
