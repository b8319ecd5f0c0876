/* SPDX-License-Identifier: Apache-2.0 */
/* Counters. They are changed by any thread, and waited for without the lock being held. */
#include "handlers.h"
#include "progress.h"
#include "send.h"
#include "base.h"

int LAPI_Setcntr(lapi_handle_t hndl, lapi_cntr_t *cntr, int val)
{
    if (!la_enter(hndl))
        return LAPI_ERR_HNDL_INVALID;
    la_leave();
    if (cntr == NULL)
        return LAPI_ERR_CNTR_NULL;
    if (val < 0)
        return LAPI_ERR_CNTR_VAL;
    __atomic_store_n(&cntr->value, val, __ATOMIC_RELEASE);
    return LAPI_SUCCESS;
}

/* A program may do nothing else in a loop, while a completion handler waits for the lock. */
static void make_progress(void)
{
    la_progress();
    la_give_way();
}

int LAPI_Getcntr(lapi_handle_t hndl, lapi_cntr_t *cntr, int *val)
{
    if (!la_enter(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (cntr != NULL && val != NULL)
        make_progress();
    la_leave();
    if (cntr == NULL)
        return LAPI_ERR_CNTR_NULL;
    if (val == NULL)
        return LAPI_ERR_RET_PTR_NULL;
    *val = __atomic_load_n(&cntr->value, __ATOMIC_ACQUIRE);
    return LAPI_SUCCESS;
}

static bool take_value(lapi_cntr_t *cntr, int val, int *left)
{
    int now = __atomic_load_n(&cntr->value, __ATOMIC_ACQUIRE);

    while (now >= val)
        if (__atomic_compare_exchange_n(&cntr->value, &now, now - val, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            if (left != NULL)
                *left = now - val;
            return true;
        }
    return false;
}

static void say_waiting(const struct lc_patience *patience, const char *function,
                        const lapi_cntr_t *cntr, int val)
{
    char text[LC_TEXT];

    la_log("%s: has waited %llu s for the counter at %p to become %d; it is %d, and %s", function,
           lc_patience_seconds(patience), (const void *)cntr, val,
           __atomic_load_n(&cntr->value, __ATOMIC_ACQUIRE), la_requests_text(text));
}

static const char *name_of_wait(bool poll)
{
    return poll ? "LAPI_Waitcntr" : "LAPI_Nopoll_wait";
}

static int wait_for(lapi_cntr_t *cntr, int val, int *left, bool poll)
{
    struct lc_patience patience = {0};
    uint64_t losses = la.errors.losses;
    uint32_t idle = 0;

    while (!take_value(cntr, val, left)) {
        if (la_errors_untold(losses))
            return la_errors_tell();
        if (lc_patience_ends(&patience, idle))
            say_waiting(&patience, name_of_wait(poll), cntr, val);
        if (poll)
            la_go_on(&idle);
        else
            la_rest(&idle);
    }
    return LAPI_SUCCESS;
}

static int wait_in_handler_too(lapi_cntr_t *cntr, int val, int *left, bool poll)
{
    int rc;

    la_handlers_begin_wait();
    rc = wait_for(cntr, val, left, poll);
    la_handlers_end_wait();
    return rc;
}

static int check_and_wait(lapi_handle_t hndl, lapi_cntr_t *cntr, int val, int *left, bool poll)
{
    int rc;

    if (!la_enter(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (cntr == NULL)
        rc = LAPI_ERR_CNTR_NULL;
    else if (val < 0)
        rc = LAPI_ERR_CNTR_VAL;
    else if (!la_alone())
        rc = LAPI_ERR_IN_HNDLR;
    else
        rc = wait_in_handler_too(cntr, val, left, poll);
    la_leave();
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
    if (!la_enter(hndl))
        return LAPI_ERR_HNDL_INVALID;
    make_progress();
    la_leave();
    return LAPI_SUCCESS;
}

static lapi_msg_state_t poll_for(uint cnt)
{
    const uint64_t departures = la.requests.departures, arrivals = la.dispatch.arrivals;

    for (uint i = 0; i < cnt; i++) {
        make_progress();
        if (la.requests.departures != departures && la.dispatch.arrivals != arrivals)
            return LAPI_BOTH_COMPLETE;
        if (la.requests.departures != departures)
            return LAPI_SEND_COMPLETE;
        if (la.dispatch.arrivals != arrivals)
            return LAPI_RECV_COMPLETE;
    }
    return LAPI_DISP_CNTR;
}

int LAPI_Msgpoll(lapi_handle_t hndl, uint cnt, lapi_msg_info_t *info)
{
    if (!la_enter(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (info != NULL)
        info->status = poll_for(cnt);
    la_leave();
    return info == NULL ? LAPI_ERR_MSG_INFO_NULL : LAPI_SUCCESS;
}
