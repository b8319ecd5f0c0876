/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of the layer in a process: LAPI_Init(), LAPI_Term(), and what LAPI_Qenv() and
 * LAPI_Senv() know.
 */
#include "layer.h"

#include <limits.h>

struct la la;

static uint32_t fingers_for(uint32_t procs)
{
    uint32_t n = 0;

    while ((1ull << n) < procs)
        n++;
    return n;
}

static void close_all(void)
{
    la_regs_close();
    la_control_close();
    la_peers_close();
    la_net_close();
    la_watch_close();
}

static bool open_all(void)
{
    la_peers_setup();
    la_send_setup();
    la_receive_setup();
    la_transfer_setup();
    la_progress_setup();
    la_sync_setup();
    la_regs_setup();
    if (!la_net_setup())
        return false;
    if (la_control_setup())
        return true;
    la_net_close();
    return false;
}

static bool meet(void)
{
    const struct lc_meeting m = {.layer = "lapi",
                                 .function = "LAPI_Init",
                                 .job_rank = la.rank,
                                 .procs = la.procs,
                                 .num_fingers = la.num_fingers,
                                 .cmp_id = LA_COMP_MEET};

    return lc_meet(&m, la.rank, la_vcq_id(), la_control->fingers) == LC_GOOD;
}

/* With the lock. */
static bool start(void)
{
    lc_job_find(&la.rank, &la.procs);
    la.num_fingers = fingers_for(la.procs);
    la.leaving = la.dispatching = false;
    la.losses = la.told = la.departures = la.arrivals = 0;
    la.lost = 0;
    la.error_chk = 1;
    if (!open_all())
        return false;
    if (!meet()) {
        close_all();
        return false;
    }
    la_watch_setup();
    la.running = true;
    la.handle = (lapi_handle_t)++la.epoch;
    la.interrupts = la_progress_start_thread();
    if (la.interrupts && la_sync_wait("LAPI_Init", 0) == LAPI_SUCCESS)
        return true;
    la.running = false;
    la.epoch--;
    if (la.interrupts)
        la_progress_stop_thread(); /* which only tries to take the lock */
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
    la.err_hndlr = info->err_hndlr;
    rc = start() ? LAPI_SUCCESS : LAPI_ERR_INIT_FAILED;
    *hndl = la.handle;
    la_leave();
    return rc;
}

static bool ops_in_flight(void)
{
    return la.free_ops < LA_OPS;
}

static void end_ops(void)
{
    struct lc_patience patience = {0};
    char text[LA_TEXT];

    while (ops_in_flight()) {
        if (lc_patience_ends(&patience, 0))
            la_log("LAPI_Term: has waited %llu s: %s", lc_patience_seconds(&patience),
                   la_net_text(text));
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
                   lc_patience_seconds(&patience), la.used_ins);
        la_go_on(&idle);
    }
}

/* All have what was sent to them when the first barrier is behind them, and nobody needs this
 * process any more when the second is. */
static int stop(void)
{
    uint64_t limit = (lc_env_number("UTOFU_PEER_TIMEOUT", 30) + 2) * 1000000000ull;
    int rc = la.lost > 0 ? LAPI_ERR_TIMEOUT : LAPI_SUCCESS;

    la_fence("LAPI_Term");
    end_transfers();
    if (rc == LAPI_SUCCESS)
        rc = la_sync_wait("LAPI_Term", 0);
    la.leaving = true;
    end_ops();
    if (rc == LAPI_SUCCESS && la_sync_wait("LAPI_Term", limit) != LAPI_SUCCESS)
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
    rc = stop();
    la.running = false;
    la_leave_all();
    if (la.interrupts)
        la_progress_stop_thread();
    la_handlers_stop();
    close_all();
    return rc;
}

