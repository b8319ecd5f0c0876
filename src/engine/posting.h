/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that post: direct.c for puts and gets that are posted at once, post.c for
 * queued puts, gets and notices, armw.c for ARMW. */
#ifndef UT_ENGINE_POSTING_H
#define UT_ENGINE_POSTING_H

#include "engine/inner.h"
#include "mapped.h"

#define UT_INLINE static inline __attribute__((always_inline))

/* The result of posting one descriptor. */
enum ut_outcome {
    UT_POSTED,  /* all requests are posted, or the slot has ended */
    UT_NOT_NOW, /* posted again when the link is pumped */
};

/* The slot ends with an error: of the TCQ, if Tofu's local TNI would detect it; else of the MRQ,
 * with a notice even if none was requested. */
enum ut_outcome ut_post_fail(struct ut_link *link, struct ut_slot *slot, int rc);
/* The provider returned a negative value, and no request of the operation is posted. */
enum ut_outcome ut_post_handle_refusal(struct ut_link *link, struct ut_slot *slot, int rc);
/* The code for local memory that cannot be used: of the MRQ where it is written, else of the TCQ.
 */
int ut_post_local_error(const struct ut_slot *slot, enum ut_stag_result r);

/*
 * Shared by the direct and the queued path of a put or a get
 */

/* A TCQ entry is written when the source may be reused; for a small put, whose source is copied to
 * the descriptor, at once: see ut_save_source(). A communication without notices is not signalled:
 * it completes with a later one, or with the empty write of ut_engine_make_room(). */
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

/* Marks the slot as posted. All arguments are constants, so that just two words are written. */
UT_INLINE void ut_slot_set_posted(struct ut_slot *slot, bool tcq_ready, bool unsignalled)
{
    const struct ut_slot posted = {
        .stage = UT_STAGE_DATA, .pending = 1, .tcq_ready = tcq_ready, .unsignalled = unsignalled};

    slot->progress = posted.progress;
    slot->history = 0;
    slot->state = UT_SLOT_POSTED;
}

/* Copies the source into the descriptor. */
UT_INLINE void ut_copy_source(struct ut_desc *d, const uint8_t *source, uint32_t length)
{
    prov_unwatched_begin();
    ut_copy_small(d->data, source, length, UT_MAX_PIGGYBACK);
    prov_unwatched_end();
    d->kind = UT_DESC_PIGGYBACK;
}

/* Posts a small put from a copy of the source, which is also used if the put is repeated after its
 * connection broke. The source is copied before posting, because the program may see the data
 * arrive in the peer's memory, and reuse the source, while this thread is still in the provider's
 * write. */
UT_INLINE void ut_post_from_copy(const struct ut_link *link, struct ut_slot *slot,
                                 struct prov_xfer *x)
{
    if (slot->desc.kind != UT_DESC_PUT || x->length > link->keep_source)
        return;
    ut_copy_source(&slot->desc, x->lcl, x->length);
    x->lcl = slot->desc.data;
    x->lkey = 0;
}

/* The provider has read the source, but may have to send it again on a new connection. A small
 * source is copied to the descriptor, so that its TCQ entry can be written; a larger one must stay
 * unchanged until delivery. If ut_post_from_copy() did not copy it, there are two cases: over
 * shared memory the kernel may read the source, which checks that it is mapped; and the shuffle
 * mode has its own copy, or needs none. Such a put is not repeated, as it is known whether it was
 * executed, unless it is behind a notice that found no room in the peer's ring. */
UT_INLINE void ut_save_source(struct ut_slot *slot, const uint8_t *source)
{
    struct ut_desc *d = &slot->desc;

    if (d->kind == UT_DESC_PUT) {
        if (ut_desc_length(d) > UT_MAX_PIGGYBACK)
            return;
        ut_copy_source(d, source, ut_desc_length(d));
    }
    slot->tcq_ready = true;
}

/* Can the notice be the immediate of the put? Only if its STADD was announced before. */
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

/* A STRONG_ORDER communication is executed after earlier reads and atomics. A fence orders it
 * after those of the device; for an ARMW by the target's CPU it waits here. Remote notices are
 * sent in the order of the TOQ: the notice of an ARMW by the device is posted when its atomic is
 * complete. */
static inline bool ut_post_must_wait(const struct ut_link *link, const struct ut_slot *slot)
{
    return __builtin_expect(link->armw_out != 0, 0) && ut_post_waits_for_armw(link, slot);
}

/* If the device may reorder puts and gets, those with STRONG_ORDER are marked. */
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

/* The identifier that the target returns with its answer to an ARMW: the TOQ slot, and above it
 * the era of the link, in the bits of 32 that the TOQ leaves: at least 12, and 21 with 2,048
 * entries. */
static inline uint32_t ut_armw_request_id(const struct ut_link *link, uint32_t number)
{
    UT_ASSERT(number <= link->vcq->toq_mask);
    return link->era * (link->vcq->toq_mask + 1) + number;
}

/* Posts the remote notice of a put in parts; returns what the provider does. */
int ut_post_parted_notice(struct ut_link *link, struct ut_slot *slot);

enum ut_outcome ut_post_armw(struct ut_link *link, struct ut_slot *slot);
/* Continues device ARMWs whose next request could not be posted. */
void ut_armw_resume(struct ut_link *link);
/* The fast path of an ARMW on a word in mapped memory. False: nothing was done. */
bool ut_armw_execute_mapped(struct ut_vcq *vcq, struct ut_link *link, struct ut_slot *slot);

#undef UT_INLINE
#endif
