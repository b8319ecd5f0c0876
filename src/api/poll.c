/* SPDX-License-Identifier: Apache-2.0 */
/* Completion (manual 3.7.4, 3.7.5). */
#include "api/api.h"
#include "engine/engine.h"
#include "engine/failure.h"
#include "record/record.h"
#include "runtime/thread.h"
#include "util/clock.h"
#include "util/idle.h"
#include "util/probe.h"
#include "stats/stats.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Stores for ut_dump() since when all polls were empty, of which queues, and the time of the last
 * poll. Warns if the queue that the program does not poll has an error. */
static void note_empty(struct ut_vcq *vcq, uint32_t idle, enum ut_queue queue)
{
    enum { CLOCK_EVERY = 16 };

    if (idle == vcq->spin_limit + 1 || idle <= vcq->empty.seen) {
        vcq->empty.last_ms = ut_now_ms();
        vcq->empty.wait = ut_long_wait_begin(vcq->empty.last_ms);
        vcq->empty.queues = 0;
    }
    vcq->empty.seen = idle;
    vcq->empty.queues |= queue;
    if (idle % CLOCK_EVERY != 0)
        return;
    vcq->empty.last_ms = ut_now_ms();
    if (ut_long_wait_must_log(&vcq->empty.wait, vcq->empty.last_ms) && vcq->empty.queues == queue)
        ut_warn_of_unread_error(vcq, queue == UT_QUEUE_MRQ ? UT_QUEUE_TCQ : UT_QUEUE_MRQ);
}

static void __attribute__((noinline)) leave_idle(struct ut_vcq *vcq, enum ut_queue queue)
{
    uint32_t idle = vcq->idle_polls;

    note_empty(vcq, idle, queue);
    if (__builtin_expect(idle == UINT32_MAX, 0)) /* a smaller number would begin another wait */
        vcq->idle_polls = vcq->empty.seen = UINT32_MAX / 2;
    if (vcq->completions_wanted)
        ut_engine_request_completions(vcq);
    if (vcq->stats)
        ut_stats_empty_poll(vcq);
    ut_vcq_leave(vcq);
    ut_idle(idle);
}

static int leave_empty(struct ut_vcq *vcq, enum ut_queue queue)
{
    if (__builtin_expect(++vcq->idle_polls > vcq->spin_limit, 0))
        leave_idle(vcq, queue);
    else
        ut_vcq_leave(vcq);
    return UTOFU_ERR_NOT_FOUND;
}

static int __attribute__((noinline, cold)) refuse_poll(const void *where, unsigned long int flags)
{
    if (!where)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "cbdata or notice is NULL");
    return UT_REFUSE(UTOFU_ERR_INVALID_FLAGS, "poll flags %#lx are not defined", flags);
}

/*
 * The common poll finds an entry immediately. The other cases (an empty queue, entries to skip, a
 * failed entry, a held lock) are separate functions, so that the common poll needs neither their
 * instructions nor their registers.
 */

static int __attribute__((noinline, cold))
leave_failed_tcq(struct ut_vcq *vcq, const struct ut_slot *slot, void **cbdata)
{
    int rc = ut_tcq_take_failed(vcq, slot);

    UT_PROBE3(completion, vcq->id, slot->cbdata, rc);
    *cbdata = slot->cbdata;
    vcq->idle_polls = 0;
    ut_vcq_leave(vcq);
    return rc;
}

/* A successful communication has a TCQ entry if the program requested one. */
static inline bool has_tcq_entry(const struct ut_slot *slot)
{
    return __builtin_expect((slot->desc.flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE) != 0, 1);
}

/* Takes the entry of the slot at tcq_head. */
ALWAYS_INLINE void leave_tcq(struct ut_vcq *vcq, const struct ut_slot *slot, void **cbdata)
{
    UT_PROBE3(completion, vcq->id, slot->cbdata, UTOFU_SUCCESS);
    vcq->tcq_head++;
    *cbdata = slot->cbdata;
    vcq->idle_polls = 0;
    ut_vcq_leave(vcq);
}

/* Takes the next TCQ entry, leaves the VCQ, and sets *rc. False: there is no entry. Failures are a
 * tail call, for which no registers are saved. */
