/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link: what a VCQ knows of one remote VCQ. Its connection, its TOQ entries in order, the cached
 * part of the peer's STag table, announced STADDs, and messages.
 *
 * Uses util, ident, wire, process, peers, stag, vcq, provider.h and the registry. Calls the engine
 * through struct ut_link_ops.
 */
#ifndef UT_LINK_LINK_H
#define UT_LINK_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "link/announced.h"
#include "link/rx_history.h"
#include "link/fsm.h"
#include "link/stag_cache.h"
#include "stag/stag.h"
#include "vcq/vcq.h"

struct ut_stats_peer;
struct ut_rails;

/* A message of the library itself: the answer to an ARMW, or a packet of a gate. Kept until its
 * arrival is known. */
struct ut_link_msg {
    struct ut_link_msg *next;
    uint64_t number; /* its number on the link; 0 until it is posted */
    uint32_t size;
    uint32_t flags;  /* PROV_SOLICITED */
    uint64_t data[]; /* aligned */
};

/* A remote notice that arrived while local notices of the link were outstanding: see
 * ut_engine_early_notice(). */
struct ut_link_early_notice {
    struct ut_link_early_notice *next;
    uint32_t after; /* due when lcl_notices_ended reaches it */
    uint8_t type, edata;
    utofu_stadd_t lcl_stadd, rmt_stadd;
};

struct ut_link {
    struct ut_vcq *vcq;
    utofu_vcq_id_t peer; /* canonical */
    const struct prov_mapping
        *mapping; /* peer memory that this process has mapped, while up; or NULL */
    uint8_t provider;
    bool passive; /* the accepting half of a connection to oneself */
    bool was_up;
    bool in_waiting;
    bool lacks_memory;       /* for a message or an announced STADD: the link has to end */
    bool empty_write_posted; /* signalled, completes the requests before it */
    uint8_t peer_cmp;
    uint8_t peer_tni;
    uint32_t era;         /* counts the times that ARMWs were given up, to recognise late answers:
                             ut_armw_request_id() */
    uint32_t keep_source; /* longest put sent from a copy in the slot: ut_save_source() */
    struct prov_conn *conn;
    const struct prov_ops *ops;

    /* TOQ entries on the link, oldest first, by slot number */
    union {
        struct {
            uint32_t to_post;
            uint32_t state : 8;     /* enum ut_link_state */
            uint32_t armw_out : 24; /* incomplete ARMWs, and puts in parts */
        };
        uint64_t readiness; /* these fields, compared at once: ut_link_is_clear() */
    };
    uint32_t first;
    size_t few; /* puts up to this size may be posted by write_inline; 0: none */
    int (*write_inline)(struct prov_conn *conn, const void *data, uint64_t rmt, uint32_t rkey,
                        uint32_t length, uint64_t cookie); /* of `ops` */
    uint32_t *append; /* where to write the number of the next entry */
    union {
        struct {
            uint32_t any_order; /* puts may overtake each other: STRONG_ORDER takes the slow path */
            uint32_t reads_out; /* posted reads and device atomics */
        };
        uint64_t strong_waits; /* these fields, compared at once */
    };

    struct ut_link_msg *msg_first, **msg_last; /* all kept messages */
    struct ut_link_msg *msg_to_post;

    /* the writable STag of the peer used last */
    struct ut_stadd_range hot;
    uint32_t hot_rkey;

    uint32_t lcl_notices_begun, lcl_notices_ended; /* communications with a local notice */
    struct ut_link_early_notice *early_first, **early_last;

    /* repeated remote STADDs are announced once and then named by a number */
    struct ut_announced tx_announced;
    struct ut_announced
        rx_announced; /* has memory before the link is up: a peer's notice cannot be refused */
    uint64_t tx_number, rx_number;   /* messages and immediates so far */
    uint64_t peer_session;           /* session of the peer's last hello; 0: no hello yet */
    struct ut_rx_history rx_history; /* what the previous VCQ of this id received */
    uint64_t key;
    uint16_t serial, peer_serial; /* how often the link was up, as each side counts */
    struct ut_stats_peer *stats;  /* if the VCQ is counted, from the first use on */
    struct ut_rails *rails;       /* of a process with several ports: rails.h; or NULL */

    struct ut_link_msg *msg_spare; /* free buffers for small messages */
    uint32_t num_spare;

