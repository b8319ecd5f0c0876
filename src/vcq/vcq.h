/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VCQ: its three queues, its lock, its endpoints. All fields are accessed with its lock held, by
 * a thread of the program or by the background thread.
 *
 * Uses util, ident, desc, wire, process. Creating and freeing is in runtime.
 */
#ifndef UT_VCQ_VCQ_H
#define UT_VCQ_VCQ_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "desc/desc.h"
#include "ident/ident.h"
#include "process/process.h"
#include "util/lock.h"
#include "wire/wire.h"

struct ut_link;
struct ut_link_ops;
struct ut_vcq;
struct ut_wait;
struct ut_stag_table;
struct ut_stats;
struct ut_check;

enum { UT_NO_SLOT = UINT32_MAX };

/* The states of a TOQ entry. */
enum ut_slot_state {
    UT_SLOT_FREE,
    UT_SLOT_SUBMITTED, /* in the TOQ, not started (DELAY_START, session mode) */
    UT_SLOT_WAITING,   /* on its link, not (completely) posted to the provider */
    UT_SLOT_POSTED,    /* posted, or waiting for the target's answer */
    UT_SLOT_DONE,      /* complete; an earlier slot of the link is not */
    UT_SLOT_RETIRED,   /* its notices are written */
};

/* Progress of a TOQ entry on its link: determines what is posted next, and what a completion of the
 * provider means. */
enum ut_slot_stage {
    UT_STAGE_NONE,     /* nothing is posted */
    UT_STAGE_DATA,     /* the data, read, atomic, or request to the target's CPU is posted; the
                        * remote notice is next, if it is a message */
    UT_STAGE_EXECUTED, /* ARMW: its old value is known; put in parts: all of them are complete. The
                        * remote notice, if requested, is next */
    UT_STAGE_NOTICE,   /* the message with its remote notice, its last request, is posted */
    UT_STAGE_RETRY,    /* ARMW by the device: its compare-and-swap failed, and could not yet be
                        * posted again */
};

/* Of a put in parts by several connections: engine/parts.c. */
enum ut_slot_parted {
    UT_PARTED = 1,     /* it was posted in parts, and goes by one connection if it is repeated */
    UT_PARTED_OUT = 2, /* and has not ended: counted in ut_rails.out */
    UT_PARTED_MISSING = 4, /* a part was certainly not executed */
    UT_PARTED_UNKNOWN = 8, /* a part may have been executed, or not */
};

struct ut_slot {
    struct ut_desc desc;
    void *cbdata;
    struct ut_link *link;
    uint32_t next; /* the next slot on the link */
    uint8_t state; /* enum ut_slot_state */
    /* set when the slot enters the TOQ */
    uint64_t rmt_value;  /* ARMW: the old value, or the value that the device read last */
    uint64_t msg_number; /* number of its last message or immediate on the link; 0: none yet */
    union {
        struct {
            union {
                struct {
                    int16_t tcq_rc; /* return code for poll_tcq */
                    bool tcq_ready; /* its TCQ entry is written */
                    uint8_t unused_tcq;
                };
                uint32_t tcq; /* the fields above as one word: see ut_slot_succeeded() */
            };
            int16_t mrq_rc;          /* return code in its local MRQ notice */
            uint8_t pending;         /* number of posted requests that are not complete */
            uint8_t stage : 6;       /* enum ut_slot_stage */
            uint8_t slow_end : 1;    /* ARMW, or counted: complete_usual() does not apply */
            uint8_t unsignalled : 1; /* posted with PROV_UNSIGNALLED, not complete */
        };
        uint64_t progress; /* the fields above as one word, for writing and comparing */
    };
    union {
        struct {
            bool fresh;      /* the remote STag entry was read again for this slot */
            bool applied;    /* ARMW: executed by the origin; at most its notice is missing */
            uint8_t retries; /* number of retries after access errors */
            uint8_t cause;   /* of tcq_rc or mrq_rc: enum ut_cause */
            bool owed;       /* ARMW: the target has received it, and its answer is outstanding */
            uint8_t parted;  /* put: enum ut_slot_parted */
            uint8_t by_rail; /* put: of `pending`, those that other connections transfer */
            uint8_t unused_history;
        };
        uint64_t history; /* the fields above as one word */
    };
    uint64_t detail; /* of the cause */
} __attribute__((aligned(128)));
_Static_assert(sizeof(struct ut_slot) == 128, "two cache lines");

