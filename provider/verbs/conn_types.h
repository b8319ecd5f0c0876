/* SPDX-License-Identifier: Apache-2.0 */
/* Data types of a connection, its posted requests and its handshake. */
#ifndef VP_CONN_TYPES_H
#define VP_CONN_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "list.h"
#include "prov_types.h"
#include "provider.h"
#include "util/hash_table.h"

/* Connection managers for the handshake of a connection or a probe: see cm_ops.h. */
struct vp_cm_ops;
struct vp_udcm_conn;
enum vp_cm_id_kind { VP_CM_ID_LISTENER, VP_CM_ID_CONN, VP_CM_ID_PROBE };
struct vp_cm_id {
    enum vp_cm_id_kind kind;
    const struct vp_cm_ops *ops; /* NULL: the id is not open */
    struct rdma_cm_id *cm;       /* rdmacm */
    struct vp_udcm_conn *udcm;   /* ud */
    struct vp_ece ece;           /* sent in the connect request or reply */
};

/* One posted request. Its address is the wr_id. */
struct vp_op {
    uint64_t cookie;
    struct vp_conn *conn;
    uint32_t slot; /* index in the ring */
    uint32_t tag;  /* VP_TAG_* */
};
enum {
    VP_TAG_INTERNAL = 1,                   /* posted by the provider itself: no done() */
    VP_TAG_PART = 2,                       /* not the last request of a transfer: no done() */
    VP_TAG_UNSIGNALLED = PROV_UNSIGNALLED, /* reported by unsignalled_done() */
    VP_TAG_BOUNCE_SHIFT = 16, /* bits above: number of the bounce buffer to free, plus 1 */
};
static inline uint32_t vp_tag_bounce(uint32_t tag)
{
    return tag >> VP_TAG_BOUNCE_SHIFT;
}

/* Phase of a handshake. Protected by prov->lock. */
enum vp_phase {
    VP_QUEUED,      /* (active) waits for its turn */
    VP_RESOLVING,   /* (active) resolves the address */
    VP_ROUTING,     /* (active) resolves the route */
    VP_CONNECTING,  /* (active) request sent */
    VP_CONFIRMING,  /* (active) reply received; data may arrive before this side knows that the
                       connection is up */
    VP_BACKOFF,     /* (active) waits until the next attempt */
    VP_REQUESTED,   /* (passive) the core has not accepted or rejected yet */
    VP_ACCEPTING,   /* (passive) the core accepted; progress() has to send the reply */
    VP_ACCEPTED,    /* (passive) reply sent */
    VP_ESTABLISHED, /* from now on vp_conn.state applies */
    VP_HS_FAILED,   /* the handshake failed */
};

/* State of a connection whose handshake has ended. Protected by the endpoint's lock. */
enum vp_conn_state {
    VP_CONN_NEW, /* not up yet */
    VP_CONN_UP,
    VP_CONN_CLOSING,    /* closing in order: waits for outstanding requests */
    VP_CONN_FAILING,    /* outstanding requests are flushed; then down() is called */
    VP_CONN_DOWN,       /* down() was called */
    VP_CONN_DESTROYING, /* closed: waits for its last receives, then progress() destroys it */
};

/* Pending events: bits of vp_conn.events */
enum {
    VP_EV_REQUEST = 1,      /* call request() */
    VP_EV_UP = 2,           /* the handshake succeeded */
    VP_EV_HS_FAILED = 4,    /* the handshake failed with hs_reason */
    VP_EV_DISCONNECTED = 8, /* the peer has disconnected */
    VP_EV_QP_ERROR = 16,    /* the device reported an error of the queue pair */
    VP_EV_LOCAL = 32,       /* the port or device is gone */
    VP_EV_VERDICT = 64,     /* the probe has found out whether the peer lives */
    VP_EV_EVICT = 128,      /* another connection needs this one's queue pair */
    VP_EV_LAST_RECV = 256,  /* the queue pair completes no more receives */
};

/* Pending action of service_conn() in conn.c for a connection that is up. */
enum vp_pending_action {
    VP_ACTION_NONE,
    VP_ACTION_STALL,     /* recover from a stall: the device does not retransmit */
    VP_ACTION_KEEPALIVE, /* nothing was posted for a while: send a keepalive */
    VP_ACTION_LONGER_SQ, /* the send queue was full repeatedly: reconnect with a longer one */
};

/* Why both sides suspend the connection: they close it in order and connect again on demand. */
enum vp_suspend {
    VP_SUSPEND_NONE,
    VP_SUSPEND_EVICTED,   /* another connection needs the queue pair */
    VP_SUSPEND_LONGER_SQ, /* one side wants a longer send queue */
};

