/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VCQ: its three queues, its lock, its endpoints. A thread of the program or the background
 * thread accesses the fields with the lock held.
 * Uses util, ident, desc, wire, process. runtime creates and frees VCQs.
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
#include "util/hash_table.h"
#include "util/lock.h"
#include "util/long_wait.h"
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
    UT_SLOT_WAITING,   /* on its link, not or not completely posted to the provider */
    UT_SLOT_POSTED,    /* posted; or the target's reply is outstanding */
    UT_SLOT_DONE,      /* complete, but an earlier slot of the link is not */
    UT_SLOT_RETIRED,   /* its notices are written */
};

/* The progress of a slot on its link. The stage determines the next request, and the meaning of a
 * completion. */
enum ut_slot_stage {
    UT_STAGE_NONE,     /* nothing is posted */
    UT_STAGE_DATA,     /* posted: the data, the read, the atomic, or the request to the target's
                        * CPU. If the remote notice is a message, it is next */
    UT_STAGE_EXECUTED, /* ARMW: the old value is known. Put in parts: all parts are complete. The
                        * remote notice, if requested, is next */
    UT_STAGE_NOTICE,   /* posted: the message with the remote notice, the last request */
    UT_STAGE_RETRY,    /* ARMW by the device: the compare-and-swap failed, and could not be posted
                        * again yet */
};

/* State of a put in parts over several connections: engine/parts.c. */
enum ut_slot_split {
    UT_SPLIT_POSTED = 1,            /* was posted in parts; a repetition uses one connection */
    UT_SPLIT_OUTSTANDING = 2,       /* has not ended; counted in ut_rails.split_puts_out */
    UT_SPLIT_PART_NOT_EXECUTED = 4, /* a part was certainly not executed */
    UT_SPLIT_PART_UNKNOWN = 8,      /* it is unknown whether a part was executed */
};

struct ut_slot {
    struct ut_desc desc;
    void *cbdata;
    struct ut_link *link;
    uint32_t next; /* next slot on the link */
    uint8_t state; /* enum ut_slot_state */
    /* the fields below are set when the slot enters the TOQ */
    uint64_t rmt_value;  /* ARMW: the old value, or the value that the device read last */
    uint64_t msg_number; /* number of the slot's last message or immediate on the link; 0: none */
    union {
        struct {
            union {
                struct {
                    int16_t tcq_rc; /* return code of utofu_poll_tcq() */
                    bool tcq_ready; /* the TCQ entry is written */
                    uint8_t unused_tcq;
                };
                uint32_t tcq; /* the fields above as one word: see ut_slot_succeeded() */
            };
            int16_t mrq_rc;       /* return code in the local MRQ notice */
            uint8_t pending;      /* number of outstanding requests */
            uint8_t stage : 6;    /* enum ut_slot_stage */
            uint8_t slow_end : 1; /* ARMW, or counted: complete_usual() does not handle the slot */
            uint8_t unsignalled : 1; /* posted with PROV_UNSIGNALLED, and not complete */
        };
        uint64_t progress; /* the fields above as one word, for one store or comparison */
    };
    union {
        struct {
            bool stag_reread; /* the STag entry of the peer was read again for this slot */
            bool applied;     /* ARMW: executed; only the notice may be missing */
            uint8_t retries;  /* number of retries after access errors */
            uint8_t cause;    /* cause of tcq_rc or mrq_rc: enum ut_cause */
            bool reply_owed;  /* ARMW: the target has received it; the reply is outstanding */
            uint8_t parted;   /* put: enum ut_slot_split */
            uint8_t by_rail;  /* put: number of `pending` requests on other connections (rails) */
            uint8_t unused_history;
        };
        uint64_t history; /* the fields above as one word */
    };
    uint64_t detail; /* detail of the cause */
} __attribute__((aligned(128)));
_Static_assert(sizeof(struct ut_slot) == 128, "two cache lines");

