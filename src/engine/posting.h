/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that post: direct.c for direct puts and gets, post.c for queued puts, gets
 * and notices, armw.c for ARMWs. */
#ifndef UT_ENGINE_POSTING_H
#define UT_ENGINE_POSTING_H

#include "engine/inner.h"
#include "mapped.h"

#define UT_INLINE static inline __attribute__((always_inline))

/* The result of posting one descriptor. */
enum ut_outcome {
    UT_POSTED,  /* all requests are posted, or the slot has ended */
    UT_NOT_NOW, /* ut_engine_post_queued() posts the rest later */
};

/* Ends the slot with an error. The error is in the TCQ if Tofu's local TNI would detect it, else in
 * the MRQ, with a notice even if none was requested. */
enum ut_outcome ut_post_fail(struct ut_link *link, struct ut_slot *slot, int rc);
/* The provider has returned a negative value, and no request of the operation is posted. */
enum ut_outcome ut_post_handle_refusal(struct ut_link *link, struct ut_slot *slot, int rc);
/* The code for unusable local memory: an MRQ code if the operation writes that memory, else a TCQ
 * code. */
int ut_post_local_error(const struct ut_slot *slot, enum ut_stag_result r);

/*
 * Shared by the direct and the queued path of a put or a get
 */

/* The TCQ entry is written when the source may be reused. A small put copies its source to the
 * descriptor, so its entry is written at once: see ut_save_source(). A communication without
 * notices is unsignalled: it completes with a later communication, or with the empty write of
 * ut_engine_make_room(). */
static inline uint32_t ut_signal_flags(uint16_t flags, uint32_t length)
{
    if (flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)
        return PROV_SIGNAL | PROV_DELIVERY_COMPLETE;
    if (flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE)
        return length <= UT_MAX_PIGGYBACK ? PROV_SIGNAL_SRC : PROV_SIGNAL;
    return 0;
}

/* Appends the slot to its link. */
UT_INLINE void ut_link_append(struct ut_link *link, struct ut_slot *slot, uint32_t number,
                              bool lcl_notice)
{
    UT_ASSERT(number <= link->vcq->toq_mask && slot == &link->vcq->toq[number]);
    UT_ASSERT(*link->list_end == UT_NO_SLOT);
    slot->link = link;
    slot->next = UT_NO_SLOT;
    *link->list_end = number;
    link->list_end = &slot->next;
    if (lcl_notice)
        link->lcl_notices_begun++;
}

/* Marks the slot as posted. All arguments are constants, so the compiler writes just two words. */
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
    prov_tsan_ignore_begin();
    ut_copy_small(d->data, source, length, UT_MAX_PIGGYBACK);
    prov_tsan_ignore_end();
    d->kind = UT_DESC_PIGGYBACK;
}

/* The data of a piggyback put are in the descriptor. A small put is posted from a copy there, too,
 * and if the connection breaks, the repeated put uses the copy. The copy is made before posting:
 * the program may see the data in the peer's memory, and reuse the source, while this thread is
 * still inside the provider's write. */
UT_INLINE void ut_choose_source(const struct ut_link *link, struct ut_slot *slot,
                                struct prov_xfer *x)
{
    if (slot->desc.kind == UT_DESC_PIGGYBACK) {
        x->flags |= PROV_INLINE;
        return;
    }
    if (x->length > link->source_copy_max)
        return;
    ut_copy_source(&slot->desc, x->lcl, x->length);
    x->lcl = slot->desc.data;
    x->lkey = 0;
}

/* The provider has read the source, but may have to send it again on a new connection. Copies a
 * small source to the descriptor, so that the TCQ entry can be written; a large source must stay
 * unchanged until delivery. ut_choose_source() makes no copy in two cases: over shared memory the
 * kernel may read the source, and checks that it is mapped; and the shuffle mode has its own copy,
 * or needs none. In these cases it is known whether the put was executed, so the put is not
 * repeated, unless it stands behind a notice that found no room in the peer's ring. */
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

/* Can the put carry its notice as an immediate? Only if the STADD was announced before. */
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

/* A STRONG_ORDER communication is executed after earlier reads and atomics. A fence orders it after
 * those of the device; it waits here for an ARMW of the target's CPU. Remote notices are sent in
 * TOQ order: the notice of a device ARMW is posted when its atomic is complete. */
static inline bool ut_post_must_wait(const struct ut_link *link, const struct ut_slot *slot)
{
    return __builtin_expect(link->unordered_out != 0, 0) && ut_post_waits_for_armw(link, slot);
}

/* If the device may reorder puts and gets, marks those with STRONG_ORDER. */
static inline uint32_t ut_post_strong(const struct ut_link *link, const struct ut_slot *slot)
{
    bool strong = slot->desc.flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER;

    return strong && link->any_order ? PROV_STRONG_ORDER : 0;
}

static inline uint32_t ut_post_fence(const struct ut_link *link, const struct ut_slot *slot)
{
    bool strong = slot->desc.flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER;

    return strong && link->reads_out > 0 ? PROV_FENCE : 0;
}

/* The identifier that the target returns with its answer to an ARMW: the TOQ slot in the low bits,
 * and the epoch of the link above it. The epoch has at least 12 of the 32 bits, and 21 with 2,048
 * entries. */
static inline uint32_t ut_armw_request_id(const struct ut_link *link, uint32_t number)
{
    UT_ASSERT(number <= link->vcq->toq_mask);
    return link->armw_epoch * (link->vcq->toq_mask + 1) + number;
}

/* Posts the remote notice of a put in parts. Returns the result of the provider. */
int ut_post_parted_notice(struct ut_link *link, struct ut_slot *slot);

enum ut_outcome ut_post_armw(struct ut_link *link, struct ut_slot *slot);
/* Continues device ARMWs whose next request could not be posted before. */
void ut_armw_resume(struct ut_link *link);
/* Executes an ARMW on a word in mapped memory with this CPU. False: nothing was done. */
bool ut_armw_execute_mapped(struct ut_vcq *vcq, struct ut_link *link, struct ut_slot *slot);

#undef UT_INLINE
#endif
