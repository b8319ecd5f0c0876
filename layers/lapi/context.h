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
    LA_NUM_OPS = 255,     /* struct lc_op: uTofu communications in flight; EDATA is the index */
    LA_EDATA_NO_OP = 255, /* EDATA of a communication whose completion nobody waits for */
    LA_RECORD_OP_RESERVE = 32,    /* ops that records and assist puts leave free for others */
    LA_HANDLER_REQ_RESERVE = 256, /* requests that the program leaves free for handlers */
    LA_MIN_REQS_PER_HANDLER = 32, /* no message is handled while fewer requests are free */
    LA_MAX_NOTICES_DUE = 64,      /* records handled before their notices, at most */
    LA_NUM_INLINE_BUFFERS = 64,   /* buffers for inline records */
    LA_INLINE_TCQ_PERIOD = 16,    /* inline records from one TCQ notice to the next */
    LA_CODE_CACHE_SIZE = 64,      /* entries of the cache of addresses known to be code */
    LA_GONE_SIZE = 64,            /* words in which other tasks announce gone ones */
    LA_NUM_REGIONS = 64,          /* entries of the registration cache */
};

/* Calls from lower files to higher files; start.c has the table. */
struct la_upcalls {
    /* From net.c: a put of another task has arrived. put_end: STADD one past its last byte. */
    void (*put_arrived)(utofu_stadd_t put_end);
    /* From net.c: a communication reports that the task is unreachable. */
    void (*peer_unreachable)(uint32_t rank, const char *why);
    /* From watch.c: the task has ended; no message to or from it completes any more. */
    void (*peer_gone)(uint32_t rank);
    /* From send.c: a call waits for room; `idle_count` as in la_progress_or_wait(). */
    void (*progress)(uint32_t *idle_count);
};

/* A registered region: an entry of the registration cache. If all entries are in use, an extra
 * region is allocated with malloc(), and is deregistered by its last user. */
struct la_region {
    uintptr_t address;
    uint64_t size;         /* 0: this entry is free */
    uint64_t mapping_hash; /* hash_mappings() at registration; 0: the kernel cannot tell */
    uint64_t last_use;     /* value of la.rcache.use_clock */
    utofu_stadd_t stadd;   /* of address */
    uint32_t refcount;     /* messages that use the region */
    bool writable;         /* registered for writing */
    bool evict_after_use;  /* the last user deregisters it; no new users */
    bool mapping_changed;  /* since registration */
};

struct la_req;
/* A task that this task communicates with. */
struct la_peer {
    uint32_t rank;
    uint16_t lane;           /* index, at the peer, of the lane for records of this task */
    bool freed_read_pending; /* a get into lane_freed is in flight */
    bool has_ticket;         /* `ticket` is valid and unused */
    bool gone;               /* the task has ended or cannot be reached */
    bool purged;             /* LAPI_Purge_totask() was called */
    bool queued;             /* in la.send.waiting */
    bool same_node;          /* the task is on the node of this task */
    uint32_t fence;          /* value of lane_freed that a fence waits for */
    utofu_vcq_id_t id;       /* of the VCQ of the peer */
    /* Both count slots of the lane since its first use; modulo the size of the lane, they are
     * indices. lane_used: one past the last slot that this task has used. lane_freed: slots that
     * are free again, when this task last read la_control_words.freed. */
    uint64_t lane_used, lane_freed;
    union {
        uint64_t ticket;          /* shared lane: number of the slot for the next record */
        utofu_stadd_t lane_stadd; /* private lane: of its first slot */
    };
    /* Requests that wait for slots. Those of handlers are sent first. */
    STAILQ_HEAD(la_req_queue, la_req) handler_queue;
    struct la_req_queue program_queue;
    SLIST_ENTRY(la_peer) next; /* in la.send.waiting */
};
_Static_assert(sizeof(struct la_peer) + 16 + 3 * sizeof(void *) <= 128, "bytes for a task in use");

/* A message that this task sends. Members with a name of struct la_record become those of the
 * record. */
