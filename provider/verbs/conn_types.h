/* SPDX-License-Identifier: Apache-2.0 */
/* A connection, its posted requests and its handshake: data types. */
#ifndef VP_CONN_TYPES_H
#define VP_CONN_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "list.h"
#include "prov_types.h"
#include "provider.h"

/* The ways to make the handshake of a connection or a probe: see way.h. */
struct vp_cm_ops;
struct vp_udcm_conn;
enum vp_cm_id_kind { VP_CM_ID_LISTENER, VP_CM_ID_CONN, VP_CM_ID_PROBE };
struct vp_cm_id {
    enum vp_cm_id_kind kind;
    const struct vp_cm_ops *ops; /* NULL: the id is not open */
    struct rdma_cm_id *cm;       /* rdmacm */
    struct vp_udcm_conn *udcm;   /* ud */
    struct vp_ece ece;           /* sent in the request or answer */
};

/* One posted request; its address is the wr_id. */
struct vp_op {
    uint64_t cookie;
    struct vp_conn *conn;
    uint32_t slot; /* its place in the ring */
    uint32_t tag;  /* VP_TAG_* */
};
enum {
    VP_TAG_OURS = 1,                       /* request of the provider itself: no done() */
    VP_TAG_PART = 2,                       /* not the last request of a transfer: no done() */
    VP_TAG_UNSIGNALLED = PROV_UNSIGNALLED, /* unsignalled_done() */
    VP_TAG_BOUNCE_SHIFT = 16, /* bits above: number of the bounce buffer to give back, plus 1 */
};
static inline uint32_t vp_tag_bounce(uint32_t tag)
{
    return tag >> VP_TAG_BOUNCE_SHIFT;
}

/* Phase of a handshake. Changed under prov->lock. */
enum vp_phase {
    VP_QUEUED,      /* (active) waits for its turn */
    VP_RESOLVING,   /* (active) resolves the address */
    VP_ROUTING,     /* (active) resolves the route */
    VP_CONNECTING,  /* (active) request sent */
    VP_CONFIRMING,  /* (active) answered; data may arrive before this side sees the connection up */
    VP_BACKOFF,     /* (active) tries again at its deadline */
    VP_REQUESTED,   /* (passive) the core has not answered yet */
    VP_ACCEPTING,   /* (passive) the core accepted; progress() has to answer */
    VP_ACCEPTED,    /* (passive) reply sent */
    VP_ESTABLISHED, /* from now on `life` counts */
    VP_HS_FAILED,   /* the handshake failed */
};

/* Life of a connection that is or was up; only under the endpoint's lock. */
enum vp_conn_state {
    VP_CONN_NEW, /* not up yet */
    VP_CONN_UP,
    VP_CONN_CLOSING,    /* the peer said goodbye: waits for outstanding requests */
    VP_CONN_FAILING,    /* drains; then down() is called */
    VP_CONN_DOWN,       /* down() was called */
    VP_CONN_DESTROYING, /* closed: its receives are collected, then progress() destroys it */
};

/* Pending events: bits of vp_conn.events. */
enum {
    VP_EV_REQUEST = 1,      /* request() has to be called */
    VP_EV_UP = 2,           /* the handshake succeeded */
    VP_EV_HS_FAILED = 4,    /* the handshake failed: hs_reason */
    VP_EV_DISCONNECTED = 8, /* the peer's side is gone */
    VP_EV_QP_ERROR = 16,    /* the device says the queue pair broke */
    VP_EV_LOCAL = 32,       /* the port or device is gone */
    VP_EV_VERDICT = 64,     /* the probe has a verdict on the peer */
    VP_EV_EVICT = 128,      /* another connection wants this one's place */
    VP_EV_LAST_RECV = 256,  /* the queue pair completes no more receives */
};

/* The next task of service_conn() in conn.c for a connection that is up. */
enum vp_pending_action {
    VP_ACTION_NONE,
    VP_ACTION_STALL,     /* no progress: the device does not retransmit */
    VP_ACTION_KEEPALIVE, /* nothing was posted for a while: check that the peer lives */
    VP_ACTION_LONGER_SQ, /* the send queue was full so often that it should be longer */
};

/* Why both sides close the connection in order, to connect again later. */
enum vp_suspend {
    VP_SUSPEND_NONE,
    VP_SUSPEND_EVICTED,   /* its place is wanted */
    VP_SUSPEND_LONGER_SQ, /* either end wants a longer send queue */
};