/* True if the TCQ entry is written, and has no error. */
static inline bool ut_slot_succeeded(const struct ut_slot *slot)
{
    const struct ut_slot succeeded = {.tcq_ready = true};

    return __builtin_expect(slot->tcq == succeeded.tcq, 1);
}

/* How the program of a session-mode VCQ behaves between a post and the next poll. */
enum ut_pace {
    UT_PACE_POLLS,
    UT_PACE_UNSURE,   /* an entry was there before the program polled: the time to the next poll is
                       * measured */
    UT_PACE_COMPUTES, /* the background thread does not wait for polls of the program */
};

/* An endpoint of a VCQ. */
struct ut_vcq_ep {
    struct prov_ep *ep;
    const struct prov_ops *ops;
    int provider;
    uint32_t source_copy_max; /* as in struct ut_link */
};

/* Handlers of the library's own VCQs, which serve barrier gates: for messages that the engine does
 * not handle. */
struct ut_vcq_handlers {
    /* UT_MSG_PACKET and UT_MSG_GATE. `size` is not below the size of the message's structure */
    void (*packet)(struct ut_link *link, const void *data, size_t size);
    void (*message)(struct ut_link *link, const void *data, size_t size);
    /* Messages to the peer are lost. dead: the peer will send no more messages. */
    void (*link_failed)(struct ut_link *link, bool dead);
    /* Makes progress beyond polling the endpoints. Returns the number of events. */
    int (*progress)(struct ut_vcq *vcq);
};

enum ut_queue { UT_QUEUE_TCQ = 1, UT_QUEUE_MRQ = 2 };

struct ut_vcq {
    /* every call uses these; handle and lock stay valid when the VCQ is freed, because the struct
     * is reused */
    utofu_vcq_hdl_t handle; /* atomic; 0: not in use, 1: in use without a handle */
    struct ut_lock lock;
    uint32_t toq_mask;
    struct ut_slot *toq;
    uint32_t toq_tail;   /* next entry to fill; all five positions wrap around at 2^32 */
    uint32_t toq_exec;   /* next entry to start */
    uint32_t toq_direct; /* limit of the direct path: see ut_toq_limit_direct() */
    uint32_t tcq_head;   /* next TCQ entry to read */
    uint32_t toq_head;   /* oldest entry that is not free */
    uint32_t mrq_mask, mrq_head, mrq_tail;
    uint32_t mrq_alarm; /* number of used entries at which ut_mrq_alarm() is called: the MRQ is
                         * full, or a counted VCQ has a new maximum */
    struct utofu_mrq_notice *mrq;
    struct utofu_mrq_notice *direct; /* direct delivery: a poll that found the MRQ empty lets the
                                      * next entry be written here */
    utofu_vcq_id_t last_id;          /* the id that belongs to last_link; 0: none */
    struct ut_link *last_link;       /* the link that was looked up last; initially &ut_link_none */
    bool slow_path;                  /* session mode, counted, in a wait, shuffled, checked, or
                                      * recorded */
    bool more_to_do;                 /* the library's own VCQ, or no background thread: progress
                                      * calls ut_engine_progress_slow() */
    bool shuffled;                   /* UTOFU_SHUFFLE */
    bool watched;                    /* counted or checked: every descriptor is reported when it
                                      * starts */
    bool recorded;                   /* UTOFU_TRACE=FILE,record=1: see record/record.h */
    unsigned int num_eps, num_rails; /* num_rails: how many of these are endpoints of rails */
    uint32_t idle_polls, spin_limit; /* number of empty polls in a row, and the limit at which
                                      * leave_idle() yields */
    struct ut_vcq_ep eps[PROV_COUNT + UT_MAX_RAILS]; /* one per provider, then those of rails */
    const struct ut_vcq_ep *eps_end;                 /* one past the last one */
    uint32_t unattended;     /* number of progress calls without a background thread */
    uint32_t poll_count;     /* number of calls that changed neither toq_tail nor tcq_head */
    bool unflushed;          /* PROV_MORE was used since the last flush */
    bool completions_wanted; /* the next empty poll calls ut_engine_request_completions() */
    uint32_t toq_limit;      /* number of usable TOQ entries: all, unless shuffled */

