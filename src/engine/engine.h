/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: takes descriptors from the TOQ, executes them against a link, and turns completions
 * and arrivals into TCQ and MRQ entries. All functions are called with the VCQ's lock held.
 *
 * Uses desc, wire, armw, process, peers, stag, vcq, link, stats, provider.h. The path of a put:
 * ut_submit_direct() (direct.h) in the common case; else ut_engine_reserve(), ut_engine_submit(),
 * start_slot(), ut_engine_post_queued(), post_put(); at its end ut_engine_done() or
 * ut_engine_unsignalled_done() (complete.c), ut_engine_finish_slot() and ut_engine_retire_done()
 * (retire.h).
 */
#ifndef UT_ENGINE_ENGINE_H
#define UT_ENGINE_ENGINE_H

#include "engine/failure.h"
#include "link/link.h"
#include "vcq/vcq.h"

int ut_engine_make_room(struct ut_vcq *vcq, uint32_t n);

static inline uint32_t ut_engine_room(const struct ut_vcq *vcq)
{
    return vcq->toq_limit - (vcq->toq_tail - vcq->toq_head);
}

/* Is there room for n descriptors at the tail of the TOQ? Makes progress once if not. 0 or
 * UTOFU_ERR_BUSY. */
static inline int ut_engine_reserve(struct ut_vcq *vcq, uint32_t n)
{
    return __builtin_expect(ut_engine_room(vcq) >= n, 1) ? 0 : ut_engine_make_room(vcq, n);
}

/* The i-th descriptor slot behind the tail; the caller fills desc and cbdata. */
static inline struct ut_slot *ut_engine_slot(struct ut_vcq *vcq, uint32_t i)
{
    return ut_vcq_slot(vcq, vcq->toq_tail + i);
}

/* The callbacks of a VCQ's endpoints and links; `counted`: for a VCQ with ut_stats. */
extern const struct prov_callbacks ut_engine_callbacks, ut_engine_counted_callbacks;
extern const struct ut_link_ops ut_engine_link_ops;

/* The direct path (direct.c): submits and posts, or executes, the descriptor in the slot behind the
 * tail of the TOQ. False: it cannot be posted now, or is neither put nor get; nothing was done, and
 * the caller calls ut_engine_submit(). */
bool ut_engine_submit_direct(struct ut_vcq *vcq);

/* The other path: adds the n filled slots to the TOQ; unless `delay`, starts all descriptors that
 * may start. */
void ut_engine_submit(struct ut_vcq *vcq, uint32_t n, bool delay);

/* Of a checked VCQ: starts the `most` oldest held descriptors, a number that ut_check_*() returns.
 * A full TOQ, a query of unread entries, and draining start all of them. */
void ut_engine_start_held(struct ut_vcq *vcq, uint32_t most);
/* Reports unpolled entries to the check mode, for a VCQ without communications under way. */
void ut_engine_check_unread(struct ut_vcq *vcq);

/* Queues the slot behind the tail after the provider returned `rc` on the direct path. */
void ut_engine_queue_refused(struct ut_vcq *vcq, struct ut_link *link, struct ut_slot *slot, int rc)
    __attribute__((cold));

/* As ut_engine_queue_refused(), for the TOQ's last slot, which is removed from TOQ and link first.
 */
void ut_engine_requeue_inline(struct ut_vcq *vcq, int rc);

/* A put with this SPS arrived (session mode). */
void ut_engine_schedule(struct ut_vcq *vcq, unsigned int sps);

/* Polls the endpoints, and posts waiting slots. True if anything happened. */
int ut_engine_progress_slow(struct ut_vcq *vcq);
static inline bool ut_engine_progress(struct ut_vcq *vcq)
{
    const struct ut_vcq_ep *e = vcq->eps;
    int events = 0;

    do
        events += e->ops->ep_poll(e->ep);
    while (++e < vcq->eps_end);
    if (__builtin_expect(vcq->waiting || vcq->more_to_do, 0))
        events += ut_engine_progress_slow(vcq);
    return events > 0;
}

/* The slot writes no TCQ entry for the program. */
static inline bool ut_slot_is_silent(const struct ut_slot *slot)
{
    return !slot->tcq_rc && !(slot->desc.flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE);
}

/* After an empty poll of the TCQ: if its next entry belongs to a communication without notices,
 * which may be unsignalled, posts an empty signalled write after it. */
void ut_engine_unblock_tcq(struct ut_vcq *vcq);
/* As ut_engine_unblock_tcq(), for links where complete ones wait behind unsignalled ones. */
void ut_engine_request_completions(struct ut_vcq *vcq);

/* TOQ entries whose TCQ entry was not read, except posted ones without a TCQ notice. */
size_t ut_engine_unread_tcq(struct ut_vcq *vcq);

/* Would a poll of the TCQ or the MRQ find something without progress? */
bool ut_engine_has_entry(struct ut_vcq *vcq);

/* MRQ notices that were not read. */
size_t ut_engine_unread_mrq(struct ut_vcq *vcq);

/* Waits until all posted communications are complete, or the timeout. A long wait is logged as a
 * warning on behalf of `who`, and so are communications that are given up. */
void ut_engine_drain(struct ut_vcq *vcq, uint64_t timeout_ms, const char *who);

#endif
