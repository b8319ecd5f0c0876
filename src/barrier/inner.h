/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this module. The lock of the TNI's VCQ guards all data, unless a comment
 * says otherwise. */
#ifndef UT_BARRIER_INNER_H
#define UT_BARRIER_INNER_H

#include "barrier/gate.h"
#include "ident/ident.h"
#include "link/link.h"
#include "process/process.h"
#include "vcq/vcq.h"

/* Header of a value that a process sends to a gate. */
struct ut_gate_tag {
    utofu_vbg_id_t src;
    uint32_t number; /* number of the value among those from src to this output in the epoch */
    uint32_t epoch;  /* epoch of src */
    bool last;       /* src has failed, and this is its last item; the value names the culprit */
};

/* A packet or signal in the queue of an input. */
struct ut_gate_item {
    struct ut_gate_tag tag;
    uint64_t at; /* arrival time in ns; only for a counted VCQ */
    struct ut_value value;
};

/* True if a gate had the epoch before the other one. Epochs wrap around; 0: none, which is after
 * none. */
static inline bool ut_epoch_is_before(uint32_t epoch, uint32_t other)
{
    return other != 0 && (int32_t)(epoch - other) < 0;
}

enum {
    UT_INPUT_SIGNAL,
    UT_INPUT_PACKET,
    UT_NUM_INPUTS,
    UT_INPUT_MAX = 65536,   /* maximum number of items queued at one input */
    UT_MAX_UNEXPECTED = 16, /* maximum number of unexpected packets and signals of a gate */
};

/* A queue of items. */
struct ut_gate_input {
    utofu_vbg_id_t src;
    struct ut_gate_item *items; /* a ring; capacity is a power of two */
    /* head and count change together, but are not adjacent: the compiler would load both with one
     * wide load, which stalls on the two narrow stores before it */
    uint32_t head, capacity, count;
    uint32_t floor;      /* first valid epoch; 0: any */
    uint32_t last_epoch; /* epoch of the last item; 0: no item has arrived */
    uint32_t last_number;
    bool confirmed;         /* floor is known */
    bool failed;            /* no more items will arrive; takes effect when the queue is empty */
    bool warned;            /* a warning about items of another source was logged */
    utofu_vbg_id_t culprit; /* if failed: the gate that failed first */

    bool queried;   /* a query is sent, and the answer is outstanding */
    bool waited;    /* the query was sent while a barrier communication waited for the input */
    uint8_t answer; /* the last answer: enum ut_gate_answer */
};

/* A packet or signal for a gate that was not set to receive it when it arrived. */
struct ut_gate_unexpected {
    struct ut_gate_unexpected *next;
    uint8_t input;
    struct ut_gate_item item;
};

struct ut_gates;
struct ut_gate {
    utofu_vbg_id_t id;
    struct ut_gates *home; /* the gates of this gate's TNI; NULL: never allocated */
    uint16_t tni, index;
    uint16_t owner; /* index of the start gate that was allocated together with this gate */
    bool allocated; /* written atomically: read under the locks of other TNIs */
    bool set;
    bool gone;              /* the gate has sent its `last` value */
    utofu_vbg_id_t culprit; /* if gone: the gate that failed first */
    uint32_t epoch;         /* changes when the gate is allocated, set or freed; written atomically;
                             * 0: never allocated */
    uint32_t serial;        /* grows each time the gate is set, so that answers to earlier queries
                             * are dropped */
    struct utofu_vbg_setting setting;
    struct ut_link *src_link, *dst_link; /* links to the packet source and the packet destination;
                                          * NULL: this process */
    struct ut_gate *signals_to; /* the gate that receives this gate's signals; NULL: none */
    /* the wired inputs, packets before signals; NULL: not wired */
    struct ut_gate_input *wired, *wired_second;
    bool loops; /* an output of the gate leads to an input of the same gate */
    struct ut_gate_input in[UT_NUM_INPUTS];
    uint32_t out_signals, out_packets;     /* numbers of packets and signals sent in this epoch */
    struct ut_gate_unexpected *unexpected; /* list, oldest first */
    uint32_t num_unexpected;
    uint64_t traced_ms, reported_ms;

