/* SPDX-License-Identifier: Apache-2.0 */
/* Counters. Any thread may change a counter; calls wait for counters without the lock. */
#include "cmpl_thread.h"
#include "errors.h"
#include "lock.h"
#include "progress.h"
#include "requests.h"
#include "wait.h"

int LAPI_Setcntr(lapi_handle_t hndl, lapi_cntr_t *cntr, int val)
{
    if (!la_lock_if_valid(hndl))
        return LAPI_ERR_HNDL_INVALID;
    la_unlock();
    if (cntr == NULL)
        return LAPI_ERR_CNTR_NULL;
    if (val < 0)
        return LAPI_ERR_CNTR_VAL;
    __atomic_store_n(&cntr->value, val, __ATOMIC_RELEASE);
    return LAPI_SUCCESS;
}

/* Yields the lock, since a program may call this in a loop while a completion handler waits for the
 * lock. */
static void make_progress(void)
{
    la_progress();
    la_lock_yield_if_contended();
}

int LAPI_Getcntr(lapi_handle_t hndl, lapi_cntr_t *cntr, int *val)
{
    if (!la_lock_if_valid(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (cntr != NULL && val != NULL)
        make_progress();
    la_unlock();
    if (cntr == NULL)
        return LAPI_ERR_CNTR_NULL;
    if (val == NULL)
        return LAPI_ERR_RET_PTR_NULL;
    *val = __atomic_load_n(&cntr->value, __ATOMIC_ACQUIRE);
    return LAPI_SUCCESS;
}

/* If the counter has reached val, subtracts val; *remaining: the rest. */
static bool consume_counter(lapi_cntr_t *cntr, int val, int *remaining)
{
    int now = __atomic_load_n(&cntr->value, __ATOMIC_ACQUIRE);

    while (now >= val)
        if (__atomic_compare_exchange_n(&cntr->value, &now, now - val, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            if (remaining != NULL)
                *remaining = now - val;
            return true;
        }
    return false;
}

static void log_stall(const struct lc_stall_timer *stall, const char *function,
                      const lapi_cntr_t *cntr, int val)
{
    char text[LC_TEXT_SIZE];

    la_log("%s: has waited %llu s for the counter at %p to become %d; it is %d, and %s", function,
           lc_stall_seconds(stall), (const void *)cntr, val,
           __atomic_load_n(&cntr->value, __ATOMIC_ACQUIRE), la_requests_describe(text));
}

/* poll: makes progress; false: only waits for other threads (LAPI_Nopoll_wait()). */
static int wait_for_counter(lapi_cntr_t *cntr, int val, int *remaining, bool poll)
{
    struct lc_stall_timer stall = {0};
    uint64_t failures = la.errors.num_failures;
    uint32_t idle_count = 0;

    while (!consume_counter(cntr, val, remaining)) {
        if (la_errors_pending(failures))
            return la_errors_take();
        if (lc_stall_should_log(&stall, idle_count))
            log_stall(&stall, poll ? "LAPI_Waitcntr" : "LAPI_Nopoll_wait", cntr, val);
        if (poll)
            la_progress_or_wait(&idle_count);
        else
            la_pause(&idle_count);
    }
    return LAPI_SUCCESS;
}

static int check_and_wait(lapi_handle_t hndl, lapi_cntr_t *cntr, int val, int *remaining, bool poll)
{
    int rc;

    if (!la_lock_if_valid(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (cntr == NULL)
        rc = LAPI_ERR_CNTR_NULL;
    else if (val < 0)
        rc = LAPI_ERR_CNTR_VAL;
    else if (!la_may_wait())
        rc = LAPI_ERR_IN_HNDLR;
    else
        rc = wait_for_counter(cntr, val, remaining, poll);
    la_unlock();
    return rc;
}

int LAPI_Waitcntr(lapi_handle_t hndl, lapi_cntr_t *cntr, int val, int *cur_cntr_val)
{
    return check_and_wait(hndl, cntr, val, cur_cntr_val, true);
}

int LAPI_Nopoll_wait(lapi_handle_t hndl, lapi_cntr_t *cntr, int val, int *cur_cntr_val)
{
    return check_and_wait(hndl, cntr, val, cur_cntr_val, false);
}

int LAPI_Probe(lapi_handle_t hndl)
{
    if (!la_lock_if_valid(hndl))
        return LAPI_ERR_HNDL_INVALID;
    make_progress();
    la_unlock();
    return LAPI_SUCCESS;
}

static lapi_msg_state_t poll_up_to(uint cnt)
{
    const uint64_t local_completions = la.requests.local_completions,
                   arrivals = la.dispatch.num_handled;

    for (uint i = 0; i < cnt; i++) {
        make_progress();
        if (la.requests.local_completions != local_completions &&
            la.dispatch.num_handled != arrivals)
            return LAPI_BOTH_COMPLETE;
        if (la.requests.local_completions != local_completions)
            return LAPI_SEND_COMPLETE;
        if (la.dispatch.num_handled != arrivals)
            return LAPI_RECV_COMPLETE;
    }
    return LAPI_DISP_CNTR;
}

int LAPI_Msgpoll(lapi_handle_t hndl, uint cnt, lapi_msg_info_t *info)
{
    if (!la_lock_if_valid(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (info != NULL)
        info->status = poll_up_to(cnt);
    la_unlock();
    return info == NULL ? LAPI_ERR_MSG_INFO_NULL : LAPI_SUCCESS;
}
