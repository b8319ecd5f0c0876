/* SPDX-License-Identifier: Apache-2.0 */
/* A connection, its posted requests and its handshake: data. */
#ifndef VP_CONN_TYPES_H
#define VP_CONN_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "list.h"
#include "prov_types.h"
#include "provider.h"

/* The handshake of a connection or a probe, in the way that it goes: see way.h. */
struct vp_way;
struct vp_call;
enum vp_id_kind { VP_ID_LISTENER, VP_ID_CONN, VP_ID_PROBE };
struct vp_id {
    enum vp_id_kind kind;
    const struct vp_way *way; /* NULL: it is not open */
    struct rdma_cm_id *cm;    /* rdmacm */
    struct vp_call *call;     /* ud */
    struct vp_ece ece;        /* said in its request or answer */
};

/* One posted request; its address is the wr_id. */
struct vp_op {
    uint64_t cookie;
    struct vp_conn *conn;
    uint32_t slot; /* its place in the ring */
    uint32_t tag;  /* VP_TAG_* */
};
enum {
    VP_TAG_OURS = 1,                       /* the provider's own: no done() */
    VP_TAG_PART = 2,                       /* not the last of a transfer: no done() */
    VP_TAG_UNSIGNALLED = PROV_UNSIGNALLED, /* unsignalled_done() */
    VP_TAG_BOUNCE_SHIFT = 16, /* above: number of the bounce buffer to give back, plus 1 */
};
static inline uint32_t vp_tag_bounce(uint32_t tag)
{
    return tag >> VP_TAG_BOUNCE_SHIFT;
}

/* How far a connection is. Changed under prov->lock. */
enum vp_phase {
    VP_QUEUED,     /* (active) waits for its turn */
    VP_RESOLVING,  /* (active) address asked for */
    VP_ROUTING,    /* (active) route asked for */
    VP_CONNECTING, /* (active) request sent */
    VP_CONFIRMING, /* (active) answered; data may come before we know that it is up */
    VP_BACKOFF,    /* (active) tries again at its deadline */
    VP_REQUESTED,  /* (passive) the core has not answered yet */
    VP_ACCEPTING,  /* (passive) the core accepted; progress() has to answer */
    VP_ACCEPTED,   /* (passive) reply sent */
    VP_UP,         /* from here on `life` counts */
    VP_OVER,       /* the handshake failed */
};

/* Of a connection that is or was up; only under the endpoint's lock. */
enum vp_life {
    VP_YOUNG, /* not up yet */
    VP_ALIVE,
    VP_LEAVING, /* the peer said goodbye: waits for what is outstanding */
    VP_FAILING, /* drains; then down() */
    VP_DOWN,    /* down() was called */
    VP_ENDING,  /* closed: its receives are collected, then it is handed over */
};

/* Pending events: bits of vp_conn.events. */
enum {
    VP_EV_REQUEST = 1,      /* request() has to be called */
    VP_EV_UP = 2,           /* the handshake succeeded */
    VP_EV_OVER = 4,         /* it failed: hs_reason */
    VP_EV_DISCONNECTED = 8, /* the peer's side is gone */
    VP_EV_QP_ERROR = 16,    /* the device says the queue pair broke */
    VP_EV_LOCAL = 32,       /* the port or device is gone */
    VP_EV_VERDICT = 64,     /* the probe knows whether the peer lives: verdict */
    VP_EV_PLACE = 128,      /* another connection wants its place */
    VP_EV_LAST_RECV = 256,  /* no more receives come from its queue pair */
};

/* What tend_one() in conn.c does next for a connection that is up. */
enum vp_errand {
    VP_ERRAND_NONE,
    VP_ERRAND_STALL,  /* no progress: the device does not retransmit */
    VP_ERRAND_SIGN,   /* nothing was posted for a while: does its peer still live? */
    VP_ERRAND_LENGTH, /* its send queue was full so often that it should be longer */
};

/* Both sides close it in order, to connect again when they want. */
enum vp_rest {
    VP_REST_NONE,
    VP_REST_PLACE, /* its place is wanted */
    VP_REST_GROWS, /* either end wants a longer send queue */
};

