/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a connection, as a table: the action and the next state of a link for each event. The
 * functions are pure and know no link and no provider. docs/design/connections.md has the table as
 * `utofu-info --life` prints it. Uses nothing.
 */
#ifndef UT_LINK_FSM_H
#define UT_LINK_FSM_H

#include <stdint.h>

enum ut_link_state {
    UT_LINK_IDLE,       /* no connection, and none wanted */
    UT_LINK_RESOLVING,  /* the owner's address is not known yet, or the next attempt is not due */
    UT_LINK_CONNECTING, /* a connection is asked for */
    UT_LINK_AWAITING,   /* the peer asked first: its request has yet to arrive */
    UT_LINK_UP,
    UT_LINK_SILENT, /* the peer did not answer and is given up for a pause */
    UT_LINK_GONE,   /* the peer was given up for good */
    UT_LINK_STATES
};

enum ut_fsm_event {
    /* events of this process */
    UT_FSM_WORK_QUEUED, /* a communication or message for the peer exists */
    UT_FSM_PAUSE_OVER,  /* the pause of UT_LINK_SILENT has passed */
    UT_FSM_TIMER,       /* the next attempt is due, or communications wait to be posted */
    UT_FSM_NO_MEMORY,   /* no memory to keep a message for the peer, or a STADD that it announces */
    /* results of looking for the peer and asking it */
    UT_FSM_REQUEST_SENT, /* the provider was asked for a connection */
    UT_FSM_TRY_LATER, /* try later: the owner is not known yet, or this process lacks a resource */
    UT_FSM_NO_OWNER,  /* nobody owns the VCQ, or its owner cannot be reached */
    UT_FSM_LOCAL_ERROR, /* this process cannot connect, or its device is gone */
    /* the peer's request */
    UT_FSM_REQUEST_RECEIVED, /* the peer asks for a connection */
    UT_FSM_REQUESTS_CROSSED, /* the peer asks too, but this side has asked and its request counts */
    UT_FSM_ACCEPT_SENT,      /* the provider has taken the answer to the peer's request */
    UT_FSM_ESTABLISHED,      /* the peer has accepted; or an accepted connection is confirmed */
    UT_FSM_INCOMPATIBLE,     /* the peer is of another version of the library */
    /* a connection that was not established, or that ended */
    UT_FSM_CLOSED_IDLE,       /* nothing waits for the peer */
    UT_FSM_CLOSED_WITH_WORK,  /* closed in order, and communications wait for the peer */
    UT_FSM_BROKEN,            /* broken or not established, and communications wait for the peer */
    UT_FSM_BROKEN_REPEATEDLY, /* broken again and again with the same communication */
    UT_FSM_DEADLINE_PASSED, /* broken or not established, and the time for further attempts is over
                             */
    UT_FSM_REJECTED,        /* the peer refused, as it has sent a request itself */
    UT_FSM_REJECTED_TOO_LONG, /* the peer refuses for longer than its own request can take */
    UT_FSM_PEER_SILENT,       /* the peer's host or process does not answer */
    UT_FSM_PEER_DIED,         /* the peer's process has ended */
    UT_FSM_EVENTS
};

enum ut_fsm_action {
    UT_FSM_IMPOSSIBLE, /* the event does not come in this state */
    UT_FSM_NOTHING,
    UT_FSM_RESOLVE_NEW,   /* as SEEK, with the full UTOFU_JOB_TIMEOUT */
    UT_FSM_RESOLVE,       /* looks for the owner of the VCQ, and asks it for a connection */
    UT_FSM_RETRY,         /* the next attempt is due after ut_fsm_backoff_ms() */
    UT_FSM_RETRY_NEW,     /* as RETRY, with the full UTOFU_JOB_TIMEOUT */
    UT_FSM_RECONNECT,     /* as RETRY, with the full UTOFU_PEER_TIMEOUT */
    UT_FSM_AWAIT_REQUEST, /* waits up to UT_FSM_CROSSED_WAIT_MS for the peer's request */
    UT_FSM_POST,          /* posts as much as there is room for */
    UT_FSM_ACCEPT,        /* answers the peer's request */
    UT_FSM_REPLACE,       /* closes this connection, and answers the peer's request */
    UT_FSM_REJECT,        /* refuses the peer's request */
    UT_FSM_COMPLETE,      /* takes over the peer's hello, and posts */
    UT_FSM_QUERY_ORDER,   /* asks the provider again for the order of an accepted connection */
    UT_FSM_FAIL_PEER,     /* waiting communications fail with UTOFU_ERR_MRQ_PEER */
    UT_FSM_FAIL_LOCAL,    /* waiting communications fail with UTOFU_ERR_MRQ_OTHER */
    UT_FSM_PAUSE,         /* as FAIL_PEER; the next attempt comes after ut_fsm_pause_ms() */
    UT_FSM_ACTIONS
};

struct ut_fsm_step {
    uint8_t action; /* enum ut_fsm_action */
    uint8_t next;   /* enum ut_link_state */
};

/* UT_FSM_IMPOSSIBLE and the same state, if the event cannot come in this state. */
struct ut_fsm_step ut_fsm_step(enum ut_link_state state, enum ut_fsm_event event);

/* Printable names. */
const char *ut_fsm_state_name(unsigned int state);
const char *ut_fsm_event_name(unsigned int event);
const char *ut_fsm_action_name(unsigned int action);

/* In milliseconds. `before` is the previous result of the function, and 0 at first. */
enum {
    UT_FSM_CROSSED_WAIT_MS = 500, /* after both sides asked, the peer's request arrives by then */
    UT_FSM_FIRST_BACKOFF_MS = 1,
    UT_FSM_LAST_BACKOFF_MS = 32,
    UT_FSM_FIRST_PAUSE_PART = 4,  /* the first pause is 1/PAUSES of UTOFU_PEER_TIMEOUT, */
    UT_FSM_LAST_PAUSE = 8,        /* the longest pause, in UTOFU_PEER_TIMEOUTs */
    UT_FSM_EARLY_BREAK_MS = 1000, /* breaks sooner than this may be due to a communication, */
    UT_FSM_MAX_BREAKS = 16,       /* and so many in a row with the same oldest one are */
};
/* Backoff between two attempts, doubled each time. */
uint32_t ut_fsm_backoff_ms(uint32_t before);
/* Pause for a silent peer, doubled each time. During the pause everything for the peer fails at
 * once, so that a dead host does not block the TOQ. */
uint32_t ut_fsm_pause_ms(uint32_t before, uint32_t peer_timeout_ms);

#endif
