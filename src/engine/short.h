/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The short way of a put, which is the usual one: nothing is before it on its link, its STags are
 * the ones used last, its remote notice rides along. Everything here is inlined, once where
 * utofu_put has the put in registers and once where the TOQ has it as a descriptor.
 */
#ifndef UT_ENGINE_SHORT_H
#define UT_ENGINE_SHORT_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/inner.h"

#define UT_SHORT static inline __attribute__((always_inline))

UT_SHORT unsigned int ut_announce_slot(utofu_stadd_t stadd)
{
    return (unsigned int)(stadd * 0x9e3779b97f4a7c15ull >> 55); /* UT_NUM_ANNOUNCED is 2^9 */
}

/* A TCQ entry is given when the source is free; where we keep a copy of a source that the provider
 * may still need, that is at once: see ut_keep_source(). What nobody hears of is not signalled: the
 * provider's own pace will do, and who waits for room asks, see ut_engine_make_room(). */
UT_SHORT uint32_t ut_signal_flags(uint16_t flags, uint32_t length)
{
    if (flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)
        return PROV_SIGNAL;
    if (flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE)
        return length <= UT_MAX_PIGGYBACK ? PROV_SIGNAL_SRC : PROV_SIGNAL;
    return 0;
}

/* The last thing on its link. */
UT_SHORT void ut_link_append(struct ut_link *link, struct ut_slot *slot, uint32_t number)
{
    slot->link = link;
    slot->next = UT_NO_SLOT;
    if (link->last == UT_NO_SLOT)
        link->first = number;
    else
        link->vcq->toq[link->last].next = number;
    link->last = number;
    if (slot->desc.flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)
        link->told_begun++;
}

/* At most UT_MAX_PIGGYBACK bytes. */
UT_SHORT void ut_copy_few(uint8_t *to, const uint8_t *from, uint32_t size)
{
    if (__builtin_expect(size == 8, 1))
        memcpy(to, from, 8);
    else
        memcpy(to, from, size);
}

/* The provider has a copy of the source, but may lose it with the connection: of a small one we
 * keep our own, and its TCQ entry can be given. A larger one stays the source until it is
 * delivered. */
UT_SHORT void ut_keep_source(struct ut_slot *slot, const uint8_t *source)
{
    struct ut_desc *d = &slot->desc;

    if (d->kind == UT_DESC_PUT) {
        if (ut_desc_length(d) > UT_MAX_PIGGYBACK)
            return;
        ut_copy_few(d->data, source, ut_desc_length(d));
        d->kind = UT_DESC_PIGGYBACK;
    }
    slot->tcq_ready = true;
}

/* Can a notice for the end of the put, `end`, ride on its data? Only where it was announced. */
UT_SHORT bool ut_notice_is_announced(const struct ut_link *link, utofu_stadd_t end, unsigned int n)
{
    return link->tx_announced && link->tx_announced[n] == end;
}

/* What a put says. Lives in registers. */
struct ut_put {
    utofu_vcq_id_t rmt_vcq_id;
    utofu_stadd_t lcl_stadd, rmt_stadd;
    uint32_t length;
    uint32_t word_flags; /* SPS and path as in ut_desc.word */
    uint16_t flags;
    uint8_t edata;
    void *cbdata;
};

/* Submits and starts a put with the slot behind the tail of the TOQ, which becomes its descriptor,
 * where ut_engine_starts_at_once(). False: nothing was done. */
UT_SHORT bool ut_put_at_once(struct ut_vcq *vcq, const struct ut_put *put)
{
    struct ut_link *link = ut_link_to(vcq, put->rmt_vcq_id);
    uint32_t number = vcq->toq_tail & vcq->toq_mask;
    struct ut_slot *slot = &vcq->toq[number];
    struct ut_desc *d = &slot->desc;
    bool told = put->flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE;
    bool notice = put->flags & UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE;
    unsigned int sps = put->word_flags >> 24 & 0xf;
    struct prov_xfer x;
    uint64_t source;

    if (__builtin_expect(!link || !ut_link_is_clear(link), 0) ||
        !ut_stadd_range_find(&vcq->stags->hot, put->lcl_stadd, put->length, &source) ||
        !ut_stadd_range_find(&link->hot, put->rmt_stadd, put->length, &x.rmt))
        return false;
    x.flags = ut_signal_flags(put->flags, put->length) | (told ? 0u : PROV_STREAK);
    if (notice || sps) {
        utofu_stadd_t end = put->rmt_stadd + put->length;
        unsigned int n = ut_announce_slot(end);
        if (notice && !ut_notice_is_announced(link, end, n))
            return false;
        x.imm = ut_imm_make(put->edata, sps, notice, notice ? n : 0);
        x.flags |= PROV_NOTIFY | (sps ? PROV_SOLICITED : 0u);
    }
    x.lcl = (uint8_t *)(uintptr_t)source;
    x.length = put->length;
    x.lkey = vcq->stags->hot_local->lkey[link->provider];
    x.rkey = link->hot_rkey;
    x.cookie = ut_cookie(UT_COOKIE_SLOT, number);
    /* before the call, so that little has to be kept over it */
    slot->cbdata = put->cbdata;
    d->kind = UT_DESC_PUT;
    d->edata = put->edata;
    d->flags = put->flags;
    d->word = put->length | put->word_flags;
    d->rmt_vcq_id = put->rmt_vcq_id;
    d->rmt_stadd = put->rmt_stadd;
    d->lcl_stadd = put->lcl_stadd;
    memset(slot->as_new, 0, sizeof(slot->as_new));
    slot->streak = !told;
    slot->stage = slot->pending = 1;
    slot->state = UT_SLOT_POSTED;
    int rc = link->ops->write(link->conn, &x);
    if (__builtin_expect(rc < 0, 0)) {
        if (rc == -EAGAIN)
            ut_engine_progress(vcq); /* there may be room then */
        ut_engine_start_tail(vcq);
        return true;
    }

    vcq->toq_exec = ++vcq->toq_tail;
    if (x.flags & PROV_NOTIFY)
        slot->msg_number = ut_link_count_tx(link);
    if (rc & PROV_COMPLETE) {
        slot->tcq_ready = true;
        if (__builtin_expect(link->first == UT_NO_SLOT, 1)) {
            if (d->flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)
                ut_engine_local_notice(vcq, link, slot);
            slot->state = UT_SLOT_RETIRED;
            return true;
        }
        slot->pending = 0;
        ut_link_append(link, slot, number);
        ut_engine_finish(link, slot);
        return true;
    }
    if (rc & PROV_SRC_FREE)
        ut_keep_source(slot, x.lcl);
    ut_link_append(link, slot, number);
    return true;
}

#undef UT_SHORT
#endif
