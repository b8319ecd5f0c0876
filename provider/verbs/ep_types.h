/* SPDX-License-Identifier: Apache-2.0 */
/* Data types of an endpoint: its queues, buffers and lists of connections. */
#ifndef VP_EP_TYPES_H
#define VP_EP_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "list.h"
#include "prov_types.h"
#include "provider.h"
#include "util/hash_table.h"

enum {
    VP_POLL_BATCH = 16, /* maximum completions of one poll */
    VP_INLINE_MAX = 1024,
    VP_SOLICIT_EVERY = 64, /* every 64th message of a connection wakes a sleeping owner */
    VP_RECVS_STEPS = 3,    /* the number of receives grows in three steps: a quarter, half, all */
    VP_BUSY_PEERS = 256,   /* maximum number of busy peers of an endpoint; a power of two */
};

struct vp_conn;

/* A request in a batch that is not posted yet. */
struct vp_batched {
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    uint8_t data[VP_INLINE_MAX];
};

/* Receives of a shared receive queue or of one queue pair: `depth` receives, with memory for
 * `max_depth`. See vp_recvs_grow(). */
struct vp_recvs {
    struct ibv_qp *qp; /* NULL: the endpoint's shared receive queue */
    uint32_t depth, refill_at, max_depth;
    uint32_t to_post;        /* buffers that have to be posted again */
    struct ibv_recv_wr *wrs; /* one per buffer, with its sge */
    struct ibv_sge *sges;
    struct ibv_recv_wr *first, *last; /* list of receives to post */
    uint8_t *slab;
    struct ibv_mr *mrs[VP_RECVS_STEPS]; /* memory regions of the parts of the slab */
    uint64_t posted, completed; /* totals; `completed` of a shared queue is counted in builds with
                                   assertions only */
};

struct vp_ep {
    /* fast path: protected by the endpoint's lock */
    struct vp_prov *prov;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_srq *srq; /* NULL: each connection has its own receives */
    struct prov_callbacks cb;
    uint32_t room;        /* free entries of send_cq */
    uint32_t room_msgs;   /* entries that writes, reads and atomics leave to messages */
    uint32_t room_signal; /* with fewer free entries every request is signalled */
    uint32_t room_inline; /* as room_signal; while a batch is open it is larger than `room` */
    uint32_t cq_size;     /* size of send_cq */
    uint32_t credits;     /* entries reserved for last requests of connections */
    uint32_t cq_wanted;   /* entries needed besides the credits, while send_cq can grow */
    uint32_t signal_every;
    uint32_t signalled;   /* sum of vp_conn.signalled */
    uint32_t empty_polls; /* polls without outstanding signalled requests: see vp_ep_poll() */
    uint32_t polls_without_receives; /* consecutive polls that skipped the receives: see
                                        sends_made_progress() */
    bool needs_slow_poll; /* a batch is open, completions are stashed, or service_list is not empty
                           */
    uint32_t max_inline;
    uint32_t max_msg;            /* maximum message size of the port */
    uint32_t notice_apart;       /* see struct vp_tuning */
    uint32_t sq_depth, sq_first; /* length of the send queue if busy, and otherwise */
    struct vp_conn *batch;       /* connection with a batch that is not posted yet */
    uint32_t batch_length;
    struct vp_batched *chain;   /* requests of the batch */
    struct ut_hash_table by_qp; /* connections by qp_num: see table.h */
    struct vp_conn *last_found; /* in by_qp */
    struct vp_recvs recvs;      /* receives of the shared receive queue */
    uint8_t *bounce_slab;
    struct ibv_mr *bounce_mr;
    uint16_t *bounce_free;
    uint32_t bounce_count;
    bool logged_late;  /* logged that a queue pair reports its last receive late */
    uint32_t late_qps; /* queue pairs destroyed without their last receive: handle_late_receive() in
                          conn.c */
    struct ibv_wc stash[VP_POLL_BATCH]; /* completions found by ep_arm() */
    int stash_recv, stash_send; /* numbers of completions in `stash`; send completions come first */
    bool logged_no_room;        /* logged that there is no room for another connection */
    uint64_t busy[VP_BUSY_PEERS]; /* ids of busy peers plus 1; 0: free; see vp_sq_depth() */
    bool polling;
    int num_callbacks;           /* callbacks made by this ep_poll() */
    struct vp_list service_list; /* connections that vp_service_all() has to continue */
    uint32_t pending;            /* atomic, VP_PEND_*: work for the slow part of ep_poll() */
    uint32_t num_completed;      /* total number of requests that have completed */
    uint32_t posts_seen;         /* vp_posts() at the last tick */
    uint64_t posts_seen_at;      /* time when vp_posts() last changed; 0: never */
    uint64_t keepalive_at;       /* ms: next time to send keepalives on idle connections */

    /* protected by prov->lock */
    uint64_t stall_check_at; /* ms; 0: not yet */
    struct vp_list link, wake_link;
    struct vp_list conns, dying; /* vp_conn.ep_link; dying: abandoned, to be destroyed */
    struct vp_list stuck;  /* vp_conn.ep_link: until no completion can refer to their requests */
    struct vp_list events; /* vp_conn.ev_link */
    struct ut_hash_table
        by_origin;          /* passive connections by req.origin_id; protected by prov->lock */
    bool closing;           /* atomic; the owner writes it with the lock held */
    bool broken;            /* a queue failed: no connection can come up */
    uint64_t wake_at;       /* ms: when to wake the owner; 0: never */
    uint32_t recv_room;     /* without a shared receive queue: free entries of recv_cq */
    uint32_t recv_deferred; /* entries of destroyed queue pairs: free when recv_cq is empty */

    /* changed by progress() only */
    uint32_t recv_cq_size;

    /* constant */
    uint32_t rq_depth; /* receives in a connection's own queue; 0: shared */
    struct vp_port *port;
    unsigned int tni;
    unsigned int rail; /* see struct prov_ep_attr */
    uint64_t id;
    void *owner;
};
enum {
    VP_PEND_EVENTS = 1,
    VP_PEND_SRQ_LIMIT = 2,
    VP_PEND_STALLS = 4,
    VP_PEND_DEFERRED_CQES = 8,
    VP_PEND_REFILL = 16, /* the device did not accept a receive */
};

/* struct prov_ep is the opaque type of this object. */
static inline struct vp_ep *vp_ep(struct prov_ep *ep)
{
    return (struct vp_ep *)(void *)ep;
}

/* Changes with each posted request and with each connection. */
static inline uint32_t vp_posts(const struct vp_ep *ep)
{
    return ep->num_completed - ep->room;
}

#endif
