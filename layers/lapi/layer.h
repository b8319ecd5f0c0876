/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the modules of the LAPI layer share. docs/lapi.md describes the design.
 *
 * The lock: everything below LAPI_*() runs with it held, in a call of the program, in the thread
 * for interrupts, or in that for completion handlers. LAPI_*() take it with la_enter(), la_*()
 * expect it unless they say so. Handlers in the dispatcher run with it held, so it is recursive.
 * The program may hold it too (LAPI_Util()): a call that waits gives all of it away meanwhile.
 */
#ifndef LA_LAYER_H
#define LA_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <utofu.h>

#include "../common/common.h"
#include "lapi.h"

#pragma GCC visibility push(hidden)

enum {
    LA_SLOT = 2048,       /* bytes of a record: header, user header, data */
    LA_MAX_UHDR = 1408,   /* the rest is for data */
    LA_LANES = 32,        /* each for one origin, those that come first */
    LA_LANE_SLOTS = 16,   /* of each */
    LA_SHARED_SLOTS = 64, /* of the last lane, for all others */
    LA_SLOTS = LA_LANES * LA_LANE_SLOTS + LA_SHARED_SLOTS,
    LA_OPS = 255,       /* uTofu communications in flight: EDATA is their number */
    LA_NO_OP = 255,     /* EDATA of one whose end nobody waits for */
    LA_KEEP_OPS = 32,   /* not for records */
    LA_REQS = 1024,     /* messages of this task that wait for something */
    LA_KEEP_REQS = 256, /* of these, for handlers */
    LA_KEEP_SOME = 32,  /* of these, for the next handler: or no message is handled */
    LA_REPLY = 128,     /* bytes that a target may write for one of them */
    LA_MOST_EARLY = 64, /* records that are seen before their notices */
    LA_INS = 256,       /* messages of others of which something is still to be done */
    LA_COMP_WORK = 5,   /* component ids of the VCQs */
    LA_COMP_MEET = 4,
    LA_STAG = 0, /* of the memory of control.c */
    LA_STAG_TABLE = 1,
};

/*
 * start.c: this process in its job.
 */
extern struct la {
    uint32_t lock, depth;
    uint32_t held; /* of depth: taken by the program, with the functions of LAPI_Util() */
    const void *owner;
    bool running, leaving;
    bool interrupts;
    bool dispatching; /* a handler is running, or messages are being handled */
    lapi_handle_t handle;
    uint32_t rank, procs, num_fingers;
    int epoch;
    int error_chk; /* what LAPI_Senv() has set; arguments are always checked */
    LAPI_err_hndlr *err_hndlr;
    uint64_t losses, told; /* errors; how many of them were returned by calls that wait */
    int code;              /* of the last one */
    int lost;              /* tasks that are gone */
    uint64_t departures, arrivals;
    uint32_t free_ops, free_reqs, used_ins; /* of LA_OPS, LA_REQS and LA_INS */
    uint32_t early;                         /* records that were seen, and not their notices */
    uint32_t waiters;                       /* for the lock; atomic */
} la;

/*
 * lock.c
 */
bool la_enter(lapi_handle_t hndl); /* false: it is not valid, and the lock is not held */
void la_take(void);
void la_leave(void);
void la_leave_all(void); /* also what the program has taken */
bool la_try(void);
/* All of the lock, given away and taken back as it was. */
struct la_share {
    uint32_t depth, held;
};
struct la_share la_give_away(void);
void la_take_back(struct la_share share);
void la_let_others(void); /* that wait for it have it */
static inline void la_give_way(void)
{
    if (__builtin_expect(__atomic_load_n(&la.waiters, __ATOMIC_RELAXED) != 0, 0))
        la_let_others();
}
bool la_alone(void); /* not in a handler: may wait */
lapi_thread_func_t la_lock_functions(void);

/*
 * log.c
 */
__attribute__((format(printf, 1, 2))) void la_log(const char *format, ...);
/* Of a call that uTofu does not refuse, as what it gets is this layer's own: else a line says so.
 */
