/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast path of a put or a get, which is the common case: nothing waits on its link, its STags
 * are the ones used last, and its remote notice is sent with the data. Everything here is inlined,
 * where utofu_put, utofu_get or utofu_put_piggyback has its request in registers, and where the TOQ
 * has a put or a get as a descriptor. What it refuses takes the slow path, ut_engine_submit().
 */
#ifndef UT_ENGINE_FAST_H
#define UT_ENGINE_FAST_H

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "desc/request.h"
#include "engine/inner.h"

#define UT_FAST static inline __attribute__((always_inline))

/* A TCQ entry is written when the source may be reused; of a small put, whose source is copied to
 * the descriptor, that is at once: see ut_keep_source(). A communication without notices is not
 * signalled: it completes with a later one, or with the empty write of ut_engine_make_room(). */
UT_FAST uint32_t ut_signal_flags(uint16_t flags, uint32_t length)
{
    if (flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)
        return PROV_SIGNAL | PROV_LANDED;
    if (flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE)
        return length <= UT_MAX_PIGGYBACK ? PROV_SIGNAL_SRC : PROV_SIGNAL;
    return 0;
}

/* Appends the slot to its link. */
UT_FAST void ut_link_append(struct ut_link *link, struct ut_slot *slot, uint32_t number,
                            bool lcl_notice)
{
    UT_ASSERT(number <= link->vcq->toq_mask && slot == &link->vcq->toq[number]);
    UT_ASSERT(*link->append == UT_NO_SLOT);
    slot->link = link;
    slot->next = UT_NO_SLOT;
    *link->append = number;
    link->append = &slot->next;
    if (lcl_notice)
        link->lcl_notices_begun++;
}

/* Moves `size` bytes with two loads and stores of `width` bytes, which overlap. */
UT_FAST void ut_copy_pair(uint8_t *to, const uint8_t *from, uint32_t size, uint32_t width)
{
    uint8_t first[16], last[16];

    memcpy(first, from, width);
    memcpy(last, from + size - width, width);
    memcpy(to, first, width);
    memcpy(to + size - width, last, width);
}

/* At most UT_MAX_PIGGYBACK bytes, without a call, for which the fast path would save registers. */
UT_FAST void ut_copy_few(uint8_t *to, const uint8_t *from, uint32_t size)
{
    _Static_assert(UT_MAX_PIGGYBACK == 32, "two of 16 are enough");
    if (__builtin_expect(size == 8, 1))
        memcpy(to, from, 8);
    else if (size >= 16)
        ut_copy_pair(to, from, size, 16);
    else if (size >= 8)
        ut_copy_pair(to, from, size, 8);
    else if (size >= 4)
        ut_copy_pair(to, from, size, 4);
    else if (size >= 2)
        ut_copy_pair(to, from, size, 2);
    else if (size == 1)
        *to = *from;
}

/* The provider has taken the source, but may have to send it again on a new connection. A small one
 * is copied to the descriptor, so that its TCQ entry can be written; a larger one is needed until
 * it is delivered. Where the provider reads the source with plain loads (link->keep_source), it is
 * copied before it is posted: by ut_transfer_fast(), and by post_put(). */
UT_FAST void ut_keep_source(struct ut_slot *slot, const uint8_t *source)
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

/* The slot is in the TOQ and posted. All arguments are constants, so that two words are written. */
UT_FAST void ut_slot_is_posted(struct ut_slot *slot, bool tcq_ready, bool unsignalled)
{
    const struct ut_slot posted = {
        .stage = UT_STAGE_DATA, .pending = 1, .tcq_ready = tcq_ready, .unsignalled = unsignalled};

    slot->progress = posted.progress;
    slot->history = 0;
    slot->state = UT_SLOT_POSTED;
}

/* Submits and starts a put, with or without piggyback, or a get without a remote notice, with the
 * slot behind the tail of the TOQ, which becomes its descriptor. Call it only where
 * ut_toq_is_fast(). False: nothing was done, and a descriptor that the slot holds is
 * unchanged. The order of the statements keeps few values in registers, and the fewest across the
 * call of the provider. */
