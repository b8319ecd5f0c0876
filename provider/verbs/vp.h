/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs provider: what its files share. RC queue pairs, connected through librdmacm.
 *
 * Who may touch what
 *   The fast path (posting, completions, receives) runs under the endpoint's lock, which its owner
 *   holds, and takes no other lock. prov->lock guards what the background thread and the owners
 *   share: the lists, a connection's phase, its pending events. The slow calls of a handshake run
 *   in progress() without it, with conn->busy set: a busy connection is not taken apart.
 */
#ifndef VP_VP_H
#define VP_VP_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "provider.h"
#include "util/log.h"

enum {
    VP_MAX_DEVICES = 16,
    VP_MAX_PORTS = 6,   /* as many as an address has room for */
    VP_KEY_BYTES = 3,   /* what fits beside the rest into the 56 bytes of a request */
    VP_POLL_BATCH = 16, /* completions taken at once */
    VP_BATCH_MAX = 16,  /* requests behind one doorbell */
    VP_PARTS_MAX = 8,   /* requests that make one transfer */
    VP_SIGNAL_EVERY = 64,
    VP_SOLICIT_EVERY = 64,
    VP_BOUNCE_SLOTS = 256,
    VP_INLINE_MAX = 1024,
    VP_FIRST_WINDOW = 8, /* handshakes in flight at first: see cm.c */
};

#define VP_CAT "verbs"

#define vp_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

struct vp_prov;
struct vp_ep;
struct vp_conn;

/* Doubly linked, circular; an empty list (and a node in no list) points to itself. */
struct vp_list {
    struct vp_list *next, *prev;
};

static inline void vp_list_init(struct vp_list *list)
{
    list->next = list->prev = list;
}

static inline bool vp_list_empty(const struct vp_list *list)
{
    return list->next == list;
}

static inline void vp_list_remove(struct vp_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    vp_list_init(node);
}

static inline void vp_list_append(struct vp_list *list, struct vp_list *node)
{
    vp_list_remove(node);
    node->prev = list->prev;
    node->next = list;
    list->prev->next = node;
    list->prev = node;
}

struct vp_device {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_device_attr attr;
    unsigned int index;
    unsigned int max_inline; /* what a queue pair really takes */
    bool has_wr_api;         /* ibv_wr_start() and friends */
    bool gone;               /* removed or fatally broken */
};

union vp_sockaddr {
    struct sockaddr sa;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

struct vp_port {
    struct vp_device *dev;
    uint8_t num;
    uint32_t max_msg;
    union vp_sockaddr addr; /* with the port number that the listener got */
    struct rdma_cm_id *listener;
    int gid_index; /* -1: InfiniBand, whose address is not a GID's */
    char name[64];
    /* only progress() touches these */
    uint64_t down_since; /* ms; 0: it is up */
    bool lost;           /* down for too long: so are its connections */
};

/* Why a port, or with number 0 a whole device, is not used. */
struct vp_port_refusal {
    char device[IBV_SYSFS_NAME_MAX];
    unsigned int port;
    char why[160];
};
enum { VP_MAX_REFUSALS = 64 };
struct vp_survey {
    unsigned int num_refusals;
    struct vp_port_refusal refusals[VP_MAX_REFUSALS];
};

/* Read once from the environment, then fitted to each device. */
struct vp_tuning {
    unsigned int sq_depth, srq_depth, inline_size, rd_atomic, max_connecting;
    uint8_t timeout, retry_count; /* as queue pairs want them: for peer_timeout_ms */
};

struct vp_prov {
    struct prov base;
    struct prov_config config;
    struct vp_tuning tuning;
    struct vp_device devices[VP_MAX_DEVICES];
    unsigned int num_devices;
    struct vp_port ports[VP_MAX_PORTS];
    unsigned int num_ports;
    uint8_t key[VP_KEY_BYTES];
    struct rdma_event_channel *channel;
    struct vp_survey *survey; /* NULL but in vp_survey(): takes the reasons down */
    int epoll_fd, kick_fd;

