/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connection state machine: a table gives the action and the next state for each state and event.
 * The functions are pure: they use no link and no provider. docs/design/connections.md shows the
 * table. Uses util only.
 */
#ifndef UT_LINK_FSM_H
#define UT_LINK_FSM_H

#include <stdint.h>

enum ut_link_state {
    UT_LINK_IDLE,       /* not connected, nothing to send */
    UT_LINK_RESOLVING,  /* looking for the process that owns the VCQ, or waiting to try again */
    UT_LINK_CONNECTING, /* connect request sent */
    UT_LINK_AWAITING,   /* the peer's own connect request is expected: both sides sent one */
    UT_LINK_UP,
    UT_LINK_SILENT, /* the peer did not answer; no attempt until a pause is over */
    UT_LINK_GONE,   /* the peer is given up for good: this side makes no more attempts */
    UT_LINK_STATES
};

enum ut_fsm_event {
    /* from this process */
    UT_FSM_WORK_QUEUED, /* a communication or message for the peer was queued */
    UT_FSM_PAUSE_OVER,  /* the pause of UT_LINK_SILENT is over */
    UT_FSM_TIMER,       /* the next attempt is due, or unposted communications are tried again */
    UT_FSM_NO_MEMORY,   /* no memory to queue a message for the peer, or to store a STADD that the
                           peer announced */
    /* results of looking up the owner and connecting to it */
    UT_FSM_REQUEST_SENT, /* the provider sent a connect request */
    UT_FSM_TRY_LATER,    /* the owner is not known yet, or this process lacks a resource */
    UT_FSM_NO_OWNER,     /* no process owns the VCQ, or its owner is unreachable */
    UT_FSM_LOCAL_ERROR,  /* this process cannot connect, or its device is gone */
    /* the peer's connect request */
    UT_FSM_REQUEST_RECEIVED, /* the peer requests a connection */
    UT_FSM_REQUESTS_CROSSED, /* the peer requests a connection too, but this side's request wins */
    UT_FSM_ACCEPT_SENT,      /* the provider sent the reply to the peer's request */
    UT_FSM_ESTABLISHED,  /* the peer accepted this side's request, or confirmed this side's reply */
    UT_FSM_INCOMPATIBLE, /* the peer runs another version of the library */
    /* the connection was not established, or ended */
    UT_FSM_CLOSED_IDLE,       /* no communication or message for the peer is outstanding */
    UT_FSM_CLOSED_WITH_WORK,  /* closed in an orderly way, with communications outstanding */
    UT_FSM_BROKEN,            /* broken or not established, with communications outstanding */
    UT_FSM_BROKEN_REPEATEDLY, /* broken repeatedly with the same oldest communication */
    UT_FSM_DEADLINE_PASSED,   /* not established before the deadline for attempts */
    UT_FSM_REJECTED,          /* the peer rejected the request, since it sent a request itself */
    UT_FSM_REJECTED_TOO_LONG, /* the peer rejects for longer than its own request can take */
    UT_FSM_PEER_SILENT,       /* the peer's host or process does not answer */
    UT_FSM_PEER_DIED,         /* the peer's process has ended */
    UT_FSM_EVENTS
};

enum ut_fsm_action {
    UT_FSM_IMPOSSIBLE, /* this event cannot occur in this state */
    UT_FSM_NOTHING,
    UT_FSM_RESOLVE_NEW,   /* as RESOLVE, with a new deadline of UTOFU_JOB_TIMEOUT */
    UT_FSM_RESOLVE,       /* look up the owner of the VCQ and send it a connect request */
    UT_FSM_RETRY,         /* schedule the next attempt after ut_fsm_backoff_ms() */
    UT_FSM_RETRY_NEW,     /* as RETRY, with a new deadline of UTOFU_JOB_TIMEOUT */
    UT_FSM_RECONNECT,     /* as RETRY, with a new deadline of UTOFU_PEER_TIMEOUT */
    UT_FSM_AWAIT_REQUEST, /* wait up to UT_FSM_CROSSED_WAIT_MS for the peer's request */
    UT_FSM_POST,          /* post as many queued communications as the queues can take */
    UT_FSM_ACCEPT,        /* accept the peer's request */
    UT_FSM_REPLACE,       /* close this connection and accept the peer's request */
    UT_FSM_REJECT,        /* reject the peer's request */
    UT_FSM_COMPLETE,      /* process the peer's hello, then post queued communications */
    UT_FSM_QUERY_ORDER,   /* ask the provider again whether the connection keeps writes in order */
    UT_FSM_FAIL_PEER,     /* fail all outstanding communications with UTOFU_ERR_MRQ_PEER */
    UT_FSM_FAIL_LOCAL,    /* fail all outstanding communications with UTOFU_ERR_MRQ_OTHER */
    UT_FSM_PAUSE,         /* as FAIL_PEER; the next attempt follows after ut_fsm_pause_ms() */
    UT_FSM_ACTIONS
};

struct ut_fsm_step {
    uint8_t action; /* enum ut_fsm_action */
    uint8_t next;   /* enum ut_link_state */
};

/* Returns UT_FSM_IMPOSSIBLE and the same state if the event cannot occur in this state. */
struct ut_fsm_step ut_fsm_step(enum ut_link_state state, enum ut_fsm_event event);

/* Names for printing. */
const char *ut_fsm_state_name(unsigned int state);
const char *ut_fsm_event_name(unsigned int event);
const char *ut_fsm_action_name(unsigned int action);

/* Times in milliseconds. `before`: the previous result of the function; 0: first call. */
enum {
    UT_FSM_CROSSED_WAIT_MS = 500, /* crossed requests: maximum wait for the peer's request */
    UT_FSM_FIRST_BACKOFF_MS = 1,
    UT_FSM_MAX_BACKOFF_MS = 32,
    UT_FSM_FIRST_PAUSE_DIVISOR = 4, /* the first pause is 1/4 of UTOFU_PEER_TIMEOUT */
    UT_FSM_MAX_PAUSE_FACTOR = 8,    /* the longest pause is 8 times UTOFU_PEER_TIMEOUT */
    UT_FSM_EARLY_BREAK_MS = 1000,   /* if a connection breaks earlier, a communication may be the
                                       cause */
    UT_FSM_MAX_BREAKS = 16, /* number of consecutive early breaks after which communications fail */
};
/* Back-off between two attempts; doubles each time. */
uint32_t ut_fsm_backoff_ms(uint32_t before);
/* Pause after a peer was silent; doubles each time. During the pause all communications with the
 * peer fail at once, so that a dead host does not block the TOQ. */
uint32_t ut_fsm_pause_ms(uint32_t before, uint32_t peer_timeout_ms);

#endif
