/* SPDX-License-Identifier: Apache-2.0 */
/* The connection state machine as a table: every pair of state and event, and the properties of
 * all. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "link/fsm.h"

#define EACH_PAIR(s, e)                                                                            \
    for (unsigned int s = 0; s < UT_LINK_STATES; s++)                                              \
        for (unsigned int e = 0; e < UT_FSM_EVENTS; e++)

static struct ut_fsm_step step_of(unsigned int state, unsigned int event)
{
    return ut_fsm_step((enum ut_link_state)state, (enum ut_fsm_event)event);
}

static const char *text_of(unsigned int state, unsigned int event)
{
    static char text[128];

    snprintf(text, sizeof(text), "%s, %s", ut_fsm_state_name(state), ut_fsm_event_name(event));
    return text;
}

Test(fsm, every_pair_has_an_action_and_a_state)
{
    EACH_PAIR(s, e)
    {
        struct ut_fsm_step step = step_of(s, e);
        cr_expect_lt(step.action, UT_FSM_ACTIONS, "%s", text_of(s, e));
        cr_expect_lt(step.next, UT_LINK_STATES, "%s", text_of(s, e));
        if (step.action == UT_FSM_IMPOSSIBLE)
            cr_expect_eq(step.next, s, "%s", text_of(s, e));
    }
}

/* Events of the program, timers and peers may come in any state of a link. */
Test(fsm, what_comes_at_any_time_is_possible_in_each_state)
{
    static const enum ut_fsm_event any_time[] = {UT_FSM_WORK_QUEUED, UT_FSM_PAUSE_OVER,
                                                 UT_FSM_TIMER, UT_FSM_NO_MEMORY,
                                                 UT_FSM_REQUEST_RECEIVED};

    for (unsigned int s = 0; s < UT_LINK_STATES; s++)
        for (size_t i = 0; i < sizeof(any_time) / sizeof(any_time[0]); i++)
            cr_expect_neq(step_of(s, any_time[i]).action, UT_FSM_IMPOSSIBLE, "%s",
                          text_of(s, any_time[i]));
}

/* Any end of a connection may come in each state that has a connection; a peer may send anything,
 * so that a connection that is up may be refused, too. */
Test(fsm, each_end_is_possible_where_there_is_a_connection)
{
    static const enum ut_fsm_event ends[] = {
        UT_FSM_NO_OWNER,          UT_FSM_LOCAL_ERROR, UT_FSM_CLOSED_IDLE,
        UT_FSM_CLOSED_WITH_WORK,  UT_FSM_BROKEN,      UT_FSM_REJECTED,
        UT_FSM_REJECTED_TOO_LONG, UT_FSM_PEER_SILENT, UT_FSM_PEER_DIED};

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        cr_expect_neq(step_of(UT_LINK_CONNECTING, ends[i]).action, UT_FSM_IMPOSSIBLE);
        cr_expect_neq(step_of(UT_LINK_UP, ends[i]).action, UT_FSM_IMPOSSIBLE);
        cr_expect_neq(step_of(UT_LINK_CONNECTING, ends[i]).next, UT_LINK_CONNECTING);
        cr_expect_neq(step_of(UT_LINK_UP, ends[i]).next, UT_LINK_UP);
    }
}

/* An answer to the peer's request either is accepted, or something ends or begins. */
Test(fsm, who_answers_a_request_knows_what_follows)
{
    for (unsigned int s = 0; s < UT_LINK_STATES; s++) {
        struct ut_fsm_step step = step_of(s, UT_FSM_REQUEST_RECEIVED);
        cr_expect(step.action == UT_FSM_ACCEPT || step.action == UT_FSM_REPLACE);
        cr_expect_eq(step_of(step.next, UT_FSM_ACCEPT_SENT).next, UT_LINK_UP);
        cr_expect_neq(step_of(step.next, UT_FSM_CLOSED_IDLE).action, UT_FSM_IMPOSSIBLE);
        cr_expect_neq(step_of(step.next, UT_FSM_CLOSED_WITH_WORK).action, UT_FSM_IMPOSSIBLE);
    }
}

Test(fsm, a_connection_is_up_when_both_sides_have_agreed)
{
    EACH_PAIR(s, e)
    {
        struct ut_fsm_step step = step_of(s, e);
        if (step.next == UT_LINK_UP && s != UT_LINK_UP) {
            cr_expect(e == UT_FSM_ACCEPT_SENT || e == UT_FSM_ESTABLISHED, "%s", text_of(s, e));
            cr_expect_eq(step.action, UT_FSM_COMPLETE, "%s", text_of(s, e));
        }
    }
}

/* No communication is forgotten: in a link that is given up, or has no connection any more, the
 * waiting communications fail or are tried again. */