ALWAYS_INLINE bool take_tcq(struct ut_vcq *vcq, void **cbdata, int *rc)
{
    while (vcq->tcq_head != vcq->toq_exec) {
        const struct ut_slot *slot = ut_vcq_slot(vcq, vcq->tcq_head);
        if (!ut_slot_succeeded(slot)) {
            if (!slot->tcq_ready)
                break;
            vcq->tcq_head++;
            *rc = leave_failed_tcq(vcq, slot, cbdata);
            return true;
        }
        if (has_tcq_entry(slot)) {
            leave_tcq(vcq, slot, cbdata);
            *rc = UTOFU_SUCCESS;
            return true;
        }
        vcq->tcq_head++;
    }
    return false;
}

/* Handles the first poll after a post to a session-mode VCQ, and each poll of a checked VCQ. */
static bool __attribute__((noinline)) progress_after_post(struct ut_vcq *vcq)
{
    ut_thread_on_poll(vcq);
    bool came = ut_engine_progress(vcq);
    if (came)
        ut_thread_on_late_poll(vcq);
    return came;
}

static inline bool make_progress(struct ut_vcq *vcq)
{
    return __builtin_expect(vcq->posted_at != 0, 0) ? progress_after_post(vcq)
                                                    : ut_engine_progress(vcq);
}

static int __attribute__((noinline, hot)) look_for_tcq(struct ut_vcq *vcq, void **cbdata)
{
    int rc;

    if (make_progress(vcq) && take_tcq(vcq, cbdata, &rc))
        return rc;
    vcq->poll_count++;
    ut_engine_unblock_tcq(vcq);
    return leave_empty(vcq, UT_QUEUE_TCQ);
}

static int __attribute__((noinline, hot)) poll_tcq(struct ut_vcq *vcq, void **cbdata)
{
    int rc;

    return __builtin_expect(take_tcq(vcq, cbdata, &rc), 1) ? rc : look_for_tcq(vcq, cbdata);
}

static int __attribute__((noinline, cold)) record_tcq(struct ut_vcq *vcq, void **cbdata)
{
    /* another thread may free the VCQ after the poll */
    const struct ut_record_of of = {vcq->id, vcq->flags};
    int rc = poll_tcq(vcq, cbdata);

    ut_record_tcq(&of, rc);
    return rc;
}

/* Polls a VCQ whose lock was held, or which is recorded. */
static int __attribute__((noinline)) wait_and_poll_tcq(utofu_vcq_hdl_t vcq_hdl, void **cbdata)
{
    struct ut_vcq *vcq = ut_vcq_enter(vcq_hdl);

    if (!vcq)
        return ut_refuse_handle(vcq_hdl);
    return vcq->recorded ? record_tcq(vcq, cbdata) : poll_tcq(vcq, cbdata);
}

UT_PUBLIC_HOT(utofu_poll_tcq);
int utofu_poll_tcq(utofu_vcq_hdl_t vcq_hdl, unsigned long int flags, void **cbdata)
{
    if (__builtin_expect(!cbdata || flags != 0, 0))
        return refuse_poll(cbdata, flags);
    struct ut_vcq *vcq = ut_vcq_try_enter(vcq_hdl);
    if (__builtin_expect(!vcq, 0))
        return wait_and_poll_tcq(vcq_hdl, cbdata);
    if (__builtin_expect(vcq->tcq_head != vcq->toq_exec, 1)) {
        const struct ut_slot *slot = ut_vcq_slot(vcq, vcq->tcq_head);
        if (ut_slot_succeeded(slot) && has_tcq_entry(slot)) {
            leave_tcq(vcq, slot, cbdata);
            return UTOFU_SUCCESS;
        }
    }
    return poll_tcq(vcq, cbdata);
}

static int __attribute__((noinline, cold))
leave_failed(struct ut_vcq *vcq, const struct utofu_mrq_notice *entry,
             struct utofu_mrq_notice *notice)
{
    int rc = ut_mrq_take_failed(vcq, entry, notice);

    UT_PROBE4(notice, vcq->id, notice->vcq_id, notice->edata, rc);
    vcq->idle_polls = 0;
    ut_vcq_leave(vcq);
    return rc;
}

