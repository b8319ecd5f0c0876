/* SPDX-License-Identifier: Apache-2.0 */
/* Transition table and timers of the state machine in fsm.h. */
#include "link/fsm.h"

#include <stddef.h>

#include "util/back_off.h"

#define STEP(action_name, state)                                                                   \
    {                                                                                              \
        .action = UT_FSM_##action_name, .next = UT_LINK_##state                                    \
    }

static const struct ut_fsm_step table[UT_LINK_STATES][UT_FSM_EVENTS] =
    {
        [UT_LINK_IDLE] =
            {
                [UT_FSM_WORK_QUEUED] = STEP(RESOLVE_NEW, RESOLVING),
                [UT_FSM_PAUSE_OVER] = STEP(NOTHING, IDLE),
                [UT_FSM_TIMER] = STEP(NOTHING, IDLE),
                [UT_FSM_NO_MEMORY] = STEP(FAIL_PEER, GONE),
                [UT_FSM_REQUEST_RECEIVED] = STEP(ACCEPT, IDLE),
                [UT_FSM_ACCEPT_SENT] = STEP(COMPLETE, UP),
                [UT_FSM_CLOSED_IDLE] = STEP(NOTHING, IDLE),
                [UT_FSM_CLOSED_WITH_WORK] = STEP(RETRY_NEW, RESOLVING),
            },
        [UT_LINK_RESOLVING] =
            {
                [UT_FSM_WORK_QUEUED] = STEP(NOTHING, RESOLVING),
                [UT_FSM_PAUSE_OVER] = STEP(NOTHING, RESOLVING),
                [UT_FSM_TIMER] = STEP(RESOLVE, RESOLVING),
                [UT_FSM_NO_MEMORY] = STEP(FAIL_PEER, GONE),
                [UT_FSM_REQUEST_SENT] = STEP(NOTHING, CONNECTING),
                [UT_FSM_TRY_LATER] = STEP(RETRY, RESOLVING),
                [UT_FSM_NO_OWNER] = STEP(FAIL_PEER, IDLE),
                [UT_FSM_LOCAL_ERROR] = STEP(FAIL_LOCAL, IDLE),
                [UT_FSM_REQUEST_RECEIVED] = STEP(ACCEPT, RESOLVING),
                [UT_FSM_ACCEPT_SENT] = STEP(COMPLETE, UP),
                [UT_FSM_CLOSED_IDLE] = STEP(NOTHING, IDLE),
                [UT_FSM_CLOSED_WITH_WORK] = STEP(RETRY_NEW, RESOLVING),
                [UT_FSM_DEADLINE_PASSED] = STEP(PAUSE, SILENT),
            },
        [UT_LINK_CONNECTING] =
            {
                [UT_FSM_WORK_QUEUED] = STEP(NOTHING, CONNECTING),
                [UT_FSM_PAUSE_OVER] = STEP(NOTHING, CONNECTING),
                [UT_FSM_TIMER] = STEP(NOTHING, CONNECTING),
                [UT_FSM_NO_MEMORY] = STEP(FAIL_PEER, GONE),
                [UT_FSM_NO_OWNER] = STEP(FAIL_PEER, IDLE),
                [UT_FSM_LOCAL_ERROR] = STEP(FAIL_LOCAL, IDLE),
                [UT_FSM_REQUEST_RECEIVED] = STEP(REPLACE, IDLE),
                [UT_FSM_REQUESTS_CROSSED] = STEP(REJECT, CONNECTING),
                [UT_FSM_ESTABLISHED] = STEP(COMPLETE, UP),
                [UT_FSM_CLOSED_IDLE] = STEP(NOTHING, IDLE),
                [UT_FSM_CLOSED_WITH_WORK] = STEP(RETRY_NEW, RESOLVING),
                [UT_FSM_BROKEN] = STEP(RETRY, RESOLVING),
                [UT_FSM_DEADLINE_PASSED] = STEP(PAUSE, SILENT),
                [UT_FSM_REJECTED] = STEP(AWAIT_REQUEST, AWAITING),
                [UT_FSM_REJECTED_TOO_LONG] = STEP(FAIL_PEER, GONE),
                [UT_FSM_PEER_SILENT] = STEP(PAUSE, SILENT),
                [UT_FSM_PEER_DIED] = STEP(FAIL_PEER, GONE),
            },
        [UT_LINK_AWAITING] =
            {
                [UT_FSM_WORK_QUEUED] = STEP(NOTHING, AWAITING),
                [UT_FSM_PAUSE_OVER] = STEP(NOTHING, AWAITING),
                [UT_FSM_TIMER] = STEP(RESOLVE, RESOLVING),
                [UT_FSM_NO_MEMORY] = STEP(FAIL_PEER, GONE),
                [UT_FSM_REQUEST_RECEIVED] = STEP(ACCEPT, AWAITING),
                [UT_FSM_ACCEPT_SENT] = STEP(COMPLETE, UP),
                [UT_FSM_CLOSED_IDLE] = STEP(NOTHING, IDLE),
                [UT_FSM_CLOSED_WITH_WORK] = STEP(RETRY_NEW, RESOLVING),
            },
        [UT_LINK_UP] =
            {
                [UT_FSM_WORK_QUEUED] = STEP(NOTHING, UP),
                [UT_FSM_PAUSE_OVER] = STEP(NOTHING, UP),
                [UT_FSM_TIMER] = STEP(POST, UP),
                [UT_FSM_NO_MEMORY] = STEP(FAIL_PEER, GONE),
                [UT_FSM_NO_OWNER] = STEP(FAIL_PEER, IDLE),
                [UT_FSM_LOCAL_ERROR] = STEP(FAIL_LOCAL, IDLE),
                [UT_FSM_REQUEST_RECEIVED] = STEP(REPLACE, IDLE),
                [UT_FSM_ESTABLISHED] = STEP(QUERY_ORDER, UP),
                [UT_FSM_INCOMPATIBLE] = STEP(FAIL_PEER, IDLE),
                [UT_FSM_CLOSED_IDLE] = STEP(NOTHING, IDLE),
                [UT_FSM_CLOSED_WITH_WORK] = STEP(RETRY_NEW, RESOLVING),
                [UT_FSM_BROKEN] = STEP(RECONNECT, RESOLVING),
                [UT_FSM_BROKEN_REPEATEDLY] = STEP(FAIL_LOCAL, IDLE),
                [UT_FSM_REJECTED] = STEP(AWAIT_REQUEST, AWAITING),
                [UT_FSM_REJECTED_TOO_LONG] = STEP(FAIL_PEER, GONE),
                [UT_FSM_PEER_SILENT] = STEP(PAUSE, SILENT),
                [UT_FSM_PEER_DIED] = STEP(FAIL_PEER, GONE),
            },
        [UT_LINK_SILENT] =
            {
                [UT_FSM_WORK_QUEUED] = STEP(NOTHING, SILENT),
                [UT_FSM_PAUSE_OVER] = STEP(NOTHING, IDLE),
                [UT_FSM_TIMER] = STEP(NOTHING, SILENT),
                [UT_FSM_NO_MEMORY] = STEP(NOTHING, SILENT),
                [UT_FSM_REQUEST_RECEIVED] = STEP(ACCEPT, SILENT),
                [UT_FSM_ACCEPT_SENT] = STEP(COMPLETE, UP),
                [UT_FSM_CLOSED_IDLE] = STEP(NOTHING, IDLE),
                [UT_FSM_CLOSED_WITH_WORK] = STEP(RETRY_NEW, RESOLVING),
            },
        [UT_LINK_GONE] =
            {
                [UT_FSM_WORK_QUEUED] = STEP(NOTHING, GONE),
                [UT_FSM_PAUSE_OVER] = STEP(NOTHING, GONE),
                [UT_FSM_TIMER] = STEP(NOTHING, GONE),
                [UT_FSM_NO_MEMORY] = STEP(NOTHING, GONE),
                [UT_FSM_REQUEST_RECEIVED] = STEP(ACCEPT, GONE),
                [UT_FSM_ACCEPT_SENT] = STEP(COMPLETE, UP),
                [UT_FSM_CLOSED_IDLE] = STEP(NOTHING, IDLE),
                [UT_FSM_CLOSED_WITH_WORK] = STEP(RETRY_NEW, RESOLVING),
            },
};

