/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link: everything that a VCQ knows of one remote VCQ. Its connection, the TOQ entries on their
 * way to it in order, what was read of its STag table, what was announced to it, and messages.
 *
 * Uses util, ident, wire, process, peers, stag, vcq, provider.h and the registry. Calls the engine
 * through struct ut_link_ops.
 */
#ifndef UT_LINK_LINK_H
#define UT_LINK_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "link/announced.h"
#include "link/heard.h"
#include "link/life.h"
#include "link/remote.h"
#include "stag/stag.h"
#include "vcq/vcq.h"

struct ut_stats_peer;

/* A message of the library itself: the answer to an ARMW, a packet of a gate. Kept until it is
 * known to have arrived. */
struct ut_link_msg {
    struct ut_link_msg *next;
    uint64_t number; /* on the link, once posted; 0 before */
    uint32_t size;
    uint32_t flags;  /* PROV_SOLICITED */
    uint64_t data[]; /* aligned */
};

/* A remote notice that came while local notices of the link were outstanding: see
 * ut_engine_early_notice(). */
struct ut_link_early {
    struct ut_link_early *next;
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
    bool lacks_memory;       /* for a message or what is announced: the link has to end */
    bool empty_write_posted; /* a signalled one, which completes what is before it */
    uint8_t peer_cmp;
    uint8_t peer_tni;
    uint32_t era;         /* counts how often ARMWs that the peer may have were given up: their
                             answers are recognised, see ut_armw_name() */
    uint32_t keep_source; /* puts up to this size are sent from a copy in the slot: see
                             ut_keep_source() */
    struct prov_conn *conn;
    const struct prov_ops *ops;

    /* TOQ entries on the link, oldest first, by slot number */
    union {
        struct {
            uint32_t to_post;
            uint32_t state : 8;     /* enum ut_link_state */
            uint32_t armw_out : 24; /* ARMWs that are not complete */
        };
        uint64_t readiness; /* all of these, to be compared at once: see ut_link_is_clear() */
    };
    uint32_t first;
    size_t few; /* puts up to this size may be posted by write_few; 0: none */
    int (*write_few)(struct prov_conn *conn, const void *data, uint64_t rmt, uint32_t rkey,
                     uint32_t length, uint64_t cookie); /* of `ops` */
    uint32_t *append; /* where the next one's number goes: &first, or the last one's next */
    union {
        struct {
            uint32_t any_order; /* puts may pass each other: STRONG_ORDER takes the slow path */
            uint32_t reads_out; /* reads and device atomics that are posted */
        };
        uint64_t strong_waits; /* either of these */
    };

    struct ut_link_msg *msg_first, **msg_last; /* all that are kept */
    struct ut_link_msg *msg_to_post;

    /* of the peer's STags, the writable one found last */
    struct ut_stadd_range hot;
    uint32_t hot_rkey;

    uint32_t lcl_notices_begun, lcl_notices_ended; /* communications with a local notice, in all */
    struct ut_link_early *early_first, **early_last;

    /* repeated remote STADDs are announced once and then named by a number */
    struct ut_announced tx_announced;
    struct ut_announced
        rx_announced; /* has memory before the link is up: a notice of the peer cannot be refused */
    uint64_t tx_number, rx_number; /* messages and immediates so far */
    uint64_t peer_session;         /* of the last hello; 0: none so far */
    struct ut_heard heard;         /* by the VCQ that had this id before */
    uint64_t key;
    uint16_t serial, peer_serial; /* how often the link was up, as each side counts */
    struct ut_stats_peer *stats;  /* of a counted VCQ, from the first use on */

    struct ut_link_msg *msg_spare; /* places for small ones, as many as num_spare says */
    uint32_t num_spare;

    struct ut_why why; /* of the last give_up() */
    uint64_t deadline_ms, retry_ms;
    uint64_t again_ms;             /* UT_LINK_SILENT: what starts from then on tries again */
    uint32_t backoff_ms, pause_ms; /* the latter: before the next again_ms */
    uint64_t up_ms;                /* since when it is up */
    uint32_t breaks, broke_with;   /* how often in a row it broke soon, with which slot first */

    struct ut_link *hash_next, *all_next, *waiting_next;

    /* the peer's STag table */
    uint64_t dir_addr;
    uint32_t dir_rkey;
    uint32_t reading; /* index of the STag that is being read; UT_STAG_NONE: none */
    bool reading_dir;
    bool wait_warned; /* see warn_wait() */
    uint32_t scratch; /* where it lands: index into the VCQ's scratch memory, plus 1 */
    struct ut_remote remote;
};

/* Stands for no link: has no peer, and is never up. */
extern struct ut_link ut_link_none;

/* The link to a remote VCQ, created if there is none. NULL: no memory, or no VCQ can have this id.
 */
struct ut_link *ut_link_get(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id);
static inline struct ut_link *ut_link_to(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id)
{
    if (__builtin_expect(rmt_vcq_id == vcq->last_id, 1))
        return vcq->last_link;
    return ut_link_get(vcq, rmt_vcq_id);
}

/* The same for an id that may be invalid; where there is none, &ut_link_none. */
static inline struct ut_link *ut_link_if_any(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id)
{
    struct ut_link *link;

    if (__builtin_expect(rmt_vcq_id == vcq->last_id, 1))
        return vcq->last_link;
    link = ut_vcq_id_check(rmt_vcq_id) ? ut_link_get(vcq, rmt_vcq_id) : NULL;
    return link ? link : &ut_link_none;
}