ALWAYS_INLINE int leave_with(struct ut_vcq *vcq, const struct utofu_mrq_notice *entry,
                             struct utofu_mrq_notice *notice)
{
    if (__builtin_expect(entry->reserved[0] != 0, 0))
        return leave_failed(vcq, entry, notice);
    UT_PROBE4(notice, vcq->id, notice->vcq_id, notice->edata, UTOFU_SUCCESS);
    notice->reserved[1] = 0;
    vcq->idle_polls = 0;
    ut_vcq_leave(vcq);
    return UTOFU_SUCCESS;
}

static int __attribute__((noinline))
look_for_mrq_in_ring(struct ut_vcq *vcq, struct utofu_mrq_notice *notice)
{
    const struct utofu_mrq_notice *entry;

    if (!make_progress(vcq) || !(entry = ut_mrq_pop(vcq, notice)))
        return leave_empty(vcq, UT_QUEUE_MRQ);
    return leave_with(vcq, entry, notice);
}

/* Direct delivery: the first notice is written to the caller's memory instead of the MRQ, except
 * for VCQs with slow_path. */
static int __attribute__((noinline, hot))
look_for_mrq(struct ut_vcq *vcq, struct utofu_mrq_notice *notice)
{
    vcq->poll_count++;
    if (__builtin_expect(vcq->slow_path, 0))
        return look_for_mrq_in_ring(vcq, notice);
    vcq->direct = notice;
    ut_engine_progress(vcq);
    if (vcq->direct) {
        vcq->direct = NULL;
        return leave_empty(vcq, UT_QUEUE_MRQ);
    }
    return leave_with(vcq, notice, notice);
}

ALWAYS_INLINE int poll_mrq(struct ut_vcq *vcq, struct utofu_mrq_notice *notice)
{
    const struct utofu_mrq_notice *entry = ut_mrq_pop(vcq, notice);

    if (!entry)
        return look_for_mrq(vcq, notice);
    vcq->poll_count++;
    return leave_with(vcq, entry, notice);
}

static int __attribute__((noinline, cold))
record_mrq(struct ut_vcq *vcq, struct utofu_mrq_notice *notice)
{
    const struct ut_record_of of = {vcq->id, vcq->flags};
    int rc = poll_mrq(vcq, notice);

    ut_record_mrq(&of, rc, notice);
    return rc;
}

static int __attribute__((noinline))
wait_and_poll_mrq(utofu_vcq_hdl_t vcq_hdl, struct utofu_mrq_notice *notice)
{
    struct ut_vcq *vcq = ut_vcq_enter(vcq_hdl);

    if (!vcq)
        return ut_refuse_handle(vcq_hdl);
    return vcq->recorded ? record_mrq(vcq, notice) : poll_mrq(vcq, notice);
}

UT_PUBLIC_HOT(utofu_poll_mrq);
int utofu_poll_mrq(utofu_vcq_hdl_t vcq_hdl, unsigned long int flags,
                   struct utofu_mrq_notice *notice)
{
    if (__builtin_expect(!notice || flags != 0, 0))
        return refuse_poll(notice, flags);
    struct ut_vcq *vcq = ut_vcq_try_enter(vcq_hdl);
    return __builtin_expect(vcq != NULL, 1) ? poll_mrq(vcq, notice)
                                            : wait_and_poll_mrq(vcq_hdl, notice);
}

/* The sum of count_one() over the VCQs of the CQ. */
static int query_unread(utofu_vcq_hdl_t vcq_hdl, size_t *count,
                        size_t (*count_one)(struct ut_vcq *vcq))
{
    if (!count)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "count is NULL");
    struct ut_vcq *vcq = ut_vcq_enter(vcq_hdl);
    if (!vcq)
        return ut_refuse_handle(vcq_hdl);
    vcq->poll_count++;
    *count = ut_vcq_cq_unread(vcq, count_one);
    ut_vcq_leave(vcq);
    return UTOFU_SUCCESS;
}

UT_PUBLIC(utofu_query_num_unread_tcq);
int utofu_query_num_unread_tcq(utofu_vcq_hdl_t vcq_hdl, size_t *count)
{
    return query_unread(vcq_hdl, count, ut_engine_unread_tcq);
}

UT_PUBLIC(utofu_query_num_unread_mrq);
int utofu_query_num_unread_mrq(utofu_vcq_hdl_t vcq_hdl, size_t *count)
{
    return query_unread(vcq_hdl, count, ut_engine_unread_mrq);
}
