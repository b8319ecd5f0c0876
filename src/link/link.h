/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link is the state of a VCQ for one remote VCQ: the connection, the TOQ entries in order, the
 * cached part of the peer's STag table, the announced STADDs and the messages.
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

/* A message of the library itself, such as an ARMW reply or a packet between barrier gates. The
 * link stores the message until its arrival is acknowledged. */
struct ut_link_msg {
    struct ut_link_msg *next;
    uint64_t number; /* sequence number on the link; 0: not posted */
    uint32_t size;
    uint32_t flags;  /* PROV_SOLICITED */
    uint64_t data[]; /* 8-byte aligned */
};

/* A remote notice that arrived before earlier local notices of the link were delivered: see
 * ut_engine_early_notice(). */
struct ut_link_early_notice {
    struct ut_link_early_notice *next;
    uint32_t after; /* deliver when lcl_notices_ended reaches this value */
    uint8_t type, edata;
    utofu_stadd_t lcl_stadd, rmt_stadd;
};

struct ut_link {
    struct ut_vcq *vcq;
    utofu_vcq_id_t peer;                /* canonical id */
    const struct prov_mapping *mapping; /* peer memory mapped by this process, while up; or NULL */
    uint8_t provider;
    bool passive; /* accepting side of a connection to itself */
    bool was_up;
    bool in_waiting;
    bool lacks_memory;       /* for a message or an announced STADD: the link has to be closed */
    bool empty_write_posted; /* a signalled empty write that completes the earlier requests is
                                outstanding */
    uint8_t peer_cmp;
    uint8_t peer_tni;
    uint32_t armw_epoch;  /* number of times that ARMWs were given up: identifies late replies, see
                      ut_armw_request_id() */
    uint32_t keep_source; /* maximum size of a put whose source is copied to the slot:
                             ut_save_source() */
    struct prov_conn *conn;
    const struct prov_ops *ops;

    /* TOQ entries of the link, oldest first, as slot numbers */
    union {
        struct {
            uint32_t to_post;
            uint32_t state : 8;     /* enum ut_link_state */
            uint32_t armw_out : 24; /* outstanding ARMWs and divided puts */
        };
        uint64_t readiness; /* both fields, for one comparison: ut_link_is_clear() */
    };
    uint32_t first;
    size_t inline_max; /* maximum size of a put for write_inline(); 0: not available */
    int (*write_inline)(struct prov_conn *conn, const void *data, uint64_t rmt, uint32_t rkey,
                        uint32_t length, uint64_t cookie); /* copy of ops->write_inline */
    uint32_t *append; /* where the number of the next entry is stored */
    union {
        struct {
            uint32_t
                any_order; /* puts may overtake each other, so STRONG_ORDER takes the slow path */
            uint32_t reads_out; /* outstanding reads and device atomics */
        };
        uint64_t strong_waits; /* both fields, for one comparison */
    };

    struct ut_link_msg *msg_first, **msg_last; /* all unacknowledged messages */
    struct ut_link_msg *msg_to_post;

    /* the peer's writable STag that was used last */
    struct ut_stadd_range hot;
    uint32_t hot_rkey;

    uint32_t lcl_notices_begun, lcl_notices_ended; /* communications with a local notice */
    struct ut_link_early_notice *early_first, **early_last;

    /* remote STADDs that the puts name by a slot number */
    struct ut_announced tx_announced;
    struct ut_announced rx_announced; /* allocated before the link is up, since a peer's notice
                                         cannot be rejected */
    uint64_t tx_number, rx_number;    /* number of messages and immediates */
    uint64_t peer_session; /* session number of the peer's last hello; 0: no hello received */
    struct ut_rx_history rx_history; /* receive count of the previous VCQ with this id */
    uint64_t key;
    uint16_t serial, peer_serial; /* number of times that the link was up, as each side counts */
    struct ut_stats_peer *stats;  /* set at the first use if the VCQ has statistics */
    struct ut_rails *rails;       /* further connections over other ports, see rails.h; or NULL */

