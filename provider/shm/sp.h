/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects of the shm provider and what its files do for each other. Uses provider.h, util,
 * libc.
 *
 * docs/architecture.md says what each file does and which use which: scripts/module-graph checks
 * it.
 *
 * Locks: prov->lock guards the tables of peers and endpoints, prov->mr_lock that of regions. What
 * belongs to an endpoint or connection is guarded by the owner's lock (see provider.h); the
 * background thread reaches an endpoint through its atomic flags alone.
 */
#ifndef SP_SP_H
#define SP_SP_H

#include <pthread.h>
#include <sys/types.h>

#include "remap.h"
#include "layout.h"
#include "provider.h"
#include "ring.h"
#include "mapped.h"

#define SP_LOG "shm"

struct sp_mr {
    struct prov_mr base;
    struct sp_mr *next_free;
    uint64_t lo, hi; /* pages that it touches, as far as they are counted */
};

enum sp_peer_state {
    SP_PEER_INCOMING,   /* it connected; its hello is not here yet */
    SP_PEER_RETRY,      /* to be connected at retry_ms */
    SP_PEER_HELLO_SENT, /* we connected and sent our hello */
    SP_PEER_MAPPED,     /* we answered its hello; it may use us already */
    SP_PEER_UP,
    SP_PEER_DEAD,
};

struct sp_peer {
    struct sp_peer *next; /* in the table, or among the dead ones */
    struct sp_prov *prov;
    uint32_t refs;  /* connections, and the table */
    uint32_t state; /* atomic; changed with prov->lock held */
    uint32_t cma;   /* atomic: 0: its memory cannot be reached, use the rings */
    bool is_self;
    bool send_fds;  /* it cannot open our descriptors by their numbers */
    bool want_sent; /* and we not those of the other end of this socket */
    uint8_t reason; /* enum prov_reason: why it is dead for us; set before the state */
    pid_t pid;
    int fd;
    int map_fd;                        /* its remapped memory; -1: nothing of it can be mapped */
    uint32_t claimer_here;             /* its signature in our rings */
    uint32_t claimer_there;            /* our signature in its rings */
    uint64_t retry_ms, short_since_ms; /* the latter: something was lacking all the time */
    uint32_t backoff_ms;
    uint64_t closings_seen;
    struct sp_address addr;
    struct sp_segment *seg;
};

struct sp_prov {
    struct prov base;
    struct sp_prov *next; /* for fork */
    struct prov_config config;
    pthread_mutex_t lock, mr_lock;
    bool use_cma, forked, listen_paused, shortage_logged;
    uint32_t told_no_cma;
    struct sp_address addr;
    int epoll_fd, listen_fd, kick_fd, timer_fd, seg_fd;
    int spare_fd; /* given up for a moment to turn somebody away when there is no other */
    struct sp_segment *seg;
    struct sp_peer self;
    struct sp_peer *peers; /* all but dead ones */
    struct sp_peer *dead;  /* events of the running batch may still name them */
    uint64_t retry_ms;     /* when the next attempt to connect or to listen is due; 0: none */
    uint64_t jitter;
    uint32_t next_claimer;
    uint32_t deaths; /* atomic */
    struct sp_ep *eps[SP_MAX_EPS];
    uint32_t num_eps; /* places of the directory that were ever used */
    struct {
        uint64_t head; /* the ring goes on where the last owner stopped */
        uint32_t conn_generation;
    } places[SP_MAX_EPS];
    uint32_t timer_on; /* atomic */
    uint32_t num_mrs;  /* places of the table that were ever used */
    uint32_t num_free_mrs;
    struct sp_mr *first_free_mr, **last_free_mr;
    uint64_t mr_serial;
    struct sp_pagerefs *pagerefs; /* NULL: nothing is remapped */
    struct sp_remap remap;
    bool use_map, told_no_map;
    uint64_t mapped_bytes, max_mapped_bytes; /* of peers; the first is atomic */
};

struct sp_ep {
    /* looked at by every poll */
    const struct sp_slot *next_slot;
    uint64_t vacant;    /* the state of next_slot when nothing is there */
    uint32_t attention; /* atomic: something happened to a process or in the directory */
    uint32_t num_active;
    struct sp_ring *ring;
    uint64_t head;
    struct sp_prov *prov;
    void *owner;
    const struct prov_callbacks *callbacks;
    uint64_t id;
    uint32_t index;   /* in the directory */
    uint32_t blocked; /* atomic: the timer shall wake the owner */
    bool in_poll;
    struct sp_conn **active; /* connections that have something to do */
    struct sp_conn **conns;  /* by the low bits of their name */
    uint32_t max_conns, num_conns, next_conn;
    uint32_t max_active, num_live; /* connections that exist, closed ones too */
    struct sp_conn *graveyard;     /* closed during a poll */
};

