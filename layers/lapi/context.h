/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the layer knows: one struct, `la`. A member that is a struct belongs to the file with its
 * name, which alone writes it (tests/lapi/owners.py); others read it. Functions are in the headers
 * of their groups, so that a file sees those of the groups below it and no others;
 * docs/design/lapi.md has the order.
 */
#ifndef LA_CONTEXT_H
#define LA_CONTEXT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <utofu.h>

#include "../common/fingers.h"
#include "../common/exchange.h"
#include "../common/memory.h"
#include "../common/idle.h"
#include "../common/ring.h"
#include "../common/table.h"
#include "lapi.h"
#include "wire.h"

#pragma GCC visibility push(hidden)

enum {
    LA_OPS = 255,           /* uTofu communications in flight: EDATA is their number */
    LA_NO_OP = 255,         /* EDATA of one whose end nobody waits for */
    LA_KEEP_OPS = 32,       /* not for records */
    LA_KEEP_REQS = 256,     /* of these, for handlers */
    LA_KEEP_SOME = 32,      /* of these, for the next handler: or no message is handled */
    LA_MAX_EARLY = 64,      /* records that are seen before their notices */
    LA_INLINE_BUFFERS = 64, /* buffers for records of one line */
    LA_MARK_PERIOD = 16,    /* lines, of which the last one has a TCQ notice */
    LA_KNOWN_CODE = 64,     /* addresses of functions, by some of their bits */
    LA_GONE = 64,           /* numbers modulo which tasks that are gone are noted */
    LA_REGIONS = 64,        /* of the program, that are registered */
};

/*
 * What lower files have to say to higher ones: start.c has the table.
 */
struct la_upcalls {
    /* net.c: another task has put something here, up to this address */
    void (*put_arrived)(utofu_stadd_t stadd);
    /* net.c: a communication says that the task cannot be reached */
    void (*peer_lost)(uint32_t rank, const char *why);
    /* watch.c: nothing goes to the task, nor comes from it, any more */
    void (*peer_gone)(uint32_t rank);
    /* send.c: a call waits for room; idle as for la_progress_or_wait() */
    void (*progress)(uint32_t *idle);
};

/*
 * What is under way.
 */

struct la_region {
    uintptr_t address;
    uint64_t size; /* 0: the row is free */
    uint64_t mapping;
    uint64_t used; /* when, for the choice of what is given up */
    utofu_stadd_t stadd;
    uint32_t users;
    bool write;
    bool uncached; /* not kept */
    bool outdated;
};

/* A message of this task. */
struct la_req;
/* A task that is used. */
struct la_peer {
    uint32_t rank;
    uint16_t lane;
    bool freed_read_pending; /* how many slots are free again */
    bool has_ticket, gone, purged, queued;
    bool same_node; /* on this host */
    uint32_t fence; /* what a fence waits for, of sent */
    utofu_vcq_id_t id;
    uint64_t sent, freed; /* of an own lane: records; of the shared one: tickets */
    union {
        uint64_t ticket;     /* of the shared lane */
        utofu_stadd_t slots; /* an own lane */
    };
    struct la_req *first[2], *last[2]; /* of handlers, which go first; of the program */
    struct la_peer *next;              /* of those that wait for room */
};
_Static_assert(sizeof(struct la_peer) + 16 + 3 * sizeof(void *) <= 128, "bytes for a task in use");

struct la_req {
    uint8_t kind, flags;
    bool used, queued, cancelled, by_handler;
    bool light; /* the program uses its memory again when the call returns */
    uint16_t index, uhdr_len, op;
    uint32_t rank;
    uint64_t serial;
    const void *uhdr, *data;
    uint64_t len, at, value;
    uint64_t tgt_cntr;
    lapi_cntr_t *org_cntr, *cmpl_cntr;
    void *copy; /* of uhdr and data */
    scompl_hndlr_t *shdlr;
    compl_hndlr_t *chndlr;
    void *info;   /* of the handler */
    void *result; /* of a get, of an old value */
    struct la_region *reg;
    utofu_stadd_t stadd;
    struct la_req *next;
    /* LA_ASSIST, once the target has asked */
    bool assisting;     /* is in the list of those that do */
    bool assist_failed; /* a put of it */
    uint32_t assisted;  /* pieces */
    struct la_req *next_assist;
};

/* Something that the thread for completion handlers does. */
struct la_work {
    void (*run)(struct la_work *job);
    struct la_work *next;
};

/* A message of another task of which something is still to be done. */
struct la_transfer {
    bool used;
    struct la_record rec;
    uint8_t *buf;
    uint8_t *temp; /* the same, if it is not the program's */
    const lapi_vec_t *vec;
    uint64_t list_size; /* of a get: of the list, which the data are behind */
    bool puts_data;
    struct la_region *reg;
    utofu_stadd_t stadd;
    uint64_t started, in_flight;
    int status; /* LAPI_ERR_* */
    bool listed;
    bool assisted_by_origin;  /* with the origin: */
    bool all_claimed;         /* its pieces */
    bool has_new_stadd;       /* rec.stadd is not the record's any more */
    uint32_t moved, assisted; /* pieces that this task has claimed; that the origin has brought */
    lapi_ret_flags_t how;
    compl_hndlr_t *handler;
    void *user_info;
    struct la_work job; /* the handler, for its thread */
    struct la_transfer *next;
};