    /* the fields below are for start gates only */
    uint8_t num_members;
    uint8_t members[1 + UT_NUM_RELAY_GATES]; /* indices; the first one is the start gate */
    bool active;                             /* started, and the end was not polled yet */
    uint8_t kind;                            /* enum ut_gate_kind of the start function */
    struct ut_value mine;
    uint32_t idle_polls;
    uint64_t started_ms, look_ms, report_ms;
};

/* A message from one gate of this process to a gate on another TNI. */
struct ut_gate_cross_tni {
    struct ut_gate_cross_tni *next;
    uint16_t gate;
    bool trace, report; /* trace: the receiver calls ut_gate_trace(), and delivers nothing */
    struct ut_gate_tag tag;
    struct ut_value value;
};

struct ut_gates {
    struct ut_vcq *vcq; /* set once, atomically */
    uint64_t ready;     /* one bit per relay gate that ut_gate_run() must check */
    uint64_t unsure; /* one bit per gate whose source, in another process, has an unknown epoch */
    bool running;
    bool entered; /* a call of the program holds the lock: see ut_gate_enter() */
    unsigned int num_allocated;
    struct ut_gate gate[UT_NUM_GATES];
    struct ut_lock inbox_lock;
    struct ut_gate_cross_tni *inbox, **inbox_last;
};

/* The gates of this process. */
extern struct ut_gate_table {
    struct ut_gates of_tni[UT_NUM_TNIS];
    /* atomic, one bit per TNI */
    uint32_t allocated;      /* a gate is allocated */
    uint32_t filled_inboxes; /* the inbox is not empty */
} ut_gate_table;

/* The gates of a TNI. The asm keeps the compiler from computing the address again at each use. */
static inline struct ut_gates *ut_gates_of(unsigned int tni)
{
    struct ut_gates *t = &ut_gate_table.of_tni[tni];

    __asm__("" : "+r"(t));
    return t;
}
static inline struct ut_gate *ut_gate_of(struct ut_gates *t, unsigned int index)
{
    struct ut_gate *g = &t->gate[index];

    __asm__("" : "+r"(g));
    return g;
}

static inline bool ut_gate_is_start(unsigned int index)
{
    return index < UT_NUM_START_GATES;
}

/* Needs no lock. */
static inline struct ut_vcq *ut_gates_vcq(const struct ut_gates *t)
{
    return __atomic_load_n(&t->vcq, __ATOMIC_ACQUIRE);
}

static inline bool ut_gate_is_allocated(const struct ut_gate *g)
{
    return __atomic_load_n(&g->allocated, __ATOMIC_RELAXED);
}

static inline struct ut_stats *ut_gate_stats(const struct ut_gate *g)
{
    return g->home->vcq->stats;
}

/* local.c */
/* True if the gate belongs to this process. */
bool ut_gate_is_own(const struct ut_vbg_ident *ident);
utofu_vbg_id_t ut_gate_own_id(unsigned int tni, unsigned int index);
/* Puts a message into the inbox of TNI `to`. The caller holds the lock of TNI `from`. */
void ut_gate_send_cross_tni(unsigned int from, unsigned int to,
                            const struct ut_gate_cross_tni *message);

/* inbox.c: locks and other TNIs */
/* A call of the program enters before everything that it does under the lock of the VCQ, and leaves
 * after it. The VCQ to leave is t->vcq. */
static inline void ut_gate_enter(struct ut_gates *t, struct ut_vcq *vcq)
{
    ut_lock(&vcq->lock);
    t->entered = true;
}
static inline void ut_gate_leave(struct ut_gates *t)
{
    t->entered = false;
    ut_unlock(&t->vcq->lock);
}
/* Delivers the messages in the inbox of this VCQ's TNI. Returns their number. */
int ut_gate_progress(struct ut_vcq *vcq);
/* Delivers the messages in all inboxes. The caller holds no lock. */
void ut_gate_deliver_inboxes(void);
static inline void ut_gate_check_inboxes(void)
{
    if (__builtin_expect(__atomic_load_n(&ut_gate_table.filled_inboxes, __ATOMIC_ACQUIRE) != 0, 0))
        ut_gate_deliver_inboxes();
}
/* Finds the allocated gate with this id, and takes the lock of its VCQ. NULL: there is no such
 * gate. An id determines the index; the gate there must have the same id. */