/* Has the peer been asked to rest? */
enum vp_suspend_request {
    VP_SUSPEND_NOT_REQUESTED,
    VP_SUSPEND_REQUESTED, /* asked; no answer yet */
    VP_SUSPEND_FORCED,    /* told that it has to */
};

/* Last request of a connection: see vp_conn_drain_marker(). */
enum vp_last_request {
    VP_LAST_NONE,
    VP_LAST_RESERVED, /* a completion-queue entry is kept for the request */
    VP_LAST_POSTED,   /* the request uses that entry */
};

/* Reasons of an end, in addition to enum prov_reason. */
enum {
    VP_REASON_UNKNOWN = -2,
    VP_REASON_PROBE = -1, /* the probe decides */
};

/* State of a connection's place: see places.c. Under prov->lock. */
enum vp_budget_state {
    VP_BUDGET_NONE,
    VP_BUDGET_OPENING,      /* the handshake is running */
    VP_BUDGET_OPEN,         /* the connection is up */
    VP_BUDGET_EVICT_ASKED,  /* its owner or the peer is asked to give the place up */
    VP_BUDGET_EVICT_FORCED, /* its owner or the peer is told to give the place up */
    VP_BUDGET_ENDING,       /* the place will be free soon */
    VP_BUDGET_ENDING_LATE,  /* the place will be free too late to wait for */
};

/* Private data of a request: uses all the available space. */
struct __attribute__((packed)) vp_hello_req {
    uint8_t kind; /* size of the hello and unit of the origin, or VP_REQ_PROBE */
    uint8_t key[VP_KEY_BYTES];
    uint8_t tag;     /* constant over the repetitions of a request, differs between requests */
    uint8_t attempt; /* grows with each repetition: how long the origin waits (vp_attempt_ms()) */
    uint16_t port;   /* where the origin listens; network order */
    uint64_t target_id : 48, origin_id : 48;
    uint8_t hello[PROV_HELLO_MAX];
};
_Static_assert(sizeof(struct vp_hello_req) == 56, "more does not fit into a request");
enum {
    VP_REQ_SIZE = 0x3f,
    VP_REQ_PROBE = 0x3f,   /* in place of a size */
    VP_REQ_UNIT_SHIFT = 6, /* enum vp_unit of the sender, in answers too */
};
#define VP_ID_MASK ((UINT64_C(1) << 48) - 1) /* ids of endpoints, of provider.h */

/* End of a connection: the failure, and what is still outstanding. */
struct vp_ending {
    int8_t reason;      /* enum prov_reason, or VP_REASON_UNKNOWN, VP_REASON_PROBE */
    uint8_t err_status; /* of the failed request err_seq, or decided with a dead peer's `reason`;
                           PROV_OK: none failed */
    uint8_t suspend;    /* enum vp_suspend */
    uint8_t suspend_request; /* enum vp_suspend_request */
    bool peer_suspended;     /* the peer's requests have all arrived */
    bool delivered;          /* everything that arrived before the failure was delivered */
    bool stuck;   /* the device did not complete all requests in time, and may do so later */
    bool drained; /* each of its receives has completed and was polled */
    uint32_t err_seq;
    uint32_t posted_to;    /* requests from this number on did not reach the device */
    uint32_t completed_to; /* the device has reported the requests before this number */
    uint64_t deadline;     /* ms */
};

/* A handshake: see cm.c. List nodes: under prov->lock; other fields: while busy. */
struct vp_handshake {
    bool busy;       /* a step runs without the lock */
    bool answered;   /* (passive) accept() was called */
    bool in_origins; /* (passive) in ep->origins */
    bool in_flight;  /* among prov->connecting */
    bool no_ece;     /* (active) the peer accepted enhancements that cannot be used: offer none */
    uint8_t tries;   /* active: attempts so far */
    uint64_t first;  /* ms: when the first attempt began; 0: not yet */
    uint64_t last_heard;       /* time of the peer's last sign of life; initially `first` */
    uint64_t started;          /* start of the current attempt */
    struct vp_heap_node timer; /* in prov->shaking */
    struct vp_list link;       /* in prov->queue, accepts or reaping */
};