/* Is its TCQ entry written, without an error? */
static inline bool ut_slot_succeeded(const struct ut_slot *slot)
{
    const struct ut_slot succeeded = {.tcq_ready = true};

    return __builtin_expect(slot->tcq == succeeded.tcq, 1);
}

/* What the program of a session-mode VCQ does between a post and the next poll. */
enum ut_pace {
    UT_PACE_POLLS,
    UT_PACE_UNSURE,   /* something had arrived before it polled: the next time will be taken */
    UT_PACE_COMPUTES, /* so long that the background thread does not wait for its polls */
};

/* An endpoint of a VCQ. */
struct ut_vcq_ep {
    struct prov_ep *ep;
    const struct prov_ops *ops;
    int provider;
    uint32_t keep_source; /* see struct ut_link */
};

/* Of the library's own VCQs, for barrier gates: handles messages that are not for the engine. */
struct ut_vcq_handlers {
    /* UT_MSG_PACKET and UT_MSG_GATE; `size` is at least that of the message's structure */
    void (*packet)(struct ut_link *link, const void *data, size_t size);
    void (*message)(struct ut_link *link, const void *data, size_t size);
    /* Messages to the peer are lost; dead: no more messages will come from it. */
    void (*link_failed)(struct ut_link *link, bool dead);
    /* Progress besides polling the endpoints; returns the number of events. */
    int (*progress)(struct ut_vcq *vcq);
};

enum ut_queue { UT_QUEUE_TCQ = 1, UT_QUEUE_MRQ = 2 };

struct ut_vcq {
    /* used by every call; the first two outlive the VCQ, as its struct is reused */
    utofu_vcq_hdl_t handle; /* atomic; 0: not in use, 1: in use without a handle */
    struct ut_lock lock;
    uint32_t toq_mask;
    struct ut_slot *toq;
    uint32_t toq_tail;   /* next to fill; all five positions wrap around at 2^32 */
    uint32_t toq_exec;   /* next to start */
    uint32_t toq_direct; /* limit of the direct path: see ut_toq_limit_direct() */
    uint32_t tcq_head;   /* next TCQ entry to read */
    uint32_t toq_head;   /* oldest entry that is not free */
    uint32_t mrq_mask, mrq_head, mrq_tail;
    uint32_t mrq_alarm; /* at this number of used entries ut_mrq_alarm() is called: the MRQ is full,
                         * or a counted VCQ has a new maximum */
    struct utofu_mrq_notice *mrq;
    struct utofu_mrq_notice *direct; /* direct delivery: the next entry is written here, for a poll
                                      * that found the MRQ empty */
    utofu_vcq_id_t last_id;          /* the id for which last_link was found; 0: none */
    struct ut_link *last_link;       /* the link that was found last, initially &ut_link_none */
    bool slow_path;                  /* session mode, counted, in a wait, shuffled, checked, or
                                      * recorded */
    bool more_to_do;                 /* the library's own VCQ, or no background thread: calls
                                      * ut_engine_progress_slow() */
    bool shuffled;                   /* by UTOFU_SHUFFLE */
    bool watched;                    /* counted or checked: each starting descriptor is reported */
    bool recorded;                   /* UTOFU_TRACE=FILE,record=1: see record/record.h */
    unsigned int num_eps, num_rails; /* num_rails: of these, the endpoints of rails */
    uint32_t idle_polls, spin_limit; /* empty polls, and their number before leave_idle() */
    struct ut_vcq_ep
        eps[PROV_COUNT + UT_MOST_RAILS]; /* one of each provider, then those of rails */
    const struct ut_vcq_ep *eps_end;     /* one past the last one */
    uint32_t unattended;     /* number of calls of progress without a background thread */
    uint32_t poll_count;     /* of calls without change of toq_tail and tcq_head */
    bool unflushed;          /* PROV_MORE was used since the last flush */
    bool completions_wanted; /* the next empty poll calls ut_engine_request_completions() */
    uint32_t toq_limit;      /* number of TOQ entries that may be used: all, unless shuffled */

    /* links */
    struct ut_link **link_buckets;
    uint32_t num_buckets, num_links;
    struct ut_link *all_links; /* including the passive one */
    struct ut_link *passive;   /* the accepting end of a connection to the VCQ itself; NULL: none */
    struct ut_link *waiting;   /* links that wait for room or time */
    bool steps_waiting;        /* in ut_link_step_waiting() */
    const struct ut_link_ops *link_ops;
    const struct ut_vcq_handlers *handlers; /* NULL: a VCQ of the program */