static inline struct ut_gate *ut_gate_enter_id(utofu_vbg_id_t id)
{
    unsigned int tni = ut_vbg_id_tni(id), index = ut_vbg_id_gate(id);

    if (tni >= UT_NUM_TNIS || index >= UT_NUM_GATES || ut_process_forked())
        return NULL;
    struct ut_gates *t = ut_gates_of(tni);
    struct ut_vcq *vcq = ut_gates_vcq(t);
    if (!vcq)
        return NULL;
    ut_gate_enter(t, vcq);
    struct ut_gate *g = ut_gate_of(t, index);
    if (__builtin_expect(g->allocated && g->id == id, 1))
        return g;
    ut_gate_leave(t);
    return NULL;
}
static inline void ut_gate_leave_id(const struct ut_gate *g)
{
    ut_gate_leave(g->home);
    ut_gate_check_inboxes();
}
/* `more` gates were allocated; negative: freed. */
void ut_gate_count_allocated(struct ut_gates *t, int more);
/* Makes progress on the other TNIs that have gates. The caller holds no lock. */
void ut_gate_progress_others(unsigned int own);

/* automaton.c */
void ut_gate_wire_input(struct ut_gate *g, unsigned int input, utofu_vbg_id_t src);
void ut_gate_free_inputs(struct ut_gate *g);
/* Delivers the unexpected items of a gate that was just set. */
void ut_gate_take_unexpected(struct ut_gate *g);
void ut_gate_deliver(struct ut_gate *g, unsigned int input, const struct ut_gate_tag *tag,
                     const struct ut_value *value);
void ut_gate_fail_input(struct ut_gate *g, unsigned int input, utofu_vbg_id_t culprit);
/* The epoch of the packet source is known now: drops older packets. */
void ut_gate_set_source_epoch(struct ut_gate *g, uint32_t epoch);
/* True if the input is wired and its queue is empty. */
bool ut_gate_input_is_empty(const struct ut_gate *g, unsigned int input);
static inline struct ut_gate_item *ut_gate_item_at(const struct ut_gate_input *in, uint32_t i)
{
    UT_ASSERT(in->capacity && (in->capacity & (in->capacity - 1)) == 0);
    return &in->items[(in->head + i) & (in->capacity - 1)];
}
static inline void ut_gate_remove_first(struct ut_gate_input *in)
{
    UT_ASSERT(in->count > 0 && in->count <= in->capacity);
    in->head++;
    in->count--;
}
/* The first item is the `last` value of the source: marks the input as failed. */
void ut_gate_fail_by_last(struct ut_gate_input *in);
/* Can an item be taken from the input? */
static inline bool ut_gate_has_item(struct ut_gate_input *in)
{
    if (in->count == 0 || !in->confirmed)
        return in->failed;
    if (__builtin_expect(ut_gate_item_at(in, 0)->tag.last, 0))
        ut_gate_fail_by_last(in);
    return true;
}
/* Can an item be taken from each wired input? */
static inline bool ut_gate_is_complete(struct ut_gate *g)
{
    for (int i = 0; i < UT_NUM_INPUTS; i++) {
        if (g->in[i].src != UTOFU_VBG_ID_NULL && !ut_gate_has_item(&g->in[i]))
            return false;
    }
    return true;
}
/* Takes an item from each wired input and combines them. False: no input is wired. */
bool ut_gate_take_all(struct ut_gate *g, struct ut_value *value);
void ut_gate_send_outputs(struct ut_gate *g, const struct ut_value *value);
/* Sends the `last` value from this gate. */
void ut_gate_send_last(struct ut_gate *g, utofu_vbg_id_t culprit);
/* Queries epoch and state of the packet source in another process, unless an answer is outstanding.
 * waited: a barrier communication waits for the source. */
