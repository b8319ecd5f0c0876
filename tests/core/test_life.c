/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a connection as a table: every pair of state and event, and the properties of all. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "link/life.h"

#define EACH_PAIR(s, e)                                                                            \
    for (unsigned int s = 0; s < UT_LINK_STATES; s++)                                              \
        for (unsigned int e = 0; e < UT_LIFE_EVENTS; e++)

static struct ut_life_step step_of(unsigned int state, unsigned int event)
{
    return ut_life_step((enum ut_link_state)state, (enum ut_life_event)event);
}

static const char *text_of(unsigned int state, unsigned int event)
{
    static char text[128];

    snprintf(text, sizeof(text), "%s, %s", ut_life_state_name(state), ut_life_event_name(event));
    return text;
}

Test(life, every_pair_has_an_action_and_a_state)
{
    EACH_PAIR(s, e)
    {
        struct ut_life_step step = step_of(s, e);
        cr_expect_lt(step.action, UT_LIFE_ACTIONS, "%s", text_of(s, e));
        cr_expect_lt(step.next, UT_LINK_STATES, "%s", text_of(s, e));
        if (step.action == UT_LIFE_IMPOSSIBLE)
            cr_expect_eq(step.next, s, "%s", text_of(s, e));
    }
}

/* Events of the program, timers and peers may come in any state of a link. */
Test(life, what_comes_at_any_time_is_possible_in_each_state)
{
    static const enum ut_life_event any_time[] = {UT_LIFE_WANTED, UT_LIFE_PAUSE_OVER, UT_LIFE_DUE,
                                                  UT_LIFE_NO_MEMORY, UT_LIFE_ASKED};

    for (unsigned int s = 0; s < UT_LINK_STATES; s++)
        for (size_t i = 0; i < sizeof(any_time) / sizeof(any_time[0]); i++)
            cr_expect_neq(step_of(s, any_time[i]).action, UT_LIFE_IMPOSSIBLE, "%s",
                          text_of(s, any_time[i]));
}

/* Any end of a connection may come in each state that has a connection; a peer may send anything,
 * so that a connection that is up may be refused, too. */
Test(life, each_end_is_possible_where_there_is_a_connection)
{
    static const enum ut_life_event ends[] = {
        UT_LIFE_NOBODY,  UT_LIFE_UNABLE,       UT_LIFE_ENDED,       UT_LIFE_RESTED, UT_LIFE_LOST,
        UT_LIFE_REFUSED, UT_LIFE_REFUSED_LATE, UT_LIFE_FELL_SILENT, UT_LIFE_DIED};

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        cr_expect_neq(step_of(UT_LINK_CONNECTING, ends[i]).action, UT_LIFE_IMPOSSIBLE);
        cr_expect_neq(step_of(UT_LINK_UP, ends[i]).action, UT_LIFE_IMPOSSIBLE);
        cr_expect_neq(step_of(UT_LINK_CONNECTING, ends[i]).next, UT_LINK_CONNECTING);
        cr_expect_neq(step_of(UT_LINK_UP, ends[i]).next, UT_LINK_UP);
    }
}

/* An answer to the peer's request either is accepted, or something ends or begins. */
Test(life, who_answers_a_request_knows_what_follows)
{
    for (unsigned int s = 0; s < UT_LINK_STATES; s++) {
        struct ut_life_step step = step_of(s, UT_LIFE_ASKED);
        cr_expect(step.action == UT_LIFE_ACCEPT || step.action == UT_LIFE_REPLACE);
        cr_expect_eq(step_of(step.next, UT_LIFE_ACCEPTED).next, UT_LINK_UP);
        cr_expect_neq(step_of(step.next, UT_LIFE_ENDED).action, UT_LIFE_IMPOSSIBLE);
        cr_expect_neq(step_of(step.next, UT_LIFE_RESTED).action, UT_LIFE_IMPOSSIBLE);
    }
}

Test(life, a_connection_is_up_when_both_sides_have_agreed)
{
    EACH_PAIR(s, e)
    {
        struct ut_life_step step = step_of(s, e);
        if (step.next == UT_LINK_UP && s != UT_LINK_UP) {
            cr_expect(e == UT_LIFE_ACCEPTED || e == UT_LIFE_COMES_UP, "%s", text_of(s, e));
            cr_expect_eq(step.action, UT_LIFE_CONNECT, "%s", text_of(s, e));
        }
    }
}

/* No communication is forgotten: in a link that is given up, or has no connection any more, the
 * waiting communications fail or are tried again. */
