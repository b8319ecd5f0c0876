/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters (UTOFU_STATS) and the timeline (UTOFU_TRACE) of a process. Without both, a VCQ has no
 * struct ut_stats, and no function of this module is called. A VCQ with a struct ut_stats is a
 * counted VCQ. It is marked in fields that the engine tests anyway (ut_vcq.slow_path,
 * UT_DESC_COUNTED, mrq_alarm, spin_limit), so that its communications take the slow path.
 * Uses util, ident, bootstrap, process, peers, vcq, link, and the registry of providers. api,
 * engine and barrier report events with the functions below, with the lock of the VCQ held. Each
 * VCQ has its own counters and its own buffer of events, so recording takes no other lock.
 * stats.c and gates.c record events. totals.c adds up and prints. trace.c has buffers and the file.
 * region.c: regions of the program. record.c, summary.c: one summary for the job. dump.c: for
 * programs that hang.
 */
#ifndef UT_STATS_STATS_H
#define UT_STATS_STATS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "link/link.h"
#include "process/process.h"
#include "util/hash.h"
#include "vcq/vcq.h"

struct ut_stats_event;

/* The kinds of communications that are counted separately. */
enum ut_stats_kind { UT_STATS_PUT, UT_STATS_GET, UT_STATS_ARMW, UT_STATS_NOP, UT_STATS_KINDS };

/* The counters: totals.h. */
enum ut_counter {
#define COUNTER(id, ...) UT_COUNT_##id,
#include "stats/totals.h"
#undef COUNTER
    UT_NUM_COUNTERS
};

/* The objects that have a counter. */
enum {
    UT_COUNTS_VCQ = 1,
    UT_COUNTS_PEER = 2,
    UT_COUNTS_BOTH = UT_COUNTS_VCQ | UT_COUNTS_PEER,
    UT_COUNTS_GATE = 4,
    UT_COUNTS_JOB = 8
};
enum { UT_COUNTS_SUM, UT_COUNTS_TIME, UT_COUNTS_MOST };

struct ut_counter_entry {
    const char *line, *total; /* name in a line, and in a summary; NULL: not printed there */
    uint8_t holders, how;
};
extern const struct ut_counter_entry ut_counters[UT_NUM_COUNTERS];

struct ut_stats_counts {
    uint64_t n[UT_NUM_COUNTERS];
    uint64_t open; /* number of submitted communications that are not complete */
};

/* Communication of one VCQ with one remote VCQ. Kept after both are freed. */
struct ut_stats_peer {
    struct ut_stats_peer *next;
    utofu_vcq_id_t id;
    int64_t rank;    /* -1: unknown */
    int8_t provider; /* -1: not connected yet */
    struct ut_stats_counts counts;
    uint64_t blocked_since; /* 0: not blocked */
};

/* A communication in its TOQ slot. */
struct ut_stats_op {
    uint64_t submitted, started, returned, done; /* times in ns; 0: not reached */
    uint64_t cause;                              /* session mode: arrival time of the put whose SPS
                                                  * let the communication start; 0: none */
    uint32_t bytes;
    uint8_t kind;
    uint8_t edata;
};

/* A put that moved the schedule pointer. Kept until all descriptors that it allows are started. */
struct ut_stats_credit {
    uint64_t upto; /* total number of descriptors that this and earlier puts allow to start */
    uint64_t at;   /* ns */
};
enum { UT_STATS_CREDITS = 4096 };

/* A barrier gate. */
struct ut_stats_gate {
    struct ut_stats_counts counts;
    uint64_t begin; /* begin of the barrier communication in progress */
    bool named;     /* the name of the gate's track is written */
    uint8_t op;     /* operation of the barrier communication in progress, or of the last one */
};

/* The counters and events of one VCQ. When the VCQ is freed, its counters are added to those of
 * earlier VCQs with the same id. */
struct ut_stats {
    struct ut_stats *next; /* next in the list of freed VCQs */
    utofu_vcq_id_t id;
    struct ut_vcq_ident ident;
    uint16_t tni;
    bool session;
    bool closed;    /* no more events, because the process or the VCQ ends */
    uint32_t lives; /* number of VCQs that had this id */
    uint32_t track; /* number of the VCQ's own track in the timeline */
    struct ut_stats_counts counts;
    uint32_t most_mrq; /* MOST_IN_MRQ, which the engine raises; `counts` has earlier maxima */
    uint64_t empty_first, empty_last; /* the current row of empty polls; 0: none */
    struct ut_stats_peer *peers;
    struct ut_stats_peer unseen; /* for peers for which no memory is left */
    struct ut_stats_gate *gates; /* gates of the library's own VCQ of a TNI */