void ut_gate_query_source(struct ut_gate *g, bool waited);
/* Does the same if the epoch of the source is unknown. */
static inline void ut_gate_query_epoch(struct ut_gate *g)
{
    if (__builtin_expect(g->home->unsure >> g->index & 1, 0))
        ut_gate_query_source(g, false);
}
/* Lets ut_gate_run() fire the gate if possible. */
static inline void ut_gate_mark_ready(struct ut_gate *g)
{
    if (!ut_gate_is_start(g->index))
        g->home->ready |= 1ull << g->index;
}
/* Is this the expected packet or signal, and does the queue have room? True in the common case. If
 * false, ut_gate_deliver() decides: also if any epoch is valid, as 0 is no epoch. */
static inline bool ut_gate_is_next(const struct ut_gate_input *in, uint32_t epoch, uint32_t number)
{
    return epoch == in->last_epoch && number == in->last_number + 1 && in->count < in->capacity &&
           !in->failed && (!in->confirmed || (int32_t)(epoch - in->floor) >= 0);
}
/* ut_gate_next_item(): the queue slot for the value of the next item. ut_gate_append_item():
 * appends the item when the slot is filled. */
static inline struct ut_gate_item *ut_gate_next_item(const struct ut_gate_input *in)
{
    return ut_gate_item_at(in, in->count);
}
static inline void ut_gate_append_item(struct ut_gate *g, struct ut_gate_input *in,
                                       struct ut_gate_item *item, utofu_vbg_id_t src,
                                       uint32_t number, uint32_t epoch, bool last, uint64_t at)
{
    item->tag.src = src;
    item->tag.number = number;
    item->tag.epoch = epoch;
    item->tag.last = last;
    item->at = at;
    in->last_number = number;
    in->count++;
    ut_gate_mark_ready(g);
}
/* Fires all ready gates. */
void ut_gate_run_ready(struct ut_gates *t);
static inline void ut_gate_run(struct ut_gates *t)
{
    if (t->ready && !t->running) /* running: a caller is already in the loop */
        ut_gate_run_ready(t);
}

/* net.c: links, and messages that arrive on them */
extern const struct ut_vcq_handlers ut_gate_handlers;
void ut_gate_find_links(struct ut_gate *g);
/* Allocates the links that a setting needs, before any gate is changed. False: no memory. */
bool ut_gate_can_reach(struct ut_gate *start, const struct utofu_vbg_setting *s);
enum ut_gate_answer {
    UT_ANSWER_VALID = 1,
    UT_ANSWER_ALLOCATED = 2,
    UT_ANSWER_SET = 4,
    UT_ANSWER_SENDS_HERE = 8,
    UT_ANSWER_IDLE = 16, /* a start gate without a barrier communication in progress */
    UT_ANSWER_WANTS_SIGNAL = 32,
    UT_ANSWER_WANTS_PACKET = 64,
};

/* diagnosis.c: inputs that a barrier waits for */
/* Called after an empty poll: checks from time to time whether the barrier has waited too long. */
void ut_gate_check_wait(struct ut_gate *start);
/* Follows the inputs of the gate back to their sources. Queries other processes; with `report`,
 * logs the sources. */
void ut_gate_trace(struct ut_gate *g, bool report);
/* The state of the gate at the other end of an input, as a relative clause for a log line. */
const char *ut_gate_state_of_local(const struct ut_gate *src, utofu_vbg_id_t sends_to,
                                   utofu_vbg_id_t here);
const char *ut_gate_state_of_remote(const struct ut_gate_input *in);

/* dump.c */
void ut_gate_dump(struct ut_vcq *vcq);

/* report.c: counters and timeline, only for a counted VCQ */
void ut_gate_report_send(struct ut_stats *stats, const struct ut_gate *g, unsigned int input,
                         utofu_vbg_id_t dst, uint64_t number);
void ut_gate_report_sent(struct ut_stats *stats, const struct ut_gate *g, uint64_t began);
void ut_gate_report_arrive(struct ut_stats *stats, const struct ut_gate *g, unsigned int input,
                           const struct ut_gate_tag *tag, uint64_t at);
void ut_gate_report_end(struct ut_stats *stats, const struct ut_gate *g, int rc);

#endif
