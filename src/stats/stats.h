/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters (UTOFU_STATS) and the timeline (UTOFU_TRACE) of a process. Without both, a VCQ has no
 * struct ut_stats, and no function of this module is called. A VCQ with a struct ut_stats is a
 * counted VCQ. It is marked in fields that the engine tests anyway (ut_vcq.slow_path,
 * UT_DESC_COUNTED, mrq_alarm, spin_limit), so that its communications take the slow path.
 * Uses util, ident, bootstrap, process, peers, vcq, link, and the registry of providers. api,
 * engine and barrier report events with the functions below, with the lock of the VCQ held. Each
 * VCQ has its own counters and its own buffer of events, so recording takes no other lock.
 * stats.c and gates.c record events. totals.c adds up and prints, with counters.c. timeline.c has
 * buffers and the file.
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
#include "stats/counters.h"
#include "stats/timeline.h"
#include "util/hash.h"
#include "vcq/vcq.h"

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
    uint64_t consumed[2];            /* arrival times of the inputs of a gate */
    struct ut_trace_buffer timeline; /* without memory: no timeline */
};

/* Called once, when the rank is known. 0, or UTOFU_ERR_FATAL after an error line. */
int ut_stats_open(const struct ut_job_info *job, uint64_t host);
/* Is one summary for the job requested? See summary.h. */
bool ut_stats_is_for_job(void);
/* Starts to count a new VCQ, if counters or a timeline are requested. False: no memory. */
bool ut_stats_attach(struct ut_vcq *vcq);
void ut_stats_detach(struct ut_vcq *vcq);

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

/* The next event of the VCQ; NULL: no timeline. */
static inline struct ut_stats_event *ut_stats_event(struct ut_stats *stats, enum ut_stats_what what,
                                                    uint64_t at)
{
    if (!stats->timeline.events || stats->closed)
        return NULL;
    return ut_trace_event(&stats->timeline, what, stats->track, at);
}

#endif