    struct ut_link_msg *msg_spare; /* free buffers for small messages */
    uint32_t num_spare;

    struct ut_failure why; /* cause of the last give_up() */
    uint64_t deadline_ms, retry_ms;
    uint64_t again_ms;             /* end of the pause of UT_LINK_SILENT */
    uint32_t backoff_ms, pause_ms; /* pause_ms: length of the last pause */
    uint64_t up_ms;                /* time when the connection came up */
    uint32_t breaks, broke_with; /* consecutive early breaks, and the oldest slot at the last one */

    struct ut_link *hash_next, *all_next, *waiting_next;

    /* the peer's STag table */
    uint64_t dir_addr;
    uint32_t dir_rkey;
    uint32_t reading; /* index of the STag whose entry is being read, or UT_STAG_NONE */
    bool reading_dir;
    bool wait_warned; /* see warn_owner_absent() */
    uint32_t scratch; /* destination of the read: index into the VCQ's scratch memory, plus 1 */
    struct ut_remote remote;
};

/* Stands for "no link": has no peer and is never up. */
extern struct ut_link ut_link_none;

/* Returns the link to a remote VCQ; creates the link if necessary. NULL: no memory, or invalid
 * id. */
struct ut_link *ut_link_get(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id);
static inline struct ut_link *ut_link_to(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id)
{
    if (__builtin_expect(rmt_vcq_id == vcq->last_id, 1))
        return vcq->last_link;
    return ut_link_get(vcq, rmt_vcq_id);
}

/* As ut_link_to() for an id that may be invalid. Returns &ut_link_none if there is no link. */
static inline struct ut_link *ut_link_if_any(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id)
{
    struct ut_link *link;

    if (__builtin_expect(rmt_vcq_id == vcq->last_id, 1))
        return vcq->last_link;
    link = ut_vcq_id_check(rmt_vcq_id) ? ut_link_get(vcq, rmt_vcq_id) : NULL;
    return link ? link : &ut_link_none;
}

/* Starts connecting if the link is idle, or if the pause after a silent peer is over. */
void ut_link_start_connecting(struct ut_link *link);
/* Makes the next progress call, or the background thread, check the link again. */
void ut_link_schedule(struct ut_link *link);
/* Checks every scheduled link. Returns the number of links that are no longer scheduled. */
int ut_link_run_scheduled(struct ut_vcq *vcq);
/* Returns the time when the next scheduled link is due: `now` for a link that waits for queue
 * entries. UINT64_MAX: no link is scheduled. */
uint64_t ut_link_next_deadline(const struct ut_vcq *vcq, uint64_t now);
/* Closes connections and frees the links. */
void ut_link_destroy_all(struct ut_vcq *vcq);

/* Finds the remote memory of [stadd, stadd + length). Returns 0; UTOFU_ERR_MRQ_RMT_*; or
 * UTOFU_ERR_NOT_COMPLETED while the entry of the STag is being read: link_ops->pump() follows.
 * `fresh`: the entry was read for this communication. */
int ut_link_find_memory(struct ut_link *link, utofu_stadd_t stadd, uint64_t length, bool write,
                        bool fresh, uint64_t *addr, uint32_t *rkey);

/* True if the cached part of the peer's STag table has the address of [stadd, stadd + length).
 * Always false for reserved STags, whose STADDs do not change with a new registration. Reads
 * nothing from the peer and creates no link. */
bool ut_link_is_cached(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t stadd,
                       uint64_t length, uint64_t *addr);
/* Gets the address of this entry in the peer's memory, and the cached contents. False: the entry is
 * not cached, or the link is down. */
bool ut_link_cached_entry(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t stadd,
                          uint64_t *at, struct ut_remote_stag *known);
/* Reads the entry again. True: it is unchanged. False if it changed, or if the read does not
 * complete at once, as over a network: the VCQ may have been freed and created again with the same
 * id. */
bool ut_link_recheck_entry(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t stadd);
/* The cause of an error of ut_link_find_memory(), according to the cached entry. */
struct ut_failure ut_link_error_cause(const struct ut_link *link, utofu_stadd_t stadd,
                                      uint64_t length, bool write);