Test(fsm, what_waits_fails_or_is_tried_again)
{
    EACH_PAIR(s, e)
    {
        struct ut_fsm_step step = step_of(s, e);
        bool fails = step.action == UT_FSM_FAIL_PEER || step.action == UT_FSM_FAIL_LOCAL ||
                     step.action == UT_FSM_PAUSE;
        if (step.action == UT_FSM_IMPOSSIBLE || step.next == s || step.action == UT_FSM_REPLACE)
            continue;
        if (step.next == UT_LINK_SILENT || step.next == UT_LINK_GONE)
            cr_expect(fails, "%s", text_of(s, e));
        if (step.next == UT_LINK_IDLE && e != UT_FSM_CLOSED_IDLE && e != UT_FSM_PAUSE_OVER)
            cr_expect(fails, "%s", text_of(s, e));
        if (step.next == UT_LINK_RESOLVING)
            cr_expect(step.action == UT_FSM_RESOLVE_NEW || step.action == UT_FSM_RESOLVE ||
                          step.action == UT_FSM_RETRY || step.action == UT_FSM_RETRY_NEW ||
                          step.action == UT_FSM_RECONNECT,
                      "%s", text_of(s, e));
        if (step.next == UT_LINK_AWAITING)
            cr_expect_eq(step.action, UT_FSM_AWAIT_REQUEST, "%s", text_of(s, e));
    }
}

/* A peer that was given up permanently is tried again when it asks, and not before. */
Test(fsm, who_is_gone_comes_back_by_its_own_request)
{
    for (unsigned int e = 0; e < UT_FSM_EVENTS; e++)
        if (e != UT_FSM_REQUEST_RECEIVED && e != UT_FSM_ACCEPT_SENT && e != UT_FSM_CLOSED_IDLE &&
            e != UT_FSM_CLOSED_WITH_WORK) /* these three follow its request */
            cr_expect_eq(step_of(UT_LINK_GONE, e).next, UT_LINK_GONE, "%s", ut_fsm_event_name(e));
}

static void visit(unsigned int state, bool *seen)
{
    if (seen[state])
        return;
    seen[state] = true;
    for (unsigned int e = 0; e < UT_FSM_EVENTS; e++)
        visit(step_of(state, e).next, seen);
}

Test(fsm, each_state_is_reached_and_leads_to_a_connection)
{
    for (unsigned int s = 0; s < UT_LINK_STATES; s++) {
        bool from_idle[UT_LINK_STATES] = {0}, from_here[UT_LINK_STATES] = {0};
        visit(UT_LINK_IDLE, from_idle);
        visit(s, from_here);
        cr_expect(from_idle[s], "%s", ut_fsm_state_name(s));
        cr_expect(from_here[UT_LINK_UP], "%s", ut_fsm_state_name(s));
    }
}

Test(fsm, each_event_comes_and_each_action_is_used)
{
    bool used[UT_FSM_ACTIONS] = {0};

    for (unsigned int e = 0; e < UT_FSM_EVENTS; e++) {
        bool comes = false;
        for (unsigned int s = 0; s < UT_LINK_STATES; s++) {
            used[step_of(s, e).action] = true;
            comes |= step_of(s, e).action != UT_FSM_IMPOSSIBLE;
        }
        cr_expect(comes, "%s", ut_fsm_event_name(e));
    }
    for (unsigned int a = 0; a < UT_FSM_ACTIONS; a++)
        cr_expect(used[a], "%s", ut_fsm_action_name(a));
}

Test(fsm, all_have_names_of_their_own)
{
    for (unsigned int a = 0; a < UT_FSM_EVENTS; a++)
        for (unsigned int b = 0; b < a; b++)
            cr_expect_str_neq(ut_fsm_event_name(a), ut_fsm_event_name(b));
    for (unsigned int a = 0; a < UT_LINK_STATES; a++)
        for (unsigned int b = 0; b < a; b++)
            cr_expect_str_neq(ut_fsm_state_name(a), ut_fsm_state_name(b));
    for (unsigned int a = 0; a < UT_FSM_ACTIONS; a++)
        for (unsigned int b = 0; b < a; b++)
            cr_expect_str_neq(ut_fsm_action_name(a), ut_fsm_action_name(b));
    cr_expect_str_eq(ut_fsm_state_name(UT_LINK_STATES), "?");
}

Test(fsm, attempts_come_less_often_each_time)
{
    uint32_t before = 0;

    for (int i = 0; i < 20; i++) {
        uint32_t now = ut_fsm_backoff_ms(before);
        cr_expect_eq(now, i < 5 ? 1u << i : UT_FSM_MAX_BACKOFF_MS);
        before = now;
    }
}

Test(fsm, pauses_of_a_silent_peer_grow_to_eight_timeouts)
{
    static const uint32_t as_share_of_12[] = {3, 6, 12, 24, 48, 96, 96, 96};
    uint32_t before = 0;

    for (size_t i = 0; i < sizeof(as_share_of_12) / sizeof(as_share_of_12[0]); i++) {
        before = ut_fsm_pause_ms(before, 12000);
        cr_expect_eq(before, as_share_of_12[i] * 1000);
    }
}
