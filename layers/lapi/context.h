/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the layer: one struct, `la`. A member that is a struct belongs to the file with its
 * name, and only that file writes it (tests/lapi/owners.py). docs/design/lapi.md lists which file
 * may use which.
 */
#ifndef LA_CONTEXT_H
#define LA_CONTEXT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <utofu.h>

#include "../common/partners.h"
#include "../common/exchange.h"
#include "../common/memory.h"
#include "../common/idle.h"
#include "../common/ring.h"
#include "../common/table.h"
#include "lapi.h"
#include "wire.h"

#pragma GCC visibility push(hidden)

enum {
    LA_OPS = 255,           /* uTofu communications in flight; EDATA is their index */
    LA_NO_OP = 255,         /* EDATA of a communication whose completion nobody waits for */
    LA_RESERVED_OPS = 32,   /* ops that records must not use */
    LA_RESERVED_REQS = 256, /* requests reserved for handlers */
    LA_RESERVED_PER_HANDLER =
        32, /* requests reserved for the next handler; with fewer, no message is handled */
    LA_MAX_EARLY = 64,      /* records handled before their notices were polled, at most */
    LA_INLINE_BUFFERS = 64, /* buffers for inline records */
    LA_MARK_PERIOD = 16,    /* inline records from one TCQ notice to the next */
    LA_KNOWN_CODE = 64,     /* entries of the cache of checked function addresses */
    LA_GONE =
        64, /* entries of the table of tasks that are gone, indexed by rank modulo this number */
    LA_REGIONS = 64, /* entries of the registration cache */
};

/*
 * Calls from lower files to higher files; start.c has the table.
 */
struct la_upcalls {
    /* From net.c: a put of another task ends at this address. */
    void (*put_arrived)(utofu_stadd_t stadd);
    /* From net.c: a communication reports that the task is unreachable. */
    void (*peer_lost)(uint32_t rank, const char *why);
    /* From watch.c: the task has ended; no message to or from it completes any more. */
    void (*peer_gone)(uint32_t rank);
    /* From send.c: a call waits for room; `idle` as in la_progress_or_wait(). */
    void (*progress)(uint32_t *idle);
};

/*
 * Registrations, peers, requests and transfers
 */

struct la_region {
    uintptr_t address;
    uint64_t size; /* 0: this entry is free */
    uint64_t mapping;
    uint64_t used; /* time of the last use, for eviction */
    utofu_stadd_t stadd;
    uint32_t users;
    bool write;
    bool uncached; /* deregistered after its last use */
    bool outdated;
};

/* A message that this task sends. */
struct la_req;
/* A task that this task communicates with. */
struct la_peer {
    uint32_t rank;
    uint16_t lane;
    bool freed_read_pending; /* a read of `freed` is in flight */
    bool has_ticket, gone, purged, queued;
    bool same_node;
    uint32_t fence; /* value of `sent` that a fence waits for */
    utofu_vcq_id_t id;
    uint64_t sent, freed; /* own lane: records; shared lane: tickets */
    union {
        uint64_t ticket;     /* shared lane */
        utofu_stadd_t slots; /* own lane: address of its first slot */
    };
    /* [0]: requests of handlers, which are sent first; [1]: of the program */
    STAILQ_HEAD(la_req_queue, la_req) queue[2];
    SLIST_ENTRY(la_peer) next; /* in the list of peers that wait for slots */
};
_Static_assert(sizeof(struct la_peer) + 16 + 3 * sizeof(void *) <= 128, "bytes for a task in use");

struct la_req {
    uint8_t kind, flags;
    bool used, queued, cancelled, by_handler;
    bool light; /* the program may reuse its memory when the call returns */
    uint16_t index, uhdr_len, op;
    uint32_t rank;
    uint64_t serial;
    const void *uhdr, *data;
    uint64_t len, at, value;
    uint64_t tgt_cntr;
    lapi_cntr_t *org_cntr, *cmpl_cntr;
    void *copy; /* copy of uhdr and data */
    scompl_hndlr_t *shdlr;
    compl_hndlr_t *chndlr;
    void *info;   /* argument of the handler */
    void *result; /* destination of a get, or of the old value */
    struct la_region *reg;
    utofu_stadd_t stadd;
    STAILQ_ENTRY(la_req) next; /* in the queue of its peer */
    /* For LA_ASSIST, once the target has requested assistance: */
    bool assisting;     /* is in the list of requests that this task assists */
    bool assist_failed; /* one of the puts failed */
    uint32_t assisted;  /* number of pieces put */
    struct la_req *next_assist;
};

/* A work item of the completion-handler thread. */
struct la_work {
    void (*run)(struct la_work *job);
    STAILQ_ENTRY(la_work) next;
};

/* A message of another task that is not complete. */
struct la_transfer {
    bool used;
    struct la_record rec;
    uint8_t *buf;
    uint8_t *temp; /* equals buf, if the layer has allocated it */
    const lapi_vec_t *vec;
    uint64_t list_size; /* bytes of the list of pieces, which precedes the data of a vector get */
    bool puts_data;
    struct la_region *reg;
    utofu_stadd_t stadd;
    uint64_t started, in_flight;
    int status; /* LAPI_ERR_*, or 0 */
    bool listed;
    bool assisted_by_origin; /* the origin may put some of the pieces */
    bool all_claimed;        /* all pieces are claimed */
    bool has_new_stadd;      /* rec.stadd was replaced by a newer address */
    uint32_t moved,
        assisted; /* pieces that this task has claimed; pieces that the origin has put */
    lapi_ret_flags_t how;
    compl_hndlr_t *handler;
    void *user_info;
    struct la_work job; /* runs the completion handler */
    LIST_ENTRY(la_transfer) next;
};