/* Request to the peer to suspend the connection. */
enum vp_suspend_request {
    VP_SUSPEND_NOT_REQUESTED,
    VP_SUSPEND_REQUESTED, /* sent; no reply yet */
    VP_SUSPEND_FORCED,    /* sent as an order that the peer has to follow */
};

/* State of the last request of a connection: see vp_conn_post_last_request(). */
enum vp_last_request {
    VP_LAST_NONE,
    VP_LAST_RESERVED, /* a completion-queue entry is reserved for the request */
    VP_LAST_POSTED,   /* the request was posted */
};

/* Reasons for the end of a connection, besides enum prov_reason. */
enum {
    VP_REASON_UNKNOWN = -2,
    VP_REASON_PROBE = -1, /* the probe finds out */
};

/* State of a connection in the budget of queue pairs: see qp_budget.c. Protected by prov->lock. */
enum vp_budget_state {
    VP_BUDGET_NONE,
    VP_BUDGET_OPENING,         /* handshake in progress */
    VP_BUDGET_OPEN,            /* the connection is up */
    VP_BUDGET_EVICT_REQUESTED, /* the owner or the peer may refuse to give up the queue pair */
    VP_BUDGET_EVICT_FORCED,    /* the owner or the peer must give up the queue pair */
    VP_BUDGET_ENDING,          /* the queue pair will be free soon */
    VP_BUDGET_ENDING_LATE,     /* the queue pair will be free too late to wait for */
};

/* Private data of a connect request: uses all the available space. */
struct __attribute__((packed)) vp_hello_req {
    uint8_t kind; /* size of the hello and order unit of the origin, or VP_REQ_PROBE */
    uint8_t key[VP_KEY_BYTES];
    uint8_t tag;     /* the same in all attempts of a request, different in other requests */
    uint8_t attempt; /* number of the attempt: tells how long the origin waits (vp_attempt_ms()) */
    uint16_t port;   /* listening port of the origin, in network order */
    uint64_t target_id : 48, origin_id : 48;
    uint8_t hello[PROV_PRIVATE_DATA_MAX];
};
_Static_assert(sizeof(struct vp_hello_req) == 56, "more does not fit into a request");
enum {
    VP_REQ_SIZE = 0x3f,
    VP_REQ_PROBE = 0x3f,   /* instead of a size */
    VP_REQ_UNIT_SHIFT = 6, /* enum vp_unit of the sender, in replies too */
};
#define VP_ID_MASK ((UINT64_C(1) << 48) - 1) /* 48-bit endpoint ids: provider.h */

/* The end of a connection: the error, and the outstanding requests. */
struct vp_ending {
    int8_t reason;           /* enum prov_reason, or VP_REASON_UNKNOWN, VP_REASON_PROBE */
    uint8_t err_status;      /* of the failed request err_seq, or set for a dead peer; PROV_OK: no
                                request failed */
    uint8_t suspend;         /* enum vp_suspend */
    uint8_t suspend_request; /* enum vp_suspend_request */
    bool peer_suspended;     /* all requests of the peer have arrived */
    bool delivered;          /* all data that arrived before the failure was delivered */
    bool stuck;              /* timeout: the device may complete the remaining requests later */
    bool drained;            /* all receives of the connection have completed and were polled */
    uint32_t err_seq;
    uint32_t posted_end;    /* no request from this number on was posted */
    uint32_t completed_end; /* all requests before this number have completed */
    uint64_t deadline;      /* ms */
};

/* A handshake: see cm.c. prov->lock protects the list nodes, `busy` the other fields. */
struct vp_handshake {
    bool busy;      /* a step runs without the lock */
    bool accepted;  /* (passive) accept() was called */
    bool in_flight; /* counted in prov->connecting */
    bool no_ece;    /* (active) offer no ECE: the peer accepted options that this side cannot use */
    uint8_t tries;  /* (active) number of attempts */
    uint64_t first; /* ms: start of the first attempt; 0: not started */
    uint64_t last_heard; /* ms: when the peer last showed that it is alive; initially `first` */
    uint64_t started;    /* ms: start of the current attempt */
    struct vp_heap_node timer; /* in prov->handshake_timers */
    struct vp_list link;       /* in prov->queue, accepts or reaping */
};