    pthread_mutex_t lock;
    pthread_cond_t changed;  /* some connection is not busy any more, some wake-up is over */
    struct vp_list eps;      /* vp_ep.link */
    struct vp_list queue;    /* vp_conn.hs_link: wants to ask its peer */
    struct vp_list accepts;  /* vp_conn.hs_link: its peer has asked, and waits for the answer */
    struct vp_list shaking;  /* vp_conn.hs_link: waits for the peer, or for a time */
    struct vp_list reaping;  /* vp_conn.hs_link: to be destroyed */
    struct vp_list probes;   /* vp_probe.link */
    struct vp_list wakes;    /* vp_ep.wake_link: owners to wake */
    struct vp_ep *waking;    /* whose owner is being woken right now */
    unsigned int asked;      /* connections asked for so far */
    unsigned int connecting; /* handshakes in flight */
    unsigned int window;     /* how many may be */
    uint64_t next_deadline;  /* earliest in `shaking` and `probes`, ms; 0: none */
    uint64_t sleeps_until;   /* when progress() wants to run next, ms; 0: no such time */
    uint64_t strangers;      /* requests with a wrong key */
};

/* What an rdma_cm_id's context points to. */
enum vp_id_kind { VP_ID_LISTENER, VP_ID_CONN, VP_ID_PROBE };
struct vp_id {
    enum vp_id_kind kind;
    struct rdma_cm_id *cm;
};

/* One posted request; its address is the wr_id. */
struct vp_op {
    uint64_t cookie;
    struct vp_conn *conn;
    uint32_t slot; /* its place in the ring */
    uint32_t tag;  /* VP_TAG_* */
};
enum {
    VP_TAG_OURS = 1,             /* the provider's own: no done() */
    VP_TAG_PART = 2,             /* not the last of a transfer: no done() */
    VP_TAG_STREAK = PROV_STREAK, /* streak() */
    VP_TAG_BOUNCE_SHIFT = 16,    /* above: number of the bounce buffer to give back, plus 1 */
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
    VP_REQUESTED,  /* (passive) the core has not answered */
    VP_ACCEPTING,  /* (passive) the core said yes; progress() has to do it */
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
};

/* Pending events: bits of vp_conn.events. */
enum {
    VP_EV_REQUEST = 1,      /* request() has to be called */
    VP_EV_UP = 2,           /* the handshake succeeded */
    VP_EV_OVER = 4,         /* it failed: hs_reason */
    VP_EV_DISCONNECTED = 8, /* the peer's side is gone */
    VP_EV_QP_ERROR = 16,    /* the device says the queue pair broke */
    VP_EV_LOCAL = 32,       /* the port or device is gone */
    VP_EV_VERDICT = 64,     /* the probe knows whether the peer lives: peer_lives */
};

/* The request's private data: all that fits. */
struct vp_hello_req {
    uint8_t kind; /* VP_REQ_*, and in the low six bits the size of the hello */
    uint8_t key[VP_KEY_BYTES];
    uint8_t tag;     /* the same in every repetition of a request, not in the origin's others */
    uint8_t attempt; /* counts the repetitions from 1 */
    uint16_t port;   /* the origin listens here; network order */
    uint64_t target_id, origin_id;
    uint8_t hello[PROV_HELLO_MAX];
};
_Static_assert(sizeof(struct vp_hello_req) == 56, "more does not fit into a request");
enum { VP_REQ_KIND = 0xc0, VP_REQ_CONNECT = 0x40, VP_REQ_PROBE = 0x80, VP_REQ_SIZE = 0x3f };

struct vp_conn {
    /* posting and completing: under the endpoint's lock */
    struct vp_ep *ep;
    void *ctx;
    struct ibv_qp *qp;
    struct ibv_qp_ex *qpx; /* NULL: post with ibv_post_send() */
    struct vp_op *ops;     /* ring of posted requests, sq_mask + 1 */
    uint32_t sq_mask;
    uint32_t head, tail;  /* next to post, first not reported */
    uint32_t sq_app;      /* most requests for writes, reads and atomics; 0: !postable */
    uint32_t sq_cap;      /* most requests at all but the last one, see vp_conn_beacon(); 0: !postable */
    uint32_t signal_due;  /* the one before this is signalled at the latest */
    uint32_t direct_max;  /* longest write or read without a work request; 0: !qpx */
    uint32_t streak;      /* from here on all are VP_TAG_STREAK */
    uint32_t reports;     /* signalled ones that are outstanding */
    uint32_t unsolicited; /* receives taken at the peer since the last solicited one */
    uint32_t batch_first; /* first request of the open batch */
    bool postable;
    uint8_t life;     /* enum vp_life */
    bool closed;      /* conn_close() was called: no callbacks */
    bool in_table;    /* in ep->table */
    bool has_credit;  /* one completion-queue entry is kept for the last request */
    bool last_posted; /* that last request is out */