    /* links */
    struct ut_hash_table links_by_key;
    struct ut_link *all_links; /* all links, including the passive one */
    struct ut_link *passive;   /* the accepting side of a connection from the VCQ to itself; NULL:
                                * none */
    struct ut_link *scheduled_links; /* links that wait for a queue entry or a time:
                                      * ut_link_schedule() */
    bool runs_scheduled;             /* ut_link_run_scheduled() is running */
    const struct ut_link_ops *link_ops;
    const struct ut_vcq_handlers *handlers; /* NULL: a VCQ of the program */

    /* session mode */
    uint64_t scheduled; /* total number of descriptors that the received SPS allow to start */
    uint64_t started;   /* total number of started descriptors */
    bool shortfall_reported;
    uint8_t pace;       /* enum ut_pace */
    uint64_t posted_at; /* time of the last post in ns; 1: the time was not taken; 0: the program
                         * has polled since then. Never 0 for a checked VCQ, so that every empty
                         * poll is reported */

    struct { /* a long row of empty polls, for ut_dump() and for errors in a queue that the program
              * does not poll */
        struct ut_long_wait wait;
        uint64_t last_ms;
        uint32_t seen;   /* idle_polls at the last record */
        uint32_t queues; /* enum ut_queue */
    } empty;

    struct ut_wait *waits; /* threads that sleep until there is an entry to poll: vcq/wait.h */
    bool wait_ended;       /* the next wait returns immediately */

    struct ut_stats *stats; /* counters and timeline; NULL: not requested */
    struct ut_check *check; /* state of the check mode; NULL: the mode is off, or the VCQ is the
                             * library's own */
    uintptr_t in_call; /* atomic: the thread that is inside a call on a checked VCQ, during part of
                        * the call; or 0. Valid after `check` is freed */

    struct ut_stag_table *stags;
    uint8_t *scratch; /* registered memory: UT_SCRATCH_ENTRIES of UT_SCRATCH_SIZE bytes */
    struct ut_region *scratch_region;
    uint32_t *scratch_free; /* stack of free entries */
    uint32_t num_scratch_free;
    uint64_t
        *armw_words; /* registered memory, one word per TOQ slot; only for ARMWs of the device */
    struct ut_region *armw_region;

    /* fixed at creation */
    uint16_t cq_index; /* index into ut_process.cq_ids */
    uint16_t tni;      /* the real TNI, also for a VCQ of the library */
    unsigned long flags;
    struct ut_vcq_ident ident;
    utofu_vcq_id_t id;
    uint64_t incarnation; /* a random number that distinguishes this VCQ from an earlier one with
                           * the same id */
    uint32_t mrq_entries;
    uint32_t *mrq_most; /* for a counted VCQ: maximum number of used entries */

    /* for the background thread */
    uint32_t wake_pending;   /* atomic: the thread must poll the VCQ */
    uint32_t seen_calls;     /* ut_vcq_calls() when the thread checked last */
    uint64_t next_check_at;  /* ms */
    uint32_t check_interval; /* ms */
    uint32_t next_try;       /* atomic: ms until the next attempt, while calls of the program hold
                              * the lock */
};

/* The handle table. A handle is an index and a generation, so that a stale handle is detected. */
enum { UT_HANDLE_INDEX_BITS = 12, UT_MAX_VCQS = 1 << UT_HANDLE_INDEX_BITS };
/* This bit is set in the handle that the program gets for a recorded VCQ. ut_vcq_try_enter() fails
 * with such a handle, so the call takes the slow path, which records it. */
#define UT_HANDLE_RECORDED (1ull << 62)
static inline utofu_vcq_hdl_t ut_handle_plain(utofu_vcq_hdl_t handle)
{
    return handle & ~UT_HANDLE_RECORDED;
}
extern struct ut_vcq *ut_vcqs[UT_MAX_VCQS];

