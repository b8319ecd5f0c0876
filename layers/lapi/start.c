/* SPDX-License-Identifier: Apache-2.0 */
/* The life of the layer in a process: LAPI_Init() and LAPI_Term(). */
#include <stdlib.h>

#include "calls.h"
#include "handlers.h"
#include "buffers.h"
#include "net.h"
#include "progress.h"
#include "receive.h"
#include "send.h"
#include "tasks.h"
#include "base.h"

static void close_all(void)
{
    la_regs_close();
    la_sync_close();
    la_control_close();
    la_peers_close();
    la_net_close();
    la_errors_close();
}

static const struct la_events events = {
    .arrived = la_progress_arrived,
    .lost = la_watch_lost,
    .gone = la_progress_gone,
    .go_on = la_go_on,
};

static bool open_all(void)
{
    la.events = &events;
    la_peers_setup();
    la_requests_setup();
    la_send_setup();
    la_inbox_setup();
    la_entries_setup();
    la_receive_setup();
    la_transfer_setup();
    la_waits_setup();
    la_sync_setup();
    la_regs_setup();
    if (!la_net_setup())
        return false;
    if (la_control_setup())
        return true;
    la_net_close();
    return false;
}

static bool meet_tasks(void)
{
    const struct lc_meeting m = {.job = &la.job, .function = "LAPI_Init", .cmp_id = LA_COMP_MEET};

    return lc_meet(&m, la.job.rank, la_port()->id, la.control.words->common.fingers) == LC_GOOD;
}

/* With the lock. */
static bool join_job(void)
{
    lc_job_find(&la.job, "lapi", "task");
    la.leaving = la.dispatching = false;
    la.error_chk = 1;
    if (!open_all())
        return false;
    if (!meet_tasks()) {
        close_all();
        return false;
    }
    la_watch_setup();
    la.running = true;
    la.handle = (lapi_handle_t)++la.epoch;
    la.interrupts = la_waits_start_thread();
    if (la.interrupts && la_sync_wait("LAPI_Init", 0) == LAPI_SUCCESS)
        return true;
    la.running = false;
    la.epoch--;
    if (la.interrupts)
        la_waits_stop_thread(); /* which only tries to take the lock */
    la_handlers_stop();
    close_all();
    return false;
}

static int check_info(const lapi_info_t *info)
{
    for (size_t i = 0; i < sizeof(info->reserved) / sizeof(info->reserved[0]); i++)
        if (info->reserved[i] != NULL)
            return LAPI_ERR_INFO_NONZERO;
    return LAPI_SUCCESS;
}

int LAPI_Init(lapi_handle_t *hndl, lapi_info_t *info)
{
    int rc;

    if (hndl == NULL)
        return LAPI_ERR_RET_PTR_NULL;
    if (info == NULL)
        return LAPI_ERR_INFO_NULL;
    rc = check_info(info);
    if (rc != LAPI_SUCCESS)
        return rc;
    la_take();
    if (la.running) {
        la_leave();
        return LAPI_ERR_ALL_HNDL_IN_USE;
    }
    la_errors_setup(info->err_hndlr);
    rc = join_job() ? LAPI_SUCCESS : LAPI_ERR_INIT_FAILED;
    *hndl = la.handle;
    la_leave();
    return rc;
}

static void end_ops(void)
{
    struct lc_patience patience = {0};
    char text[LC_TEXT];

    while (lc_port_busy(la_port()) > 0) {
        if (lc_patience_ends(&patience, 0))
            la_log("LAPI_Term: has waited %llu s: %s", lc_patience_seconds(&patience),
                   lc_port_text(la_port(), text));
        la_progress();
    }
}

static void end_transfers(void)
{
    struct lc_patience patience = {0};
    uint32_t idle = 0;

    while (la_transfer_busy()) {
        if (lc_patience_ends(&patience, idle))
            la_log("LAPI_Term: has waited %llu s for the data, or the completion handlers, of %u "
                   "messages of others",
                   lc_patience_seconds(&patience), la.transfer.used);
        la_go_on(&idle);
    }
}

/* All have what was sent to them when the first barrier is behind them, and nobody needs this
 * process any more when the second is. */
static int leave_job(void)
{
    int rc = la.watch.lost > 0 ? LAPI_ERR_TIMEOUT : LAPI_SUCCESS;

    la_fence("LAPI_Term");
    end_transfers();
    if (rc == LAPI_SUCCESS)
        rc = la_sync_wait("LAPI_Term", 0);
    la.leaving = true;
    end_ops();
    if (rc == LAPI_SUCCESS && la_sync_wait("LAPI_Term", lc_leave_limit_ns()) != LAPI_SUCCESS)
        la_log("LAPI_Term: a task has ended meanwhile");
    end_ops();
    return rc;
}

int LAPI_Term(lapi_handle_t hndl)
{
    int rc;

    if (!la_enter(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (!la_alone()) {
        la_leave();
        return LAPI_ERR_IN_HNDLR;
    }
    rc = leave_job();
    la.running = false;
    la_leave_all();
    if (la.interrupts)
        la_waits_stop_thread();
    la_handlers_stop();
    close_all();
    return rc;
}