    /* failing */
    bool has_error; /* a request failed: err_seq, err_wc */
    bool reason_known;
    bool stuck;         /* the device never reported all: completions may still come */
    bool probing;       /* the probe will tell the reason */
    bool stalled;       /* the device does not go on with it */
    uint8_t reason;     /* enum prov_reason */
    uint8_t err_status; /* enum prov_status; of a dead peer: decided with the reason */
    uint32_t err_seq;
    uint32_t posted_to;    /* requests from here on never reached the device */
    uint32_t completed_to; /* the device has reported everything before this */
    uint32_t tail_seen, head_seen; /* at the last look for stalls */
    uint64_t life_deadline;
    struct vp_list tend_link; /* in ep->tending */

    /* the handshake: phase, events and the links under prov->lock, the rest while busy */
    struct vp_id id;
    enum vp_phase phase;
    bool active;
    bool busy;       /* a step runs without the lock */
    bool abandoned;  /* to be destroyed when not busy */
    bool answered;   /* (passive) accept() was called */
    bool counted;    /* among prov->connecting */
    bool peer_lives; /* with VP_EV_VERDICT */
    uint8_t events;
    uint8_t hs_reason;
    uint64_t hs_first;   /* ms: when the first attempt began; 0: not yet */
    uint64_t hs_sign;    /* when the peer gave its last sign of life; at first hs_first */
    uint64_t hs_started; /* when this attempt began */
    uint64_t hs_deadline;
    struct vp_list hs_link;            /* in prov->queue, accepts, shaking or reaping */
    struct vp_list ev_link;            /* in ep->events */
    struct vp_list ep_link;            /* in ep->conns or ep->dying */
    union vp_sockaddr peer;            /* where the peer listens */
    struct vp_hello_req req;           /* ours (active), or what came (passive) */
    uint8_t rsp_resources, init_depth; /* passive: what the origin asked for */
    uint8_t hello_size;
    uint8_t hello[PROV_HELLO_MAX]; /* of the accepting side: ours (passive), or what came */
};

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

struct vp_ep {
    /* fast path: under the endpoint's lock */
    struct vp_prov *prov;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_srq *srq;
    struct prov_callbacks cb;
    uint32_t room;        /* completion-queue entries not promised to a posted request */
    uint32_t room_app;    /* writes, reads, atomics leave this much to messages */
    uint32_t room_signal; /* below this everything is signalled */
    uint32_t cq_size;     /* of send_cq */
    uint32_t credits;     /* connections that an entry is kept for */
    uint32_t cq_wanted;   /* beyond those: so many entries, as long as send_cq can grow */
    uint32_t signal_every;
    uint32_t reports;     /* the sum over the connections */
    uint32_t vain_polls;  /* polls with nothing to be reported, see vp_ep_poll() */
    uint32_t only_sends;  /* polls in a row, see sends_suffice() and vp_ep_poll() */
    bool aside;           /* a batch is open, something is stashed, or somebody to be tended */
    uint32_t max_inline;
    uint32_t max_msg; /* of the port */
    uint32_t sq_depth;
    struct vp_conn *batch; /* has an open batch */
    uint32_t batch_length;
    struct vp_chained *chain;
    struct vp_slot *table; /* qp_num to connection; open addressing */
    uint32_t table_mask, table_used;
    struct vp_slot last; /* the one found last */
    uint8_t *recv_slab, *bounce_slab;
    struct ibv_mr *recv_mr, *bounce_mr;
    uint16_t *bounce_free;
    uint32_t bounce_count;
    uint32_t srq_depth;
    uint32_t to_post;             /* receive buffers taken out and not given back */
    struct ibv_recv_wr *recv_wrs; /* one per buffer, with its sge */
    struct ibv_sge *recv_sges;
    struct ibv_recv_wr *refill_first, *refill_last;
    struct ibv_wc stash[VP_POLL_BATCH]; /* found while arming */
    int stash_recv, stash_send;         /* how many; send ones first */
    bool polling;
    int made;               /* callbacks of this ep_poll() */
    struct vp_list tending; /* connections that close, drain or wait */
    uint32_t pending;       /* atomic: VP_PEND_*: something for ep_poll()'s slow part */
    uint32_t retired;       /* requests that were reported, ever */
    uint32_t posts_seen;    /* vp_posts() at the last tick */
    uint64_t posts_seen_at; /* when that had changed; 0: never */

