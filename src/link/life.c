/* SPDX-License-Identifier: Apache-2.0 */
/* The table of life.h, and its clocks. */
#include "link/life.h"

#include <stddef.h>

#include "util/retry_delay.h"

#define TO(what, state)                                                                            \
    {                                                                                              \
        .action = UT_LIFE_##what, .next = UT_LINK_##state                                          \
    }

static const struct ut_life_step table[UT_LINK_STATES][UT_LIFE_EVENTS] =
    {
        [UT_LINK_IDLE] =
            {
                [UT_LIFE_WANTED] = TO(START, SEEKING),
                [UT_LIFE_PAUSE_OVER] = TO(NOTHING, IDLE),
                [UT_LIFE_DUE] = TO(NOTHING, IDLE),
                [UT_LIFE_NO_MEMORY] = TO(FAIL_PEER, GONE),
                [UT_LIFE_ASKED] = TO(ACCEPT, IDLE),
                [UT_LIFE_ACCEPTED] = TO(CONNECT, UP),
                [UT_LIFE_ENDED] = TO(NOTHING, IDLE),
                [UT_LIFE_RESTED] = TO(BEGIN, SEEKING),
            },
        [UT_LINK_SEEKING] =
            {
                [UT_LIFE_WANTED] = TO(NOTHING, SEEKING),
                [UT_LIFE_PAUSE_OVER] = TO(NOTHING, SEEKING),
                [UT_LIFE_DUE] = TO(SEEK, SEEKING),
                [UT_LIFE_NO_MEMORY] = TO(FAIL_PEER, GONE),
                [UT_LIFE_ASKS] = TO(NOTHING, CONNECTING),
                [UT_LIFE_LATER] = TO(RETRY, SEEKING),
                [UT_LIFE_NOBODY] = TO(FAIL_PEER, IDLE),
                [UT_LIFE_UNABLE] = TO(FAIL_OWN, IDLE),
                [UT_LIFE_ASKED] = TO(ACCEPT, SEEKING),
                [UT_LIFE_ACCEPTED] = TO(CONNECT, UP),
                [UT_LIFE_ENDED] = TO(NOTHING, IDLE),
                [UT_LIFE_RESTED] = TO(BEGIN, SEEKING),
                [UT_LIFE_LATE] = TO(PAUSE, SILENT),
            },
        [UT_LINK_CONNECTING] =
            {
                [UT_LIFE_WANTED] = TO(NOTHING, CONNECTING),
                [UT_LIFE_PAUSE_OVER] = TO(NOTHING, CONNECTING),
                [UT_LIFE_DUE] = TO(NOTHING, CONNECTING),
                [UT_LIFE_NO_MEMORY] = TO(FAIL_PEER, GONE),
                [UT_LIFE_NOBODY] = TO(FAIL_PEER, IDLE),
                [UT_LIFE_UNABLE] = TO(FAIL_OWN, IDLE),
                [UT_LIFE_ASKED] = TO(REPLACE, IDLE),
                [UT_LIFE_CROSSED] = TO(REFUSE, CONNECTING),
                [UT_LIFE_COMES_UP] = TO(CONNECT, UP),
                [UT_LIFE_ENDED] = TO(NOTHING, IDLE),
                [UT_LIFE_RESTED] = TO(BEGIN, SEEKING),
                [UT_LIFE_LOST] = TO(RETRY, SEEKING),
                [UT_LIFE_LATE] = TO(PAUSE, SILENT),
                [UT_LIFE_REFUSED] = TO(AWAIT, AWAITING),
                [UT_LIFE_REFUSED_LATE] = TO(FAIL_PEER, GONE),
                [UT_LIFE_FELL_SILENT] = TO(PAUSE, SILENT),
                [UT_LIFE_DIED] = TO(FAIL_PEER, GONE),
            },
        [UT_LINK_AWAITING] =
            {
                [UT_LIFE_WANTED] = TO(NOTHING, AWAITING),
                [UT_LIFE_PAUSE_OVER] = TO(NOTHING, AWAITING),
                [UT_LIFE_DUE] = TO(SEEK, SEEKING),
                [UT_LIFE_NO_MEMORY] = TO(FAIL_PEER, GONE),
                [UT_LIFE_ASKED] = TO(ACCEPT, AWAITING),
                [UT_LIFE_ACCEPTED] = TO(CONNECT, UP),
                [UT_LIFE_ENDED] = TO(NOTHING, IDLE),
                [UT_LIFE_RESTED] = TO(BEGIN, SEEKING),
            },
        [UT_LINK_UP] =
            {
                [UT_LIFE_WANTED] = TO(NOTHING, UP),
                [UT_LIFE_PAUSE_OVER] = TO(NOTHING, UP),
                [UT_LIFE_DUE] = TO(POST, UP),
                [UT_LIFE_NO_MEMORY] = TO(FAIL_PEER, GONE),
                [UT_LIFE_NOBODY] = TO(FAIL_PEER, IDLE),
                [UT_LIFE_UNABLE] = TO(FAIL_OWN, IDLE),
                [UT_LIFE_ASKED] = TO(REPLACE, IDLE),
                [UT_LIFE_COMES_UP] = TO(CONFIRM, UP),
                [UT_LIFE_INCOMPATIBLE] = TO(FAIL_PEER, IDLE),
                [UT_LIFE_ENDED] = TO(NOTHING, IDLE),
                [UT_LIFE_RESTED] = TO(BEGIN, SEEKING),
                [UT_LIFE_LOST] = TO(RESUME, SEEKING),
                [UT_LIFE_BREAKS] = TO(FAIL_OWN, IDLE),
                [UT_LIFE_REFUSED] = TO(AWAIT, AWAITING),
                [UT_LIFE_REFUSED_LATE] = TO(FAIL_PEER, GONE),
                [UT_LIFE_FELL_SILENT] = TO(PAUSE, SILENT),
                [UT_LIFE_DIED] = TO(FAIL_PEER, GONE),
            },
        [UT_LINK_SILENT] =
            {
                [UT_LIFE_WANTED] = TO(NOTHING, SILENT),
                [UT_LIFE_PAUSE_OVER] = TO(NOTHING, IDLE),
                [UT_LIFE_DUE] = TO(NOTHING, SILENT),
                [UT_LIFE_NO_MEMORY] = TO(NOTHING, SILENT),
                [UT_LIFE_ASKED] = TO(ACCEPT, SILENT),
                [UT_LIFE_ACCEPTED] = TO(CONNECT, UP),
                [UT_LIFE_ENDED] = TO(NOTHING, IDLE),
                [UT_LIFE_RESTED] = TO(BEGIN, SEEKING),
            },
        [UT_LINK_GONE] =
            {
                [UT_LIFE_WANTED] = TO(NOTHING, GONE),
                [UT_LIFE_PAUSE_OVER] = TO(NOTHING, GONE),
                [UT_LIFE_DUE] = TO(NOTHING, GONE),
                [UT_LIFE_NO_MEMORY] = TO(NOTHING, GONE),
                [UT_LIFE_ASKED] = TO(ACCEPT, GONE),
                [UT_LIFE_ACCEPTED] = TO(CONNECT, UP),
                [UT_LIFE_ENDED] = TO(NOTHING, IDLE),
                [UT_LIFE_RESTED] = TO(BEGIN, SEEKING),
            },
};