    /* session mode */
    uint64_t scheduled; /* total number of descriptors that arrived SPS allow to start */
    uint64_t started;   /* total number of descriptors started */
    bool shortfall_reported;
    uint8_t pace;       /* enum ut_pace */
    uint64_t posted_at; /* ns: time of the last post, 1: it was not taken; 0: the program has polled
                         * since; never 0 for a checked VCQ, so that each empty poll is reported */

    struct { /* a long row of empty polls: for the dump */
        uint64_t since_ms, last_ms;
        uint32_t seen;   /* idle_polls at the last record */
        uint32_t queues; /* enum ut_queue */
    } empty;

    struct ut_wait *waits; /* threads that sleep until there is an entry to poll: vcq/wait.h */
    bool wait_ended;       /* the next wait returns at once */

    struct ut_stats *stats; /* counters and timeline; NULL: neither is requested */
    struct ut_check *check; /* state of UTOFU_CHECK; NULL: off, or the library's own VCQ */
    uintptr_t in_call; /* atomic: of a checked VCQ, the thread that is in a call on it, during part
                        * of the call; or 0. Valid after `check` is freed. */

    struct ut_stag_table *stags;
    uint8_t *scratch; /* registered: UT_SCRATCH_ENTRIES of UT_SCRATCH_SIZE bytes */
    struct ut_region *scratch_region;
    uint32_t *scratch_free; /* stack of free entries */
    uint32_t num_scratch_free;
    uint64_t *armw_words; /* registered, one per TOQ slot; device ARMW only */
    struct ut_region *armw_region;

    /* fixed at creation */
    uint16_t cq_index; /* into ut_process.cq_ids */
    uint16_t tni;      /* the real TNI, even for a VCQ of the library itself */
    unsigned long flags;
    struct ut_vcq_ident ident;
    utofu_vcq_id_t id;
    uint64_t session_number; /* random; distinguishes it from an earlier VCQ with the same id */
    uint32_t mrq_entries;
    uint32_t *mrq_most; /* of a counted VCQ: maximum number of used entries */

    /* for the background thread */
    uint32_t wake_pending;   /* atomic: the thread must poll the VCQ */
    uint32_t seen_calls;     /* ut_vcq_calls() at the last look */
    uint64_t next_check_at;  /* ms */
    uint32_t check_interval; /* ms */
    uint32_t next_try;       /* atomic: ms to the next try while the program's calls have the VCQ */
};

/* The handle table. A handle is an index and a generation: a stale handle gives an error code. */
enum { UT_HANDLE_INDEX_BITS = 12, UT_MAX_VCQS = 1 << UT_HANDLE_INDEX_BITS };
/* Set in the handle that the program has of a recorded VCQ: ut_vcq_try_enter() fails with it, so
 * that calls take the longer way, where they are recorded. */
#define UT_HANDLE_RECORDED (1ull << 62)
static inline utofu_vcq_hdl_t ut_handle_plain(utofu_vcq_hdl_t handle)
{
    return handle & ~UT_HANDLE_RECORDED;
}
extern struct ut_vcq *ut_vcqs[UT_MAX_VCQS];

/* The VCQ at the index of a handle, or NULL. The caller compares its handle with the lock held. */
static inline struct ut_vcq *ut_vcq_at(utofu_vcq_hdl_t handle)
{
    return __atomic_load_n(&ut_vcqs[handle % UT_MAX_VCQS], __ATOMIC_ACQUIRE);
}

/* Takes the lock of a VCQ whose handle was `handle` a moment ago, for a thread that is not its
 * owner. */
void ut_vcq_lock_slow(struct ut_vcq *vcq, utofu_vcq_hdl_t handle) __attribute__((cold));
/* Called by ut_vcq_lock_slow() before it waits; may be NULL. Set before any VCQ exists. */
extern void (*ut_vcq_on_contention)(struct ut_vcq *vcq, utofu_vcq_hdl_t handle);

/* The locked VCQ, if `handle` is that of a recorded one; else it is unlocked, and NULL. */
struct ut_vcq *ut_vcq_enter_recorded(struct ut_vcq *vcq, utofu_vcq_hdl_t handle)
    __attribute__((cold));

/* Finds and locks a VCQ; NULL: not a VCQ of this process, or no longer. For calls that must not be
 * concurrent without THREAD_SAFE (manual 2.5): STADDs and one-sided communication. */