struct vp_conn {
    /* posting and completing: protected by the endpoint's lock */
    struct vp_ep *ep;
    void *ctx;
    struct ibv_qp *qp;
    struct ibv_qp_ex *qpx;  /* NULL: use ibv_post_send() */
    struct vp_recvs *recvs; /* receives of this connection; NULL: shared by the endpoint */
    struct vp_op *ops;      /* ring of posted requests with sq_mask + 1 entries */
    uint32_t sq_mask;
    uint32_t head, tail;  /* next request, and the oldest one not reported yet */
    uint32_t sq_xfer_max; /* limit of outstanding requests for writes, reads and atomics; 0: no
                             posting */
    uint32_t sq_max;      /* the same for messages, which leave room for the last request */
    uint32_t signal_due;  /* the request before this number is signalled */
    uint32_t direct_max; /* maximum size of a write or read that needs no work request; 0: no qpx */
    uint32_t unsplit_max;     /* maximum size of a transfer that is never split */
    uint32_t split_threshold; /* the core splits writes from this size on: vp_set_split_threshold();
                                 0: none */
    uint32_t slow_flags;      /* prov_flags that need a work request */
    uint32_t inline_until;    /* vp_write_inline() checks no limit while `head` is below:
                                 vp_update_inline_until() */
    uint32_t packet;          /* maximum payload of a packet */
    uint32_t unsignalled_from;  /* requests from this number on are VP_TAG_UNSIGNALLED */
    uint32_t signalled;         /* number of outstanding signalled requests */
    uint32_t unsolicited;       /* messages sent since the last solicited one */
    uint32_t batch_first;       /* first request of the open batch */
    struct ut_hash_entry by_qp; /* in ep->by_qp */
    uint8_t state;              /* enum vp_conn_state */
    uint8_t last_request;       /* enum vp_last_request */
    uint8_t action;             /* enum vp_pending_action */
    bool closed;                /* conn_close() was called: no callbacks */
    bool in_table;              /* in ep->by_qp */
    uint8_t unit; /* enum vp_unit of the connection: the weaker of lcl_unit and rmt_unit */
    uint8_t lcl_unit, rmt_unit; /* units of this side and of the peer */

    struct vp_ending end;
    uint32_t tail_at_check, head_at_check; /* tail and head at the last check for stalls */
    uint32_t sq_depth;                     /* length of the send queue */
    uint32_t last_full_head, times_full;   /* head when the queue was last full; how often it was */
    struct vp_list service_link;           /* in ep->service_list */

    /* queue-pair budget: protected by prov->lock, used_head by the endpoint's lock too */
    uint8_t budget_state;       /* enum vp_budget_state */
    uint32_t used_head;         /* head at the last check for use: vp_budget_check_use_locked() */
    uint64_t budget_since;      /* ms: since when asked, ending, or waiting for a queue pair */
    uint64_t up_since;          /* ms */
    struct vp_list budget_link; /* in budget.open or budget.evicting */

    /* protected by prov->lock; `id` and `hs`: by hs.busy */
    struct vp_cm_id id;
    enum vp_phase phase;
    bool active;
    bool abandoned;        /* to be destroyed as soon as it is not busy */
    uint8_t qp_state;      /* enum ibv_qp_state */
    bool qp_failed;        /* the device reported an error of the queue pair */
    uint8_t reject_reason; /* (passive) enum vp_reject_reason for a core that closes without
                              accepting */
    uint16_t events;
    uint8_t hs_reason; /* enum prov_reason, with VP_EV_HS_FAILED */
    uint8_t verdict;   /* enum prov_reason, with VP_EV_VERDICT */
    struct vp_handshake hs;
    struct vp_list ev_link;            /* in ep->events */
    struct vp_list ep_link;            /* in ep->conns or ep->dying */
    struct ut_hash_entry by_origin;    /* (passive) in ep->by_origin */
    struct vp_peer peer;               /* where the peer listens */
    struct vp_hello_req req;           /* sent (active) or received (passive) */
    uint8_t rsp_resources, init_depth; /* (passive) values that the origin requested */
    struct vp_ece ece; /* the peer's offer or choice; from RTR on the choice of this side */
    uint8_t rmt_mtu;   /* (active) enum ibv_mtu of the peer's port, from its reply */
    uint8_t hello_size;
    uint8_t hello[PROV_PRIVATE_DATA_MAX]; /* hello of the accepting side */
};

/* True if requests may be posted. */
static inline bool vp_is_postable(const struct vp_conn *conn)
{
    return conn->sq_max != 0;
}

/* True if the reason for the end of the connection is known. */
static inline bool vp_reason_is_known(const struct vp_conn *conn)
{
    return conn->end.reason >= 0;
}

/* Removes the handshake from its heap and lists. The caller holds prov->lock. */
static inline void vp_handshake_unlink(struct vp_conn *conn)
{
    vp_list_remove(&conn->hs.link);
    vp_heap_remove(&conn->hs.timer);
}

/* struct prov_conn is the opaque type of this object. */
static inline struct vp_conn *vp_conn(struct prov_conn *conn)
{
    return (struct vp_conn *)(void *)conn;
}

#endif