void la_expect(int rc, const char *call);
enum { LA_TEXT = 96 }; /* of what is under way, for lines of what waits (../common/patience.h) */

/*
 * net.c: the VCQ, and the communications on it.
 */
struct la_op {
    void (*done)(struct la_op *op, int rc, uint64_t old_value);
    void *arg;
    uint64_t n;
    uint32_t rank; /* of the peer */
    uint8_t index;
    bool busy;
};
bool la_net_setup(void);
void la_net_close(void);
utofu_vcq_hdl_t la_vcq(void);
utofu_vcq_id_t la_vcq_id(void);
/* keep: leave so many to others. NULL: none is free at the moment. */
struct la_op *la_op_take(uint32_t keep, uint32_t rank,
                         void (*done)(struct la_op *op, int rc, uint64_t old_value), void *arg);
void la_op_drop(struct la_op *op); /* it was not started */
/* A line, which needs no op: nobody waits for its end. NULL: none is free at the moment. The one
 * that was taken last is put with a remote notice, its last word behind all others. */
void *la_line_take(void);
void la_line_put(utofu_vcq_id_t id, utofu_stadd_t rmt);
void *la_op_bounce(struct la_op *op); /* LA_SLOT bytes */
utofu_stadd_t la_op_bounce_stadd(const struct la_op *op);
/* They start the op's communication; where that is refused it is done, with an error. */
void la_op_put(struct la_op *op, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
               size_t size, unsigned long int flags);
/* Behind what was put there before and may be under way. */
void la_op_put8(struct la_op *op, utofu_vcq_id_t id, uint64_t value, utofu_stadd_t rmt);
void la_op_get(struct la_op *op, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
               size_t size);
/* Nobody waits for its end, but the peer gets a notice. */
void la_put8_notice(utofu_vcq_id_t id, uint64_t value, utofu_stadd_t rmt);
/* They wait for the end: what they return is a code of uTofu's. */
int la_get_now(uint32_t rank, utofu_vcq_id_t id, void *to, utofu_stadd_t rmt, size_t size);
int la_get_to(uint32_t rank, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt, size_t size);
int la_add_now(uint32_t rank, utofu_vcq_id_t id, utofu_stadd_t rmt, uint64_t *old_value);
int la_set_now(utofu_stadd_t own, uint64_t value); /* a word of this task that others add to */
bool la_net_poll(void);                            /* true: something has happened */
/* "2 communications are under way, one of them to task 3" */
const char *la_net_text(char text[LA_TEXT]);

/*
 * control.c: the memory that peers write to and read of this process.
 */
struct la_control {
    uint64_t fingers[32];         /* VCQ ids of the processes 1, 2, 4, 8... ranks ahead */
    uint64_t sync[32];            /* the epoch in which the process 2^n ranks behind has come */
    uint64_t gone[64];            /* 1 + a rank that is gone, at its number modulo 64 */
    uint64_t lanes;               /* how many were asked for */
    uint64_t tail;                /* tickets of the shared lane that were given out */
    uint64_t freed[LA_LANES + 1]; /* slots of the lane that were used and are free again */
};
/*
 * What a common message needs comes first, and with few data behind it fills a line, whose last
 * word the target sees as soon as it is there: the number of the record in its lane. Others have 0
 * there, and are complete when their notice comes.
 */
struct la_record {
    uint8_t kind, flags;
    uint16_t uhdr_len;
    uint32_t rank; /* the origin */
    uint64_t at;   /* header handler, address */
    uint64_t tgt_cntr;
    uint32_t size;     /* of the data in the record */
    uint16_t req, op;  /* which message of the origin it is */
    utofu_vcq_id_t id; /* LA_LONG: the origin's VCQ */
    uint64_t len;
    utofu_stadd_t stadd; /* of the origin's memory, where the data is not in the record */
    uint64_t number;
    uint64_t value; /* LA_LONG */
};
enum {
    LA_SHORT_RECORD = 32, /* of one line */
    LA_LINE_DATA = 24,
    LA_LINE = 64, /* others have their data behind it, and those that are LA_LONG, a word later */
    LA_LONG_RECORD = 72,
    LA_PAYLOAD = LA_SLOT - LA_LONG_RECORD,
    LA_SMALL_GET = LA_REPLY - 16
};
_Static_assert(sizeof(struct la_record) == LA_LONG_RECORD &&
                   offsetof(struct la_record, id) == LA_SHORT_RECORD &&
                   offsetof(struct la_record, number) == LA_SHORT_RECORD + LA_LINE_DATA &&
                   offsetof(struct la_record, value) == LA_LINE,
               "no gaps");