Test(life, what_waits_fails_or_is_tried_again)
{
    EACH_PAIR(s, e)
    {
        struct ut_life_step step = step_of(s, e);
        bool fails = step.action == UT_LIFE_FAIL_PEER || step.action == UT_LIFE_FAIL_OWN ||
                     step.action == UT_LIFE_PAUSE;
        if (step.action == UT_LIFE_IMPOSSIBLE || step.next == s || step.action == UT_LIFE_REPLACE)
            continue;
        if (step.next == UT_LINK_SILENT || step.next == UT_LINK_GONE)
            cr_expect(fails, "%s", text_of(s, e));
        if (step.next == UT_LINK_IDLE && e != UT_LIFE_ENDED && e != UT_LIFE_PAUSE_OVER)
            cr_expect(fails, "%s", text_of(s, e));
        if (step.next == UT_LINK_SEEKING)
            cr_expect(step.action == UT_LIFE_START || step.action == UT_LIFE_SEEK ||
                          step.action == UT_LIFE_RETRY || step.action == UT_LIFE_BEGIN ||
                          step.action == UT_LIFE_RESUME,
                      "%s", text_of(s, e));
        if (step.next == UT_LINK_AWAITING)
            cr_expect_eq(step.action, UT_LIFE_AWAIT, "%s", text_of(s, e));
    }
}

/* A peer that was given up permanently is tried again when it asks, and not before. */
Test(life, who_is_gone_comes_back_by_its_own_request)
{
    for (unsigned int e = 0; e < UT_LIFE_EVENTS; e++)
        if (e != UT_LIFE_ASKED && e != UT_LIFE_ACCEPTED && e != UT_LIFE_ENDED &&
            e != UT_LIFE_RESTED) /* these three follow its request */
            cr_expect_eq(step_of(UT_LINK_GONE, e).next, UT_LINK_GONE, "%s", ut_life_event_name(e));
}

static void visit(unsigned int state, bool *seen)
{
    if (seen[state])
        return;
    seen[state] = true;
    for (unsigned int e = 0; e < UT_LIFE_EVENTS; e++)
        visit(step_of(state, e).next, seen);
}

Test(life, each_state_is_reached_and_leads_to_a_connection)
{
    for (unsigned int s = 0; s < UT_LINK_STATES; s++) {
        bool from_idle[UT_LINK_STATES] = {0}, from_here[UT_LINK_STATES] = {0};
        visit(UT_LINK_IDLE, from_idle);
        visit(s, from_here);
        cr_expect(from_idle[s], "%s", ut_life_state_name(s));
        cr_expect(from_here[UT_LINK_UP], "%s", ut_life_state_name(s));
    }
}

Test(life, each_event_comes_and_each_action_is_used)
{
    bool used[UT_LIFE_ACTIONS] = {0};

    for (unsigned int e = 0; e < UT_LIFE_EVENTS; e++) {
        bool comes = false;
        for (unsigned int s = 0; s < UT_LINK_STATES; s++) {
            used[step_of(s, e).action] = true;
            comes |= step_of(s, e).action != UT_LIFE_IMPOSSIBLE;
        }
        cr_expect(comes, "%s", ut_life_event_name(e));
    }
    for (unsigned int a = 0; a < UT_LIFE_ACTIONS; a++)
        cr_expect(used[a], "%s", ut_life_action_name(a));
}

Test(life, all_have_names_of_their_own)
{
    for (unsigned int a = 0; a < UT_LIFE_EVENTS; a++)
        for (unsigned int b = 0; b < a; b++)
            cr_expect_str_neq(ut_life_event_name(a), ut_life_event_name(b));
    for (unsigned int a = 0; a < UT_LINK_STATES; a++)
        for (unsigned int b = 0; b < a; b++)
            cr_expect_str_neq(ut_life_state_name(a), ut_life_state_name(b));
    for (unsigned int a = 0; a < UT_LIFE_ACTIONS; a++)
        for (unsigned int b = 0; b < a; b++)
            cr_expect_str_neq(ut_life_action_name(a), ut_life_action_name(b));
    cr_expect_str_eq(ut_life_state_name(UT_LINK_STATES), "?");
}

Test(life, attempts_come_less_often_each_time)
{
    uint32_t before = 0;

    for (int i = 0; i < 20; i++) {
        uint32_t now = ut_life_backoff_ms(before);
        cr_expect_eq(now, i < 5 ? 1u << i : UT_LIFE_LAST_BACKOFF_MS);
        before = now;
    }
}

Test(life, pauses_of_a_silent_peer_grow_to_eight_timeouts)
{
    static const uint32_t as_share_of_12[] = {3, 6, 12, 24, 48, 96, 96, 96};
    uint32_t before = 0;

    for (size_t i = 0; i < sizeof(as_share_of_12) / sizeof(as_share_of_12[0]); i++) {
        before = ut_life_pause_ms(before, 12000);
        cr_expect_eq(before, as_share_of_12[i] * 1000);
    }
}