/* Has the peer been asked to rest? */
enum vp_asked {
    VP_ASKED_NOT,
    VP_ASKED_MAY,  /* and has not answered */
    VP_ASKED_MUST, /* it was told so */
};

/* The last request of a connection: see vp_conn_drain_marker(). */
enum vp_last {
    VP_LAST_NONE,
    VP_LAST_KEPT,   /* an entry of the completion queue is kept for it */
    VP_LAST_POSTED, /* and is its own now */
};

/* Why it ends, beside enum prov_reason. */
enum {
    VP_REASON_UNKNOWN = -2,
    VP_REASON_ASK = -1, /* the probe decides */
};

/* What a connection has of a place: see places.c. Under prov->lock. */
enum vp_place {
    VP_PLACE_NONE,
    VP_PLACE_OPENING,   /* its handshake runs */
    VP_PLACE_OPEN,      /* it is up */
    VP_PLACE_ASKED,     /* the owner, or the peer, is asked to give it up, */
    VP_PLACE_MUST,      /* or told to */
    VP_PLACE_ENDS,      /* it will be free soon, */
    VP_PLACE_ENDS_LATE, /* or later than one waits for */
};

/* The request's private data: all that fits. */
struct __attribute__((packed)) vp_hello_req {
    uint8_t kind; /* the size of the hello and the origin's unit, or VP_REQ_PROBE */
    uint8_t key[VP_KEY_BYTES];
    uint8_t tag;     /* the same in every repetition of a request, not in the origin's others */
    uint8_t attempt; /* more in each repetition: how long the origin waits (vp_attempt_ms()) */
    uint16_t port;   /* the origin listens here; network order */
    uint64_t target_id : 48, origin_id : 48;
    uint8_t hello[PROV_HELLO_MAX];
};
_Static_assert(sizeof(struct vp_hello_req) == 56, "more does not fit into a request");
enum {
    VP_REQ_SIZE = 0x3f,
    VP_REQ_PROBE = 0x3f,   /* in place of a size */
    VP_REQ_UNIT_SHIFT = 6, /* enum vp_unit of what arrives at the sender; in answers too */
};
#define VP_ID_MASK ((UINT64_C(1) << 48) - 1) /* ids of endpoints, of provider.h */

/* A connection that ends: what failed, and what is still to come. */
struct vp_ending {
    int8_t reason;      /* enum prov_reason, or VP_REASON_UNKNOWN, VP_REASON_ASK */
    uint8_t err_status; /* enum prov_status of the request that failed, err_seq; PROV_OK: none did.
                           Of a dead peer: decided with the reason */
    uint8_t rest;       /* enum vp_rest */
    uint8_t asked;      /* enum vp_asked */
    bool peer_rests;    /* everything of the peer has arrived */
    bool delivered;     /* all that arrived before it failed was */
    bool stuck;         /* the device did not complete all in time: completions may still come */
    bool drained;       /* each of its receives has completed, and was polled */
    uint32_t err_seq;
    uint32_t posted_to;    /* requests from here on never reached the device */
    uint32_t completed_to; /* the device has reported everything before this */
    uint64_t deadline;     /* ms */
};

/* A handshake: see cm.c. The links under prov->lock, the rest while busy. */
struct vp_shake {
    bool busy;        /* a step runs without the lock */
    bool answered;    /* (passive) accept() was called */
    bool in_origins;  /* (passive) in ep->origins */
    bool counted;     /* among prov->connecting */
    bool plain;       /* (active) enhancements were accepted that cannot be used: none is offered */
    uint8_t tries;    /* active: attempts so far */
    uint64_t first;   /* ms: when the first attempt began; 0: not yet */
    uint64_t sign;    /* when the peer gave its last sign of life; at first `first` */
    uint64_t started; /* when this attempt began */
    struct vp_heap_node timer; /* in prov->shaking, or */
    struct vp_list link;       /* in prov->queue, accepts or reaping */
};