_Static_assert((int)LA_MAX_UHDR <= (int)LA_PAYLOAD, "a user header fits");

extern struct la_control *la_control;
extern uint8_t (*la_inbox)[LA_SLOT];
extern uint8_t (*la_replies)[LA_REPLY];
extern uint64_t *la_helped; /* one for each of LA_INS */
bool la_control_setup(void);
void la_control_close(void);
utofu_stadd_t la_control_stadd(utofu_vcq_id_t id, uint64_t offset);
utofu_stadd_t la_slot_stadd(utofu_vcq_id_t id, uint32_t slot);
utofu_stadd_t la_reply_stadd(utofu_vcq_id_t id, uint32_t req, uint32_t offset);
utofu_stadd_t la_helped_stadd(utofu_vcq_id_t id, uint32_t in);
void la_control_arrived(utofu_stadd_t stadd); /* a notice: one past the last byte */

/*
 * peers.c: tasks that are used.
 */
struct la_req;
struct la_peer {
    uint32_t rank;
    uint16_t lane;
    bool asked; /* how many slots are free again */
    bool has_ticket, gone, purged, queued;
    bool near;      /* on this host */
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

void la_peers_setup(void);
void la_peers_close(void);
struct la_peer *la_peer(uint32_t rank);              /* NULL: not used yet */
struct la_peer *la_peer_use(uint32_t rank, int *rc); /* finds it; NULL and a LAPI_ERR_* code */
int la_peer_id(uint32_t rank, utofu_vcq_id_t *id);   /* without keeping it; a code of uTofu's */
struct la_peer *la_peer_next(uint32_t *at);          /* all, beginning with *at = 0 */

/*
 * send.c: messages of this task.
 */
enum la_kind {
    LA_AM = 1,
    LA_PUT,
    LA_GET,
    LA_RMW,
    LA_RMW64,
    LA_PUTV, /* the data begin with a list of the pieces at the target; op: how many */
    LA_GETV, /* the data are the list */
    LA_LAST_KIND = LA_GETV
};
enum {
    LA_WANTS_CMPL = 1, /* flags of a record */
    LA_WANTS_FIN = 2,
    LA_RENDEZVOUS = 4, /* the data is fetched from stadd */
    LA_VECTOR = 8,     /* the header handler returns a vector */
    LA_ONE_LINE = 16,
    LA_SHARE = 32, /* the origin may move some of the data itself */
    LA_LONG = LA_WANTS_CMPL | LA_WANTS_FIN | LA_RENDEZVOUS,
};
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
    struct la_reg *reg;
    utofu_stadd_t stadd;
    struct la_req *next;
    /* LA_SHARE, once the target has asked */
    bool helps;       /* is in the list of those that do */
    bool help_failed; /* a put of it */
    uint32_t helped;  /* pieces */
    struct la_req *next_helper;
};
void la_send_setup(void);
/* A LAPI_ERR_* code; what->reg and what->copy are given away in any case. */
int la_send(const struct la_req *what);
/* A message that needs no answer, in one line. False: it does not fit, or cannot leave in this way
 * now; nothing was done. */
bool la_send_line(enum la_kind kind, uint32_t rank, uint64_t at, const void *uhdr,
                  uint32_t uhdr_len, const void *data, uint64_t len, uint64_t tgt_cntr);