struct ut_life_step ut_life_step(enum ut_link_state state, enum ut_life_event event)
{
    struct ut_life_step step = table[state][event];

    if (step.action == UT_LIFE_IMPOSSIBLE)
        step.next = (uint8_t)state;
    return step;
}

#define NAME_OF(names, number)                                                                     \
    ((number) < sizeof(names) / sizeof((names)[0]) ? (names)[number] : "?")

const char *ut_life_state_name(unsigned int state)
{
    static const char *const names[] = {
        [UT_LINK_IDLE] = "idle",
        [UT_LINK_SEEKING] = "seeking",
        [UT_LINK_CONNECTING] = "connecting",
        [UT_LINK_AWAITING] = "awaiting",
        [UT_LINK_UP] = "up",
        [UT_LINK_SILENT] = "silent",
        [UT_LINK_GONE] = "gone",
    };

    return NAME_OF(names, state);
}

const char *ut_life_event_name(unsigned int event)
{
    static const char *const names[] = {
        [UT_LIFE_WANTED] = "wanted",
        [UT_LIFE_PAUSE_OVER] = "pause over",
        [UT_LIFE_DUE] = "due",
        [UT_LIFE_NO_MEMORY] = "no memory",
        [UT_LIFE_ASKS] = "asks",
        [UT_LIFE_LATER] = "later",
        [UT_LIFE_NOBODY] = "nobody",
        [UT_LIFE_UNABLE] = "unable",
        [UT_LIFE_ASKED] = "asked",
        [UT_LIFE_CROSSED] = "crossed",
        [UT_LIFE_ACCEPTED] = "accepted",
        [UT_LIFE_COMES_UP] = "comes up",
        [UT_LIFE_INCOMPATIBLE] = "incompatible",
        [UT_LIFE_ENDED] = "ended",
        [UT_LIFE_RESTED] = "rested",
        [UT_LIFE_LOST] = "lost",
        [UT_LIFE_BREAKS] = "breaks",
        [UT_LIFE_LATE] = "late",
        [UT_LIFE_REFUSED] = "refused",
        [UT_LIFE_REFUSED_LATE] = "refused late",
        [UT_LIFE_FELL_SILENT] = "fell silent",
        [UT_LIFE_DIED] = "died",
    };

    return NAME_OF(names, event);
}

const char *ut_life_action_name(unsigned int action)
{
    static const char *const names[] = {
        [UT_LIFE_IMPOSSIBLE] = "",
        [UT_LIFE_NOTHING] = "nothing",
        [UT_LIFE_START] = "start",
        [UT_LIFE_SEEK] = "seek",
        [UT_LIFE_RETRY] = "retry",
        [UT_LIFE_BEGIN] = "begin",
        [UT_LIFE_RESUME] = "resume",
        [UT_LIFE_AWAIT] = "await",
        [UT_LIFE_POST] = "post",
        [UT_LIFE_ACCEPT] = "accept",
        [UT_LIFE_REPLACE] = "replace",
        [UT_LIFE_REFUSE] = "refuse",
        [UT_LIFE_CONNECT] = "connect",
        [UT_LIFE_CONFIRM] = "confirm",
        [UT_LIFE_FAIL_PEER] = "fail (peer)",
        [UT_LIFE_FAIL_OWN] = "fail (own)",
        [UT_LIFE_PAUSE] = "pause",
    };

    return NAME_OF(names, action);
}

uint32_t ut_life_backoff_ms(uint32_t before)
{
    return (uint32_t)ut_retry_delay_next_ms(before, UT_LIFE_FIRST_BACKOFF_MS,
                                            UT_LIFE_LAST_BACKOFF_MS);
}

uint32_t ut_life_pause_ms(uint32_t before, uint32_t peer_timeout_ms)
{
    return (uint32_t)ut_retry_delay_next_ms(before, peer_timeout_ms / UT_LIFE_PAUSES,
                                            (uint64_t)UT_LIFE_LAST_PAUSE * peer_timeout_ms);
}
