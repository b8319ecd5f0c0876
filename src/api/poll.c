/* SPDX-License-Identifier: Apache-2.0 */
/* Completion (manual 3.7.4, 3.7.5). */
#include "api/api.h"
#include "engine/engine.h"
#include "util/idle.h"
#include "watch/watch.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

static void __attribute__((noinline)) leave_idle(struct ut_vcq *vcq)
{
    uint32_t idle = vcq->idle_polls;

    if (vcq->held_up)
        ut_engine_release(vcq);
    if (vcq->watch)
        ut_watch_vain(vcq);
    ut_vcq_leave(vcq);
    ut_idle(idle);
}

static int leave_empty(struct ut_vcq *vcq)
{
    if (__builtin_expect(++vcq->idle_polls > vcq->patience, 0))
        leave_idle(vcq);
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
 * Taking what is there is short. Everything else is out of its way, and of its registers: nothing
 * is there yet, or somebody else has the lock.
 */

static int __attribute__((noinline, hot)) look_for_tcq(struct ut_vcq *vcq, void **cbdata)
{
    int rc;

    vcq->poll_count++;
    if (!ut_engine_progress(vcq) || !ut_engine_take_tcq(vcq, cbdata, &rc)) {
        ut_engine_unblock_tcq(vcq);
        return leave_empty(vcq);
    }
    vcq->idle_polls = 0;
    ut_vcq_leave(vcq);
    return rc;
}

ALWAYS_INLINE int poll_tcq(struct ut_vcq *vcq, void **cbdata)
{
    int rc;

    if (__builtin_expect(!ut_engine_take_tcq(vcq, cbdata, &rc), 0))
        return look_for_tcq(vcq, cbdata);
    vcq->poll_count++;
    vcq->idle_polls = 0;
    ut_vcq_leave(vcq);
    return rc;
}

static int __attribute__((noinline)) wait_and_poll_tcq(utofu_vcq_hdl_t vcq_hdl, void **cbdata)
{
    struct ut_vcq *vcq = ut_vcq_enter(vcq_hdl);

    return vcq ? poll_tcq(vcq, cbdata) : UTOFU_ERR_INVALID_VCQ_HDL;
}

__attribute__((hot)) int putofu_poll_tcq(utofu_vcq_hdl_t vcq_hdl, unsigned long int flags,
                                         void **cbdata)
{
    if (__builtin_expect(!cbdata || flags != 0, 0))
        return refuse_poll(cbdata, flags);
    struct ut_vcq *vcq = ut_vcq_try_enter(vcq_hdl);
    return __builtin_expect(vcq != NULL, 1) ? poll_tcq(vcq, cbdata)
                                            : wait_and_poll_tcq(vcq_hdl, cbdata);
}
UT_PUBLIC_HOT(utofu_poll_tcq);

static int __attribute__((noinline))
look_for_mrq_in_ring(struct ut_vcq *vcq, struct utofu_mrq_notice *notice)
{
    int rc = UTOFU_ERR_NOT_FOUND;

    if (ut_engine_progress(vcq))
        rc = ut_mrq_pop(vcq, notice);
    if (rc == UTOFU_ERR_NOT_FOUND)
        return leave_empty(vcq);
    vcq->idle_polls = 0;
    ut_vcq_leave(vcq);
    return rc;
}

/* What comes first is handed over without the way through the MRQ, unless somebody watches that. */
static int __attribute__((noinline, hot))
look_for_mrq(struct ut_vcq *vcq, struct utofu_mrq_notice *notice)
{
    vcq->poll_count++;
    if (__builtin_expect(vcq->long_way, 0))
        return look_for_mrq_in_ring(vcq, notice);
    vcq->taker = notice;
    ut_engine_progress(vcq);
    if (vcq->taker) {
        vcq->taker = NULL;
        return leave_empty(vcq);
    }
    vcq->idle_polls = 0;
    int rc = ut_mrq_taken(notice);
    ut_vcq_leave(vcq);
    return rc;
}

ALWAYS_INLINE int poll_mrq(struct ut_vcq *vcq, struct utofu_mrq_notice *notice)
{
    int rc = ut_mrq_pop(vcq, notice);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return look_for_mrq(vcq, notice);
    vcq->poll_count++;
    vcq->idle_polls = 0;
    ut_vcq_leave(vcq);
    return rc;
}

static int __attribute__((noinline))
wait_and_poll_mrq(utofu_vcq_hdl_t vcq_hdl, struct utofu_mrq_notice *notice)
{
    struct ut_vcq *vcq = ut_vcq_enter(vcq_hdl);

    return vcq ? poll_mrq(vcq, notice) : UTOFU_ERR_INVALID_VCQ_HDL;
}

__attribute__((hot)) int putofu_poll_mrq(utofu_vcq_hdl_t vcq_hdl, unsigned long int flags,
                                         struct utofu_mrq_notice *notice)
{
    if (__builtin_expect(!notice || flags != 0, 0))
        return refuse_poll(notice, flags);
    struct ut_vcq *vcq = ut_vcq_try_enter(vcq_hdl);
    return __builtin_expect(vcq != NULL, 1) ? poll_mrq(vcq, notice)
                                            : wait_and_poll_mrq(vcq_hdl, notice);
}
UT_PUBLIC_HOT(utofu_poll_mrq);

int putofu_query_num_unread_tcq(utofu_vcq_hdl_t vcq_hdl, size_t *count)
{
    if (!count)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "count is NULL");
    struct ut_vcq *vcq = ut_vcq_enter(vcq_hdl);
    if (!vcq)
        return UTOFU_ERR_INVALID_VCQ_HDL;
    vcq->poll_count++;
    *count = ut_vcq_cq_unread(vcq, ut_engine_unread_tcq);
    ut_vcq_leave(vcq);
    return UTOFU_SUCCESS;
}
UT_PUBLIC(utofu_query_num_unread_tcq);

int putofu_query_num_unread_mrq(utofu_vcq_hdl_t vcq_hdl, size_t *count)
{
    if (!count)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "count is NULL");
    struct ut_vcq *vcq = ut_vcq_enter(vcq_hdl);
    if (!vcq)
        return UTOFU_ERR_INVALID_VCQ_HDL;
    vcq->poll_count++;
    *count = ut_vcq_cq_unread(vcq, ut_engine_unread_mrq);
    ut_vcq_leave(vcq);
    return UTOFU_SUCCESS;
}
UT_PUBLIC(utofu_query_num_unread_mrq);