/*
 * The state of each file
 */

struct la_lock {
    uint32_t word, depth;
    uint32_t program_depth; /* part of depth: locks taken by the program with the functions of
                               LAPI_Util() */
    const void *owner;
    uint32_t waiters, served; /* numbers of threads, atomic */
};

struct la_errors {
    LAPI_err_hndlr *handler;
    uint64_t failures,
        returned; /* number of failures; number of those that a waiting call has returned */
    int code;     /* of the last failure */
    struct la_report {
        int code;
        uint32_t rank;
    } * reports;
    uint32_t num_reports, max_reports;
    bool reporting;
};

struct la_cmpl_thread {
    pthread_mutex_t mutex; /* protects the four members below */
    pthread_cond_t more;
    STAILQ_HEAD(la_work_queue, la_work) queue;
    bool stop;
    struct lc_thread thread;
    bool runs;
    int unfinished; /* atomic: queued and running handlers */
    int waits;      /* calls of a completion handler that wait */
};

struct la_net {
    struct lc_port port;
    uint8_t (*inline_buffers)[LA_LINE]; /* behind the buffers of the ops */
    uint64_t inline_posted, inline_sent;
    uint64_t marks[LA_INLINE_BUFFERS /
                   LA_MARK_PERIOD]; /* value of inline_sent when the TCQ notice arrives */
};

/* The registered memory that peers write to. */
struct la_control_state {
    struct lc_control area;
    struct la_control *words;
    uint8_t (*inbox)[LA_SLOT];
    uint8_t (*replies)[LA_REPLY];
    uint64_t *assisted; /* one word for each of LA_TRANSFERS */
};

struct la_watch {
    int lost; /* number of tasks that are gone */
    struct lc_probe probe;
    uint32_t probes;
    uint64_t gone[LA_GONE]; /* same layout as in struct la_control */
};

struct la_peers {
    struct lc_table table; /* entries: struct la_peer */
    uint32_t max_lanes;
};

struct la_rcache {
    struct la_region rows[LA_REGIONS];
    uint64_t uses, idle_bytes;
    int maps; /* descriptor of /proc/self/maps, or -1 */
};

struct la_requests {
    struct la_req reqs[LA_REQS];
    uint16_t free_reqs[LA_REQS];
    uint32_t num_free;
    uint64_t serial; /* of the last request */
    uint64_t local_completions;
    struct la_req *assists;
};

struct la_send {
    SLIST_HEAD(la_peer_list, la_peer) waiting; /* peers with requests that wait for slots */
};

struct la_transfers {
    struct la_transfer slots[LA_TRANSFERS];
    struct la_transfer *spare;
    /* transfers with pieces to start, or whose pieces have ended */
    LIST_HEAD(la_transfer_list, la_transfer) pending;
    uint32_t used, next;
};

struct la_inbox {
    uint64_t done[LA_LANES + 1]; /* bit n: slot n of the lane is free, out of order */
    uint64_t next[LA_LANES];     /* number of the next record */
    uint32_t taken[LA_LANES];    /* bit n: the record of slot n arrived before its turn */
};

struct la_hdr_handlers {
    void *addresses[LAPI_ADDRTBL_SZ];
    uintptr_t known[LA_KNOWN_CODE];
};

struct la_dispatch_state {
    uint16_t arrived[LA_SLOTS];
    uint32_t num_arrived;
    /* Slots whose records were handled before their notices were polled. */
    uint16_t early[LA_SLOTS];
    uint32_t num_early;
    uint64_t arrivals;
    unsigned int shuffle; /* state of the random number generator; 0: handle records in order */
};

struct la_progress_state {
    uint32_t iterations, idle; /* counters of la_progress() */
};

struct la_wait_state {
    struct lc_thread thread;
    bool stop;                /* atomic */
    bool call_polls;          /* a call has polled since the thread last checked */
    uint32_t num_cores;       /* cores that this process may use */
    uint32_t waiting_threads; /* threads that wait in calls, atomic */
};

struct la_sync {
    uint64_t epoch;         /* number of barriers that this task has entered */
    struct lc_memory table; /* table of addresses, from the first exchange until LAPI_Term() */
};

extern struct la {
    /* This process in its job. start.c and env.c write these members. */
    bool running, leaving;
    bool interrupts;
    lapi_handle_t handle;
    struct lc_job job;
    int epoch;
    int error_chk; /* set by LAPI_Senv(); arguments are checked in any case */
    const struct la_upcalls *upcalls;
    /* True while a handler runs or records are handled. Each file that runs handlers sets it. */
    bool dispatching;
    struct la_lock lock;
    struct la_errors errors;
    struct la_cmpl_thread cmpl_thread;
    struct la_net net;
    struct la_control_state control;
    struct la_watch watch;
    struct la_peers peers;
    struct la_rcache rcache;
    struct la_requests requests;
    struct la_send send;
    struct la_transfers transfer;
    struct la_inbox inbox;
    struct la_hdr_handlers hdr_handlers;
    struct la_dispatch_state dispatch;
    struct la_progress_state progress;
    struct la_wait_state wait;
    struct la_sync sync;
} la;

#define la_log(...)           lc_log("lapi", la.job.log_rank, __VA_ARGS__)
#define la_check_rc(rc, call) lc_check_rc("lapi", la.job.log_rank, rc, call)

/* Increments a counter of the program, which any thread may change. */
static inline void la_cntr_increment(lapi_cntr_t *cntr)
{
    __atomic_fetch_add(&cntr->value, 1, __ATOMIC_RELEASE);
}

#pragma GCC visibility pop

#endif
