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
    uint32_t after; /* lcl_notices_ended must reach this value first */
    uint8_t type, edata;
    utofu_stadd_t lcl_stadd, rmt_stadd;
};

struct ut_link {
    struct ut_vcq *vcq;
    utofu_vcq_id_t peer;                /* VCQ id with its default path */
    const struct prov_mapping *mapping; /* peer memory mapped by this process, while up; or NULL */
    uint8_t provider;                   /* index of `ops` among the providers */
    bool passive;                       /* accepting side of a connection of the VCQ to itself */
    bool was_up;                        /* the link was connected at least once */
    bool is_scheduled;                  /* is in vcq->scheduled_links */
    bool lacks_memory; /* no memory for a message or an announced STADD: the link must close */
    bool empty_write_posted;   /* a signalled empty write that completes the earlier requests is
                                  outstanding */
    uint8_t peer_component_id; /* in `peer`: selects its reserved STags */
    uint8_t peer_tni;
    uint32_t armw_epoch; /* counts failures of ARMWs whose replies may still arrive: a reply of an
                     earlier epoch is ignored, see ut_armw_request_id() */
    uint32_t source_copy_max; /* maximum size of a put whose source bytes are copied to the slot,
                                 for an early TCQ entry and for a repeated put */
    struct prov_conn *conn;
    const struct prov_ops *ops;

    /* TOQ entries of the link as a list of slot numbers: `first` is the oldest one */
    union {
        struct {
            uint32_t to_post;            /* the oldest entry that is not posted */
            uint32_t state : 8;          /* enum ut_link_state */
            uint32_t unordered_out : 24; /* outstanding ARMWs and split puts */
        };
        uint64_t readiness; /* the three fields, for one comparison: ut_link_is_ready() */
    };
    uint32_t first;
    size_t inline_max; /* maximum size of a put for write_inline(); 0: not available */
    int (*write_inline)(struct prov_conn *conn, const void *data, uint64_t rmt, uint32_t rkey,
                        uint32_t length, uint64_t cookie); /* copy of ops->write_inline */
    /* gets the number of the next entry: `next` of the last entry, or `first` of an empty list */
    uint32_t *list_end;
    union {
        struct {
            uint32_t any_order; /* the connection may reorder puts: STRONG_ORDER is slow */
            uint32_t reads_out; /* outstanding reads and device atomics */
        };
        uint64_t strong_order_may_wait; /* both fields, for one comparison: 0 if a put with
                                  STRONG_ORDER need not wait */
    };

    struct ut_link_msg *unacked_first, **unacked_last; /* all unacknowledged messages */
    struct ut_link_msg *msg_to_post; /* the oldest of these that is not posted; NULL: none */

    /* the peer's writable STag that was used last: ut_link_find_last_stag() */
    struct ut_stadd_range last_stag; /* size 0: none */
    uint32_t last_stag_rkey;

    /* numbers of communications with a local notice: posted, and ended */
    uint32_t lcl_notices_begun, lcl_notices_ended;
    struct ut_link_early_notice *early_first, **early_last; /* in the order of their arrival */

    /* STADDs announced to the peer, and by the peer: immediates name them by slot numbers */
    struct ut_announced tx_announced;
    struct ut_announced rx_announced; /* allocated before the link is up, since a peer's notice
                                         cannot be rejected */
    uint64_t tx_number, rx_number;    /* number of messages and immediates sent and received */
    uint64_t peer_incarnation; /* of the peer's VCQ, from its last hello; 0: no hello received */
    struct ut_rx_history rx_history; /* receive count of the previous VCQ with this id */
    uint64_t id_key;                 /* ut_vcq_id_key(peer): `peer` without path and check bits */
    uint16_t serial, rmt_serial;     /* number of connections so far, as each side counts */
    struct ut_stats_peer *stats;     /* set at the first use if the VCQ has statistics */
    struct ut_rails *rails; /* further connections over other ports, see rails.h; or NULL */

    struct ut_link_msg *msg_spare; /* free buffers for small messages */
    uint32_t num_spare;

    struct ut_failure why; /* why communications failed last: cause for ut_link_ops.fail_all() */
    uint64_t limit_ms;     /* how long all attempts to connect may take */
    uint64_t deadline_ms, retry_ms; /* end of all attempts to connect; time of the next attempt */
    uint64_t pause_end_ms;          /* end of the pause of UT_LINK_SILENT */
    uint32_t backoff_ms, pause_ms;  /* pause_ms: length of the last pause */
    uint64_t up_ms;                 /* time when the connection came up */
    uint32_t breaks, breaks_slot;   /* consecutive early breaks; the oldest slot at the last one */

    struct ut_hash_entry by_key;    /* in vcq->links_by_key */
    struct ut_link *all_next;       /* in vcq->all_links */
    struct ut_link *next_scheduled; /* in vcq->scheduled_links */

    /* the peer's STag table: a directory, whose entries have the addresses of chunks of STag
     * entries. dir_addr: address of the directory in the peer's memory */
    uint64_t dir_addr;
    uint32_t dir_rkey;
    uint32_t reading;         /* index of the STag whose entry is being read, or UT_STAG_NONE */
    bool reading_dir;         /* the directory entry of its chunk is read first */
    bool owner_absent_warned; /* warn_owner_absent() has printed its warning */
    bool no_vcq_warned;       /* warn_no_vcq() has printed its warning */
    uint32_t scratch; /* destination of the read: index into the VCQ's scratch memory, plus 1;
                         0: none */
    struct ut_stag_cache stag_cache;
};

/* Placeholder for "no link": has no peer and is never up. */
extern struct ut_link ut_link_none;