    struct ut_stats_op *ops;         /* one per TOQ slot */
    uint32_t starting;               /* the slot that is starting; UT_NO_SLOT: none */
    struct ut_stats_credit *credits; /* session mode: a ring */
    uint32_t credit_head, credit_tail;
    uint64_t consumed[2];          /* arrival times of the inputs of a gate */
    struct ut_stats_event *events; /* NULL: no timeline */
    uint32_t num_events;
};

/* Called once, when the rank is known. 0, or UTOFU_ERR_FATAL after an error line. */
int ut_stats_open(const struct ut_job_info *job, uint64_t host);
/* Is one summary for the job requested? See summary.h. */
bool ut_stats_is_for_job(void);
/* Starts to count a new VCQ, if counters or a timeline are requested. False: no memory. */
bool ut_stats_attach(struct ut_vcq *vcq);
void ut_stats_detach(struct ut_vcq *vcq);

/* The counters of the whole process, as one row of numbers. Times in us. */
void ut_stats_totals(uint64_t totals[UT_NUM_COUNTERS]);

/* The functions below are called for counted VCQs only. */

/* The n slots behind the tail are about to be submitted. */
void ut_stats_submit(struct ut_vcq *vcq, uint32_t n);
/* Called before and after a descriptor starts. */
void ut_stats_start(struct ut_vcq *vcq, const struct ut_slot *slot);
void ut_stats_started(struct ut_vcq *vcq, const struct ut_slot *slot);
/* The communication in the slot is complete. */
void ut_stats_done(struct ut_link *link, const struct ut_slot *slot);
/* More than half of the VCQ's receive buffers were filled at once. */
void ut_stats_srq_low(struct ut_vcq *vcq);
/* The provider could not accept a communication, or it must be repeated. */
void ut_stats_retry(struct ut_link *link);
/* A put was posted in parts. */
void ut_stats_parted(struct ut_link *link);
/* The connection was closed because the process has too many queue pairs. */
void ut_stats_conn_evicted(struct ut_link *link);
/* The connection is up. */
void ut_stats_connected(struct ut_link *link);
/* A communication may have been posted. If none waits any more, ends the blocked time. */
void ut_stats_check_blocked(struct ut_link *link);
void ut_stats_busy(struct ut_vcq *vcq);
/* A poll of the program was empty. */
void ut_stats_empty_poll(struct ut_vcq *vcq);

/* Used before and after the engine handles a message or an immediate of a peer. */
struct ut_stats_arrival {
    struct ut_link *link;
    uint64_t at;
    uint32_t mrq_tail;
    uint8_t type; /* as in enum utofu_mrq_type */
    uint8_t edata, sps;
    bool flow; /* the peer started the communication; false: the arrival is an answer */
};
void ut_stats_arrival_begins(struct ut_stats_arrival *arrival);
void ut_stats_arrival_ends(const struct ut_stats_arrival *arrival);
/* The provider reports a completion: ends a row of empty polls. */
void ut_stats_completion(struct ut_link *link);
/* The connection is up, and the peer's hello was processed. */
void ut_stats_up(struct ut_link *link);

/* Barrier gates of the TNI, by index. */
enum { UT_STATS_SIGNAL, UT_STATS_PACKET, UT_STATS_INPUTS };
/* A signal or a packet from one gate to another, in terms that both sides know. */
struct ut_stats_gate_message {
    uint8_t input; /* input of the receiver: UT_STATS_SIGNAL, UT_STATS_PACKET */
    utofu_vbg_id_t src, dst;
    uint32_t epoch; /* epoch of src */
    uint64_t number;
};
void ut_stats_gate_send(struct ut_stats *stats, unsigned int gate,
                        const struct ut_stats_gate_message *hop);