struct la_req {
    uint8_t kind, flags; /* enum la_kind; LA_WANTS_CMPL... */
    bool used;           /* not free */
    bool queued;         /* waits for a slot */
    bool cancelled;      /* not sent when its turn comes */
    bool by_handler;     /* a handler sends the message */
    bool lightweight;    /* the program may reuse its memory when the call returns */
    uint16_t index;      /* in la.requests.reqs */
    uint16_t uhdr_len, rmw_op;
    uint32_t rank;   /* of the target */
    uint64_t serial; /* of the message; another value: the struct was reused */
    uint64_t tgt_addr;
    const void *uhdr, *data;
    union {
        uint64_t total_len, compare;
    };
    union {
        uint64_t operand, list_size;
    };
    uint64_t tgt_cntr;
    lapi_cntr_t *org_cntr, *cmpl_cntr;
    void *copy; /* malloc'ed copy of uhdr and data, or of the lists and data of vectors; or NULL */
    scompl_hndlr_t *shdlr; /* of LAPI_Xfer(): send handler, or completion handler of a get */
    compl_hndlr_t *chndlr;
    void *handler_arg;
    void *result;              /* destination of a get, or of the old value */
    struct la_region *region;  /* registration of the data, or of the result; or NULL */
    utofu_stadd_t stadd;       /* of the data, or of the result */
    STAILQ_ENTRY(la_req) next; /* in a queue of its peer */
    /* For LA_ASSIST, once the target has requested assistance: */
    bool in_assist_list;
    bool assist_failed;  /* one of the puts failed */
    uint32_t chunks_put; /* by this task */
    struct la_req *next_assist;
};

/* A work item of the completion-handler thread. */
struct la_work {
    void (*run)(struct la_work *work);
    STAILQ_ENTRY(la_work) next;
};

/* An incomplete message of another task. */
struct la_incoming {
    bool used;                    /* not free */
    struct la_record rec;         /* copy of the header of the record */
    uint8_t *buf;                 /* destination; of a get: source */
    uint8_t *temp_buf;            /* equals buf, if the layer has allocated it */
    const lapi_vec_t *vec;        /* where the header handler wants the data of LA_VECTOR */
    bool puts_data;               /* to the origin, for a get; false: fetches data */
    struct la_region *region;     /* registration of buf, or NULL */
    utofu_stadd_t stadd;          /* of buf */
    uint64_t bytes_started;       /* bytes whose gets or puts have started */
    uint32_t fragments_in_flight; /* gets or puts that have not ended */
    int status;                   /* LAPI_ERR_*, or 0 */
    bool is_pending;              /* in la.incoming.pending */
    bool origin_may_assist;       /* the origin may put some of the chunks */
    bool all_claimed;             /* all chunks are claimed */
    bool stadd_updated;           /* rec.org_stadd was replaced by the new address */
    uint32_t chunks_claimed, chunks_by_origin; /* claimed by this task; put by the origin */
    lapi_ret_flags_t ret_flags; /* from the header handler, as are handler and user_info */
    compl_hndlr_t *handler;     /* completion handler, or NULL */
    void *user_info;
    struct la_work work;          /* runs the completion handler */
    LIST_ENTRY(la_incoming) next; /* in la.incoming.pending */
};

/* The state of each file. */
struct la_lock {
    uint32_t word;          /* 1: locked */
    uint32_t depth;         /* levels of recursion */
    uint32_t program_depth; /* part of depth: locks of the program (LAPI_Util()) */
    const void *owner;      /* an address that differs in each thread, or NULL */
    uint32_t waiters;       /* threads that wait for the lock; atomic */
    uint32_t served;        /* number of waits that ended with the lock taken; atomic */
};

struct la_errors {
    LAPI_err_hndlr *handler;
    uint64_t num_failures; /* failed messages of this task, so far */
    uint64_t num_returned; /* of these, those that a waiting call has returned */
    int last_code;         /* of the last failure */
    struct la_report {
        int code;
        uint32_t rank;
    } * reports; /* queue for the error handler */
    uint32_t num_reports, max_reports;
};

struct la_cmpl_thread {
    pthread_mutex_t mutex; /* protects work_queued, queue and stop */
    pthread_cond_t work_queued;
    STAILQ_HEAD(la_work_queue, la_work) queue;
    bool stop;
    struct lc_thread thread;
    bool running;
    int unfinished;       /* atomic: queued and running handlers */
    int blocked_handlers; /* handlers inside a call that waits */
};

struct la_net {
    struct lc_port port;
    uint8_t (*inline_buffers)[LA_CACHE_LINE]; /* behind the bounce buffers */
    uint64_t inline_posted;                   /* inline records put */
    uint64_t inline_sent;                     /* inline records whose buffers are free again */
    /* Arguments of TCQ notices: the value of inline_sent when the notice arrives. */
    uint64_t tcq_marks[LA_NUM_INLINE_BUFFERS / LA_INLINE_TCQ_PERIOD];
};