    struct ut_failure why; /* reason of the last give_up() */
    uint64_t deadline_ms, retry_ms;
    uint64_t again_ms;             /* UT_LINK_SILENT: end of the pause */
    uint32_t backoff_ms, pause_ms; /* pause_ms: the last pause */
    uint64_t up_ms;                /* when the connection came up */
    uint32_t breaks, broke_with;   /* breaks in a row, and the oldest slot then */

    struct ut_link *hash_next, *all_next, *waiting_next;

    /* the peer's STag table */
    uint64_t dir_addr;
    uint32_t dir_rkey;
    uint32_t reading; /* index of the STag whose entry is being read; UT_STAG_NONE: none */
    bool reading_dir;
    bool wait_warned; /* see warn_owner_absent() */
    uint32_t scratch; /* where the entry is read to: index into the VCQ's scratch memory, plus 1 */
    struct ut_remote remote;
};

/* Placeholder where there is no link: has no peer, and is never up. */
extern struct ut_link ut_link_none;

/* The link to a remote VCQ, created if there is none. NULL: no memory, or the id is invalid. */
struct ut_link *ut_link_get(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id);
static inline struct ut_link *ut_link_to(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id)
{
    if (__builtin_expect(rmt_vcq_id == vcq->last_id, 1))
        return vcq->last_link;
    return ut_link_get(vcq, rmt_vcq_id);
}

/* As ut_link_to(), for an id that may be invalid; returns &ut_link_none if there is no link. */
static inline struct ut_link *ut_link_if_any(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id)
{
    struct ut_link *link;

    if (__builtin_expect(rmt_vcq_id == vcq->last_id, 1))
        return vcq->last_link;
    link = ut_vcq_id_check(rmt_vcq_id) ? ut_link_get(vcq, rmt_vcq_id) : NULL;
    return link ? link : &ut_link_none;
}

/* Starts connecting if the link is idle, or if the peer was given up and may be tried again. */
void ut_link_start_connecting(struct ut_link *link);
/* The next progress call looks at the link again, by the background thread if by nobody else. */
void ut_link_schedule(struct ut_link *link);
/* Looks at every waiting link; returns how many do not wait any more. */
int ut_link_run_scheduled(struct ut_vcq *vcq);
/* When a waiting link is due; at once, if it waits for room. UINT64_MAX: no link waits. */
uint64_t ut_link_next_deadline(const struct ut_vcq *vcq, uint64_t now);
/* Closes connections and frees the links. */
void ut_link_destroy_all(struct ut_vcq *vcq);

/* Finds the remote memory of [stadd, stadd + length): 0; UTOFU_ERR_MRQ_RMT_*; or
 * UTOFU_ERR_NOT_COMPLETED while the entry of the STag is being read, before link_ops->pump().
 * `fresh`: the entry was read for this communication. */
int ut_link_find_memory(struct ut_link *link, utofu_stadd_t stadd, uint64_t length, bool write,
                        bool fresh, uint64_t *addr, uint32_t *rkey);

/* Is the address of [stadd, stadd + length) in the cached part of the peer's STag table? Never for
 * reserved STags: their STADDs are the same whatever is registered. Reads nothing, makes no link.
 */
bool ut_link_is_cached(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t stadd,
                       uint64_t length, uint64_t *addr);
/* The address of that entry in the peer's memory, and its cached contents. False: it is not cached,
 * or the link is down. */
bool ut_link_cached_entry(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t stadd,
                          uint64_t *at, struct ut_remote_stag *known);
/* Reads that entry again: is it unchanged? False also if the read takes a while, as over a network:
 * the VCQ may have been freed and created again with the same id. */
bool ut_link_recheck_entry(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t stadd);
/* Why ut_link_find_memory() fails, by the cached entry. */
struct ut_failure ut_link_error_cause(const struct ut_link *link, utofu_stadd_t stadd,
                                      uint64_t length, bool write);

/* ut_link_find_memory() for the writable STag used last; false: the STADD belongs to another STag.
 */
static inline bool ut_link_find_hot(const struct ut_link *link, utofu_stadd_t stadd,
                                    uint64_t length, uint64_t *addr, uint32_t *rkey)
{
    *rkey = link->hot_rkey;
    return ut_stadd_range_find(&link->hot, stadd, length, addr);
}

static inline int ut_link_resolve_memory(struct ut_link *link, utofu_stadd_t stadd, uint64_t length,
                                         bool write, bool fresh, uint64_t *addr, uint32_t *rkey)
{
    if (__builtin_expect(ut_link_find_hot(link, stadd, length, addr, rkey), 1))
        return 0;
    return ut_link_find_memory(link, stadd, length, write, fresh, addr, rkey);
}

