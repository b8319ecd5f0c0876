/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters (UTOFU_STATS) and the timeline (UTOFU_TRACE) of a process. Where neither is asked for, a
 * VCQ has no struct ut_watch, and nothing here is reached: a watched VCQ is marked in words that
 * the engine looks at anyway (ut_vcq.long_way, UT_DESC_WATCHED, mrq_alarm, patience), so that its
 * communications take the longer of two ways that exist without it.
 *
 * Uses util, process, vcq, and looks into link. What happens is told from engine, vcq, link and
 * gate by the functions below, all with the lock of the VCQ held: each VCQ has counters and a
 * buffer of events of its own, and recording takes no other lock.
 *
 * watch.c and gates.c: what the others tell. stats.c: printing. trace.c: buffers, and the file.
 */
#ifndef UT_WATCH_WATCH_H
#define UT_WATCH_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "link/link.h"
#include "process/process.h"
#include "vcq/vcq.h"

struct ut_gate;
struct ut_gate_tag;
struct ut_watch_event;

/* Communications of one kind. */
enum ut_watch_kind { UT_WATCH_PUT, UT_WATCH_GET, UT_WATCH_ARMW, UT_WATCH_NOP, UT_WATCH_KINDS };
enum { UT_WATCH_NOTICES = 6 }; /* MRQ notices by enum utofu_mrq_type */

struct ut_watch_counts {
    uint64_t ops[UT_WATCH_KINDS];   /* started */
    uint64_t bytes[UT_WATCH_KINDS]; /* of those */
    uint64_t failed;                /* ended with an error in TCQ or MRQ */
    uint64_t arrivals; /* what announced itself: with a notice, an SPS, or for the CPU to do */
    uint64_t notices[UT_WATCH_NOTICES];
    uint64_t open, most_open; /* started, not complete; and the most of them at one time */
    uint64_t blocked_ns;
};

/* What one VCQ had to do with one remote VCQ; outlives both. */
struct ut_watch_peer {
    struct ut_watch_peer *next;
    utofu_vcq_id_t id;
    int64_t rank;                  /* -1: not known yet */
    int8_t provider;               /* -1: not connected so far */
    struct ut_watch_counts counts; /* blocked: something waited to be handed to the provider */
    uint64_t retries; /* communications that had to be handed to the provider once more */
    uint64_t reconnects;
    uint64_t blocked_since; /* 0: not at the moment */
};

/* A communication in its TOQ slot. */
struct ut_watch_op {
    uint64_t submitted, started, returned, done; /* ns; 0: not yet */
    uint64_t cause;                              /* arrival that let it start; 0: none */
    uint32_t bytes;
    uint8_t kind;
    uint8_t edata;
};

/* Arrivals that moved the schedule pointer and whose descriptors are not all started. */
struct ut_watch_credit {
    uint64_t upto; /* number of descriptors that may start because of it and earlier ones */
    uint64_t at;
};
enum { UT_WATCH_CREDITS = 4096 };

/* A barrier gate. */
struct ut_watch_gate {
    uint64_t started, finished, failed; /* a start gate */
    uint64_t blocked_ns;
    uint64_t begin;                /* of the communication under way */
    uint64_t sent[2], received[2]; /* signals, packets */
    bool named;                    /* its track is */
};

/* What is kept of a VCQ while it lives; what counts is kept by its id when it is freed. */
struct ut_watch {
    struct ut_watch *next; /* of those that are gone */
    utofu_vcq_id_t id;
    struct ut_vcq_ident ident;
    uint16_t tni;
    bool session;
    bool closed;
    uint32_t lives;                /* VCQs that had this id */
    uint32_t track;                /* of the timeline; each VCQ has its own */
    struct ut_watch_counts counts; /* blocked: the program polled in vain */
    uint64_t busy;                 /* UTOFU_ERR_BUSY: no room in the TOQ */
    uint64_t vain_polls;
    uint64_t most_mrq;              /* entries of the MRQ that were in use at one time */
    uint64_t vain_first, vain_last; /* the polls in vain under way; 0: none */
    struct ut_watch_peer *peers;
    struct ut_watch_gate *gates; /* of the library's own VCQ of a TNI */

    struct ut_watch_op *ops;         /* one for each TOQ slot */
    uint32_t starting;               /* slot that is being started; UT_NO_SLOT: none */
    struct ut_watch_credit *credits; /* session mode: a ring */
    uint32_t credit_head, credit_tail;
    uint64_t consumed[2];          /* when what a gate takes came in */
    struct ut_watch_event *events; /* NULL: no timeline */
    uint32_t num_events;
};

static inline uint64_t ut_watch_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Once, when the rank is known: 0, or UTOFU_ERR_FATAL after an error line. */
int ut_watch_open(const struct ut_job_info *job, uint64_t host);
/* A VCQ that is made is watched from here on, if anything is; false: no memory. */
bool ut_watch_attach(struct ut_vcq *vcq);
void ut_watch_detach(struct ut_vcq *vcq);

/* From here on: only of watched VCQs. */