/* The registered memory that peers write to. */
struct la_control {
    struct lc_control base; /* its registration, and a cache of those of peers */
    struct la_control_words *words;
    uint8_t (*inbox)[LA_SLOT_SIZE];
    struct la_reply_area *replies; /* per request */
    uint64_t *assist_reports;      /* index as in la.incoming.entries */
};

struct la_watch {
    int num_gone;   /* tasks that are gone: ended or unreachable */
    uint64_t *gone; /* a bit for each task */
    struct lc_probe probe;
    uint32_t num_probes; /* sent so far */
};

struct la_peers {
    struct lc_table table;       /* entries: struct la_peer */
    uint32_t private_lane_limit; /* origins that get a private lane at a target: LAPI_LANES */
};

struct la_rcache {
    struct la_region regions[LA_NUM_REGIONS];
    uint64_t use_clock;    /* uses so far, to find the least recently used region */
    uint64_t unused_bytes; /* of cached regions without users */
    int maps_fd;           /* of /proc/self/maps, or -1 */
};

struct la_requests {
    struct la_req reqs[LA_NUM_REQS];
    uint16_t free_reqs[LA_NUM_REQS]; /* indices */
    uint32_t num_free;
    uint64_t last_serial;
    uint64_t local_completions; /* messages whose data have left */
    struct la_req *assist_list; /* requests with chunks that this task may put */
};

struct la_send {
    SLIST_HEAD(la_peer_list, la_peer) waiting; /* peers with requests that wait for slots */
};

struct la_incoming_state {
    struct la_incoming entries[LA_NUM_INCOMING];
    struct la_incoming *spare; /* one more, while a completion handler waits */
    /* messages with fragments to start, or whose fragments have ended */
    LIST_HEAD(la_incoming_list, la_incoming) pending;
    uint32_t used;       /* entries in use, with extra ones that were spare */
    uint32_t next_entry; /* where the search for a free entry begins */
};

/* A record is consumed when it was executed or queued for execution. */
struct la_inbox {
    uint64_t num_consumed[LA_PRIVATE_LANES];    /* in order; the next record has this number + 1 */
    uint32_t consumed_early[LA_PRIVATE_LANES];  /* bit n: slot n, out of order */
    uint64_t freed_early[LA_PRIVATE_LANES + 1]; /* bit n: slot n is free, out of order */
};

struct la_hdr_handlers {
    void *addresses[LAPI_ADDRTBL_SZ]; /* by the index of LAPI_Addr_set() */
    uintptr_t code_cache[LA_CODE_CACHE_SIZE];
};

struct la_dispatch_state {
    uint16_t ready[LA_NUM_SLOTS]; /* slots whose records wait for execution */
    uint32_t num_ready;
    /* Per slot: records that were consumed before their notices, which are still to come. */
    uint16_t notices_due[LA_NUM_SLOTS];
    uint32_t num_notices_due;
    uint64_t num_handled; /* records executed */
    unsigned int shuffle; /* tests only: LAPI_SHUFFLE. State of the random number generator that
                             shuffles the records; 0: handle records in order */
};

struct la_progress_state {
    uint32_t iterations; /* calls of la_progress() */
    uint32_t idle_count; /* those since one has found something */
};

struct la_wait_state {
    struct lc_thread thread;
    bool stop;                /* atomic */
    bool call_polls;          /* a call has polled since the thread last checked */
    uint32_t num_cores;       /* cores that this process may use */
    uint32_t waiting_threads; /* threads that wait in calls, atomic */
};

struct la_sync {
    uint64_t barrier_epoch;     /* number of barriers that this task has entered */
    struct lc_memory addresses; /* table, from the first LAPI_Address_init() until LAPI_Term() */
};

extern struct la {
    /* This process in its job. start.c and env.c write these members. */
    bool initialized, terminating;
    bool interrupts; /* INTERRUPT_SET of LAPI_Senv() */
    lapi_handle_t handle;
    struct lc_job job;
    int num_inits; /* successful calls of LAPI_Init() */
    int error_chk; /* ERROR_CHK of LAPI_Senv(); arguments are checked in any case */
    const struct la_upcalls *upcalls;
    /* True while a handler runs or records are handled. Each file that runs handlers sets it. */
    bool dispatching;
    struct la_lock lock;
    struct la_errors errors;
    struct la_cmpl_thread cmpl_thread;
    struct la_net net;
    struct la_control control;
    struct la_watch watch;
    struct la_peers peers;
    struct la_rcache rcache;
    struct la_requests requests;
    struct la_send send;
    struct la_incoming_state incoming;
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