static inline struct ut_vcq *ut_vcq_enter(utofu_vcq_hdl_t handle)
{
    struct ut_vcq *vcq = ut_vcq_at(handle);

    if (__builtin_expect(!vcq, 0))
        return NULL;
    if (__builtin_expect(!ut_trylock_by_owner(&vcq->lock), 0))
        ut_vcq_lock_slow(vcq, handle);
    if (__builtin_expect(__atomic_load_n(&vcq->handle, __ATOMIC_RELAXED) != handle, 0))
        return ut_vcq_enter_recorded(vcq, handle);
    return vcq;
}

/* As ut_vcq_enter(), for calls that any thread may make at any time. */
static inline struct ut_vcq *ut_vcq_enter_any(utofu_vcq_hdl_t handle)
{
    struct ut_vcq *vcq = ut_vcq_at(handle);

    if (__builtin_expect(!vcq, 0))
        return NULL;
    ut_lock(&vcq->lock);
    if (__builtin_expect(__atomic_load_n(&vcq->handle, __ATOMIC_RELAXED) != handle, 0))
        return ut_vcq_enter_recorded(vcq, handle);
    return vcq;
}

/* As ut_vcq_enter(), but NULL also if the caller is not the lock's owner, or the lock is held: for
 * ways that end in a function of their own then, for which no registers are saved. */
static inline struct ut_vcq *ut_vcq_try_enter(utofu_vcq_hdl_t handle)
{
    struct ut_vcq *vcq = ut_vcq_at(handle);

    if (__builtin_expect(!vcq, 0))
        return NULL;
    if (__builtin_expect(!ut_trylock_by_owner(&vcq->lock), 0))
        return NULL;
    if (__builtin_expect(__atomic_load_n(&vcq->handle, __ATOMIC_RELAXED) != handle, 0)) {
        ut_unlock(&vcq->lock);
        return NULL;
    }
    return vcq;
}

static inline void ut_vcq_leave(struct ut_vcq *vcq)
{
    ut_unlock(&vcq->lock);
}

/* With the table locked: an unused VCQ and its index, or NULL: no memory, or all are in use; and a
 * new handle for that index. */
void ut_vcq_lock_table(void);
void ut_vcq_unlock_table(void);
struct ut_vcq *ut_vcq_find_unused(uint32_t *index);
utofu_vcq_hdl_t ut_vcq_new_handle(uint32_t index);

/* In a child made by fork(), where the parent's VCQs do not exist (manual 6.1.4.1): invalidates all
 * handles, and releases locks that other threads of the parent held. */
void ut_vcq_forget_all(void);

/* Can it be the handle of a freed VCQ? For messages. */
bool ut_vcq_is_stale_handle(utofu_vcq_hdl_t handle);

/* How many VCQs of the program there are on a TNI, and one more or less. */
uint32_t ut_vcq_count_of_tni(unsigned int tni);
void ut_vcq_count_at_tni(unsigned int tni, int more);

/* Calls visit() for each entry of the table, including free ones: visit() must lock and check. */
void ut_vcq_for_each(void (*visit)(struct ut_vcq *vcq, void *arg), void *arg);

/* The sum over all VCQs of its CQ, each counted with its lock held. */
size_t ut_vcq_cq_unread(struct ut_vcq *vcq, size_t (*count_one)(struct ut_vcq *vcq));

/* Are the four positions of the TOQ in order, and within its size? For assertions. */
static inline bool ut_toq_is_sound(const struct ut_vcq *vcq)
{
    uint32_t held = vcq->toq_tail - vcq->toq_head;

    return held <= vcq->toq_mask + 1 && vcq->tcq_head - vcq->toq_head <= held &&
           vcq->toq_exec - vcq->toq_head <= held &&
           vcq->toq_exec - vcq->tcq_head <= vcq->toq_tail - vcq->tcq_head;
}

/* Does a descriptor that is submitted now start at once: free mode, no other descriptor delayed,
 * and the VCQ not on the slow path? */
static inline bool ut_toq_starts_at_once(const struct ut_vcq *vcq)
{
    return ((vcq->toq_tail ^ vcq->toq_exec) | vcq->slow_path) == 0;
}

/* Called when one of these conditions, or toq_head, has changed: the direct path then needs one
 * comparison, and ends at a full TOQ, or immediately. */
