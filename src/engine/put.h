/* SPDX-License-Identifier: Apache-2.0 */
/* Posts the data of a put: at once, past the queue of its link, for direct.c and for descriptors of
 * the TOQ that start (engine.c); ut_write_put() and ut_add_immediate() also for post.c, from that
 * queue. */
#ifndef UT_ENGINE_PUT_H
#define UT_ENGINE_PUT_H

#include <limits.h>

#include "desc/request.h"
#include "engine/posting.h"

#define UT_INLINE static inline __attribute__((always_inline))

/* The local and the remote address of the data. */
struct ut_addrs {
    uint8_t *local;
    uint64_t remote; /* in the address space of the peer's process */
};

/* Translates the STADDs. False: an STADD does not belong to the STag that was used last, or the
 * range is too long. */
UT_INLINE bool ut_find_addrs(const struct ut_stag_table *stags, const struct ut_link *link,
                             struct ut_slot *slot, const struct ut_request *r,
                             struct ut_addrs *addrs)
{
    const struct ut_stadd_range *range =
        r->kind == UT_DESC_GET ? &stags->hot_writable : &stags->hot;

    if (r->kind == UT_DESC_PIGGYBACK) {
        addrs->local = slot->desc.data;
    } else {
        if (!ut_stadd_range_has(range, r->lcl_stadd, r->length))
            return false;
        addrs->local = (uint8_t *)(uintptr_t)ut_stadd_range_at(range, r->lcl_stadd);
    }
    return ut_stadd_range_find(&link->last_stag, r->rmt_stadd, r->length, &addrs->remote);
}

enum { UT_NOT_DIRECT = INT_MIN }; /* not a return value of a provider */

/* The provider has accepted a write or a read, and has returned `rc`. */
UT_INLINE void ut_finish_post(struct ut_link *link, struct ut_slot *slot, uint32_t number, int rc)
{
    bool lcl_notice = slot->desc.flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE;

    if (!(rc & PROV_COMPLETE)) {
        ut_link_append(link, slot, number, lcl_notice);
        return;
    }
    slot->tcq_ready = true;
    if (__builtin_expect(link->first == UT_NO_SLOT, 1)) {
        if (lcl_notice)
            ut_engine_local_notice_noinline(link, slot);
        slot->state = UT_SLOT_RETIRED;
        return;
    }
    slot->pending = 0;
    ut_link_append(link, slot, number, lcl_notice);
    ut_engine_finish(link, slot);
}

/* True if reads are in flight, or puts whose order the device does not keep. */
static inline bool ut_put_must_wait(const struct ut_link *link, const struct ut_desc *d)
{
    return __builtin_expect(link->strong_order_may_wait != 0, 0) &&
           (d->flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER);
}

/* Adds the remote notice and the SPS of a put, if any, as an immediate (PROV_NOTIFY). False: the
 * STADD is not announced, and a message must follow the put. */
UT_INLINE bool ut_add_immediate(const struct ut_link *link, const struct ut_slot *slot,
                                struct prov_xfer *x)
{
    if (!ut_slot_wants_remote_notice(slot) && !ut_desc_sps(&slot->desc))
        return true;
    if (!ut_notice_fits_immediate(link, &slot->desc, &x->imm))
        return false;
    x->flags |= ut_notify_flags(&slot->desc);
    return true;
}

/* Writes the data of a put. ut_choose_source() has chosen x->lcl. Returns the result of the
 * provider. */
UT_INLINE int ut_write_put(struct ut_link *link, struct ut_slot *slot, const struct prov_xfer *x)
{
    int rc = link->ops->write(link->conn, x);

    if ((rc & (INT_MIN | PROV_COMPLETE | PROV_SRC_FREE)) == PROV_SRC_FREE)
        ut_save_source(slot, x->lcl);
    return rc;
}

/* Marks a put as posted. Returns the flags for its completion. `kept`: the source is copied, so the
 * TCQ entry is written at posting. */
UT_INLINE uint32_t ut_mark_put_posted(struct ut_slot *slot, bool kept)
{
    uint32_t flags = !kept && slot->desc.flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE ? PROV_SIGNAL : 0u;

    if (slot->desc.flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE) {
        ut_slot_set_posted(slot, kept, false);
        return flags | PROV_SIGNAL | PROV_DELIVERY_COMPLETE;
    }
    ut_slot_set_posted(slot, kept, true);
    return flags | PROV_UNSIGNALLED;
}

/* Posts a put, and counts its notice, before the slot is on the link. Returns the result of the
 * provider, or UT_NOT_DIRECT if nothing was done. */
UT_INLINE int ut_post_put_unqueued(struct ut_vcq *vcq, struct ut_slot *slot, struct ut_link *link,
                                   struct ut_addrs addrs, uint32_t number, uint32_t flags)
{
    const struct ut_desc *d = &slot->desc;
    struct prov_xfer x = {.lcl = addrs.local,
                          .rmt = addrs.remote,
                          .length = ut_desc_length(d),
                          .rkey = link->last_stag_rkey,
                          .flags = flags,
                          .cookie = ut_cookie(UT_COOKIE_SLOT, number)};

    if (ut_put_must_wait(link, d) || !ut_add_immediate(link, slot, &x))
        return UT_NOT_DIRECT;
    slot->msg_number = x.flags & PROV_NOTIFY ? ut_link_count_tx(link) : 0;
    if (d->kind == UT_DESC_PUT)
        x.lkey = vcq->stags->hot_local->lkey[link->provider];
    ut_choose_source(link, slot, &x);
    x.flags |= ut_mark_put_posted(slot, d->kind == UT_DESC_PIGGYBACK);
    return ut_write_put(link, slot, &x);
}

#undef UT_INLINE
#endif
