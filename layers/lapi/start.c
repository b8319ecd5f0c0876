/* SPDX-License-Identifier: Apache-2.0 */
/* Start and end of the layer: LAPI_Init() and LAPI_Term(). */
#include "cmpl_thread.h"
#include "control.h"
#include "dispatch.h"
#include "errors.h"
#include "hdr_handlers.h"
#include "inbox.h"
#include "lock.h"
#include "net.h"
#include "peers.h"
#include "progress.h"
#include "rcache.h"
#include "requests.h"
#include "send.h"
#include "sync.h"
#include "incoming.h"
#include "wait.h"
#include "watch.h"
#include <stdlib.h>

static void close_all(void)
{
    la_rcache_close();
    la_sync_close();
    la_control_close();
    la_peers_close();
    la_net_close();
    la_watch_close();
    la_errors_close();
}

static const struct la_upcalls upcalls = {
    .put_arrived = la_progress_put_arrived,
    .peer_unreachable = la_watch_set_gone,
    .peer_gone = la_progress_peer_gone,
    .progress = la_progress_or_wait,
};

static bool open_all(void)
{
    la.upcalls = &upcalls;
    la_peers_setup();
    la_requests_setup();
    la_send_setup();
    la_inbox_setup();
    la_hdr_handlers_setup();
    la_dispatch_setup();
    la_incoming_setup();
    la_wait_setup();
    la_sync_setup();
    la_rcache_setup();
    if (la_watch_setup()) {
        if (la_net_setup()) {
            if (la_control_setup())
                return true;
            la_net_close();
        }
        la_watch_close();
    }
    la_rcache_close();
    return false;
}

static bool exchange_ids(void)
{
    const struct lc_exchange exchange = {
        .job = &la.job, .function = "LAPI_Init", .cmp_id = LA_CMP_ID_EXCHANGE};

    return lc_exchange_ids(&exchange, la.job.rank, la_port()->id,
                           la.control.words->common.partners) == LC_EXCHANGE_OK;
}

/* Called with the lock. */
static bool join_job(void)
{
    lc_job_init(&la.job, "lapi", "task");
    la.terminating = la.dispatching = false;
    la.error_chk = 1;
    if (!open_all())
        return false;
    if (!exchange_ids()) {
        close_all();
        return false;
    }
    la.initialized = true;
    la.handle = (lapi_handle_t)++la.num_inits;
    la.interrupts = la_interrupt_thread_start();
    if (la.interrupts && la_barrier("LAPI_Init", 0) == LAPI_SUCCESS)
        return true;
    if (la.interrupts)
        la_interrupt_thread_stop(); /* with the lock held: the thread only tries to take it */
    la_unlock();                    /* a completion handler of another task's message takes it */
    la_cmpl_thread_stop();
    la_lock();
    la.initialized = false;
    la.num_inits--;
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
    la_lock();
    if (la.initialized) {
        la_unlock();
        return LAPI_ERR_ALL_HNDL_IN_USE;
    }
    la_errors_setup(info->err_hndlr);
    rc = join_job() ? LAPI_SUCCESS : LAPI_ERR_INIT_FAILED;
    *hndl = la.handle;
    la_unlock();
    return rc;
}

static void drain_ops(void)
{
    struct lc_stall_timer stall = {0};
    char text[LC_TEXT_SIZE];

    while (lc_port_ops_in_flight(la_port()) > 0) {
        if (lc_stall_should_log(&stall, 0))
            la_log("LAPI_Term: has waited %llu s: %s", lc_stall_seconds(&stall),
                   lc_port_describe(la_port(), text));
        la_progress();
    }
}

static void drain_incoming(void)
{
    struct lc_stall_timer stall = {0};
    uint32_t idle_count = 0;

    while (la_incoming_in_use()) {
        if (lc_stall_should_log(&stall, idle_count))
            la_log("LAPI_Term: has waited %llu s for the data or the completion handlers of %u "
                   "messages of other tasks",
                   lc_stall_seconds(&stall), la.incoming.used);
        la_progress_or_wait(&idle_count);
    }
}

/* After the first barrier, all tasks have received what was sent to them. After the second barrier,
 * no task accesses this process any more. */
static int leave_job(void)
{
    int rc = la.watch.num_gone > 0 ? LAPI_ERR_TIMEOUT : LAPI_SUCCESS;

    la_fence("LAPI_Term");
    drain_incoming();
    if (rc == LAPI_SUCCESS)
        rc = la_barrier("LAPI_Term", 0);
    la.terminating = true;
    drain_ops();
    if (rc == LAPI_SUCCESS && la_barrier("LAPI_Term", lc_finalize_timeout_ns()) != LAPI_SUCCESS)
        la_log("LAPI_Term: a task has ended meanwhile");
    drain_ops();
    return rc;
}

int LAPI_Term(lapi_handle_t hndl)
{
    int rc;

    if (!la_lock_if_valid(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (!la_may_wait()) {
        la_unlock();
        return LAPI_ERR_IN_HNDLR;
    }
    rc = leave_job();
    la.initialized = false;
    la_unlock_all();
    if (la.interrupts)
        la_interrupt_thread_stop();
    la_cmpl_thread_stop();
    close_all();
    return rc;
}
