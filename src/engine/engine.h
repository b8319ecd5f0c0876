/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine takes descriptors from the TOQ, executes them on a link, and turns completions and
 * arrivals into TCQ and MRQ entries. The caller of every function holds the lock of the VCQ.
 * Uses desc, wire, armw, process, peers, stag, vcq, link, stats, provider.h. The path of a put:
 * ut_submit_direct() (direct.h) in the common case; else ut_engine_reserve(), ut_engine_submit(),
 * start_slot(), ut_engine_post_queued(), post_put(). A put ends in ut_engine_done() or
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

/* Makes sure that the TOQ has room for n descriptors at the tail. If not, makes progress once. 0 or
 * UTOFU_ERR_BUSY. */
static inline int ut_engine_reserve(struct ut_vcq *vcq, uint32_t n)
{
    return __builtin_expect(ut_engine_room(vcq) >= n, 1) ? 0 : ut_engine_make_room(vcq, n);
}

/* The i-th slot behind the tail. The caller fills in desc and cbdata. */
static inline struct ut_slot *ut_engine_slot(struct ut_vcq *vcq, uint32_t i)
{
    return ut_vcq_slot(vcq, vcq->toq_tail + i);
}

/* The callbacks for the endpoints and links of a VCQ. `counted`: for a VCQ with ut_stats. */
extern const struct prov_callbacks ut_engine_callbacks, ut_engine_counted_callbacks;
extern const struct ut_link_ops ut_engine_link_ops;

/* The direct path (direct.c): submits and posts, or executes, the descriptor in the slot behind the
 * tail of the TOQ. False: the descriptor cannot be posted now, or is neither put nor get. Then
 * nothing was done, and the caller calls ut_engine_submit(). */
bool ut_engine_submit_direct(struct ut_vcq *vcq);

/* The queued path: adds the n filled slots to the TOQ. Unless `delay`, starts all descriptors that
 * may start. */
void ut_engine_submit(struct ut_vcq *vcq, uint32_t n, bool delay);

/* For a checked VCQ: starts the `max` oldest held communications. ut_check_*() return the number.
 * A full TOQ, a query of unread entries, and draining start all of them. */
void ut_engine_start_held(struct ut_vcq *vcq, uint32_t max);
/* Reports unread entries to the check mode. All communications of the VCQ are complete. */
void ut_engine_check_unread(struct ut_vcq *vcq);

/* The provider returned `rc` on the direct path: queues the slot behind the tail. */
void ut_engine_queue_refused(struct ut_vcq *vcq, struct ut_link *link, struct ut_slot *slot, int rc)
    __attribute__((cold));

/* Session mode: a put with this SPS has arrived. */
void ut_engine_schedule(struct ut_vcq *vcq, unsigned int sps);

/* Polls the endpoints, and posts waiting slots. Returns the number of events. */
int ut_engine_progress_slow(struct ut_vcq *vcq);
static inline bool ut_engine_progress(struct ut_vcq *vcq)
{
    const struct ut_vcq_ep *e = vcq->eps;
    int events = 0;

    do
        events += e->ops->ep_poll(e->ep);
    while (++e < vcq->eps_end);
    if (__builtin_expect(vcq->scheduled_links || vcq->more_to_do, 0))
        events += ut_engine_progress_slow(vcq);
    return events > 0;
}

/* True if the slot writes no TCQ entry for the program. */
static inline bool ut_slot_is_silent(const struct ut_slot *slot)
{
    return !slot->tcq_rc && !(slot->desc.flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE);
}

/* Called after an empty poll of the TCQ. The next entry may belong to an unsignalled communication
 * without notices. Then posts an empty signalled write behind it. */
void ut_engine_unblock_tcq(struct ut_vcq *vcq);
/* Does the same as ut_engine_unblock_tcq() for every link where complete communications wait behind
 * unsignalled ones. */
void ut_engine_request_completions(struct ut_vcq *vcq);

/* Number of TOQ entries whose TCQ entry was not read. Posted ones without a TCQ notice do not
 * count. */
size_t ut_engine_unread_tcq(struct ut_vcq *vcq);

/* True if a poll of the TCQ or the MRQ would find an entry without progress. */
bool ut_engine_has_entry(struct ut_vcq *vcq);

/* Number of unread MRQ notices. */
size_t ut_engine_unread_mrq(struct ut_vcq *vcq);

/* Waits until all posted communications are complete, or until the timeout. Logs a warning on
 * behalf of `who` if the wait is long, and if communications are abandoned. */
void ut_engine_drain(struct ut_vcq *vcq, uint64_t timeout_ms, const char *who);

#endif