bool la_send_waiting(void);
bool la_send_help(void); /* moves pieces of data that the target does not move itself */
bool la_send_helps(void);
void la_send_returned(uint32_t index, uint32_t offset);
void la_send_lost(uint32_t rank, bool gone); /* nothing goes there any more */
uint64_t la_send_serial(void);
/* All up to this serial number have arrived; posted is false at the first call for it. */
bool la_send_settled(uint64_t before, bool *posted);
/* Of one that has not taken all that was sent to it before a fence; false: there is none. */
bool la_send_unsettled(uint32_t *rank);
/* "2 messages of this task are under way, one of them to task 3" */
const char *la_send_text(char text[LA_TEXT]);

/*
 * receive.c: records of others; handlers.
 */
bool la_receive_setup(void);
void la_receive_close(void);
void la_receive_arrived(uint32_t slot);
/* Else notices are to be taken: they are not to fill the MRQ. */
static inline bool la_receive_may_look(void)
{
    return la.early < LA_MOST_EARLY && __atomic_load_n(&la_control->lanes, __ATOMIC_RELAXED) > 0;
}
bool la_receive_look(void); /* handles records whose notices have not come yet */
bool la_dispatch(void);
void *la_receive_address(int index);
void la_receive_set_address(int index, void *address);

/*
 * transfer.c: messages of others of which something is still to be done.
 */
struct la_in {
    bool used;
    struct la_record rec;
    uint8_t *buf;
    uint8_t *temp; /* the same, if it is not the program's */
    const lapi_vec_t *vec;
    uint64_t list_size; /* of a get: of the list, which the data are behind */
    bool bring;
    struct la_reg *reg;
    utofu_stadd_t stadd;
    uint64_t started, in_flight;
    int status; /* LAPI_ERR_* */
    bool listed;
    bool shared;            /* with the origin: */
    bool all_claimed;       /* its pieces */
    bool elsewhere;         /* rec.stadd is not the record's any more */
    uint32_t moved, helped; /* pieces that this task has claimed; that the origin has brought */
    lapi_ret_flags_t how;
    compl_hndlr_t *handler;
    void *user_info;
    struct la_in *next;
};
void la_transfer_setup(void);
struct la_in *la_in_take(void); /* NULL: none is free */
bool la_in_spare(void);         /* there is one more */
void la_in_drop(struct la_in *in);
void la_transfer_start(struct la_in *in); /* fetch the data, or bring it */
/* Of a get of pieces: the list of them is there, or is to be fetched. */
void la_transfer_start_list(struct la_in *in, const void *there);
void la_transfer_ended(struct la_in *in); /* all data is there: handlers, counters, notices */
bool la_transfer_step(void);
bool la_transfer_busy(void);
void la_transfer_helped(uint32_t index); /* la_helped has it */
void la_transfer_lost(uint32_t rank);    /* it is gone, and brings nothing any more */
void la_transfer_run_handler(struct la_in *in);
void la_return(const struct la_record *rec, uint32_t offset, uint64_t value);
enum { LA_FIN = 8, LA_CMPL = 16 }; /* offsets: one past the word */

/* For a message: what it may need, and what its handler may send. */
static inline bool la_has_room(bool needs_in)
{
    return la.free_reqs >= LA_KEEP_SOME && la.free_ops > 2 &&
           (!needs_in || la.used_ins < LA_INS || la_in_spare());
}

/*
 * Where both tasks can reach each other's memory, both move data of a large message: in pieces, of
 * which each claims the next one with an atomic add. Behind the first words of the reply are the
 * next piece, where the data is if it is not where the record says, and how the target asks for
 * help. Who has helped says how many pieces it was, with its rank.
 *
 * The origin sends the record first, and then looks whether its memory is still what it was; until
 * then there is nothing to claim.
 */
struct la_invitation {
    uint64_t stadd; /* of the buffer */
    uint64_t in;    /* which of the messages that the target receives */
};
enum {
    LA_CLAIM = 16, /* offsets of the words */
    LA_ELSEWHERE = 24,
    LA_INVITATION = 32,
    LA_INVITED = LA_INVITATION + sizeof(struct la_invitation), /* one past it */
    LA_HELPED_SHIFT = 32,
};
#define LA_HELP_FAILED (1ull << 31)
#define LA_CLOSED      (1ull << 63) /* in the word of the next piece: not yet */
#define LA_MOVED       (1ull << 62) /* the data is elsewhere */
uint64_t la_piece_size(uint64_t len);
uint32_t la_pieces(uint64_t len);

