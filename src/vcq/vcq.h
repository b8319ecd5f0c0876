/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VCQ: its three queues, its lock, its endpoints. Everything in it is touched with its lock held,
 * by the program's thread or by the background thread.
 *
 * Uses util, ident, desc, process.
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
struct ut_stag_table;
struct ut_watch;

enum { UT_NO_SLOT = UINT32_MAX };

/* Life of a TOQ entry. */
enum ut_slot_state {
    UT_SLOT_FREE,
    UT_SLOT_SUBMITTED, /* in the TOQ, not started (DELAY_START, session mode) */
    UT_SLOT_WAITING,   /* on its link, not (completely) handed to the provider */
    UT_SLOT_POSTED,    /* handed to the provider, or waiting for the target's answer */
    UT_SLOT_DONE,      /* complete; an earlier one of the link is not */
    UT_SLOT_RETIRED,   /* its notices are written */
};

struct ut_slot {
    struct ut_desc desc;
    void *cbdata;
    struct ut_link *link;
    uint32_t next;               /* on the link */
    uint8_t state;
    union {
        struct {
            uint64_t rmt_value;  /* ARMW: the old value */
            uint64_t msg_number; /* of its last message or immediate on the link; 0: none yet */
            int16_t tcq_rc;      /* what poll_tcq returns for it */
            int16_t mrq_rc;      /* what its local MRQ notice says */
            uint8_t stage;       /* how much of it is posted: see engine */
            uint8_t pending;     /* done() calls that are still to come */
            bool tcq_ready;      /* its TCQ entry is written */
            bool apart : 1;      /* ARMW, or watched: there is more to its end */
            bool streak : 1;     /* posted with PROV_STREAK, and nothing told of it since */
            bool fresh;          /* the remote STag entry was read anew for it */
            bool applied;        /* ARMW: executed; at most its notice is to be sent */
            uint8_t retries;
            uint8_t unused[5];
        };
        uint64_t as_new[4];      /* all of the above, to clear it */
    };
} __attribute__((aligned(128)));

struct ut_vcq {
    /* what every call touches; the first two outlive the VCQ, whose place is used again */
    utofu_vcq_hdl_t handle;     /* atomic; 0: not in use, 1: in use without a handle */
    struct ut_lock lock;
    uint32_t toq_mask;
    struct ut_slot *toq;
    uint32_t toq_tail;   /* next to fill; all four run freely */
    uint32_t toq_exec;   /* next to start */
    uint32_t tcq_head;   /* next whose TCQ entry is to be read */
    uint32_t toq_head;   /* oldest that is not free */
    uint32_t mrq_mask, mrq_head, mrq_tail;
    uint32_t mrq_alarm;  /* with so many entries in use the next one is looked at: no room, or more
                          * than ever of a watched VCQ */
    struct utofu_mrq_notice *mrq;
    struct utofu_mrq_notice *taker; /* where a poll that found the MRQ empty wants the next entry */
    utofu_vcq_id_t last_id;    /* for this id the link found last was asked for; 0: for none */
    struct ut_link *last_link; /* the link found last, at first &ut_link_none */
    bool long_way;             /* session mode, or watched */
    bool more_to_do;           /* the library's own, or no background thread: there is more to do
                                * than polling the endpoints */
    unsigned int num_eps;
    uint32_t idle_polls, patience; /* polls in vain, and how many before they are looked at */
    struct {
        struct prov_ep *ep;
        const struct prov_ops *ops;
        int provider;
        uint32_t keep_source; /* see struct ut_link */
    } eps[UT_NUM_PROVIDERS];
    uint32_t unattended;      /* looks at it without a background thread */
    uint32_t poll_count;      /* grows with every call: tells the background thread who polls */
    bool unflushed;           /* PROV_MORE was used since the last flush */
    bool held_up;             /* the next poll in vain calls ut_engine_release() */

