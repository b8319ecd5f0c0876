/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link: what a VCQ keeps of one remote VCQ. Its connection, the TOQ entries on their way to it in
 * order, what was read of its STag table, what was announced to it, and messages that wait.
 *
 * Uses util, ident, wire, process, stag, vcq, provider.h. The engine gives it work and is told when
 * the link can move again.
 */
#ifndef UT_LINK_LINK_H
#define UT_LINK_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "stag/stag.h"
#include "vcq/vcq.h"

struct ut_watch_peer;

enum ut_link_state {
    UT_LINK_IDLE,       /* no connection, and none wanted */
    UT_LINK_SEEKING,    /* the owner's address is not known yet, or the next try is not due */
    UT_LINK_CONNECTING, /* a connection is asked for */
    UT_LINK_AWAITING,   /* the peer asked first: its request is on the way */
    UT_LINK_UP,
    UT_LINK_DEAD, /* the peer process is gone */
};

/* One STag of the peer, as read last. */
struct ut_link_stag {
    uint64_t base, size;
    uint32_t rkey;
    uint32_t info; /* as in struct ut_stag_entry; 0: not registered when it was read */
};

struct ut_link_chunk {
    uint64_t addr;
    uint32_t rkey;
    struct ut_link_stag stags[UT_STAG_CHUNK];
};

/* A message of the library itself: an ARMW's answer, a gate's packet. Kept until it is known to
 * have arrived. */
struct ut_link_msg {
    struct ut_link_msg *next;
    uint64_t number; /* on the link, once posted; 0 before */
    uint32_t size;
    uint32_t flags;  /* PROV_SOLICITED */
    uint64_t data[]; /* aligned */
};

/* A remote notice that came before the local notice of a put of ours that it may be the answer to.
 */
struct ut_link_early {
    struct ut_link_early *next;
    uint32_t after; /* due when so many local notices have been written */
    uint8_t type, edata;
    utofu_stadd_t lcl_stadd, rmt_stadd;
};

struct ut_link {
    struct ut_vcq *vcq;
    utofu_vcq_id_t peer; /* canonical */
    const struct prov_view *view; /* of the connection that is up; NULL: the provider has none */
    uint8_t state;
    uint8_t provider;
    bool passive; /* the accepting half of a connection to oneself */
    bool was_up;
    bool in_waiting;
    bool nudged; /* an empty write is on its way, that will report what is before it */
    uint8_t peer_cmp;
    uint8_t peer_tni;
    uint32_t keep_source; /* of puts up to this size our copy is the source: see short.h */
    struct prov_conn *conn;
    const struct prov_ops *ops;

    /* TOQ entries on the link, oldest first, by slot number */
    uint32_t first, to_post;
    uint32_t *append; /* where the next one's number goes: &first, or the last one's next */
    union {
        struct {
            uint32_t armw_out;  /* ARMWs that are not complete */
            uint32_t reads_out; /* reads and device atomics that are posted */
        };
        uint64_t any_out;
    };

    struct ut_link_msg *msg_first, **msg_last; /* all that are kept */
    struct ut_link_msg *msg_to_post;

    /* of the peer's STags, the writable one found last */
    struct ut_stadd_range hot;
    uint32_t hot_rkey;

    uint32_t told_begun, told_ended; /* communications with a local notice */
    struct ut_link_early *early_first, **early_last;

    /* repeated remote STADDs are announced once and then named by a number */
    utofu_stadd_t *tx_announced;
    utofu_stadd_t *rx_announced;
    uint64_t tx_number, rx_number; /* messages and immediates so far */
    uint64_t peer_session;
    uint64_t key;
    uint16_t serial, peer_serial; /* times up, as each side counts; see struct ut_hello */
    struct ut_watch_peer *watch;  /* of a watched VCQ, from the first use on */

    struct ut_link_msg *msg_spare; /* places for small ones, as many as num_spare says */
    uint32_t num_spare;

    uint64_t deadline_ms, retry_ms;
    uint32_t backoff_ms;

    struct ut_link *hash_next, *all_next, *waiting_next;

    /* the peer's STag table */
    uint64_t dir_addr;
    uint32_t dir_rkey;
    uint32_t reading; /* index of the STag that is being read; UT_STAG_NONE: none */
    bool reading_dir;
    uint32_t scratch; /* where it lands: index into the VCQ's scratch memory, plus 1 */
    struct ut_link_chunk *chunks[UT_STAG_CHUNKS];
};

/* In place of a link that there is not: to nobody, and never up. */
extern struct ut_link ut_link_none;