enum sp_conn_state {
    SP_CONN_WAITING,   /* for the peer process */
    SP_CONN_ASKING,    /* for the peer's answer */
    SP_CONN_ASKED,     /* for the owner's answer */
    SP_CONN_ACCEPTING, /* the answer is not sent yet */
    SP_CONN_UP,
    SP_CONN_DOWN,
};

enum sp_ctl {
    SP_CTL_NONE,
    SP_CTL_REQUEST = SP_KIND_REQUEST,
    SP_CTL_ACCEPT = SP_KIND_ACCEPT,
    SP_CTL_REJECT = SP_KIND_REJECT,
    SP_CTL_CLOSE = SP_KIND_CLOSE,
    SP_CTL_ERROR = SP_KIND_ERROR,
};

struct sp_stream;
struct sp_map;

struct sp_conn {
    struct sp_ep *ep;
    struct sp_peer *peer;
    struct sp_ring *ring;     /* of the peer's endpoint */
    struct sp_stream *stream; /* once something could not be done at once */
    struct sp_map *map;       /* once something of the peer was mapped */
    struct prov_mapping view; /* of the peer, as long as nothing went by the stream: map.h */
    struct prov_mapping own;  /* the same of our own memory */
    void *ctx;
    uint32_t rmt_name; /* the peer's name for the connection */
    uint32_t name;
    uint8_t state;
    uint8_t ctl; /* enum sp_ctl: to be sent */
    bool closed; /* by the owner: nothing but ctl is left */
    bool up_due;
    bool down_due;
    uint8_t reason; /* of down() */
    uint8_t hello_size, rmt_hello_size;
    uint32_t rmt_index;    /* of the peer's endpoint in its directory */
    uint32_t rmt_state;    /* of that directory entry when the connection was made */
    uint32_t active_index; /* in ep->active, plus 1 */
    uint32_t error_seq, error_status;
    uint64_t rmt_id;
    uint64_t executed; /* operations of the peer that were executed here */
    struct sp_conn *next_grave;
    uint8_t hello[PROV_HELLO_MAX], rmt_hello[PROV_HELLO_MAX];
};

static inline struct sp_prov *sp_prov_of(struct prov *prov)
{
    return (struct sp_prov *)prov;
}

static inline bool sp_peer_is(const struct sp_peer *peer, enum sp_peer_state state)
{
    return __atomic_load_n(&peer->state, __ATOMIC_ACQUIRE) == (uint32_t)state;
}

/* segment.c */
int sp_segment_create(struct sp_prov *prov);
void sp_segment_destroy(struct sp_prov *prov);
/* Maps a peer's segment, which must hold this probe, and closes the descriptor. -EPROTO after an
 * error line, -ESRCH: it is another process's, other negative errno: something is lacking here. */
int sp_segment_map(int fd, uint64_t probe, struct sp_segment **seg);
void sp_segment_unmap(struct sp_segment *seg);

/* wake.c */
/* Something happened that every endpoint must look at. With prov->lock held. */
void sp_attention(struct sp_prov *prov);
/* Makes the background thread look at which owners to wake. */
void sp_kick(struct sp_prov *prov);
/* Makes it look in a moment. */
void sp_timer(struct sp_prov *prov);

/* peer.c: with prov->lock held, but for put */
struct sp_peer *sp_peer_new(struct sp_prov *prov);
struct sp_peer *sp_peer_find(struct sp_prov *prov, uint64_t key);
struct sp_peer *sp_peer_by_claimer(struct sp_prov *prov, uint32_t claimer);
/* Takes it out of the table; its connections go down for this reason. It is there until the next
 * sp_peer_bury(), whoever lets go of it. */
void sp_peer_die(struct sp_peer *peer, enum prov_reason reason);
/* Lets go of the dead ones: when no event that was fetched before they died is left. */
void sp_peer_bury(struct sp_prov *prov);
void sp_peer_put(struct sp_peer *peer);

/* sock.c */
int sp_listen(struct sp_prov *prov);
/* Begins to connect; the state says how far it came. With prov->lock held. */
void sp_greet(struct sp_peer *peer);
/* Something to read, or a hang-up. With prov->lock held. */
void sp_receive(struct sp_peer *peer);
void sp_accept_all(struct sp_prov *prov);
/* Tries again what is due; returns milliseconds until something else is, or -1. */
int sp_retry(struct sp_prov *prov);
void sp_tell(struct sp_peer *peer, enum sp_dgram_type type);