/* As ut_link_find_memory(), for the writable STag used last. False: the STADD belongs to another
 * STag. */
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

/* True if the peer was given up, for a pause or for good. */
static inline bool ut_link_is_given_up(const struct ut_link *link)
{
    return link->state == UT_LINK_SILENT || link->state == UT_LINK_GONE;
}

/* True if the link is connected, no communication waits to be posted, and no ARMW or divided put is
 * outstanding. */
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

/* Invalidates the cached entry of the STag: the next use reads the entry again. */
void ut_link_invalidate_stag(struct ut_link *link, utofu_stadd_t stadd);

/* Sends a message of the library: copies it, queues it if necessary, and sends it again after a
 * broken connection. If the copy fails for lack of memory, the link is closed. */
void ut_link_send(struct ut_link *link, const void *data, size_t size, bool solicited);

/* Stores a STADD that the peer announced. `slot` must be less than UT_NUM_ANNOUNCED. If memory is
 * short, the link is closed. */
void ut_link_store_announced(struct ut_link *link, uint32_t slot, utofu_stadd_t stadd);

/* Posts queued messages until the queue is full. */
void ut_link_post_messages(struct ut_link *link);

/* Returns the sequence number of a posted message or immediate. */
static inline uint64_t ut_link_count_tx(struct ut_link *link)
{
    return ++link->tx_number;
}

/* Cookies of requests: the kind in the low three bits, a number above them. */
enum ut_cookie {
    UT_COOKIE_NONE,
    UT_COOKIE_SLOT, /* TOQ slot number */
    UT_COOKIE_READ, /* read of the STag table */
    UT_COOKIE_MSG,
    UT_COOKIE_PART, /* TOQ slot number of a divided put */
};
static inline uint64_t ut_cookie(enum ut_cookie what, uint32_t which)
{
    return (uint64_t)which << 3 | what;
}

/* Called by the engine's callbacks. */
void ut_link_read_done(struct ut_link *link, enum prov_status status);
/* All messages up to the one with this cookie have arrived. */
void ut_link_msg_done(struct ut_link *link, uint64_t cookie, enum prov_status status);
void ut_link_on_request(struct ut_vcq *vcq, struct prov *prov, struct prov_conn *conn,
                        uint64_t peer_id, const void *hello, size_t hello_size);
void ut_link_on_up(struct ut_link *link, const void *hello, size_t hello_size);
void ut_link_on_down(struct ut_link *link, enum prov_reason reason);

/* Registered memory of a VCQ into which remote STag tables are read. */
enum { UT_SCRATCH_ENTRIES = 256, UT_SCRATCH_SIZE = sizeof(struct ut_stag_entry) };
_Static_assert(sizeof(struct ut_stag_dir) <= UT_SCRATCH_SIZE,
               "directory entries are read there, too");

/* Pending work of a link, for messages to users. */
struct ut_link_pending {
    unsigned int waiting, posted, done,
        messages; /* communications; `messages`: messages of the library */
};
struct ut_link_pending ut_link_pending(const struct ut_link *link);
const char *ut_link_wait_reason(const struct ut_link *link, const struct ut_link_pending *load);

/* Functions of the engine that links call: ut_vcq.link_ops. Not used on fast paths. */
struct ut_link_ops {
    const struct prov_callbacks *rail_callbacks; /* for endpoints of further ports (rails) */
    void (*connected)(struct ut_link *link); /* the connection is up; the hello is processed next */
    void (*pump)(struct ut_link *link);      /* posts waiting communications */
    void (*give_up)(struct ut_link *link,
                    int rc);              /* fails all communications with this MRQ error */
    void (*rewind)(struct ut_link *link); /* all requests have to be posted again */
    /* The peer has received `count` messages of the link. `anew`: an earlier VCQ with the peer's id
     * received them. */
    void (*delivered)(struct ut_link *link, uint64_t count, bool anew);
};

#endif
