/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room share. Everything here is touched with the lock of the TNI's VCQ
 * held, unless it says otherwise. */
#ifndef UT_GATE_INNER_H
#define UT_GATE_INNER_H

#include "gate/gate.h"
#include "ident/ident.h"
#include "link/link.h"
#include "process/process.h"
#include "vcq/vcq.h"

/* What stands on a value on its way into a gate. */
struct ut_gate_tag {
    utofu_vbg_id_t src;
    uint32_t number; /* counts what src has sent to this output, within the epoch; runs over */
    uint32_t epoch;  /* of src */
    bool last;       /* nothing comes after it, ever: src is gone; value names the culprit */
};

/* One that waits at an input. */
struct ut_gate_item {
    struct ut_gate_tag tag;
    uint64_t at; /* when it came, ns; of a watched process */
    struct ut_value value;
};

enum {
    UT_INPUT_SIGNAL,
    UT_INPUT_PACKET,
    UT_NUM_INPUTS,
    UT_INPUT_MAX = 65536, /* items that wait at one input */
    UT_MAX_STRAYS = 16,   /* items that a gate keeps in case it is set for them */
};

/* A queue of items. */
struct ut_gate_input {
    utofu_vbg_id_t src;
    struct ut_gate_item *items; /* a ring; capacity is a power of two */
    uint32_t head, capacity, count; /* what changes together apart: no wide load of narrow stores */
    uint32_t floor;      /* smallest epoch that counts */
    uint32_t last_epoch; /* of what came last */
    uint32_t last_number;
    bool confirmed;         /* the floor is known */
    bool failed;            /* nothing more will come; counts when the queue is empty */
    bool told;              /* that somebody else sends here */
    utofu_vbg_id_t culprit; /* failed: the gate that is gone */

    bool asked;     /* the source's answer is due */
    bool waited;    /* asked while a barrier communication waited for it */
    uint8_t answer; /* the last one: enum ut_gate_answer */
};

/* An item that the gate was not set to receive, at the time. */
struct ut_gate_stray {
    struct ut_gate_stray *next;
    uint8_t input;
    struct ut_gate_item item;
};

struct ut_gates;
struct ut_gate {
    utofu_vbg_id_t id;
    struct ut_gates *home; /* of its TNI; NULL: never allocated */
    uint16_t tni, index;
    uint16_t owner; /* index of the start gate that it was allocated with */
    bool allocated; /* written atomically: other TNIs look */
    bool set;
    bool gone;              /* has told the gates behind it that nothing more comes */
    utofu_vbg_id_t culprit; /* why */
    uint32_t epoch;         /* never goes back, whoever has the gate; written atomically */
    uint32_t serial;        /* grows when it is set: answers to earlier questions are void */
    struct utofu_vbg_setting setting;
    struct ut_link *src_link, *dst_link; /* where packets come from and go to; NULL: this process */
    struct ut_gate *signals_to;          /* NULL: nobody */
    /* the inputs that are wired, packets before signals; NULL: there is none, or no second one */
    struct ut_gate_input *wired, *wired_too;
    bool loops;                          /* it sends to itself */
    struct ut_gate_input in[UT_NUM_INPUTS];
    uint32_t out_signals, out_packets; /* sent in this epoch */
    struct ut_gate_stray *strays;
    uint32_t num_strays;
    uint64_t traced_ms, reported_ms;

    /* a start gate */
    uint8_t num_members;
    uint8_t members[1 + UT_NUM_RELAY_GATES]; /* in the order of their ids; the first is itself */
    bool active;                             /* started and not polled to its end */
    uint8_t kind;                            /* enum ut_gate_kind of what was started */
    struct ut_value mine;
    uint32_t idle_polls;
    uint64_t started_ms, look_ms, report_ms;
};

/* Something for a gate of this process that another TNI left. */
struct ut_gate_parcel {
    struct ut_gate_parcel *next;
    uint16_t gate;
    bool trace, report; /* nothing is delivered: ut_gate_trace() */
    struct ut_gate_tag tag;
    struct ut_value value;
};