struct vp_conn {
    /* posting and completing: under the endpoint's lock */
    struct vp_ep *ep;
    void *ctx;
    struct ibv_qp *qp;
    struct ibv_qp_ex *qpx;  /* NULL: use ibv_post_send() */
    struct vp_recvs *recvs; /* receives of this connection; NULL: shared by the endpoint */
    struct vp_op *ops;      /* ring of posted requests, sq_mask + 1 */
    uint32_t sq_mask;
    uint32_t head, tail; /* next number to post, and the first that is not reported */
    uint32_t sq_app;     /* limit for writes, reads and atomics; 0: none may be posted */
    uint32_t sq_cap;     /* limit for all requests but the last; 0: see vp_is_postable() */
    uint32_t signal_due; /* the request before this one is signalled at the latest */
    uint32_t direct_max; /* longest write or read that needs no work request; 0: !qpx */
    uint32_t
        unsplit_max;     /* longest one that needs no look at cut_from or max_msg of the endpoint */
    uint32_t split_from; /* writes from so many bytes on are cut by the core: vp_cut(); 0: none */
    uint32_t slow_flags; /* prov_flags of transfers that need a work request */
    uint32_t inline_until;      /* vp_write_inline() checks none of these below this `head`:
                                   vp_update_inline_until() */
    uint32_t packet;            /* payload bytes of a packet */
    uint32_t unsignalled_from;  /* requests from this number on are VP_TAG_UNSIGNALLED */
    uint32_t signalled;         /* outstanding signalled requests */
    uint32_t unsolicited;       /* receives taken at the peer since the last solicited one */
    uint32_t batch_first;       /* first request of the open batch */
    uint8_t state;              /* enum vp_conn_state */
    uint8_t last;               /* enum vp_last_request */
    uint8_t action;             /* enum vp_pending_action */
    bool closed;                /* conn_close() was called: no callbacks */
    bool in_table;              /* in ep->table */
    uint8_t unit;               /* enum vp_unit of the connection: the smaller of */
    uint8_t lcl_unit, rmt_unit; /* this side's unit, and the peer's */

    struct vp_ending end;
    uint32_t tail_seen, head_seen; /* values of tail and head at the last check for stalls */
    uint32_t sq_depth;             /* length of the send queue */
    uint32_t full_at, fulls;     /* head when the queue was last full, and how often it was full */
    struct vp_list service_link; /* in ep->tending */

    /* place: `mark` under the endpoint's lock too, the rest under prov->lock */
    uint8_t budget_state;       /* enum vp_budget_state */
    uint32_t used_head;         /* head at the last check: vp_budget_check_use_locked() */
    uint64_t budget_since;      /* ms: asked, ending, or waiting for a place */
    uint64_t up_since;          /* ms */
    struct vp_list budget_link; /* in places.open or asked */

    /* phase, events and list nodes: under prov->lock; handshake: while busy */
    struct vp_cm_id id;
    enum vp_phase phase;
    bool active;
    bool abandoned;   /* destroyed as soon as not busy */
    uint8_t qp_state; /* enum ibv_qp_state */
    uint8_t
        reject_reason; /* (passive) enum vp_reject_reason, if the core closes without an answer */
    uint16_t events;
    uint8_t hs_reason; /* enum prov_reason, with VP_EV_HS_FAILED */
    uint8_t verdict;   /* enum prov_reason, with VP_EV_VERDICT */
    struct vp_handshake hs;
    struct vp_list ev_link;            /* in ep->events */
    struct vp_list ep_link;            /* in ep->conns or ep->dying */
    struct vp_conn *origin_next;       /* in a bucket of ep->origins */
    struct vp_peer peer;               /* where the peer listens */
    struct vp_hello_req req;           /* sent (active) or received (passive) */
    uint8_t rsp_resources, init_depth; /* passive: what the origin asked for */
    struct vp_ece ece; /* the peer's offer or choice; from RTR on the choice of this side */
    uint8_t rmt_mtu;   /* active: enum ibv_mtu of the peer's port, once it has answered */
    uint8_t hello_size;
    uint8_t hello[PROV_HELLO_MAX]; /* hello of the accepting side */
};

/* May requests be posted? */
static inline bool vp_is_postable(const struct vp_conn *conn)
{
    return conn->sq_cap != 0;
}

/* Is the reason of the end known? */
static inline bool vp_reason_is_known(const struct vp_conn *conn)
{
    return conn->end.reason >= 0;
}

/* Removes the handshake from the heap and the lists. Under prov->lock. */
static inline void vp_handshake_unlink(struct vp_conn *conn)
{
    vp_list_remove(&conn->hs.link);
    vp_heap_remove(&conn->hs.timer);
}

/* struct prov_conn is the opaque name for this object. */
static inline struct vp_conn *vp_conn(struct prov_conn *conn)
{
    return (struct vp_conn *)(void *)conn;
}

#endif