    /* links */
    struct ut_link **link_buckets;
    uint32_t num_buckets, num_links;
    struct ut_link *all_links;  /* with the passive ones */
    struct ut_link *waiting;    /* links that want to be looked at again: room or time */

    /* session mode */
    uint64_t scheduled;  /* descriptors that arrived SPS allow to start, in all */
    uint64_t started;    /* descriptors started, in all */
    bool shortfall_told;

    struct ut_watch *watch; /* counters and timeline; NULL: not watched */

    struct ut_stag_table *stags;
    uint8_t *scratch;              /* registered: UT_SCRATCH_ENTRIES of UT_SCRATCH_SIZE bytes */
    struct ut_region *scratch_region;
    uint32_t *scratch_free;        /* stack of free entries */
    uint32_t num_scratch_free;
    uint64_t *armw_words;          /* registered, one per TOQ slot; device ARMW only */
    struct ut_region *armw_region;

    /* fixed at creation */
    uint16_t cq_index;          /* into ut_process.cq_ids */
    uint16_t tni;               /* the real one, also of a VCQ of the library's own */
    unsigned long flags;
    struct ut_vcq_ident ident;
    utofu_vcq_id_t id;
    uint64_t session_number;    /* random; tells it from an earlier VCQ of the same id */
    uint32_t mrq_entries;

    /* the background thread's view; its own lock */
    uint32_t wake_pending;      /* atomic: progress() asked for ep_poll() */
    uint32_t seen_poll_count;
    uint64_t look_again_at;     /* ms */
    uint32_t look_interval;     /* ms */
};

/* The handle table. A handle is an index and a generation: a stale one is an error code. */
enum { UT_HANDLE_INDEX_BITS = 12, UT_MAX_VCQS = 1 << UT_HANDLE_INDEX_BITS };
extern struct ut_vcq *ut_vcqs[UT_MAX_VCQS];
/* Of the VCQ in the same place, atomic: a hint that the link found last has a view. Beside the table
 * because it is looked at before anything is known of the VCQ. */
extern uint8_t ut_in_view[UT_MAX_VCQS];

/* The VCQ in the place that a handle names, if there is one; whose handle it is shows under its
 * lock. */
static inline struct ut_vcq *ut_vcq_at(utofu_vcq_hdl_t handle)
{
    return __atomic_load_n(&ut_vcqs[handle % UT_MAX_VCQS], __ATOMIC_ACQUIRE);
}

/* Finds and locks; NULL: not (any more) a VCQ of this process. */
static inline struct ut_vcq *ut_vcq_enter(utofu_vcq_hdl_t handle)
{
    struct ut_vcq *vcq = ut_vcq_at(handle);

    if (__builtin_expect(!vcq, 0))
        return NULL;
    ut_lock(&vcq->lock);
    if (__builtin_expect(__atomic_load_n(&vcq->handle, __ATOMIC_RELAXED) != handle, 0)) {
        ut_unlock(&vcq->lock);
        return NULL;
    }
    return vcq;
}

/* The same, but NULL also where somebody else holds the lock: for ways that leave the rest to
 * others. */
static inline struct ut_vcq *ut_vcq_try_enter(utofu_vcq_hdl_t handle)
{
    struct ut_vcq *vcq = ut_vcq_at(handle);

    if (__builtin_expect(!vcq, 0))
        return NULL;
    uint32_t held = ut_lock_grab(&vcq->lock);
    if (__builtin_expect((held | (__atomic_load_n(&vcq->handle, __ATOMIC_RELAXED) ^ handle)) != 0,
                         0)) {
        if (!held)
            ut_unlock(&vcq->lock);
        return NULL;
    }
    return vcq;
}

static inline void ut_vcq_leave(struct ut_vcq *vcq)
{
    ut_unlock(&vcq->lock);
}

int ut_vcq_create(unsigned int tni, int cmp_id, unsigned long flags, utofu_vcq_hdl_t *handle);
int ut_vcq_free(utofu_vcq_hdl_t handle);
/* The library's own VCQ of a TNI, for barrier gates; made at the first call, never freed. In its id
 * the local rank of the process stands for the CQ, so that a VBG id tells it without a look-up. */