/* The n slots behind the tail are about to become part of the TOQ. */
void ut_watch_submit(struct ut_vcq *vcq, uint32_t n);
/* Around the start of one descriptor. */
void ut_watch_start(struct ut_vcq *vcq, const struct ut_slot *slot);
void ut_watch_started(struct ut_vcq *vcq, const struct ut_slot *slot);
/* Everything of a slot is complete. */
void ut_watch_done(struct ut_link *link, const struct ut_slot *slot);
/* The provider could not take a communication, or it has to be done again. */
void ut_watch_retry(struct ut_link *link);
/* The connection is up. */
void ut_watch_connected(struct ut_link *link);
/* Something may have been posted. */
void ut_watch_look(struct ut_link *link);
void ut_watch_busy(struct ut_vcq *vcq);
/* The program has polled and found nothing. */
void ut_watch_vain(struct ut_vcq *vcq);
/* An MRQ entry is written: `used` entries are in use with it. Returns how many may be before this
 * is to be called again. */
uint32_t ut_watch_mrq(struct ut_vcq *vcq, uint32_t used);
/* What providers call for endpoints of watched VCQs, in place of ut_engine_callbacks. */
extern const struct prov_callbacks ut_watch_callbacks[UT_NUM_PROVIDERS];

/* Barrier gates; `input` is that of the receiver: signal or packet. */
void ut_watch_gate_send(struct ut_watch *w, const struct ut_gate *g, unsigned int input,
                        utofu_vbg_id_t dst, uint64_t number);
/* It sent what it had to: a start gate has started, a relay gate has fired. */
void ut_watch_gate_sent(struct ut_watch *w, const struct ut_gate *g, uint64_t began);
void ut_watch_gate_arrive(struct ut_watch *w, const struct ut_gate *g, unsigned int input,
                          const struct ut_gate_tag *tag, uint64_t at);
/* A communication has ended with this result of its poll function. */
void ut_watch_gate_end(struct ut_watch *w, const struct ut_gate *g, int rc);

/*
 * Within the room
 */

/* The number of an arrow between processes: both ends make it of what both know. */
static inline uint64_t ut_watch_mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15ull;
    return h ^ h >> 29;
}

/* gates.c: barriers that are under way at the end */
void ut_watch_end_gates(struct ut_watch *w);

/* stats.c */
/* What counted is added to `into`: of one that is freed, and of one with the same id. */
void ut_stats_add(struct ut_watch *into, const struct ut_watch *w);
/* Prints one VCQ with its peers and gates to `out`. */
void ut_stats_print(FILE *out, const struct ut_watch *w, uint32_t rank);
struct ut_watch_peer *ut_watch_find_peer(struct ut_watch *w, utofu_vcq_id_t id);

/* trace.c */
enum ut_watch_what {
    UT_EVENT_OP,       /* a communication; flow: its message's; since: until complete */
    UT_EVENT_ARRIVAL,  /* flow: the message's */
    UT_EVENT_WAIT,     /* the program polls in vain */
    UT_EVENT_GATE,     /* a slice of a gate */
    UT_EVENT_FLOW_OUT, /* an arrow begins, or ends, in the slice around it */
    UT_EVENT_FLOW_IN,
    UT_EVENT_ARROW, /* within a process: from `cause` on */
    UT_EVENT_NAME,  /* of a track; kind: below */
};
struct ut_watch_event {
    uint8_t what;
    uint8_t
        kind; /* enum ut_watch_kind; of an arrival: enum utofu_mrq_type; of a gate: see trace.c */
    uint8_t edata;
    uint8_t sps;
    int16_t rc;
    bool unfinished;
    uint32_t bytes;
    uint32_t track;
    int64_t rank;        /* the other one's; -1: not known */
    uint64_t at, length; /* ns */
    uint64_t done;       /* OP: when it was complete, later than it returned; else 0 */
    uint64_t flow;       /* 0: none */
    uint64_t cause;      /* when what led to it arrived; 0: nothing */
    uint64_t peer;       /* VCQ or VBG id */
};
enum { UT_NAME_FREE, UT_NAME_SESSION, UT_NAME_GATE };
enum ut_watch_gate_slice {
    UT_SLICE_SIGNAL,
    UT_SLICE_PACKET,
    UT_SLICE_START,
    UT_SLICE_RELAY,
    UT_SLICE_RESULT,
    UT_SLICE_BARRIER,
};
enum {
    UT_WATCH_EVENTS = 4096,         /* in a buffer */
    UT_WATCH_GATE_TRACKS = 1000000, /* numbers of the gates' tracks begin here */
};

/* Makes the file of this rank; 0 or a negative errno. `path` has room for PATH_MAX bytes. */
int ut_trace_open(const char *pattern, const struct ut_job_info *job, uint64_t host, char *path);
/* The next event, cleared but for its track and time; NULL: none any more. */
struct ut_watch_event *ut_trace_event(struct ut_watch *w, enum ut_watch_what what, uint64_t at);
struct ut_watch_event *ut_trace_buffer(void);
void ut_trace_free(struct ut_watch_event *events);
void ut_trace_write(const struct ut_watch_event *events, uint32_t count);
void ut_trace_flush(struct ut_watch *w);
void ut_trace_close(void);

#endif