/* Wakes the owner of the peer's endpoint, which said that it sleeps. */
void sp_ring_bell(struct sp_peer *peer, struct sp_ring *ring);

/* mr.c */
int sp_reg(struct prov *prov, unsigned int device, void *addr, size_t size, unsigned int access,
           struct prov_mr **mr);
void sp_dereg(struct prov *prov, struct prov_mr *mr);

/* ep.c */
int sp_ep_open(struct prov *prov, const struct prov_ep_attr *attr, struct prov_ep **ep);
void sp_ep_close(struct prov_ep *ep);
int sp_ep_poll(struct prov_ep *ep);
void sp_ep_flush(struct prov_ep *ep);
bool sp_ep_arm(struct prov_ep *ep);
void sp_ep_disarm(struct prov_ep *ep);

/* state.c */
/* A peer's ring is full or an answer is due: nobody rings for that. */
void sp_ep_wake_in_a_moment(struct sp_ep *ep);
void sp_ep_activate(struct sp_conn *conn);
void sp_ep_deactivate(struct sp_conn *conn);
/* Its owner is told by the endpoint: sp_conn_tell(). */
void sp_conn_go_down(struct sp_conn *conn, enum prov_reason reason);

/* conn.c */
int sp_connect(struct prov_ep *ep, const void *addr, size_t addr_size, unsigned int peer_tni,
               uint64_t peer_id, const void *hello, size_t hello_size, void *ctx,
               struct prov_conn **conn);
int sp_accept(struct prov_conn *conn, const void *hello, size_t hello_size, void *ctx);
void sp_reject(struct prov_conn *conn);
void sp_conn_close(struct prov_conn *conn);
/* Frees it and what hangs on it. */
void sp_conn_free(struct sp_conn *conn);
struct sp_conn *sp_conn_by_name(struct sp_ep *ep, uint32_t name);
/* What arrived in a slot; returns the number of callbacks, or -1: not now. */
int sp_conn_take_control(struct sp_ep *ep, const struct sp_slot *slot, uint32_t claimer);
/* Control that waits for room in the peer's ring. */
void sp_conn_send_control(struct sp_conn *conn);
/* After something happened to a process: goes on with, or takes down, what it concerns. */
int sp_conn_attend(struct sp_conn *conn);
/* Tells up() or down() if due. */
int sp_conn_tell(struct sp_conn *conn);
/* The same on both sides, after an operation of the peer failed. */
int sp_conn_settle(struct sp_conn *conn);

/* xfer.c */
int sp_write(struct prov_conn *conn, const struct prov_xfer *xfer);
int sp_read(struct prov_conn *conn, const struct prov_xfer *xfer);
int sp_send(struct prov_conn *conn, const void *data, size_t size, unsigned int flags,
            uint64_t cookie);
int sp_atomic(struct prov_conn *conn, const struct prov_atomic *atomic);
void *sp_direct(struct prov_conn *conn, uint64_t rmt, uint32_t length, uint32_t rkey);
const struct prov_mapping *sp_view(struct prov_conn *conn);

/* stream.c */
/* These ask about conn->stream, which must be there. */
bool sp_stream_empty(const struct sp_conn *conn);
bool sp_stream_reads_out(const struct sp_conn *conn);
/* May one more operation be posted: 0; -EAGAIN: earlier ones are not sent, or too many. */
int sp_stream_reserve(struct sp_conn *conn);
/* Remembers an operation that is executed but must be reported behind others. */
void sp_stream_push_complete(struct sp_conn *conn, uint64_t cookie);
/* Remembers a notice whose data was moved but that found the ring full. */
void sp_stream_push_notify(struct sp_conn *conn, const struct prov_xfer *xfer);
int sp_stream_write(struct sp_conn *conn, const struct prov_xfer *xfer);
int sp_stream_read(struct sp_conn *conn, const struct prov_xfer *xfer);
/* Sends, answers and reports what it can; returns the number of callbacks. */
int sp_stream_step(struct sp_conn *conn);
bool sp_stream_idle(const struct sp_conn *conn);
/* Reports everything that is outstanding. */
int sp_stream_flush(struct sp_conn *conn);
/* Of a connection that is up; where it goes down, sp_conn_settle() is due. So after a step. */
int sp_stream_take(struct sp_conn *conn, const struct sp_slot *slot, const uint8_t *payload);
void sp_stream_take_error(struct sp_conn *conn, const struct sp_slot *slot);
void sp_stream_free(struct sp_conn *conn);

#endif
