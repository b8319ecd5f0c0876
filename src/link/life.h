/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a connection, as a table: the action and the next state of a link for each event. The
 * functions are pure and know no link and no provider. docs/design/connections.md has the table as
 * `utofu-info --life` prints it. Uses nothing.
 */
#ifndef UT_LINK_LIFE_H
#define UT_LINK_LIFE_H

#include <stdint.h>

enum ut_link_state {
    UT_LINK_IDLE,       /* no connection, and none wanted */
    UT_LINK_SEEKING,    /* the owner's address is not known yet, or the next attempt is not due */
    UT_LINK_CONNECTING, /* a connection is asked for */
    UT_LINK_AWAITING,   /* the peer asked first: its request has yet to arrive */
    UT_LINK_UP,
    UT_LINK_SILENT, /* the peer did not answer and is given up for a pause */
    UT_LINK_GONE,   /* the peer was given up for good */
    UT_LINK_STATES
};

enum ut_life_event {
    /* events of this process */
    UT_LIFE_WANTED,     /* a communication or message for the peer exists */
    UT_LIFE_PAUSE_OVER, /* the pause of UT_LINK_SILENT has passed */
    UT_LIFE_DUE,        /* the next attempt is due, or communications wait to be posted */
    UT_LIFE_NO_MEMORY,  /* no memory to keep a message for the peer, or a STADD that it announces */
    /* results of looking for the peer and asking it */
    UT_LIFE_ASKS,   /* the provider was asked for a connection */
    UT_LIFE_LATER,  /* try later: the owner is not known yet, or this process lacks a resource */
    UT_LIFE_NOBODY, /* nobody owns the VCQ, or its owner cannot be reached */
    UT_LIFE_UNABLE, /* this process cannot connect, or its device is gone */
    /* the peer's request */
    UT_LIFE_ASKED,        /* the peer asks for a connection */
    UT_LIFE_CROSSED,      /* the peer asks too, but this side has asked and its request counts */
    UT_LIFE_ACCEPTED,     /* the provider has taken the answer to the peer's request */
    UT_LIFE_COMES_UP,     /* the peer has accepted; or an accepted connection is confirmed */
    UT_LIFE_INCOMPATIBLE, /* the peer is of another version of the library */
    /* a connection that was not established, or that ended */
    UT_LIFE_ENDED,        /* nothing waits for the peer */
    UT_LIFE_RESTED,       /* closed in order, and communications wait for the peer */
    UT_LIFE_LOST,         /* broken or not established, and communications wait for the peer */
    UT_LIFE_BREAKS,       /* broken again and again with the same communication */
    UT_LIFE_LATE,         /* broken or not established, and the time for further attempts is over */
    UT_LIFE_REFUSED,      /* the peer refused, as it has sent a request itself */
    UT_LIFE_REFUSED_LATE, /* the peer refuses for longer than its own request can take */
    UT_LIFE_FELL_SILENT,  /* the peer's host or process does not answer */
    UT_LIFE_DIED,         /* the peer's process has ended */
    UT_LIFE_EVENTS
};

enum ut_life_action {
    UT_LIFE_IMPOSSIBLE, /* the event does not come in this state */
    UT_LIFE_NOTHING,
    UT_LIFE_START,     /* as SEEK, with the full UTOFU_JOB_TIMEOUT */
    UT_LIFE_SEEK,      /* looks for the owner of the VCQ, and asks it for a connection */
    UT_LIFE_RETRY,     /* the next attempt is due after ut_life_backoff_ms() */
    UT_LIFE_BEGIN,     /* as RETRY, with the full UTOFU_JOB_TIMEOUT */
    UT_LIFE_RESUME,    /* as RETRY, with the full UTOFU_PEER_TIMEOUT */
    UT_LIFE_AWAIT,     /* waits up to UT_LIFE_RACE_MS for the peer's request */
    UT_LIFE_POST,      /* posts as much as there is room for */
    UT_LIFE_ACCEPT,    /* answers the peer's request */
    UT_LIFE_REPLACE,   /* closes this connection, and answers the peer's request */
    UT_LIFE_REFUSE,    /* refuses the peer's request */
    UT_LIFE_CONNECT,   /* takes over the peer's hello, and posts */
    UT_LIFE_CONFIRM,   /* asks the provider again for the order of an accepted connection */
    UT_LIFE_FAIL_PEER, /* waiting communications fail with UTOFU_ERR_MRQ_PEER */
    UT_LIFE_FAIL_OWN,  /* waiting communications fail with UTOFU_ERR_MRQ_OTHER */
    UT_LIFE_PAUSE,     /* as FAIL_PEER; the next attempt comes after ut_life_pause_ms() */
    UT_LIFE_ACTIONS
};

struct ut_life_step {
    uint8_t action; /* enum ut_life_action */
    uint8_t next;   /* enum ut_link_state */
};

/* UT_LIFE_IMPOSSIBLE and the same state, if the event cannot come in this state. */
struct ut_life_step ut_life_step(enum ut_link_state state, enum ut_life_event event);

/* Printable names. */
const char *ut_life_state_name(unsigned int state);
const char *ut_life_event_name(unsigned int event);
const char *ut_life_action_name(unsigned int action);

/* In milliseconds. `before` is the previous result of the function, and 0 at first. */
enum {
    UT_LIFE_RACE_MS = 500, /* after both sides asked, the peer's request arrives by then */
    UT_LIFE_FIRST_BACKOFF_MS = 1,
    UT_LIFE_LAST_BACKOFF_MS = 32,
    UT_LIFE_PAUSES = 4,       /* the first pause is 1/PAUSES of UTOFU_PEER_TIMEOUT, */
    UT_LIFE_LAST_PAUSE = 8,   /* the longest pause, in UTOFU_PEER_TIMEOUTs */
    UT_LIFE_SOON_MS = 1000,   /* breaks sooner than this may be due to a communication, */
    UT_LIFE_BREAKS_MOST = 16, /* and so many in a row with the same oldest one are */
};
/* Backoff between two attempts, doubled each time. */
uint32_t ut_life_backoff_ms(uint32_t before);
/* Pause for a silent peer, doubled each time. During the pause everything for the peer fails at
 * once, so that a dead host does not block the TOQ. */
uint32_t ut_life_pause_ms(uint32_t before, uint32_t peer_timeout_ms);

#endif