struct vp_conn {
    /* posting and completing: under the endpoint's lock */
    struct vp_ep *ep;
    void *ctx;
    struct ibv_qp *qp;
    struct ibv_qp_ex *qpx;  /* NULL: post with ibv_post_send() */
    struct vp_recvs *recvs; /* of its own; NULL: the endpoint's, which all share */
    struct vp_op *ops;      /* ring of posted requests, sq_mask + 1 */
    uint32_t sq_mask;
    uint32_t head, tail; /* next to post, first not reported */
    uint32_t sq_app;     /* most requests for writes, reads and atomics; 0: none
                            may be posted */
    uint32_t sq_cap;     /* most requests at all but the last one; 0: see vp_is_postable() */
    uint32_t signal_due; /* the one before this is signalled at the latest */
    uint32_t direct_max; /* longest write or read without a work request; 0: !qpx */
    uint32_t slow_flags; /* enum prov_flags of a transfer that goes by work requests */
    uint32_t few_until; /* vp_write_few() looks at none of these before `head` is here; if `head` is
                           here or behind it does: see vp_limit_few() */
    uint32_t packet;    /* bytes that one packet carries */
    uint32_t unsignalled_from;     /* from here on all are VP_TAG_UNSIGNALLED */
    uint32_t reports;              /* signalled ones that are outstanding */
    uint32_t unsolicited;          /* receives taken at the peer since the last solicited one */
    uint32_t batch_first;          /* first request of the open batch */
    uint8_t life;                  /* enum vp_life */
    uint8_t last;                  /* enum vp_last */
    uint8_t errand;                /* enum vp_errand */
    bool closed;                   /* conn_close() was called: no callbacks */
    bool in_table;                 /* in ep->table */
    uint8_t unit;                  /* enum vp_unit: what is placed in order; the smaller one of */
    uint8_t here_unit, there_unit; /* what this side's queue pair says, and what the peer said */

    struct vp_ending end;
    uint32_t tail_seen, head_seen; /* at the last look for stalls */
    uint32_t sq_depth;             /* entries of its send queue, */
    uint32_t full_at, fulls;       /* head when that was full last, and how often it was */
    struct vp_list tend_link;      /* in ep->tending */

    /* its place: `mark` under the endpoint's lock too, the rest under prov->lock */
    uint8_t place;             /* enum vp_place */
    uint32_t mark;             /* head at the last look: vp_place_look_locked() */
    uint64_t place_since;      /* ms: asked or ending; or waiting for a place */
    uint64_t up_since;         /* ms */
    struct vp_list place_link; /* in places.open or asked */

    /* phase, events and the links under prov->lock; the handshake while busy */
    struct vp_id id;
    enum vp_phase phase;
    bool active;
    bool abandoned;   /* to be destroyed when not busy */
    uint8_t qp_state; /* enum ibv_qp_state */
    uint8_t refusal; /* (passive) enum vp_refusal: what the peer hears if it is closed unanswered */
    uint16_t events;
    uint8_t hs_reason; /* enum prov_reason, with VP_EV_OVER */
    uint8_t verdict;   /* enum prov_reason, with VP_EV_VERDICT */
    struct vp_shake hs;
    struct vp_list ev_link;            /* in ep->events */
    struct vp_list ep_link;            /* in ep->conns or ep->dying */
    struct vp_conn *origin_next;       /* in a bucket of ep->origins */
    struct vp_peer peer;               /* where the peer listens */
    struct vp_hello_req req;           /* ours (active), or what came (passive) */
    uint8_t rsp_resources, init_depth; /* passive: what the origin asked for */
    struct vp_ece ece; /* what the peer offers or uses; from RTR on what this side uses */
    uint8_t hello_size;
    uint8_t hello[PROV_HELLO_MAX]; /* of the accepting side: ours (passive), or what came */
};

/* May requests be posted? */
static inline bool vp_is_postable(const struct vp_conn *conn)
{
    return conn->sq_cap != 0;
}

/* Is it known why the connection ends? */
static inline bool vp_reason_is_known(const struct vp_conn *conn)
{
    return conn->end.reason >= 0;
}

/* Its handshake waits for nothing any more. Under prov->lock. */
static inline void vp_handshake_unlink(struct vp_conn *conn)
{
    vp_list_remove(&conn->hs.link);
    vp_heap_remove(&conn->hs.timer);
}

/* The contract's name is opaque; this is the same object. */
static inline struct vp_conn *vp_conn(struct prov_conn *conn)
{
    return (struct vp_conn *)(void *)conn;
}

#endif