static inline void ut_toq_limit_direct(struct ut_vcq *vcq)
{
    vcq->toq_direct =
        ut_toq_starts_at_once(vcq) ? vcq->toq_head + vcq->toq_mask + 1 : vcq->toq_tail;
}

/* May the slot behind the tail take the direct path? */
static inline bool ut_toq_is_direct(const struct ut_vcq *vcq)
{
    bool fast = vcq->toq_tail != vcq->toq_direct;

    UT_ASSERT(!fast ||
              (ut_toq_starts_at_once(vcq) && vcq->toq_tail - vcq->toq_head <= vcq->toq_mask));
    return fast;
}

/* Changes with every call of the program, so that the background thread detects polls. */
static inline uint32_t ut_vcq_calls(const struct ut_vcq *vcq)
{
    return vcq->poll_count + vcq->toq_tail + vcq->tcq_head;
}

static inline struct ut_slot *ut_vcq_slot(struct ut_vcq *vcq, uint32_t position)
{
    return &vcq->toq[position & vcq->toq_mask];
}

/* The MRQ is full: prints the message of manual chapter 7 and ends the program. Or a counted VCQ
 * has a new maximum of used entries. */
void ut_mrq_alarm(struct ut_vcq *vcq) __attribute__((cold));

static inline bool ut_mrq_below_alarm(const struct ut_vcq *vcq)
{
    return vcq->mrq_tail - vcq->mrq_head < vcq->mrq_alarm;
}

/* Two words of an MRQ entry. */
typedef uint64_t ut_pair __attribute__((vector_size(16), aligned(8), may_alias));

/* Writes an MRQ entry, if ut_mrq_below_alarm(), or delivers it directly to a waiting poll. Entries
 * are written and read in pairs of words, as each store has to leave the store buffer before the
 * next call can take the lock; no load spans two stores, which would stall until both have left.
 * `failed` is 0, or a failure packed by engine/failure.c. */
static inline __attribute__((always_inline)) struct utofu_mrq_notice *ut_mrq_write(
    struct ut_vcq *vcq, uint64_t failed, const struct utofu_mrq_notice v)
{
    struct utofu_mrq_notice *n = vcq->direct;
    UT_ASSERT(ut_is_locked(&vcq->lock));
    UT_ASSERT(n || vcq->mrq_tail - vcq->mrq_head <= vcq->mrq_mask);
    const uint64_t type = htole64(v.notice_type); /* and the padding after it */

    if (n)
        vcq->direct = NULL;
    else
        n = &vcq->mrq[vcq->mrq_tail++ & vcq->mrq_mask];
    ut_pair *to = (ut_pair *)n;
    to[0] = (ut_pair){type, v.vcq_id};
    to[1] = (ut_pair){v.edata, v.rmt_value};
    to[2] = (ut_pair){v.lcl_stadd, v.rmt_stadd};
    n->reserved[0] = failed; /* used by the library until the program takes the entry */
    return n;
}

static inline __attribute__((always_inline)) struct utofu_mrq_notice *ut_mrq_push(
    struct ut_vcq *vcq, uint64_t failed, const struct utofu_mrq_notice v)
{
    if (__builtin_expect(!ut_mrq_below_alarm(vcq), 0))
        ut_mrq_alarm(vcq);
    return ut_mrq_write(vcq, failed, v);
}

/* Takes the next entry; a failure has reserved[0] other than 0. NULL: none. An empty ring starts
 * again at index 0, so that a program that polls often uses few entries, which stay cached. */
static inline const struct utofu_mrq_notice *ut_mrq_pop(struct ut_vcq *vcq,
                                                        struct utofu_mrq_notice *notice)
{
    uint32_t head = vcq->mrq_head;

    if (head == vcq->mrq_tail)
        return NULL;
    UT_ASSERT(vcq->mrq_tail - head <= vcq->mrq_mask + 1);
    const struct utofu_mrq_notice *n = &vcq->mrq[head & vcq->mrq_mask];
    const ut_pair *from = (const ut_pair *)n;
    ut_pair *to = (ut_pair *)notice;
    to[0] = from[0];
    to[1] = from[1];
    to[2] = from[2];
    notice->reserved[0] = 0; /* the caller clears reserved[1] */
    if (head + 1 == vcq->mrq_tail)
        vcq->mrq_head = vcq->mrq_tail = 0;
    else
        vcq->mrq_head = head + 1;
    return n;
}

#endif