struct ut_fsm_step ut_fsm_step(enum ut_link_state state, enum ut_fsm_event event)
{
    struct ut_fsm_step step = table[state][event];

    if (step.action == UT_FSM_IMPOSSIBLE)
        step.next = (uint8_t)state;
    return step;
}

#define NAME_AT(names, number)                                                                     \
    ((number) < sizeof(names) / sizeof((names)[0]) ? (names)[number] : "?")

const char *ut_fsm_state_name(unsigned int state)
{
    static const char *const names[] = {
        [UT_LINK_IDLE] = "idle",
        [UT_LINK_RESOLVING] = "resolving",
        [UT_LINK_CONNECTING] = "connecting",
        [UT_LINK_AWAITING] = "awaiting",
        [UT_LINK_UP] = "up",
        [UT_LINK_SILENT] = "silent",
        [UT_LINK_GONE] = "gone",
    };

    return NAME_AT(names, state);
}

const char *ut_fsm_event_name(unsigned int event)
{
    static const char *const names[] = {
        [UT_FSM_WORK_QUEUED] = "work queued",
        [UT_FSM_PAUSE_OVER] = "pause over",
        [UT_FSM_TIMER] = "timer",
        [UT_FSM_NO_MEMORY] = "no memory",
        [UT_FSM_REQUEST_SENT] = "request sent",
        [UT_FSM_TRY_LATER] = "try later",
        [UT_FSM_NO_OWNER] = "no owner",
        [UT_FSM_LOCAL_ERROR] = "local error",
        [UT_FSM_REQUEST_RECEIVED] = "request received",
        [UT_FSM_REQUESTS_CROSSED] = "requests crossed",
        [UT_FSM_ACCEPT_SENT] = "accept sent",
        [UT_FSM_ESTABLISHED] = "established",
        [UT_FSM_INCOMPATIBLE] = "incompatible",
        [UT_FSM_CLOSED_IDLE] = "closed, idle",
        [UT_FSM_CLOSED_WITH_WORK] = "closed with work",
        [UT_FSM_BROKEN] = "broken",
        [UT_FSM_BROKEN_REPEATEDLY] = "broken repeatedly",
        [UT_FSM_DEADLINE_PASSED] = "deadline passed",
        [UT_FSM_REJECTED] = "rejected",
        [UT_FSM_REJECTED_TOO_LONG] = "rejected too long",
        [UT_FSM_PEER_SILENT] = "peer silent",
        [UT_FSM_PEER_DIED] = "peer died",
    };

    return NAME_AT(names, event);
}