UT_FAST bool ut_transfer_fast(struct ut_vcq *vcq, struct ut_link *link, const struct ut_request *r,
                              void *cbdata)
{
    bool get = r->kind == UT_DESC_GET, piggyback = r->kind == UT_DESC_PIGGYBACK;
    bool lcl_notice = r->flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE;
    bool notice = !get && (r->flags & UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
    unsigned int sps = ut_flags_sps(r->flags);
    uint32_t length = (uint32_t)r->length;
    struct prov_xfer x;

    UT_ASSERT(ut_is_locked(&vcq->lock) && ut_toq_is_sound(vcq) && ut_toq_is_fast(vcq));
    if (__builtin_expect(!ut_link_is_clear(link), 0))
        return false;
    if (__builtin_expect(link->strong_waits != 0, 0) &&
        (r->flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER))
        return false;
    const struct ut_stag_table *stags = vcq->stags;
    uint64_t before = 0;
    if ((!piggyback && !ut_stadd_range_ends(get ? &stags->hot_writable : &stags->hot, r->lcl_stadd,
                                            length, &before)) ||
        !ut_stadd_range_ends(&link->hot, r->rmt_stadd, length, &before) || (int64_t)before < 0)
        return false;
    if (!piggyback)
        x.lcl = (uint8_t *)(uintptr_t)ut_stadd_range_at(&stags->hot, r->lcl_stadd);
    x.rmt = ut_stadd_range_at(&link->hot, r->rmt_stadd);
    uint32_t number = vcq->toq_tail & vcq->toq_mask;
    struct ut_slot *slot = &vcq->toq[number];
    struct ut_desc *d = &slot->desc;
    UT_ASSERT(slot->state == UT_SLOT_FREE);
    UT_ASSERT(link->vcq == vcq && length <= UT_MAX_PUTGET);
    x.cookie = ut_cookie(UT_COOKIE_SLOT, number);
    uint32_t flags = 0;
    slot->msg_number = 0;
    if (notice || sps) {
        unsigned int n = 0;
        if (__builtin_expect(notice, 1)) {
            utofu_stadd_t end = r->rmt_stadd + length;
            n = ut_announced_slot(&link->tx_announced, end);
            if (!ut_announced_has(&link->tx_announced, n, end))
                return false;
        }
        x.imm = ut_imm_make((uint8_t)r->edata, sps, notice, n);
        flags = PROV_NOTIFY | (sps ? PROV_SOLICITED : 0u);
        slot->msg_number = ut_link_count_tx(link);
    }
    x.length = length;
    x.rkey = link->hot_rkey;
    slot->cbdata = cbdata;
    d->edata = (uint8_t)r->edata;
    d->flags = ut_desc_flags(r->flags);
    d->word = length | (uint32_t)(r->flags & UT_DESC_WORD_FLAGS);
    d->rmt_vcq_id = r->rmt_vcq_id;
    d->rmt_stadd = r->rmt_stadd;
    bool kept = piggyback || (!get && length <= link->keep_source);
    if (piggyback) {
        d->kind = UT_DESC_PIGGYBACK;
        x.lkey = 0;
        x.lcl = d->data;
        flags |= PROV_COPY;
        ut_copy_few(d->data, r->data, length);
    } else if (kept) { /* its TCQ entry is written when it is posted: see ut_keep_source() */
        d->kind = UT_DESC_PIGGYBACK;
        x.lkey = 0;
        ut_copy_few(d->data, x.lcl, length);
    } else {
        d->kind = (uint8_t)r->kind;
        x.lkey = stags->hot_local->lkey[link->provider];
        d->lcl_stadd = r->lcl_stadd;
        if (r->flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE)
            flags |= PROV_SIGNAL;
    }
    if (lcl_notice) {
        flags |= PROV_SIGNAL | PROV_LANDED;
        if (kept || get) /* the request of a read is sent when it is posted */
            ut_slot_is_posted(slot, true, false);
        else
            ut_slot_is_posted(slot, false, false);
    } else if (get) {
        ut_slot_is_posted(slot, true, false);
    } else {
        flags |= PROV_UNSIGNALLED;
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
        ut_link_append(link, slot, number, lcl_notice);
        return true;
    }
    if (__builtin_expect(rc < 0, 0)) {
        ut_engine_refused(vcq, link, slot, rc);
        return true;
    }
    vcq->toq_exec = ++vcq->toq_tail;
    slot->tcq_ready = true;
    if (__builtin_expect(link->first == UT_NO_SLOT, 1)) {
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

#undef UT_FAST
#endif