/* All outputs are sent: a start gate was started, or a relay gate has fired. */
void ut_stats_gate_sent(struct ut_stats *stats, unsigned int gate, uint8_t op, uint64_t began);
void ut_stats_gate_arrive(struct ut_stats *stats, unsigned int gate,
                          const struct ut_stats_gate_message *hop, uint64_t at);
/* A barrier communication has ended. `rc` is the return code of its poll function. */
void ut_stats_gate_end(struct ut_stats *stats, unsigned int gate, uint8_t op, int rc);

/*
 * Within the module
 */

/* The id of an arrow between processes. Both sides compute it from data that both know. */
static inline uint64_t ut_stats_mix(uint64_t h, uint64_t v)
{
    h = ut_hash_word(h, v);
    return h ^ h >> 29;
}

/* gates.c: records barriers that are under way at the end of the process */
void ut_stats_end_gates(struct ut_stats *stats);

/* totals.c */
/* False for a VCQ with an interrupted call: a signal handler has called exit(). */
bool ut_stats_lock(struct ut_vcq *vcq);
/* Adds the counters of a VCQ that is being freed to those of earlier VCQs with the same id. */
void ut_stats_keep(const struct ut_stats *stats);
/* Prints every VCQ with its peers and gates to `out`. */
void ut_stats_print(FILE *out, uint32_t rank);
struct ut_stats_peer *ut_stats_find_peer(struct ut_stats *stats, utofu_vcq_id_t id);

/* trace.c */
enum ut_stats_what {
    UT_EVENT_OP,       /* a communication; flow: that of its message */
    UT_EVENT_ARRIVAL,  /* flow: that of the message */
    UT_EVENT_WAIT,     /* a row of empty polls */
    UT_EVENT_GATE,     /* a slice on the track of a gate */
    UT_EVENT_FLOW_OUT, /* an arrow begins in the surrounding slice */
    UT_EVENT_FLOW_IN,  /* an arrow ends in the surrounding slice */
    UT_EVENT_ARROW,    /* an arrow within the process, from `cause` */
    UT_EVENT_NAME,     /* the name of a track; kind: UT_NAME_* */
    UT_EVENT_REGION,   /* a region of the program */
};
struct ut_stats_event {
    uint8_t what;
    uint8_t kind; /* enum ut_stats_kind; arrival: enum utofu_mrq_type; gate: see trace.c */
    uint8_t edata;
    uint8_t sps;
    int16_t rc;
    bool unfinished;
    uint32_t bytes;
    uint32_t track;
    int64_t rank;        /* rank of the peer; -1: unknown */
    uint64_t at, length; /* ns */
    uint64_t done;       /* OP: time of completion, if later than the return of the call; else 0 */
    uint64_t flow;       /* 0: none */
    uint64_t cause;      /* arrival time of the event that caused this one; 0: none */
    union {
        uint64_t peer;    /* VCQ or VBG id */
        const char *name; /* REGION: name that is never freed */
    };
};
enum { UT_NAME_FREE, UT_NAME_SESSION, UT_NAME_GATE, UT_NAME_REGIONS };
enum ut_stats_gate_slice {
    UT_SLICE_SIGNAL,
    UT_SLICE_PACKET,
    UT_SLICE_START,
    UT_SLICE_RELAY,
    UT_SLICE_RESULT,
    UT_SLICE_BARRIER,
};
enum {
    UT_STATS_EVENTS = 4096,           /* number of events per buffer */
    UT_STATS_GATE_TRACKS = 1000000,   /* first number of the gates' tracks */
    UT_STATS_REGION_TRACKS = 2000000, /* first number of the regions' tracks */
};

/* Creates the file of this rank. 0 or a negative errno; `why` is set if the file itself is wrong.
 * `path` has room for PATH_MAX bytes, `why` for UT_FILE_WHY. */
int ut_trace_open(const char *pattern, const struct ut_job_info *job, uint64_t host, char *path,
                  char *why);
/* Returns the next event, with type, track and time set, and all else cleared. NULL: no timeline.
 */
struct ut_stats_event *ut_trace_event(struct ut_stats *stats, enum ut_stats_what what, uint64_t at);
struct ut_stats_event *ut_trace_buffer(void);
void ut_trace_free(struct ut_stats_event *events);
void ut_trace_write(const struct ut_stats_event *events, uint32_t count);
void ut_trace_flush(struct ut_stats *stats);
void ut_trace_close(void);

#endif