const char *ut_fsm_action_name(unsigned int action)
{
    static const char *const names[] = {
        [UT_FSM_IMPOSSIBLE] = "",
        [UT_FSM_NOTHING] = "nothing",
        [UT_FSM_RESOLVE_NEW] = "resolve (new)",
        [UT_FSM_RESOLVE] = "resolve",
        [UT_FSM_RETRY] = "retry",
        [UT_FSM_RETRY_NEW] = "retry (new)",
        [UT_FSM_RECONNECT] = "reconnect",
        [UT_FSM_AWAIT_REQUEST] = "await request",
        [UT_FSM_POST] = "post",
        [UT_FSM_ACCEPT] = "accept",
        [UT_FSM_REPLACE] = "replace",
        [UT_FSM_REJECT] = "reject",
        [UT_FSM_COMPLETE] = "complete",
        [UT_FSM_QUERY_ORDER] = "query order",
        [UT_FSM_FAIL_PEER] = "fail (peer)",
        [UT_FSM_FAIL_LOCAL] = "fail (local)",
        [UT_FSM_PAUSE] = "pause",
    };

    return NAME_AT(names, action);
}

uint32_t ut_fsm_backoff_ms(uint32_t before)
{
    return (uint32_t)ut_retry_delay_next_ms(before, UT_FSM_FIRST_BACKOFF_MS, UT_FSM_MAX_BACKOFF_MS);
}

uint32_t ut_fsm_pause_ms(uint32_t before, uint32_t peer_timeout_ms)
{
    return (uint32_t)ut_retry_delay_next_ms(before, peer_timeout_ms / UT_FSM_FIRST_PAUSE_DIVISOR,
                                            (uint64_t)UT_FSM_MAX_PAUSE_FACTOR * peer_timeout_ms);
}
