/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that post: direct.c for puts and gets that are posted at once, post.c for
 * puts, gets and notices that were queued, armw.c for ARMW. */
#ifndef UT_ENGINE_POSTING_H
#define UT_ENGINE_POSTING_H

#include "engine/inner.h"
#include "mapped.h"

#define UT_INLINE static inline __attribute__((always_inline))

/* What posting one descriptor led to. */
enum ut_outcome {
    UT_POSTED,  /* all of it is posted, or it has ended */
    UT_NOT_NOW, /* it is tried again when the link is pumped */
};

/* It ends with an error: of the TCQ, where Tofu's local TNI would find it; else of the MRQ, with a
 * notice whether asked for or not. */
enum ut_outcome ut_post_fails(struct ut_link *link, struct ut_slot *slot, int rc);
/* A negative return of the provider, with nothing of the operation posted. */
enum ut_outcome ut_post_refused(struct ut_link *link, struct ut_slot *slot, int rc);
/* The code for local memory that cannot be used: of the MRQ where it is written, else of the TCQ.
 */
int ut_post_local_error(const struct ut_slot *slot, enum ut_stag_result r);

/*
 * What the two ways of a put or a get have in common
 */

/* A TCQ entry is written when the source may be reused; of a small put, whose source is copied to
 * the descriptor, that is at once: see ut_keep_source(). A communication without notices is not
 * signalled: it completes with a later one, or with the empty write of ut_engine_make_room(). */
static inline uint32_t ut_signal_flags(uint16_t flags, uint32_t length)
{
    if (flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)
        return PROV_SIGNAL | PROV_LANDED;
    if (flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE)
        return length <= UT_MAX_PIGGYBACK ? PROV_SIGNAL_SRC : PROV_SIGNAL;
    return 0;
}

/* Appends the slot to its link. */
UT_INLINE void ut_link_append(struct ut_link *link, struct ut_slot *slot, uint32_t number,
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

/* The slot is in the TOQ and posted. All arguments are constants, so that two words are written. */
UT_INLINE void ut_slot_is_posted(struct ut_slot *slot, bool tcq_ready, bool unsignalled)
{
    const struct ut_slot posted = {
        .stage = UT_STAGE_DATA, .pending = 1, .tcq_ready = tcq_ready, .unsignalled = unsignalled};

    slot->progress = posted.progress;
    slot->history = 0;
    slot->state = UT_SLOT_POSTED;
}

/* The source becomes part of the descriptor. */
UT_INLINE void ut_copy_source(struct ut_desc *d, const uint8_t *source, uint32_t length)
{
    prov_unwatched_begin();
    ut_copy_few(d->data, source, length, UT_MAX_PIGGYBACK);
    prov_unwatched_end();
    d->kind = UT_DESC_PIGGYBACK;
}

/* A small put is posted from a copy, which it is repeated with if its connection breaks. The copy
 * is made before, as the program may know by the memory of the peer that the data have arrived, and
 * write to the source again, while this thread is still in the provider's write. */
UT_INLINE void ut_post_from_copy(const struct ut_link *link, struct ut_slot *slot,
                                 struct prov_xfer *x)
{
    if (slot->desc.kind != UT_DESC_PUT || x->length > link->keep_source)
        return;
    ut_copy_source(&slot->desc, x->lcl, x->length);
    x->lcl = slot->desc.data;
    x->lkey = 0;
}

/* The provider has taken the source, but may have to send it again on a new connection. A small one
 * is copied to the descriptor, so that its TCQ entry can be written; a larger one is needed until
 * it is delivered. So it is where ut_post_from_copy() has not copied it: over shared memory the
 * kernel may read it, which sees whether it is there; and the shuffle mode has its own copy, or
 * none. What such a put has done is known, so it is not repeated, unless it is behind a notice that
 * found no room in the peer's ring. */
UT_INLINE void ut_keep_source(struct ut_slot *slot, const uint8_t *source)
{
    struct ut_desc *d = &slot->desc;

    if (d->kind == UT_DESC_PUT) {
        if (ut_desc_length(d) > UT_MAX_PIGGYBACK)
            return;
        ut_copy_source(d, source, ut_desc_length(d));
    }
    slot->tcq_ready = true;
}

/* Can the notice be sent as the immediate of the put? Only where its STADD was announced before. */
static inline bool ut_notice_fits_immediate(const struct ut_link *link, const struct ut_desc *d,
                                            uint32_t *imm)
{
    utofu_stadd_t end = d->rmt_stadd + ut_desc_length(d);
    unsigned int n = ut_announced_slot(&link->tx_announced, end);
    int notice = (d->flags & UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE) != 0;

    if (!notice) {
        *imm =
            ut_imm_make(d->edata, ut_desc_sps(d), 0, 0); /* the schedule pointer needs no STADD */
        return true;
    }
    *imm = ut_imm_make(d->edata, ut_desc_sps(d), 1, n);
    return ut_announced_has(&link->tx_announced, n, end);
}

static inline uint32_t ut_notify_flags(const struct ut_desc *d)
{
    return PROV_NOTIFY | (ut_desc_sps(d) ? PROV_SOLICITED : 0u);
}

bool ut_post_waits_for_armw(const struct ut_link *link, const struct ut_slot *slot);

/* A STRONG_ORDER communication is executed after earlier reads and atomics: a fence orders it
 * behind those of the device; for an ARMW by the target's CPU it waits here. Remote notices are
 * sent in the order of the TOQ: the one of an ARMW by the device is posted when its atomic is
 * complete. */
static inline bool ut_post_must_wait(const struct ut_link *link, const struct ut_slot *slot)
{
    return __builtin_expect(link->armw_out != 0, 0) && ut_post_waits_for_armw(link, slot);
}

/* Where puts and gets may pass each other, those of STRONG_ORDER say so. */
static inline uint32_t ut_post_strong(const struct ut_link *link, const struct ut_slot *slot)
{
    bool strong = slot->desc.flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER;

    return strong && link->any_order ? PROV_STRONG : 0;
}

static inline uint32_t ut_post_fence(const struct ut_link *link, const struct ut_slot *slot)
{
    bool strong = slot->desc.flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER;

    return strong && link->reads_out > 0 ? PROV_FENCE : 0;
}

/* What the target returns with its answer to an ARMW: the TOQ slot, and above it the era of the
 * link, in as many bits as the TOQ leaves of 32: at least 12, and 21 with 2,048 entries. */
static inline uint32_t ut_armw_name(const struct ut_link *link, uint32_t number)
{
    UT_ASSERT(number <= link->vcq->toq_mask);
    return link->era * (link->vcq->toq_mask + 1) + number;
}

enum ut_outcome ut_post_armw(struct ut_link *link, struct ut_slot *slot);
/* Goes on with device ARMWs whose next request could not be posted. */
void ut_armw_resume(struct ut_link *link);
/* The fast path of an ARMW, on a word that this process has mapped. False: nothing was done. */
bool ut_armw_fast(struct ut_vcq *vcq, struct ut_link *link, struct ut_slot *slot);

#undef UT_INLINE
#endif
