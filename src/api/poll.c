/* SPDX-License-Identifier: Apache-2.0 */
/* Completion (manual 3.7.4, 3.7.5). */
#include "api/api.h"
#include "engine/engine.h"
#include "util/idle.h"
#include "watch/watch.h"

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

int putofu_poll_tcq(utofu_vcq_hdl_t vcq_hdl, unsigned long int flags, void **cbdata)
{
    if (__builtin_expect(!cbdata, 0))
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "cbdata is NULL");
    if (__builtin_expect(flags != 0, 0))
        return UT_REFUSE(UTOFU_ERR_INVALID_FLAGS, "poll flags %#lx are not defined", flags);
    struct ut_vcq *vcq = ut_vcq_enter(vcq_hdl);
    if (__builtin_expect(!vcq, 0))
        return UTOFU_ERR_INVALID_VCQ_HDL;
    vcq->poll_count++;
    int rc = ut_engine_take_tcq(vcq, cbdata);
    if (rc == UTOFU_ERR_NOT_FOUND && ut_engine_progress(vcq))
        rc = ut_engine_take_tcq(vcq, cbdata);
    if (rc == UTOFU_ERR_NOT_FOUND) {
        ut_engine_unblock_tcq(vcq);
        return leave_empty(vcq);
    }
    vcq->idle_polls = 0;
    ut_vcq_leave(vcq);
    return rc;
}
UT_PUBLIC(utofu_poll_tcq);

int putofu_poll_mrq(utofu_vcq_hdl_t vcq_hdl, unsigned long int flags,
                    struct utofu_mrq_notice *notice)
{
    if (__builtin_expect(!notice, 0))
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "notice is NULL");
    if (__builtin_expect(flags != 0, 0))
        return UT_REFUSE(UTOFU_ERR_INVALID_FLAGS, "poll flags %#lx are not defined", flags);
    struct ut_vcq *vcq = ut_vcq_enter(vcq_hdl);
    if (__builtin_expect(!vcq, 0))
        return UTOFU_ERR_INVALID_VCQ_HDL;
    vcq->poll_count++;
    int rc = ut_mrq_pop(vcq, notice);
    if (rc == UTOFU_ERR_NOT_FOUND && ut_engine_progress(vcq))
        rc = ut_mrq_pop(vcq, notice);
    if (rc == UTOFU_ERR_NOT_FOUND)
        return leave_empty(vcq);
    vcq->idle_polls = 0;
    ut_vcq_leave(vcq);
    return rc;
}
UT_PUBLIC(utofu_poll_mrq);

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