int ut_vcq_internal(unsigned int tni, struct ut_vcq **vcq);

/* All VCQs that live now, for the background thread and for exit: calls visit(vcq) for each while
 * none of them can be freed. */
void ut_vcq_for_each(void (*visit)(struct ut_vcq *vcq, void *arg), void *arg);

/* Sum over the VCQs of its CQ, each counted with its lock held. */
size_t ut_vcq_cq_unread(struct ut_vcq *vcq, size_t (*count_one)(struct ut_vcq *vcq));

static inline struct ut_slot *ut_vcq_slot(struct ut_vcq *vcq, uint32_t position)
{
    return &vcq->toq[position & vcq->toq_mask];
}

/* No room in the MRQ: prints chapter 7's message and ends the program; or more used than ever. */
void ut_mrq_alarm(struct ut_vcq *vcq) __attribute__((cold));

static inline bool ut_mrq_is_at_ease(const struct ut_vcq *vcq)
{
    return vcq->mrq_tail - vcq->mrq_head < vcq->mrq_alarm;
}

/* Writes an MRQ entry where it is at ease, or hands it to the poll that waits for it. All is
 * written, and read later, in whole words: a load that spans two stores would have to wait for them
 * to leave the CPU. */
static inline __attribute__((always_inline)) void ut_mrq_write(struct ut_vcq *vcq, int rc,
                                                               const struct utofu_mrq_notice v)
{
    struct utofu_mrq_notice *n = vcq->taker;
    const uint64_t type = htole64(v.notice_type); /* and the padding behind it */

    if (n)
        vcq->taker = NULL;
    else
        n = &vcq->mrq[vcq->mrq_tail++ & vcq->mrq_mask];
    memcpy(n, &type, sizeof(type));
    n->vcq_id = v.vcq_id;
    n->edata = v.edata;
    n->rmt_value = v.rmt_value;
    n->lcl_stadd = v.lcl_stadd;
    n->rmt_stadd = v.rmt_stadd;
    n->reserved[0] = (uint64_t)(int64_t)rc; /* ours until it is handed out */
}

static inline __attribute__((always_inline)) void ut_mrq_push(struct ut_vcq *vcq, int rc,
                                                              const struct utofu_mrq_notice v)
{
    if (__builtin_expect(!ut_mrq_is_at_ease(vcq), 0))
        ut_mrq_alarm(vcq);
    ut_mrq_write(vcq, rc, v);
}

/* The return code of the entry that was handed to vcq->taker. */
static inline int ut_mrq_taken(struct utofu_mrq_notice *notice)
{
    int rc = (int)(int64_t)notice->reserved[0];

    notice->reserved[0] = notice->reserved[1] = 0;
    return rc;
}

/* Takes the next entry: its return code, or UTOFU_ERR_NOT_FOUND. The one behind the last of all is
 * the first again, so that a program that keeps up uses a few entries only, which stay cached. */
static inline int ut_mrq_pop(struct ut_vcq *vcq, struct utofu_mrq_notice *notice)
{
    if (vcq->mrq_head == vcq->mrq_tail)
        return UTOFU_ERR_NOT_FOUND;
    struct utofu_mrq_notice *n = &vcq->mrq[vcq->mrq_head++ & vcq->mrq_mask];
    int rc = (int)(int64_t)n->reserved[0];
    memcpy(notice, n, sizeof(uint64_t));
    notice->vcq_id = n->vcq_id;
    notice->edata = n->edata;
    notice->rmt_value = n->rmt_value;
    notice->lcl_stadd = n->lcl_stadd;
    notice->rmt_stadd = n->rmt_stadd;
    notice->reserved[0] = notice->reserved[1] = 0;
    if (vcq->mrq_head == vcq->mrq_tail)
        vcq->mrq_head = vcq->mrq_tail = 0;
    return rc;
}

#endif
