/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The short way of a put or a get, which is the usual one: nothing is before it on its link, its
 * STags are the ones used last, its remote notice rides along. Everything here is inlined, once
 * where utofu_put or utofu_get has it in registers and once where the TOQ has it as a descriptor.
 */
#ifndef UT_ENGINE_SHORT_H
#define UT_ENGINE_SHORT_H

#include <errno.h>
#include <limits.h>
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
UT_SHORT void ut_link_append(struct ut_link *link, struct ut_slot *slot, uint32_t number, bool told)
{
    slot->link = link;
    slot->next = UT_NO_SLOT;
    *link->append = number;
    link->append = &slot->next;
    if (told)
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
 * delivered. Where the provider will read it in this process, ut_transfer_at_once() does the same
 * before it posts. */
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

/* What a put or a get says. Lives in registers. */
struct ut_transfer {
    utofu_vcq_id_t rmt_vcq_id;
    utofu_stadd_t lcl_stadd, rmt_stadd;
    uint32_t length;
    uint32_t word_flags; /* SPS and path as in ut_desc.word */
    uint16_t flags;
    uint8_t edata;
    void *cbdata;
};

/* In the TOQ and with the provider. All of it constant where it is called, so two words are
 * written.
 */
UT_SHORT void ut_slot_is_posted(struct ut_slot *slot, bool tcq_ready, bool streak)
{
    const struct ut_slot posted = {
        .stage = 1, .pending = 1, .tcq_ready = tcq_ready, .streak = streak};

    slot->as_new[2] = posted.as_new[2];
    slot->as_new[3] = posted.as_new[3];
    slot->state = UT_SLOT_POSTED;
}

/* Submits and starts a put, or a get without a remote notice, with the slot behind the tail of the
 * TOQ, which becomes its descriptor, where ut_engine_starts_at_once(). False: nothing was done, and
 * the descriptor, if the slot held it already, is the same. The order of things keeps what lives in
 * registers little, and what has to be kept over the call of the provider least. */
UT_SHORT bool ut_transfer_at_once(struct ut_vcq *vcq, struct ut_link *link, enum ut_desc_kind kind,
                                  const struct ut_transfer *t)
{
    bool get = kind == UT_DESC_GET;
    bool told = t->flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE;
    bool notice = !get && (t->flags & UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
    unsigned int sps = t->word_flags >> 24 & 0xf;
    struct prov_xfer x;

    if (__builtin_expect(!ut_link_is_clear(link), 0))
        return false;
    if (__builtin_expect(link->any_out != 0, 0) &&
        (link->armw_out || (t->flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER)))
        return false;
    const struct ut_stag_table *stags = vcq->stags;
    uint64_t before = 0;
    if (!ut_stadd_range_ends(get ? &stags->hot_writable : &stags->hot, t->lcl_stadd, t->length,
                             &before) ||
        !ut_stadd_range_ends(&link->hot, t->rmt_stadd, t->length, &before) || (int64_t)before < 0)
        return false;
    x.lcl = (uint8_t *)(uintptr_t)ut_stadd_range_at(&stags->hot, t->lcl_stadd);
    x.rmt = ut_stadd_range_at(&link->hot, t->rmt_stadd);
    uint32_t number = vcq->toq_tail & vcq->toq_mask;
    struct ut_slot *slot = &vcq->toq[number];
    struct ut_desc *d = &slot->desc;
    x.cookie = ut_cookie(UT_COOKIE_SLOT, number);
    uint32_t flags = 0;
    slot->msg_number = 0;
    if (notice || sps) {
        utofu_stadd_t end = t->rmt_stadd + t->length;
        unsigned int n = ut_announce_slot(end);
        if (notice && !ut_notice_is_announced(link, end, n))
            return false;
        x.imm = ut_imm_make(t->edata, sps, notice, notice ? n : 0);
        flags = PROV_NOTIFY | (sps ? PROV_SOLICITED : 0u);
        slot->msg_number = ut_link_count_tx(link);
    }
    x.length = t->length;
    x.rkey = link->hot_rkey;
    slot->cbdata = t->cbdata;
    d->edata = t->edata;
    d->flags = t->flags;
    d->word = t->length | t->word_flags;
    d->rmt_vcq_id = t->rmt_vcq_id;
    d->rmt_stadd = t->rmt_stadd;
    bool kept = !get && t->length <= link->keep_source;
    if (kept) { /* its TCQ entry is due as soon as it is posted: see ut_keep_source() */
        d->kind = UT_DESC_PIGGYBACK;
        x.lkey = 0;
        ut_copy_few(d->data, x.lcl, t->length);
    } else {
        d->kind = (uint8_t)kind;
        x.lkey = stags->hot_local->lkey[link->provider];
        d->lcl_stadd = t->lcl_stadd;
        if (t->flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE)
            flags |= PROV_SIGNAL;
    }
    if (told) {
        flags |= PROV_SIGNAL;
        if (kept || get) /* a read is sent when it is posted */
            ut_slot_is_posted(slot, true, false);
        else
            ut_slot_is_posted(slot, false, false);
    } else if (get) {
        ut_slot_is_posted(slot, true, false);
    } else {
        flags |= PROV_STREAK;
        if (kept)
            ut_slot_is_posted(slot, true, true);
        else
            ut_slot_is_posted(slot, false, true);
    }
    x.flags = flags;
    int rc = (get ? link->ops->read : link->ops->write)(link->conn, &x);
    if (__builtin_expect((rc & (INT_MIN | PROV_COMPLETE)) == 0, 1)) {
        vcq->toq_exec = ++vcq->toq_tail;
        link->reads_out += get;
        if (!get && d->kind == UT_DESC_PUT && (rc & PROV_SRC_FREE))
            ut_keep_source(slot, x.lcl);
        ut_link_append(link, slot, number, told);
        return true;
    }
    if (__builtin_expect(rc < 0, 0)) {
        ut_engine_refused(vcq, link, slot, rc);
        return true;
    }
    vcq->toq_exec = ++vcq->toq_tail;
    slot->tcq_ready = true;
    if (__builtin_expect(link->first == UT_NO_SLOT, 1)) {
        if (told)
            ut_engine_tell(link, slot);
        slot->state = UT_SLOT_RETIRED;
        return true;
    }
    slot->pending = 0;
    ut_link_append(link, slot, number, told);
    ut_engine_finish(link, slot);
    return true;
}

#undef UT_SHORT
#endif
