/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint: its queues, its buffers and its lists of connections: data. */
#ifndef VP_EP_TYPES_H
#define VP_EP_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "list.h"
#include "prov_types.h"
#include "provider.h"

enum {
    VP_POLL_BATCH = 16, /* completions taken at once */
    VP_INLINE_MAX = 1024,
    VP_SOLICIT_EVERY = 64, /* of a connection's arrivals at least one wakes who sleeps */
    VP_RECVS_PARTS = 3,    /* a quarter of the receives, then half, then all */
    VP_BUSY_PEERS = 256,   /* that an endpoint remembers at most; a power of two */
};

struct vp_conn;

struct vp_slot {
    uint32_t qp_num;
    struct vp_conn *conn; /* NULL: free */
};

/* A request that waits in an open batch. */
struct vp_chained {
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    uint8_t data[VP_INLINE_MAX];
};

/* Receives of a shared receive queue, or of one queue pair. There are `depth` of them, and places
 * for `most`: see vp_recvs_grow(). */
struct vp_recvs {
    struct ibv_qp *qp; /* NULL: they are the endpoint's */
    uint32_t depth, refill_at, most;
    uint32_t to_post;        /* buffers taken out and not given back */
    struct ibv_recv_wr *wrs; /* one per buffer, with its sge */
    struct ibv_sge *sges;
    struct ibv_recv_wr *first, *last; /* of those to post */
    uint8_t *slab;
    struct ibv_mr *mrs[VP_RECVS_PARTS]; /* of the slab's parts, one for each time that it grew */
    uint64_t posted, completed; /* ever; the latter of a shared one only where it is asserted */
};

struct vp_ep {
    /* fast path: under the endpoint's lock */
    struct vp_prov *prov;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_srq *srq; /* NULL: each connection has receives of its own */
    struct prov_callbacks cb;
    uint32_t room;        /* completion-queue entries not promised to a posted request */
    uint32_t room_app;    /* writes, reads, atomics leave this much to messages */
    uint32_t room_signal; /* below this everything is signalled */
    uint32_t room_few;    /* the same; while a batch is open, more than `room` can be */
    uint32_t cq_size;     /* of send_cq */
    uint32_t credits;     /* connections that an entry is kept for */
    uint32_t cq_wanted;   /* beyond those: so many entries, as long as send_cq can grow */
    uint32_t signal_every;
    uint32_t reports;     /* the sum over the connections */
    uint32_t empty_polls; /* polls with nothing to be reported, see vp_ep_poll() */
    uint32_t only_sends;  /* polls in a row, see sends_suffice() and vp_ep_poll() */
    bool aside; /* a batch is open, completions are stashed, or ep->tending is not empty */
    uint32_t max_inline;
    uint32_t max_msg;            /* of the port */
    uint32_t notice_apart;       /* see struct vp_tuning */
    uint32_t sq_depth, sq_first; /* of a connection: most, and as long as it is not a busy one */
    struct vp_conn *batch;       /* has an open batch */
    uint32_t batch_length;
    struct vp_chained *chain;
    struct vp_slot *table; /* qp_num to connection; open addressing */
    uint32_t table_mask, table_used;
    struct vp_slot last;   /* the one found last */
    struct vp_recvs recvs; /* of the shared receive queue */
    uint8_t *bounce_slab;
    struct ibv_mr *bounce_mr;
    uint16_t *bounce_free;
    uint32_t bounce_count;
    bool told_late;    /* a queue pair has not reported its last receive for long */
    uint32_t given_up; /* queue pairs that may have kept a receive: see look_at_end() in conn.c */
    struct ibv_wc stash[VP_POLL_BATCH]; /* found while arming */
    int stash_recv, stash_send;         /* how many; send ones first */
    bool told_no_room;                  /* for another connection */
    uint64_t busy[VP_BUSY_PEERS];       /* their ids plus 1, 0: none; see busy.h */
    bool polling;
    int made;               /* callbacks of this ep_poll() */
    struct vp_list tending; /* connections that close, drain or wait */
    uint32_t pending;       /* atomic: VP_PEND_*: something for ep_poll()'s slow part */
    uint32_t retired;       /* requests that were reported, ever */
    uint32_t posts_seen;    /* vp_posts() at the last tick */
    uint64_t posts_seen_at; /* when that had changed; 0: never */
    uint64_t signs_at;      /* ms: idle connections ask for signs of life then */

    /* under prov->lock */
    uint64_t stall_look_at; /* ms; 0: not yet */
    struct vp_list link, wake_link;
    struct vp_list conns, dying; /* vp_conn.ep_link; dying: abandoned, not destroyed yet */
    struct vp_list stuck;        /* vp_conn.ep_link: kept until no completion can name them */
    struct vp_list events;       /* vp_conn.ev_link */
    struct vp_conn **origins;    /* those that peers have asked for: see origins.h */
    uint32_t origin_buckets, num_origins;
    bool closing;       /* atomic; written by the owner, with the lock */
    bool broken;        /* a queue of it is in error: no connection comes up any more */
    uint64_t wake_at;   /* wake the owner then, ms; 0: no */
    uint32_t recv_room; /* without a shared receive queue: entries of recv_cq that are left; */
    uint32_t recv_owed; /* and that are when all is polled: of queue pairs that are gone */

    /* only progress() changes it */
    uint32_t recv_cq_size;

    /* constant */
    uint32_t rq_depth; /* receives of a connection's own queue; 0: they are shared */
    struct vp_port *port;
    unsigned int tni;
    uint64_t id;
    void *owner;
};
enum {
    VP_PEND_EVENTS = 1,
    VP_PEND_SRQ_LIMIT = 2,
    VP_PEND_STALLS = 4,
    VP_PEND_OWED = 8,
    VP_PEND_REFILL = 16, /* the device has not taken a receive */
};

/* The contract's name is opaque; this is the same object. */
static inline struct vp_ep *vp_ep(struct prov_ep *ep)
{
    return (struct vp_ep *)(void *)ep;
}

/* Changes with each request that is posted, and with each connection. */
static inline uint32_t vp_posts(const struct vp_ep *ep)
{
    return ep->retired - ep->room;
}

#endif