/*
 * vector.c: pieces of memory.
 */
struct la_piece {
    uint64_t address, len;
};
enum la_side { LA_ORG, LA_TGT };
int la_vec_check(const lapi_vec_t *vec, enum la_side side, uint64_t *len);
int la_vec_compare(const lapi_vec_t *tgt, const lapi_vec_t *org);
uint64_t la_vec_list_size(const lapi_vec_t *vec);
void la_vec_list(const lapi_vec_t *vec, void *list);
void la_vec_gather(const void *list, uint64_t list_size, void *to, uint64_t len);
void la_vec_scatter(const void *list, uint64_t list_size, const void *from, uint64_t len);
/* To the pieces of a vector of the program. */
void la_vec_fill(const lapi_vec_t *vec, const void *from, uint64_t len);

/*
 * calls.c, pieces.c: what starts transfers.
 */
int la_send_data(struct la_req *r);
int la_putv(struct la_req *r, const lapi_vec_t *tgt_vec, const lapi_vec_t *org_vec);
int la_getv(struct la_req *r, const lapi_vec_t *tgt_vec, const lapi_vec_t *org_vec);
int la_amsendv(struct la_req *r, const lapi_vec_t *org_vec);

/*
 * fortran.c: header handlers that are given as functions of the program.
 */
#define LA_IN_PROGRAM (1ull << 63) /* an address behind the base of the program */
uintptr_t la_program_base(void);

/*
 * handlers.c: the thread for completion handlers.
 */
bool la_handlers_add(struct la_in *in);
void la_handlers_stop(void);    /* without the lock */
bool la_handlers_is_this(void); /* thread */
bool la_handlers_busy(void);    /* with some that have not ended; any thread */
/* A completion handler waits for something, in a call of this thread. */
bool la_handlers_wait(void);
void la_handlers_begin_wait(void);
void la_handlers_end_wait(void);

/*
 * counters.c
 */
void la_bump(lapi_cntr_t *cntr);

/*
 * regs.c: memory of the program, registered as it is used.
 */
void la_regs_setup(void);
void la_regs_close(void);
struct la_reg *la_reg(const void *address, uint64_t size, bool write, utofu_stadd_t *stadd);
/* The same, but for la_reg_is_current(), which may follow until the memory is used. */
struct la_reg *la_reg_soon(const void *address, uint64_t size, bool write, utofu_stadd_t *stadd);
bool la_reg_is_current(struct la_reg *reg);
void la_unreg(struct la_reg *reg);
bool la_reg_is_shared(const struct la_reg *reg); /* with processes of this host */

/*
 * progress.c: makes everything go on.
 */
void la_progress_setup(void);
bool la_progress(void);
/* Waits a little, with the lock given away; idle counts the calls since something happened. */
void la_pause(uint32_t *idle);
void la_rest(uint32_t *idle);  /* the same, where the thread for interrupts is to go on */
void la_go_on(uint32_t *idle); /* la_progress(), or la_pause(): in loops that wait */
bool la_progress_start_thread(void);
void la_progress_stop_thread(void); /* without the lock */

/*
 * sync.c: the barrier, and the exchange of addresses.
 */
void la_sync_setup(void);
/* limit_ns 0: as long as it takes. function: that of the program, for messages. */
int la_sync_wait(const char *function, uint64_t limit_ns);
int la_fence(const char *function);

/*
 * watch.c: tasks that are gone.
 */
void la_watch_setup(void);
void la_watch_close(void);
void la_watch_poll(void);
void la_watch_lost(uint32_t rank, const char *why);
void la_watch_report(void);               /* to the error handler, outside of everything else */
void la_error(int code, uint32_t rank);   /* tells the error handler, later */
void la_failure(int code, uint32_t rank); /* and who waits: what this task has started */
bool la_watch_is_gone(uint32_t rank);

#pragma GCC visibility pop

#endif