/* The link to a remote VCQ, made if need be. NULL: no memory, or no VCQ can have this id. */
struct ut_link *ut_link_get(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id);
static inline struct ut_link *ut_link_to(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id)
{
    if (__builtin_expect(rmt_vcq_id == vcq->last_id, 1))
        return vcq->last_link;
    return ut_link_get(vcq, rmt_vcq_id);
}

/* The same for an id that may be none, where only a connection that is up is of use. */
static inline struct ut_link *ut_link_if_any(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id)
{
    struct ut_link *link;

    if (__builtin_expect(rmt_vcq_id == vcq->last_id, 1))
        return vcq->last_link;
    link = ut_vcq_id_check(rmt_vcq_id) ? ut_link_get(vcq, rmt_vcq_id) : NULL;
    return link ? link : &ut_link_none;
}

/* Starts connecting if the link is idle. */
void ut_link_want(struct ut_link *link);
/* Asks to be looked at again at the next progress. */
void ut_link_wait(struct ut_link *link);
/* Looks at every link that waits; true if any still does. */
bool ut_link_step_waiting(struct ut_vcq *vcq);
/* Closes connections and frees the links. */
void ut_link_destroy_all(struct ut_vcq *vcq);

/* The remote memory behind [stadd, stadd + length): 0; UTOFU_ERR_MRQ_RMT_*; or
 * UTOFU_ERR_NOT_COMPLETED: the STag's entry is being read, the engine will be told. `fresh`: the
 * entry was read for this very communication. */
int ut_link_find(struct ut_link *link, utofu_stadd_t stadd, uint64_t length, bool write, bool fresh,
                 uint64_t *addr, uint32_t *rkey);

/* The same for the writable STag used last; false: it takes ut_link_find(). */
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

/* Connected, and nothing on it waits to be posted. */
static inline bool ut_link_is_clear(const struct ut_link *link)
{
    return ((link->state ^ (uint32_t)UT_LINK_UP) | (link->to_post ^ (uint32_t)UT_NO_SLOT) |
            (uintptr_t)link->msg_to_post) == 0;
}

/* The first of those on the link has ended. */
static inline void ut_link_remove_first(struct ut_link *link)
{
    link->first = link->vcq->toq[link->first].next;
    if (link->first == UT_NO_SLOT)
        link->append = &link->first;
}

/* What was read of this STag is wrong: read it again at the next use. */
void ut_link_forget(struct ut_link *link, utofu_stadd_t stadd);

/* Sends a message of the library; it is copied, queued if need be, and repeated if a connection
 * breaks. 0 or -ENOMEM. */
int ut_link_send(struct ut_link *link, const void *data, size_t size, bool solicited);

/* Posts those that wait, as far as there is room. */
void ut_link_post_messages(struct ut_link *link);

/* Number for a posted message. */
static inline uint64_t ut_link_count_tx(struct ut_link *link)
{
    return ++link->tx_number;
}

/* Cookies of operations: what in the low three bits, which above. */
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
void ut_link_on_request(struct ut_vcq *vcq, struct prov_conn *conn, uint64_t peer_id,
                        const void *hello, size_t hello_size, int provider);
void ut_link_on_up(struct ut_link *link, const void *hello, size_t hello_size);
void ut_link_on_down(struct ut_link *link, enum prov_reason reason);

/* Registered memory of a VCQ where entries of remote tables and old values land. */
enum { UT_SCRATCH_ENTRIES = 256, UT_SCRATCH_SIZE = 32 };

/* What the engine does for a link. */
void ut_engine_pump(struct ut_link *link);             /* post what can be posted */
void ut_engine_fail_all(struct ut_link *link, int rc); /* MRQ errors for everything on it */
void ut_engine_rewind(struct ut_link *link);           /* nothing is posted any more */
/* The peer has received `count` messages of the link. */
void ut_engine_delivered(struct ut_link *link, uint64_t count);
/* What is told to the barrier gates of the library's own VCQs. The first: messages to the peer are
 * lost; dead: and nothing will come from it. */
void ut_gate_on_link_failed(struct ut_link *link, bool dead);
void ut_gate_on_message(struct ut_link *link, const void *data, size_t size);
void ut_gate_on_packet(struct ut_link *link, const void *data, size_t size);
/* Hands out what other TNIs left; returns how much. */
int ut_gate_progress(struct ut_vcq *vcq);
extern const struct prov_callbacks ut_engine_callbacks[UT_NUM_PROVIDERS];

#endif