struct ut_gates {
    struct ut_vcq *vcq; /* set once, atomically */
    uint64_t ready;     /* bit per relay gate: may be able to fire */
    uint64_t unsure;    /* bit per gate: its packets come from another process, epoch not known */
    bool running;
    bool entered;       /* the lock is held by a function of the program that is about gates */
    unsigned int num_allocated;
    struct ut_gate gate[UT_NUM_GATES];
    struct ut_lock inbox_lock;
    struct ut_gate_parcel *inbox, **inbox_last;
};
extern struct ut_gates ut_gates[UT_NUM_TNIS];

/* Those of a TNI. The compiler is to keep the address, and not to work it out at each use. */
static inline struct ut_gates *ut_gates_of(unsigned int tni)
{
    struct ut_gates *t = &ut_gates[tni];

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

/* With or without the lock. */
static inline struct ut_vcq *ut_gates_vcq(const struct ut_gates *t)
{
    return __atomic_load_n(&t->vcq, __ATOMIC_ACQUIRE);
}

static inline bool ut_gate_is_allocated(const struct ut_gate *g)
{
    return __atomic_load_n(&g->allocated, __ATOMIC_RELAXED);
}

static inline struct ut_watch *ut_gate_watch_of(const struct ut_gate *g)
{
    return g->home->vcq->watch;
}

/* inbox.c: locks and other TNIs */
/* Around everything that a function of the program does under the lock of a VCQ; which is t->vcq
 * when it leaves. */
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
/* Leaves something for a gate on another TNI, `to`, of this process; the lock of `from` is held. */
void ut_gate_leave_parcel(unsigned int from, unsigned int to, const struct ut_gate_parcel *parcel);
/* Hands out what was left for other TNIs; with no lock held. */
extern uint32_t ut_gate_full; /* bit per TNI: something is in its inbox; atomic */
void ut_gate_hand_out(void);
static inline void ut_gate_empty_inboxes(void)
{
    if (__builtin_expect(__atomic_load_n(&ut_gate_full, __ATOMIC_ACQUIRE) != 0, 0))
        ut_gate_hand_out();
}
/* The allocated gate of this id, with its VCQ's lock taken; NULL: there is none. An id says where
 * its gate would be; the gate there says whether it is its own. */
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
    ut_gate_empty_inboxes();
}
/* So many gates more, or fewer, are allocated. */
void ut_gate_count(struct ut_gates *t, int more);
/* Makes progress on the other TNIs that have gates; with no lock held. */
void ut_gate_progress_others(unsigned int own);

/* setup.c */
/* Is the gate of this process? */
bool ut_gate_is_own(const struct ut_vbg_ident *ident);
utofu_vbg_id_t ut_gate_own_id(unsigned int tni, unsigned int index);

/* automaton.c */
void ut_gate_wire_input(struct ut_gate *g, unsigned int input, utofu_vbg_id_t src);
void ut_gate_free_inputs(struct ut_gate *g);
/* Takes what came for the gate before it was set. */
void ut_gate_take_strays(struct ut_gate *g);
void ut_gate_deliver(struct ut_gate *g, unsigned int input, const struct ut_gate_tag *tag,
                     const struct ut_value *value);