/* Starts connecting if the link is idle, or was given up and may be tried again. */
void ut_link_want(struct ut_link *link);
/* The next progress looks at the link again. */
void ut_link_wait(struct ut_link *link);
/* Looks at every link that waits; true if any still does. */
bool ut_link_step_waiting(struct ut_vcq *vcq);
/* Closes connections and frees the links. */
void ut_link_destroy_all(struct ut_vcq *vcq);

/* The remote memory behind [stadd, stadd + length): 0; UTOFU_ERR_MRQ_RMT_*; or
 * UTOFU_ERR_NOT_COMPLETED: the entry of the STag is being read, and link_ops->pump() follows.
 * `fresh`: the entry was read for this communication. */
int ut_link_find(struct ut_link *link, utofu_stadd_t stadd, uint64_t length, bool write, bool fresh,
                 uint64_t *addr, uint32_t *rkey);

/* Is it known where [stadd, stadd + length) lies in the memory of the peer, by what was read before
 * of its table? Of reserved STags it never is: their STADDs are the same whatever is registered.
 * Reads nothing, makes no link. */
bool ut_link_knows(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t stadd,
                   uint64_t length, uint64_t *addr);
/* Where in the memory of the peer its table has the entry behind ut_link_knows(), and what it was
 * when it was read. False: it is not known, or the link is down. */
bool ut_link_table_entry(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t stadd,
                         uint64_t *at, struct ut_remote_stag *known);
/* Reads the entry behind ut_link_knows() again: is it the same? False also where the answer takes a
 * while, as over a network: a VCQ may have been freed and made again, with the same id. */
bool ut_link_reads_the_same(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t stadd);
/* Why ut_link_find() finds nothing, by what was read last. */
struct ut_why ut_link_why(const struct ut_link *link, utofu_stadd_t stadd, uint64_t length,
                          bool write);

/* ut_link_find() for the writable STag used last; false: it is another one. */
static inline bool ut_link_hot(const struct ut_link *link, utofu_stadd_t stadd, uint64_t length,
                               uint64_t *addr, uint32_t *rkey)
{
    *rkey = link->hot_rkey;
    return ut_stadd_range_find(&link->hot, stadd, length, addr);
}

static inline int ut_link_resolve(struct ut_link *link, utofu_stadd_t stadd, uint64_t length,
                                  bool write, bool fresh, uint64_t *addr, uint32_t *rkey)
{
    if (__builtin_expect(ut_link_hot(link, stadd, length, addr, rkey), 1))
        return 0;
    return ut_link_find(link, stadd, length, write, fresh, addr, rkey);
}

/* Was the peer given up, for a while or for good? */
static inline bool ut_link_is_given_up(const struct ut_link *link)
{
    return link->state == UT_LINK_SILENT || link->state == UT_LINK_GONE;
}

/* Connected, nothing on it waits to be posted, and no ARMW is out. */
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

/* The entry of this STag is outdated: it is read again at the next use. */
void ut_link_forget(struct ut_link *link, utofu_stadd_t stadd);

/* Sends a message of the library; it is copied, queued if need be, and repeated if a connection
 * breaks. Where there is no memory for that, the link ends. */
void ut_link_send(struct ut_link *link, const void *data, size_t size, bool solicited);

/* The peer has announced a STADD; slot: less than UT_NUM_ANNOUNCED. Where there is no memory for
 * that, the link ends. */
void ut_link_keep_announced(struct ut_link *link, uint32_t slot, utofu_stadd_t stadd);

/* Posts those that wait, as far as there is room. */
void ut_link_post_messages(struct ut_link *link);

/* The number of a posted message or immediate. */
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
};
static inline uint64_t ut_cookie(enum ut_cookie what, uint32_t which)
{
    return (uint64_t)which << 3 | what;
}

/* From the engine's callbacks. */
void ut_link_read_done(struct ut_link *link, enum prov_status status);
/* All messages up to the one of this cookie were delivered. */
void ut_link_msg_done(struct ut_link *link, uint64_t cookie, enum prov_status status);
void ut_link_on_request(struct ut_vcq *vcq, struct prov *prov, struct prov_conn *conn,
                        uint64_t peer_id, const void *hello, size_t hello_size);
void ut_link_on_up(struct ut_link *link, const void *hello, size_t hello_size);
void ut_link_on_down(struct ut_link *link, enum prov_reason reason);

/* Registered memory of a VCQ that entries of remote tables are read into. */
enum { UT_SCRATCH_ENTRIES = 256, UT_SCRATCH_SIZE = sizeof(struct ut_stag_entry) };
_Static_assert(sizeof(struct ut_stag_dir) <= UT_SCRATCH_SIZE,
               "directory entries are read there, too");

/* What is on a link, and what it waits for, for people. */
struct ut_link_load {
    unsigned int waiting, posted, done, messages; /* communications; messages of the library */
};
struct ut_link_load ut_link_load(const struct ut_link *link);
const char *ut_link_waits_for(const struct ut_link *link, const struct ut_link_load *load);

/* What links call of the engine: ut_vcq.link_ops. Not used on fast paths. */
struct ut_link_ops {
    void (*connected)(struct ut_link *link);       /* it is up; the hello is handled next */
    void (*pump)(struct ut_link *link);            /* post what can be posted */
    void (*give_up)(struct ut_link *link, int rc); /* MRQ errors for everything on it */
    void (*rewind)(struct ut_link *link);          /* nothing is posted any more */
    /* The peer has received `count` messages of the link; anew: it was another VCQ that has. */
    void (*delivered)(struct ut_link *link, uint64_t count, bool anew);
};

#endif
