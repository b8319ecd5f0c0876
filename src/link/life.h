/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a connection: what a link does when something happens to it, as one table. Whoever
 * notices what has happened says it by an event; the table says what is done and which state
 * follows. Pure functions, which know no link and no provider. docs/design/connections.md has the
 * table as `utofu-info --life` prints it. Uses nothing.
 */
#ifndef UT_LINK_LIFE_H
#define UT_LINK_LIFE_H

#include <stdint.h>

enum ut_link_state {
    UT_LINK_IDLE,       /* no connection, and none wanted */
    UT_LINK_SEEKING,    /* the owner's address is not known yet, or the next attempt is not due */
    UT_LINK_CONNECTING, /* a connection is asked for */
    UT_LINK_AWAITING,   /* the peer asked first: its request is on the way */
    UT_LINK_UP,
    UT_LINK_SILENT, /* the peer was given up for a while, as it did not answer */
    UT_LINK_GONE,   /* the peer was given up for good */
    UT_LINK_STATES
};

enum ut_life_event {
    /* of this process */
    UT_LIFE_WANTED,     /* there is something for the peer */
    UT_LIFE_PAUSE_OVER, /* the while of UT_LINK_SILENT has passed */
    UT_LIFE_DUE,        /* the time of the next attempt has come, or something waits to be posted */
    UT_LIFE_NO_MEMORY,  /* a message for the peer, or what it announces, cannot be kept */
    /* of looking for the peer and asking it */
    UT_LIFE_ASKS,   /* the provider was asked for a connection */
    UT_LIFE_LATER,  /* not now: the owner is not known yet, or this process lacks something */
    UT_LIFE_NOBODY, /* nobody owns the VCQ, or its owner cannot be reached */
    UT_LIFE_UNABLE, /* this process cannot connect, or its device is gone */
    /* of the peer's request */
    UT_LIFE_ASKED,        /* the peer asks for a connection */
    UT_LIFE_CROSSED,      /* so it does while this side has asked, and this side's request counts */
    UT_LIFE_ACCEPTED,     /* the provider has taken the answer to the peer's request */
    UT_LIFE_COMES_UP,     /* the peer has accepted; or an accepted connection is confirmed */
    UT_LIFE_INCOMPATIBLE, /* the peer is of another version of the library */
    /* of a connection that did not come, or ended */
    UT_LIFE_ENDED,        /* nothing waits for the peer */
    UT_LIFE_RESTED,       /* closed in order, and something waits for the peer */
    UT_LIFE_LOST,         /* broken or not come, and something waits for the peer */
    UT_LIFE_BREAKS,       /* the same, again and again with the same communication */
    UT_LIFE_LATE,         /* broken or not come, and the time for further attempts is over */
    UT_LIFE_REFUSED,      /* the peer has refused, as its own request is on the way */
    UT_LIFE_REFUSED_LATE, /* the same, for longer than that may take */
    UT_LIFE_FELL_SILENT,  /* no answer of the peer's host or process */
    UT_LIFE_DIED,         /* the peer's process has ended */
    UT_LIFE_EVENTS
};

enum ut_life_action {
    UT_LIFE_IMPOSSIBLE, /* the event does not come in this state */
    UT_LIFE_NOTHING,
    UT_LIFE_START,     /* the next one, with all the time of UTOFU_JOB_TIMEOUT */
    UT_LIFE_SEEK,      /* looks for the owner of the VCQ, and asks for a connection */
    UT_LIFE_RETRY,     /* the next attempt is due after ut_life_backoff_ms() */
    UT_LIFE_BEGIN,     /* the same, with all the time of UTOFU_JOB_TIMEOUT */
    UT_LIFE_RESUME,    /* the same, with all the time of UTOFU_PEER_TIMEOUT */
    UT_LIFE_AWAIT,     /* waits for the peer's request, UT_LIFE_RACE_MS long */
    UT_LIFE_POST,      /* posts what can be posted */
    UT_LIFE_ACCEPT,    /* answers the peer's request */
    UT_LIFE_REPLACE,   /* closes the own connection, and answers the peer's request */
    UT_LIFE_REFUSE,    /* refuses the peer's request */
    UT_LIFE_CONNECT,   /* exchanges what both sides have to know, and posts */
    UT_LIFE_CONFIRM,   /* asks once more what is known only now of an accepted connection */
    UT_LIFE_FAIL_PEER, /* what waits fails with UTOFU_ERR_MRQ_PEER */
    UT_LIFE_FAIL_OWN,  /* what waits fails with UTOFU_ERR_MRQ_OTHER */
    UT_LIFE_PAUSE,     /* the former; the pause before the next attempt is ut_life_pause_ms() */
    UT_LIFE_ACTIONS
};

struct ut_life_step {
    uint8_t action; /* enum ut_life_action */
    uint8_t next;   /* enum ut_link_state */
};

/* What is done, and the state that follows. Of an event that does not come in the state:
 * UT_LIFE_IMPOSSIBLE, and the same state. */
struct ut_life_step ut_life_step(enum ut_link_state state, enum ut_life_event event);

/* Names as they are printed. */
const char *ut_life_state_name(unsigned int state);
const char *ut_life_event_name(unsigned int event);
const char *ut_life_action_name(unsigned int action);

/* The clocks. Milliseconds; the first call of a row has 0 for the one before. */
enum {
    UT_LIFE_RACE_MS = 500, /* after both sides have asked: the peer's request is here by then */
    UT_LIFE_FIRST_BACKOFF_MS = 1,
    UT_LIFE_LAST_BACKOFF_MS = 32,
    UT_LIFE_PAUSES = 4,     /* the first pause is 1/PAUSES of UTOFU_PEER_TIMEOUT, */
    UT_LIFE_LAST_PAUSE = 8, /* and the last ones are so many UTOFU_PEER_TIMEOUTs */
    UT_LIFE_SOON_MS =
        1000, /* a connection that breaks by then may break for what is posted on it, */
    UT_LIFE_BREAKS_MOST = 16, /* and does so if so many do in a row with the same communication */
};
/* Between two attempts: twice as long each time. */
uint32_t ut_life_backoff_ms(uint32_t before);
/* For so long everything for a silent peer fails at once, so that a host that is gone does not hold
 * up the TOQ for most of the time: twice as long each time. */
uint32_t ut_life_pause_ms(uint32_t before, uint32_t peer_timeout_ms);

#endif
