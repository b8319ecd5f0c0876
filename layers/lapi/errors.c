/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors of messages: for the error handler of the program, and for the calls that wait. Error
 * reports are queued until no handler runs.
 */
#include "errors.h"

#include <stdlib.h>

enum { MIN_REPORTS = 64 };

void la_errors_setup(LAPI_err_hndlr *handler)
{
    la.errors.handler = handler;
    la.errors.num_failures = la.errors.num_returned = 0;
    la.errors.num_reports = 0;
}

void la_errors_close(void)
{
    free(la.errors.reports);
    la.errors.reports = NULL;
    la.errors.max_reports = la.errors.num_reports = 0;
}

static bool grow_reports(void)
{
    uint32_t max_reports = la.errors.max_reports == 0 ? MIN_REPORTS : 2 * la.errors.max_reports;
    struct la_report *more = realloc(la.errors.reports, max_reports * sizeof(*more));

    if (more == NULL)
        return false;
    la.errors.reports = more;
    la.errors.max_reports = max_reports;
    return true;
}

/* Queues the report, because a handler may be running. */
void la_report_error(int code, uint32_t rank)
{
    if (la.errors.num_reports == la.errors.max_reports && !grow_reports())
        la_log("no memory to report error %d of a message of task %u to the error handler", code,
               rank);
    else
        la.errors.reports[la.errors.num_reports++] = (struct la_report){.code = code, .rank = rank};
}

void la_report_failure(int code, uint32_t rank)
{
    la.errors.num_failures++;
    la.errors.last_code = code;
    la_report_error(code, rank);
}

bool la_errors_pending(uint64_t failures_before)
{
    return la.errors.num_failures != failures_before ||
           la.errors.num_failures != la.errors.num_returned;
}

int la_errors_take(void)
{
    la.errors.num_returned = la.errors.num_failures;
    return la.errors.last_code;
}

void la_errors_call_handler(void)
{
    if (la.errors.num_reports == 0 || la.dispatching)
        return;
    la.dispatching = true;
    for (uint32_t i = 0; i < la.errors.num_reports; i++) {
        lapi_handle_t hndl = la.handle;
        int code = la.errors.reports[i].code, me = (int)la.job.rank,
            src = (int)la.errors.reports[i].rank;
        lapi_err_t type = EXT_ERR;

        if (la.errors.handler != NULL)
            la.errors.handler(&hndl, &code, &type, &me, &src);
    }
    la.errors.num_reports = 0;
    la.dispatching = false;
}