void ut_gate_fail_input(struct ut_gate *g, unsigned int input, utofu_vbg_id_t culprit);
/* The source's epoch is known: what is older does not count. */
void ut_gate_confirm(struct ut_gate *g, uint32_t epoch);
/* Is it wired, and nothing has come? */
bool ut_gate_lacks(const struct ut_gate *g, unsigned int input);
static inline struct ut_gate_item *ut_gate_item_at(const struct ut_gate_input *in, uint32_t i)
{
    return &in->items[(in->head + i) & (in->capacity - 1)];
}
static inline void ut_gate_drop_first(struct ut_gate_input *in)
{
    in->head++;
    in->count--;
}
/* Can something be taken? */
void ut_gate_take_last(struct ut_gate_input *in);
static inline bool ut_gate_is_there(struct ut_gate_input *in)
{
    if (in->count == 0 || !in->confirmed)
        return in->failed;
    if (__builtin_expect(ut_gate_item_at(in, 0)->tag.last, 0))
        ut_gate_take_last(in);
    return true;
}
/* Can everything be taken that is wired? */
static inline bool ut_gate_is_complete(struct ut_gate *g)
{
    for (int i = 0; i < UT_NUM_INPUTS; i++) {
        if (g->in[i].src != UTOFU_VBG_ID_NULL && !ut_gate_is_there(&g->in[i]))
            return false;
    }
    return true;
}
/* Takes one from each input and combines them; false: none is wired. */
bool ut_gate_take_all(struct ut_gate *g, struct ut_value *value);
void ut_gate_send_on(struct ut_gate *g, const struct ut_value *value);
/* Nothing more comes out of this gate. */
void ut_gate_end_outputs(struct ut_gate *g, utofu_vbg_id_t culprit);
/* Lets the gate fire if it can, later. */
static inline void ut_gate_mark_ready(struct ut_gate *g)
{
    if (!ut_gate_is_start(g->index))
        g->home->ready |= 1ull << g->index;
}
/* Does this come in its turn, and is there room for it? The usual case; false: it may do all the
 * same, ut_gate_deliver() knows. */
static inline bool ut_gate_is_next(const struct ut_gate_input *in, uint32_t epoch, uint32_t number)
{
    return epoch == in->last_epoch && number == in->last_number + 1 && in->count < in->capacity &&
           !in->failed && (!in->confirmed || epoch >= in->floor);
}
/* Where the value of the next one goes, and that all of it is there. */
static inline struct ut_gate_item *ut_gate_next_item(const struct ut_gate_input *in)
{
    return ut_gate_item_at(in, in->count);
}
static inline void ut_gate_filled(struct ut_gate *g, struct ut_gate_input *in,
                                  struct ut_gate_item *item, utofu_vbg_id_t src, uint32_t number,
                                  uint32_t epoch, bool last, uint64_t at)
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
/* Lets every gate fire that can. */
void ut_gate_run_ready(struct ut_gates *t);
static inline void ut_gate_run(struct ut_gates *t)
{
    if (t->ready && !t->running) /* running: further up the stack, which goes on */
        ut_gate_run_ready(t);
}

/* net.c: packets and messages */
void ut_gate_find_links(struct ut_gate *g);
void ut_gate_send_packet(struct ut_gate *g, const struct ut_value *value, bool last);
/* Asks the packet source in another process for its epoch and state, unless an answer is due.
 * waited: a barrier communication waits for it. */
void ut_gate_ask(struct ut_gate *g, bool waited);
/* The same where the epoch is not known yet. */
static inline void ut_gate_ask_first(struct ut_gate *g)
{
    if (__builtin_expect(g->home->unsure >> g->index & 1, 0))
        ut_gate_ask(g, false);
}
enum ut_gate_answer {
    UT_ANSWER_VALID = 1,
    UT_ANSWER_ALLOCATED = 2,
    UT_ANSWER_SET = 4,
    UT_ANSWER_SENDS_HERE = 8,
    UT_ANSWER_IDLE = 16, /* a start gate, and no barrier communication is under way */
    UT_ANSWER_WANTS_SIGNAL = 32,
    UT_ANSWER_WANTS_PACKET = 64,
};

/* watch.c: what a barrier waits for */
/* "gate 17 (TNI 2, rank 3)", in one of a few buffers of the thread. */
const char *ut_gate_name(utofu_vbg_id_t id);
/* The program has polled in vain: looks after the barrier from time to time. */
void ut_gate_watch(struct ut_gate *start);
/* Follows back what the gate waits for: asks other processes, and with `report` says it. */
void ut_gate_trace(struct ut_gate *g, bool report);

#endif