/* True for the library's own VCQs, which serve barrier gates; false for those of the program. */
static inline bool ut_vcq_is_internal(const struct ut_vcq *vcq)
{
    return vcq->handlers != NULL;
}

/* Returns the VCQ at the index of a handle, or NULL. The caller compares the handles with the lock
 * held. */
static inline struct ut_vcq *ut_vcq_at(utofu_vcq_hdl_t handle)
{
    return __atomic_load_n(&ut_vcqs[handle % UT_MAX_VCQS], __ATOMIC_ACQUIRE);
}

/* Takes the lock of a VCQ whose handle was `handle` a moment ago. For a thread that does not own
 * the lock. */
void ut_vcq_lock_slow(struct ut_vcq *vcq, utofu_vcq_hdl_t handle) __attribute__((cold));
/* ut_vcq_lock_slow() calls this function before it waits. May be NULL. Set before any VCQ exists.
 */
extern void (*ut_vcq_on_contention)(struct ut_vcq *vcq, utofu_vcq_hdl_t handle);

/* Returns the locked VCQ if `handle` is the handle of a recorded VCQ. Otherwise unlocks the VCQ,
 * and returns NULL. */
struct ut_vcq *ut_vcq_enter_recorded(struct ut_vcq *vcq, utofu_vcq_hdl_t handle)
    __attribute__((cold));

/* Finds and locks a VCQ. NULL: this process has no VCQ with that handle. For calls that must not be
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

/* Does the same as ut_vcq_enter(), for calls that any thread may make at any time. */
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

/* Does the same as ut_vcq_enter(), but also returns NULL if the caller does not own the lock, or
 * the lock is held. The caller then tail-calls a slow function, so that the fast path saves no
 * registers. */
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

/* With the table locked. ut_vcq_find_unused(): an unused VCQ and its index, or NULL if all are in
 * use or memory is short. ut_vcq_new_handle(): a new handle for the index. */
void ut_vcq_lock_table(void);
void ut_vcq_unlock_table(void);
struct ut_vcq *ut_vcq_find_unused(uint32_t *index);
utofu_vcq_hdl_t ut_vcq_new_handle(uint32_t index);

/* Invalidates all handles and releases all locks. For a child made by fork(), where the parent's
 * VCQs do not exist (manual 6.1.4.1). */
void ut_vcq_forget_all(void);

/* True if this may be the handle of a freed VCQ. For messages. */
bool ut_vcq_is_stale_handle(utofu_vcq_hdl_t handle);

/* ut_vcq_count_of_tni(): the number of VCQs that the program has on a TNI. ut_vcq_count_at_tni()
 * adds to the number. */
uint32_t ut_vcq_count_of_tni(unsigned int tni);
void ut_vcq_count_at_tni(unsigned int tni, int more);

/* Calls visit() for each entry of the table, including free entries: visit() must lock and check.
 */
void ut_vcq_for_each(void (*visit)(struct ut_vcq *vcq, void *arg), void *arg);

/* Returns the sum of count_one() over all VCQs of the same CQ. Each call holds the lock of its VCQ.
 */
size_t ut_vcq_cq_unread(struct ut_vcq *vcq, size_t (*count_one)(struct ut_vcq *vcq));

/* For assertions: the positions of the TOQ are in order and within its size. */
static inline bool ut_toq_is_sound(const struct ut_vcq *vcq)
{
    uint32_t held = vcq->toq_tail - vcq->toq_head;

    return held <= vcq->toq_mask + 1 && vcq->tcq_head - vcq->toq_head <= held &&
           vcq->toq_exec - vcq->toq_head <= held &&
           vcq->toq_exec - vcq->tcq_head <= vcq->toq_tail - vcq->tcq_head;
}

/* True if a submitted descriptor starts immediately: in free mode, if no other descriptor is
 * delayed, and the VCQ is not on the slow path. */
