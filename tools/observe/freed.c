/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/freed.h"

#include "observe/findings.h"
#include "observe/ops.h"
#include "util/clock.h"

enum { COLLECTING_POLLS = 2000 };

static bool collect_entries(struct ob_vcq *v, utofu_vcq_hdl_t handle, const void *caller)
{
    struct utofu_mrq_notice notice = {.notice_type = 0};
    void *cbdata;
    bool found = false;
    int rc = OB_NEXT(utofu_poll_tcq)(handle, 0, &cbdata);

    if (rc > UTOFU_ERR_INVALID_ARG && rc != UTOFU_ERR_NOT_FOUND) {
        found = true;
        if (rc != UTOFU_SUCCESS)
            ob_check_report(OB_CHECK_UNREAD, v, caller, NULL, rc);
        ob_op_tcq(v, rc, cbdata, ut_clock_ns(), caller);
    }
    rc = OB_NEXT(utofu_poll_mrq)(handle, 0, &notice);
    if (rc > UTOFU_ERR_INVALID_ARG && rc != UTOFU_ERR_NOT_FOUND) {
        found = true;
        if (rc != UTOFU_SUCCESS)
            ob_check_report(OB_CHECK_UNREAD, v, caller, NULL, rc);
        ob_op_mrq(v, rc, &notice, ut_clock_ns(), caller);
    }
    return found;
}

/* A VCQ is about to be freed: takes the entries that nobody will poll. */
void ob_check_freed(struct ob_vcq *v, const void *caller)
{
    utofu_vcq_hdl_t handle = v->handle;

    for (int i = 0; i < COLLECTING_POLLS; i++) {
        bool found = collect_entries(v, handle, caller);
        if (!found && v->head == v->tail)
            break;
    }
    if (v->head != v->tail)
        ob_check_report(OB_CHECK_FREED, v, caller, ob_op_at(v, v->head), 0);
}