/* Was the peer given up, for a while or for good? */
static inline bool ut_link_is_given_up(const struct ut_link *link)
{
    return link->state == UT_LINK_SILENT || link->state == UT_LINK_GONE;
}

/* Is the link connected, with no communication waiting to be posted, and no incomplete ARMW or
 * put in parts? */
static inline bool ut_link_is_clear(const struct ut_link *link)
{
    const struct ut_link clear = {.to_post = UT_NO_SLOT, .state = UT_LINK_UP};

    return ((link->readiness ^ clear.readiness) | (uintptr_t)link->msg_to_post) == 0;
}

/* Removes the oldest TOQ entry of the link. */
static inline void ut_link_remove_first(struct ut_link *link)
{
    UT_ASSERT(link->first <= link->vcq->toq_mask);
    link->first = link->vcq->toq[link->first].next;
    if (link->first == UT_NO_SLOT)
        link->append = &link->first;
}

/* Marks the entry of the STag as outdated: it is read again at the next use. */
void ut_link_invalidate_stag(struct ut_link *link, utofu_stadd_t stadd);

/* Sends a message of the library. The message is copied, queued if necessary, and repeated if a
 * connection breaks. If there is no memory for the copy, the link ends. */
void ut_link_send(struct ut_link *link, const void *data, size_t size, bool solicited);

/* Stores a STADD that the peer has announced; slot: less than UT_NUM_ANNOUNCED. If there is no
 * memory, the link ends. */
void ut_link_store_announced(struct ut_link *link, uint32_t slot, utofu_stadd_t stadd);

/* Posts waiting messages, as far as there is room. */
void ut_link_post_messages(struct ut_link *link);

/* Returns the number for a posted message or immediate. */
static inline uint64_t ut_link_count_tx(struct ut_link *link)
{
    return ++link->tx_number;
}

/* Cookies of requests: the kind in the low three bits, a number above. */
enum ut_cookie {
    UT_COOKIE_NONE,
    UT_COOKIE_SLOT, /* TOQ slot number */
    UT_COOKIE_READ, /* of the STag table */
    UT_COOKIE_MSG,
    UT_COOKIE_PART, /* TOQ slot number, of a put in parts */
};
static inline uint64_t ut_cookie(enum ut_cookie what, uint32_t which)
{
    return (uint64_t)which << 3 | what;
}

/* From the engine's callbacks. */
void ut_link_read_done(struct ut_link *link, enum prov_status status);
/* All messages up to the one with this cookie were delivered. */
void ut_link_msg_done(struct ut_link *link, uint64_t cookie, enum prov_status status);
void ut_link_on_request(struct ut_vcq *vcq, struct prov *prov, struct prov_conn *conn,
                        uint64_t peer_id, const void *hello, size_t hello_size);
void ut_link_on_up(struct ut_link *link, const void *hello, size_t hello_size);
void ut_link_on_down(struct ut_link *link, enum prov_reason reason);

/* Registered memory of a VCQ for reads of remote STag tables. */
enum { UT_SCRATCH_ENTRIES = 256, UT_SCRATCH_SIZE = sizeof(struct ut_stag_entry) };
_Static_assert(sizeof(struct ut_stag_dir) <= UT_SCRATCH_SIZE,
               "directory entries are read there, too");

/* What a link waits for, for messages to users. */
struct ut_link_pending {
    unsigned int waiting, posted, done, messages; /* communications; messages of the library */
};
struct ut_link_pending ut_link_pending(const struct ut_link *link);
const char *ut_link_wait_reason(const struct ut_link *link, const struct ut_link_pending *load);

/* What links call in the engine: ut_vcq.link_ops. Not used on fast paths. */
struct ut_link_ops {
    const struct prov_callbacks *rail_callbacks; /* of the endpoints of rails */
    void (*connected)(struct ut_link *link); /* the connection is up; the hello is handled next */
    void (*pump)(struct ut_link *link);      /* posts waiting communications */
    void (*give_up)(struct ut_link *link, int rc); /* MRQ errors for all on it */
    void (*rewind)(struct ut_link *link);          /* no request is posted any more */
    /* The peer has received `count` messages of the link; anew: an earlier VCQ of its id has. */
    void (*delivered)(struct ut_link *link, uint64_t count, bool anew);
};

#endif