static inline bool ut_toq_starts_at_once(const struct ut_vcq *vcq)
{
    return ((vcq->toq_tail ^ vcq->toq_exec) | vcq->slow_path) == 0;
}

/* Called when one of these conditions, or toq_head, has changed. Stores a limit, so that the direct
 * path needs one comparison. The limit is the end of the TOQ, or closes the direct path. */
static inline void ut_toq_limit_direct(struct ut_vcq *vcq)
{
    vcq->toq_direct =
        ut_toq_starts_at_once(vcq) ? vcq->toq_head + vcq->toq_mask + 1 : vcq->toq_tail;
}

/* True if the slot behind the tail may take the direct path. */
static inline bool ut_toq_is_direct(const struct ut_vcq *vcq)
{
    bool fast = vcq->toq_tail != vcq->toq_direct;

    UT_ASSERT(!fast ||
              (ut_toq_starts_at_once(vcq) && vcq->toq_tail - vcq->toq_head <= vcq->toq_mask));
    return fast;
}

/* Returns a number that changes with every call of the program, so that the background thread
 * detects polls. */
static inline uint32_t ut_vcq_calls(const struct ut_vcq *vcq)
{
    return vcq->poll_count + vcq->toq_tail + vcq->tcq_head;
}

static inline struct ut_slot *ut_vcq_slot(struct ut_vcq *vcq, uint32_t position)
{
    return &vcq->toq[position & vcq->toq_mask];
}

/* Either the MRQ is full: prints the message of manual chapter 7, and ends the program. Or a
 * counted VCQ has a new maximum of used entries. */
void ut_mrq_alarm(struct ut_vcq *vcq) __attribute__((cold));

static inline bool ut_mrq_below_alarm(const struct ut_vcq *vcq)
{
    return vcq->mrq_tail - vcq->mrq_head < vcq->mrq_alarm;
}

/* Two words of an MRQ entry. */
typedef uint64_t ut_pair __attribute__((vector_size(16), aligned(8), may_alias));

/* Writes an MRQ entry, if ut_mrq_below_alarm(), or delivers it to a waiting poll. Entries are
 * written and read in pairs of words: each store has to leave the store buffer before the next call
 * can take the lock, and no load may span two stores, which would stall until both have left.
 * `failed` is 0, or a failure packed by engine/failure.c. */
static inline __attribute__((always_inline)) struct utofu_mrq_notice *ut_mrq_write(
    struct ut_vcq *vcq, uint64_t failed, const struct utofu_mrq_notice v)
{
    struct utofu_mrq_notice *n = vcq->direct;
    UT_ASSERT(ut_is_locked(&vcq->lock));
    UT_ASSERT(n || vcq->mrq_tail - vcq->mrq_head <= vcq->mrq_mask);
    const uint64_t type = htole64(v.notice_type); /* writes the padding after the type, too */

    if (n)
        vcq->direct = NULL;
    else
        n = &vcq->mrq[vcq->mrq_tail++ & vcq->mrq_mask];
    ut_pair *to = (ut_pair *)n;
    to[0] = (ut_pair){type, v.vcq_id};
    to[1] = (ut_pair){v.edata, v.rmt_value};
    to[2] = (ut_pair){v.lcl_stadd, v.rmt_stadd};
    n->reserved[0] = failed; /* the library uses this field until the program takes the entry */
    return n;
}

static inline __attribute__((always_inline)) struct utofu_mrq_notice *ut_mrq_push(
    struct ut_vcq *vcq, uint64_t failed, const struct utofu_mrq_notice v)
{
    if (__builtin_expect(!ut_mrq_below_alarm(vcq), 0))
        ut_mrq_alarm(vcq);
    return ut_mrq_write(vcq, failed, v);
}

/* Takes the next entry, or returns NULL. A failure has reserved[0] other than 0. An empty ring
 * starts again at index 0, so a program that polls often uses few entries, which stay cached. */
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