/* Returns the link to a remote VCQ, a new one if necessary. NULL: no memory, or invalid id. */
struct ut_link *ut_link_get(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id);
/* As ut_link_get(). Fast if the id is the last one. */
static inline struct ut_link *ut_link_get_fast(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id)
{
    if (__builtin_expect(rmt_vcq_id == vcq->last_id, 1))
        return vcq->last_link;
    return ut_link_get(vcq, rmt_vcq_id);
}

/* As ut_link_get_fast() for an id whose check bits were not verified. Returns &ut_link_none if the
 * id is invalid or memory is short. */
static inline struct ut_link *ut_link_or_none(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id)
{
    struct ut_link *link;

    if (__builtin_expect(rmt_vcq_id == vcq->last_id, 1))
        return vcq->last_link;
    link = ut_vcq_id_check(rmt_vcq_id) ? ut_link_get(vcq, rmt_vcq_id) : NULL;
    return link ? link : &ut_link_none;
}

/* For the other files of this module. */

/* Returns the index of the STADD's STag in the peer's STag table, or UT_STAG_NONE. */
static inline uint32_t ut_link_stag_index(const struct ut_link *link, utofu_stadd_t stadd)
{
    return ut_stag_index(ut_stadd_stag(stadd), link->peer_component_id);
}

/* Creates a link and adds it to the VCQ's list of links, but not to vcq->links_by_key. NULL: no
 * memory. */
struct ut_link *ut_link_new(struct ut_vcq *vcq, const struct ut_vcq_ident *peer);
/* Returns the link with this id_key; NULL: there is none. Creates no link. */
struct ut_link *ut_link_lookup(struct ut_vcq *vcq, uint64_t key);
/* Sets the link and the id that ut_link_get_fast() compares first. */
void ut_link_set_last(struct ut_vcq *vcq, struct ut_link *link, utofu_vcq_id_t id);
/* Drops the cached part of the peer's STag table. */
void ut_link_drop_stag_cache(struct ut_link *link);

/* Adds the link to vcq->scheduled_links, which the next progress call or the background thread
 * checks. */
void ut_link_schedule(struct ut_link *link);

/* True if the peer was given up, for a pause or for good. */
static inline bool ut_link_is_given_up(const struct ut_link *link)
{
    return link->state == UT_LINK_SILENT || link->state == UT_LINK_GONE;
}

/* True if a communication can be posted at once: the link is up, nothing waits to be posted, and no
 * ARMW or split put is outstanding. */
static inline bool ut_link_is_ready(const struct ut_link *link)
{
    const struct ut_link ready = {.to_post = UT_NO_SLOT, .state = UT_LINK_UP};

    return ((link->readiness ^ ready.readiness) | (uintptr_t)link->msg_to_post) == 0;
}

/* Removes the oldest TOQ entry of the link. */
static inline void ut_link_remove_first(struct ut_link *link)
{
    UT_ASSERT(link->first <= link->vcq->toq_mask);
    link->first = link->vcq->toq[link->first].next;
    if (link->first == UT_NO_SLOT)
        link->list_end = &link->first;
}

/* Counts a posted message or immediate, and returns its sequence number. */
static inline uint64_t ut_link_count_tx(struct ut_link *link)
{
    return ++link->tx_number;
}

/* Cookies of requests: the kind in the low three bits, a number above them. */
enum ut_cookie {
    UT_COOKIE_NONE, /* an empty write, or a request that ends with the peer's reply */
    UT_COOKIE_SLOT, /* TOQ slot number */
    UT_COOKIE_READ, /* read of the STag table */
    UT_COOKIE_MSG,  /* sequence number of a message */
    UT_COOKIE_PART, /* TOQ slot number of a split put */
};
static inline uint64_t ut_cookie(enum ut_cookie kind, uint32_t number)
{
    return (uint64_t)number << 3 | kind;
}

/* Registered memory of a VCQ into which remote STag tables are read. */
enum { UT_SCRATCH_ENTRIES = 256, UT_SCRATCH_SIZE = sizeof(struct ut_stag_entry) };
_Static_assert(sizeof(struct ut_stag_dir_entry) <= UT_SCRATCH_SIZE,
               "directory entries are read there, too");

/* Numbers of communications by state, and of unacknowledged messages, for messages to users. */
struct ut_link_pending {
    unsigned int waiting, posted;
    unsigned int done; /* complete, behind an earlier one */
    unsigned int messages;
};
struct ut_link_pending ut_link_pending(const struct ut_link *link);
/* Returns a text: what the link waits for. */
const char *ut_link_wait_reason(const struct ut_link *link, const struct ut_link_pending *pending);

/* Functions of the engine that links call: ut_vcq.link_ops. Not used on fast paths. */
struct ut_link_ops {
    const struct prov_callbacks *rail_callbacks; /* of the endpoints of rails */
    void (*connected)(struct ut_link *link); /* the connection is up; the hello is processed next */
    void (*post_waiting)(struct ut_link *link); /* posts the communications that are not posted */
    /* fails all outstanding communications with this MRQ error; the cause is link->why */
    void (*fail_all)(struct ut_link *link, int rc);
    void (*repost_all)(struct ut_link *link); /* marks all communications as not posted */
    /* Ends the communications whose last message or immediate is among the `count` ones that the
     * peer has received. `recreated`: the peer has freed its VCQ and created it again. */
    void (*delivered)(struct ut_link *link, uint64_t count, bool recreated);
    /* writes a text about the oldest error that the program has not polled from this queue. False:
     * there is none. See ut_describe_unread_error() */
    bool (*describe_unread_error)(struct ut_vcq *vcq, enum ut_queue queue, char *buf, size_t size);
};

#include "link/connect.h"
#include "link/message.h"
#include "link/stag_read.h"

#endif