    /* under prov->lock */
    uint64_t stall_look_at; /* ms; 0: not yet */
    struct vp_list link, wake_link;
    struct vp_list conns, dying; /* vp_conn.ep_link; dying: abandoned, not destroyed yet */
    struct vp_list stuck;        /* vp_conn.ep_link: kept until no completion can name them */
    struct vp_list events;       /* vp_conn.ev_link */
    bool closing;
    uint64_t wake_at; /* wake the owner then, ms; 0: no */

    /* constant */
    struct vp_port *port;
    unsigned int tni;
    uint64_t id;
    void *owner;
};
enum { VP_PEND_EVENTS = 1, VP_PEND_SRQ_LIMIT = 2, VP_PEND_STALLS = 4 };

/* Asks a peer's listener whether its process is alive. */
struct vp_probe {
    struct vp_id id;
    struct vp_conn *conn; /* NULL: nobody wants to know any more */
    struct vp_list link;
    uint64_t deadline; /* of this attempt, ms; 0: not started */
    unsigned int attempts;
    bool done;
};

struct vp_mr {
    struct prov_mr base;
    struct ibv_mr *mr;
};

/* What a rejected request means to the one who asked. */
enum vp_refusal {
    VP_REFUSED_NO_ENDPOINT = 1, /* this one and the next three: said by the peer's provider */
    VP_REFUSED_BY_CORE,
    VP_REFUSED_STRANGER,
    VP_REFUSED_BUSY,  /* also what the kernel says for it when it is overrun */
    VP_REFUSED_ALIVE, /* the answer to a probe */
    VP_REFUSED_DEAD,  /* nobody listens there */
};
struct vp_reject_msg {
    uint8_t magic[4];
    uint8_t refusal;
};

/* What a control message (SEND with immediate) says. */
enum { VP_CTL_BYE = 0x62796521 };

static inline struct vp_prov *vp_prov(struct prov *prov)
{
    return vp_container_of(prov, struct vp_prov, base);
}

/* The contract's names are opaque; these are the same objects. */
static inline struct vp_ep *vp_ep(struct prov_ep *ep)
{
    return (struct vp_ep *)(void *)ep;
}

static inline struct vp_conn *vp_conn(struct prov_conn *conn)
{
    return (struct vp_conn *)(void *)conn;
}

/* Changes with each request that is posted, and with each connection. */
static inline uint32_t vp_posts(const struct vp_ep *ep)
{
    return ep->retired - ep->room;
}

uint64_t vp_now_ms(void);

/* device.c */
int vp_devices_open(struct vp_prov *prov);
void vp_devices_close(struct vp_prov *prov);
bool vp_port_is_active(const struct vp_port *port);
bool vp_port_is_down(const struct vp_port *port);
void vp_log_nomem(const char *what, const char *device, int err);
const char *vp_addr_text(const union vp_sockaddr *addr, char *buf, size_t size);

/* survey.c */
void vp_survey_ports(const struct vp_prov *prov, void *ctx,
                     void (*tell)(void *ctx, const struct prov_port *port));

/* mr.c */
int vp_reg(struct prov *prov, unsigned int device, void *addr, size_t size, unsigned int access,
           struct prov_mr **mr);
void vp_dereg(struct prov *prov, struct prov_mr *mr);

/* ep.c */
int vp_ep_open(struct prov *prov, const struct prov_ep_attr *attr, struct prov_ep **ep);
void vp_ep_close(struct prov_ep *ep);
bool vp_ep_arm(struct prov_ep *ep);
void vp_ep_disarm(struct prov_ep *ep);
void vp_srq_rearm(struct vp_ep *ep);
/* The completion-queue entry that a connection keeps for its last request; false: none is left. */
bool vp_ep_take_credit(struct vp_ep *ep);
void vp_ep_give_credit(struct vp_ep *ep);
int vp_table_add(struct vp_ep *ep, struct vp_conn *conn);
void vp_table_remove(struct vp_ep *ep, struct vp_conn *conn);

/* post.c */
int vp_write(struct prov_conn *conn, const struct prov_xfer *xfer);
int vp_read(struct prov_conn *conn, const struct prov_xfer *xfer);
int vp_send(struct prov_conn *conn, const void *data, size_t size, unsigned int flags,
            uint64_t cookie);
int vp_atomic(struct prov_conn *conn, const struct prov_atomic *atomic);
void vp_ep_flush(struct prov_ep *ep);
void vp_flush(struct vp_ep *ep);
void vp_conn_beacon(struct vp_conn *conn, bool bye);
static inline void vp_expect_report(struct vp_conn *conn)
{
    conn->signal_due = conn->head + conn->ep->signal_every;
    conn->reports++;
    conn->ep->reports++;
}
static inline bool vp_all_signalled(const struct vp_conn *conn)
{
    return conn->signal_due - conn->ep->signal_every == conn->head;
}
static inline void vp_expect_no_reports(struct vp_conn *conn)
{
    conn->ep->reports -= conn->reports;
    conn->reports = 0;
}
void vp_post_report(struct vp_conn *conn);

/* poll.c */
int vp_ep_poll(struct prov_ep *ep);
void vp_poll_quietly(struct vp_ep *ep);

/* conn.c */
struct vp_conn *vp_conn_new(struct vp_ep *ep, bool active);
int vp_conn_create_qp(struct vp_conn *conn);
int vp_conn_ready_qp(struct vp_conn *conn);
void vp_conn_drop_qp(struct vp_conn *conn);
void vp_conn_up(struct vp_conn *conn);
void vp_conn_break(struct vp_conn *conn, int reason);
void vp_conn_error(struct vp_conn *conn, uint32_t seq, const struct ibv_wc *wc);
void vp_conn_bye(struct vp_conn *conn);
void vp_conn_failed(struct vp_conn *conn, uint32_t seq, enum prov_status status);
void vp_tend_all(struct vp_ep *ep);
void vp_look_for_stalls(struct vp_ep *ep);
void vp_retire(struct vp_conn *conn, uint32_t upto, enum prov_status status);
void vp_conn_close(struct prov_conn *conn);
void vp_conn_destroy(struct vp_conn *conn);
void vp_conn_free(struct vp_conn *conn);
void vp_conn_handle(struct vp_conn *conn, unsigned int events);
enum { VP_REASON_ASK = -1 }; /* vp_conn_break(): the probe decides */

/* cm.c: handshakes; _locked: with prov->lock held */
int vp_connect(struct prov_ep *ep, const void *addr, size_t addr_size, unsigned int peer_tni,
               uint64_t peer_id, const void *hello, size_t hello_size, void *ctx,
               struct prov_conn **conn);
int vp_accept(struct prov_conn *conn, const void *hello, size_t hello_size, void *ctx);
void vp_reject(struct prov_conn *conn);
void vp_cm_events(struct vp_prov *prov);
void vp_cm_queue(struct vp_prov *prov);
void vp_cm_timers(struct vp_prov *prov, uint64_t now);
void vp_cm_reap(struct vp_prov *prov, struct vp_ep *ep);
void vp_cm_abandon_locked(struct vp_conn *conn);
void vp_cm_drop_id(struct vp_conn *conn);
int vp_cm_resolve(struct vp_prov *prov, struct vp_id *id, struct vp_port *port,
                  const union vp_sockaddr *peer);
enum vp_refusal vp_cm_refusal(const struct rdma_cm_event *event);
size_t vp_address(struct prov *prov, void *buf);
void vp_deadline_locked(struct vp_prov *prov, uint64_t deadline);

/* probe.c */
void vp_probe_start(struct vp_conn *conn);
void vp_probe_event(struct vp_prov *prov, struct vp_probe *probe,
                    const struct rdma_cm_event *event);
void vp_probe_forget_locked(struct vp_prov *prov, struct vp_conn *conn);
void vp_probe_run(struct vp_prov *prov, uint64_t now);

/* progress.c */
int vp_fd(struct prov *prov);
int vp_progress(struct prov *prov);
void vp_kick(struct vp_prov *prov);
void vp_post_event_locked(struct vp_conn *conn, unsigned int event);
void vp_wake_locked(struct vp_ep *ep);
int vp_watch(struct vp_prov *prov, int fd, unsigned int what);
enum { VP_WATCH_KICK = 1, VP_WATCH_CM, VP_WATCH_COMP = 0x100, VP_WATCH_ASYNC = 0x200 };

#endif