static int value_of(lapi_query_t query)
{
    const int values[] = {
        [TASK_ID] = (int)la.rank,
        [NUM_TASKS] = (int)la.procs,
        [MAX_UHDR_SZ] = LA_MAX_UHDR,
        [MAX_DATA_SZ] = INT_MAX,
        [MAX_PKT_SZ] = LA_PAYLOAD,
        [ERROR_CHK] = la.error_chk,
        [TIMEOUT] = (int)lc_env_number("UTOFU_PEER_TIMEOUT", 30),
        [INTERRUPT_SET] = la.interrupts,
        [LOC_ADDRTBL_SZ] = LAPI_ADDRTBL_SZ,
        [EPOCH_NUM] = la.epoch,
        [NUM_LOST] = la.lost,
    };

    _Static_assert(sizeof(values) / sizeof(values[0]) == LAST_QUERY, "one for each query");
    return values[query];
}

int LAPI_Qenv(lapi_handle_t hndl, lapi_query_t query, int *ret_val)
{
    int rc = LAPI_SUCCESS;

    if (!la_enter(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if ((unsigned int)query >= LAST_QUERY)
        rc = LAPI_ERR_QUERY_TYPE;
    else if (ret_val == NULL)
        rc = LAPI_ERR_RET_PTR_NULL;
    else
        *ret_val = value_of(query);
    la_leave();
    return rc;
}

/* The thread only tries to take the lock, so that it can be waited for with it. */
static int set_interrupts(bool on)
{
    if (!la_alone())
        return LAPI_ERR_IN_HNDLR;
    if (on == la.interrupts)
        return LAPI_SUCCESS;
    if (on) {
        la.interrupts = la_progress_start_thread();
        return la.interrupts ? LAPI_SUCCESS : LAPI_ERR_MEMORY_EXHAUSTED;
    }
    la.interrupts = false;
    la_progress_stop_thread();
    return LAPI_SUCCESS;
}

static int set(lapi_query_t query, int value)
{
    if (query != INTERRUPT_SET && query != ERROR_CHK)
        return LAPI_ERR_QUERY_TYPE;
    if (value != 0 && value != 1)
        return LAPI_ERR_SET_VAL;
    if (query == INTERRUPT_SET)
        return set_interrupts(value == 1);
    la.error_chk = value; /* arguments are checked in any case */
    return LAPI_SUCCESS;
}

int LAPI_Senv(lapi_handle_t hndl, lapi_query_t query, int set_val)
{
    int rc;

    if (!la_enter(hndl))
        return LAPI_ERR_HNDL_INVALID;
    rc = set(query, set_val);
    la_leave();
    return rc;
}

int LAPI_Address(void *my_addr, lapi_long_t *ret_addr)
{
    if (ret_addr == NULL)
        return LAPI_ERR_RET_PTR_NULL;
    *ret_addr = (uintptr_t)my_addr;
    return LAPI_SUCCESS;
}

static int check_index(lapi_handle_t hndl, int addr_hndl)
{
    if (!la_enter(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (addr_hndl >= 1 && addr_hndl < LAPI_ADDRTBL_SZ)
        return LAPI_SUCCESS;
    la_leave();
    return LAPI_ERR_ADDR_HNDL_RANGE;
}

int LAPI_Addr_set(lapi_handle_t hndl, void *addr, int addr_hndl)
{
    int rc = check_index(hndl, addr_hndl);

    if (rc != LAPI_SUCCESS)
        return rc;
    la_receive_set_address(addr_hndl, addr);
    la_leave();
    return LAPI_SUCCESS;
}

int LAPI_Addr_get(lapi_handle_t hndl, void **addr, int addr_hndl)
{
    int rc = check_index(hndl, addr_hndl);

    if (rc != LAPI_SUCCESS)
        return rc;
    if (addr != NULL)
        *addr = la_receive_address(addr_hndl);
    la_leave();
    return addr == NULL ? LAPI_ERR_RET_PTR_NULL : LAPI_SUCCESS;
}