/*
 * What the files know.
 */

struct la_lock {
    uint32_t word, depth;
    uint32_t program_depth; /* of depth: taken by the program, with the functions of LAPI_Util() */
    const void *owner;
    uint32_t waiters, served; /* threads; atomic */
};

struct la_errors {
    LAPI_err_hndlr *handler;
    uint64_t failures, returned; /* errors; how many of them calls that wait have returned */
    int code;                    /* of the last one */
    struct la_report {
        int code;
        uint32_t rank;
    } * reports;
    uint32_t num_reports, max_reports;
    bool reporting;
};

struct la_cmpl_thread {
    pthread_mutex_t mutex; /* for the four below */
    pthread_cond_t more;
    struct la_work *first, *last;
    bool stop;
    struct lc_thread thread;
    bool runs;
    int unfinished; /* atomic */
    int waits;      /* calls of a handler that wait */
};

struct la_net {
    struct lc_port port;
    uint8_t (*inline_buffers)[LA_LINE]; /* behind the ops' buffers */
    uint64_t inline_posted, inline_sent;
    uint64_t
        marks[LA_INLINE_BUFFERS / LA_MARK_PERIOD]; /* what inline_sent is when their notices come */
};

/* The memory that peers write to. */
struct la_own {
    struct lc_control area;
    struct la_control *words;
    uint8_t (*inbox)[LA_SLOT];
    uint8_t (*replies)[LA_REPLY];
    uint64_t *assisted; /* one for each of LA_TRANSFERS */
};

struct la_watch {
    int lost; /* tasks that are gone */
    struct lc_probe probe;
    uint32_t probes;
    uint64_t gone[LA_GONE]; /* as in struct la_control */
};

struct la_peers {
    struct lc_table table; /* struct la_peer */
    uint32_t max_lanes;
};

struct la_rcache {
    struct la_region rows[LA_REGIONS];
    uint64_t uses, idle_bytes;
    int maps; /* /proc/self/maps, or -1 */
};

struct la_requests {
    struct la_req reqs[LA_REQS];
    uint16_t free_reqs[LA_REQS];
    uint32_t num_free;
    uint64_t serial; /* of the last one */
    uint64_t local_completions;
    struct la_req *assists;
};

struct la_send {
    struct la_peer *waiting; /* for room */
};

struct la_transfers {
    struct la_transfer slots[LA_TRANSFERS];
    struct la_transfer *spare;
    struct la_transfer *pending; /* pieces are to be started, or they have ended */
    uint32_t used, next;
};

struct la_inbox {
    uint64_t done[LA_LANES + 1]; /* bit n: slot freed + n modulo the slots is free again */
    uint64_t next[LA_LANES];     /* the record that is expected */
    uint32_t taken[LA_LANES];    /* bit n: slot n, which is one behind that */
};

struct la_hdr_handlers {
    void *addresses[LAPI_ADDRTBL_SZ];
    uintptr_t known[LA_KNOWN_CODE];
};

struct la_dispatcher {
    uint16_t arrived[LA_SLOTS];
    uint32_t num_arrived;
    uint16_t early[LA_SLOTS]; /* records that were seen, and not their notices */
    uint32_t num_early;
    uint64_t arrivals;
    unsigned int shuffle; /* state of random numbers; 0: in order */
};

struct la_turns {
    uint32_t iterations, idle; /* of la_progress() */
};

struct la_waits {
    struct lc_thread thread;
    bool stop;                /* atomic */
    bool call_polls;          /* since the thread looked */
    uint32_t num_cores;       /* for this process */
    uint32_t waiting_threads; /* threads in calls that wait; atomic */
};

struct la_sync {
    uint64_t epoch;         /* barriers of this task */
    struct lc_memory table; /* of addresses, from the first exchange until LAPI_Term() */
};

extern struct la {
    /* This process in its job: start.c and env.c write these. */
    bool running, leaving;
    bool interrupts;
    lapi_handle_t handle;
    struct lc_job job;
    int epoch;
    int error_chk; /* what LAPI_Senv() has set; arguments are always checked */
    const struct la_upcalls *upcalls;
    /* A handler is running, or messages are being handled: who runs handlers sets it. */
    bool dispatching;
    struct la_lock lock;
    struct la_errors errors;
    struct la_cmpl_thread cmpl_thread;
    struct la_net net;
    struct la_own control;
    struct la_watch watch;
    struct la_peers peers;
    struct la_rcache rcache;
    struct la_requests requests;
    struct la_send send;
    struct la_transfers transfer;
    struct la_inbox inbox;
    struct la_hdr_handlers hdr_handlers;
    struct la_dispatcher dispatch;
    struct la_turns progress;
    struct la_waits wait;
    struct la_sync sync;
} la;

#pragma GCC visibility pop

#endif
