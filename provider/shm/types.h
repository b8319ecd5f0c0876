/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects of the shm provider ("sp_": shared-memory provider): process (sp_prov), peer process,
 * endpoint, connection. The owner of an endpoint is the VCQ that opened it, and polls it.
 *
 * Locks: prov->lock guards the tables of peers and endpoints, prov->mr_lock the table of regions.
 * The lock of the owner guards the data of an endpoint and its connections; the background thread
 * only accesses the atomic flags of an endpoint.
 */
#ifndef SP_TYPES_H
#define SP_TYPES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "layout.h"
#include "mapped.h"
#include "provider.h"
#include "remap.h"
#include "util/hash_table.h"

struct sp_conn;
struct sp_ep;
struct sp_map;
struct sp_mr;
struct sp_pagerefs;
struct sp_prov;
struct sp_op_queue;

/*
 * A peer process
 */

enum sp_peer_state {
    SP_PEER_INCOMING,     /* the peer connected; its HELLO has not arrived yet */
    SP_PEER_WILL_CONNECT, /* this process will connect at retry_ms, for the first time or again */
    SP_PEER_HELLO_SENT,   /* this process connected and sent its HELLO */
    SP_PEER_MAPPED, /* this process sent WELCOME; the peer may already use this process's segment */
    SP_PEER_UP,
    SP_PEER_DEAD,
};

struct sp_peer {
    LIST_ENTRY(sp_peer) next; /* in the list of peers, or in that of dead peers */
    struct ut_hash_entry by_producer_id, by_key; /* in the tables of the provider */
    struct sp_prov *prov;
    uint32_t refs;        /* number of its connections, plus 1 for the table; whoever drops the last
                             one frees the peer, and for others it is a number alone */
    uint32_t state;       /* atomic; changed with prov->lock held */
    uint32_t cma;         /* atomic; 0: no cross-memory attach, use the rings */
    bool is_self;         /* this process itself, whose endpoints reach each other, too */
    bool attach_fds;      /* the peer sent WANT_FDS: attach descriptors to datagrams */
    bool fds_requested;   /* this process sent WANT_FDS on this socket */
    bool must_prove_user; /* WELCOME must prove the peer's present user: check_listening_user() */
    bool refusal_logged;  /* the peer's refusal was logged */
    uint8_t reason;       /* enum prov_reason of the peer's death; set before the state */
    pid_t pid;
    int fd;                         /* socket */
    int remap_fd;                   /* memfd of the peer's remapped memory; -1: none */
    uint32_t id_in_own_rings;       /* the peer's producer id in this process's rings */
    uint32_t id_in_peer_rings;      /* this process's producer id in the peer's rings */
    uint64_t retry_ms;              /* SP_PEER_WILL_CONNECT: time of the attempt; 0: at once */
    uint64_t shortage_since_ms;     /* first failed attempt for lack of resources; 0: none */
    uint64_t refused_since_ms;      /* first rejected attempt; 0: none */
    uint32_t backoff_ms;            /* last delay before an attempt */
    uint64_t closed_eps_seen;       /* num_closed_eps of its segment at the last check */
    uint32_t pending_notifications; /* atomic; to be sent again: a bit per type */
    struct sp_address addr;
    struct sp_segment *seg; /* mapped segment of the peer; NULL: not mapped yet */
    uint32_t num_rings;     /* rings of seg */
};

/* True if the peer is in this state; may be called without prov->lock. */
static inline bool sp_peer_is(const struct sp_peer *peer, enum sp_peer_state state)
{
    return __atomic_load_n(&peer->state, __ATOMIC_ACQUIRE) == (uint32_t)state;
}

/*
 * This process
 */

#define SP_LOG "shm" /* module name in log lines */

enum { SP_REJECTED = 16 }; /* size of sp_prov.rejected */

struct sp_prov {
    struct prov base;
    LIST_ENTRY(sp_prov) next; /* in `all`, for fork */
    struct prov_config config;
    pthread_mutex_t lock, mr_lock;
    bool use_cma;                /* UTOFU_SHM_CMA: use cross-memory attach where it works */
    bool in_fork_child;          /* this process is a child of the one that opened the provider */
    bool listen_paused;          /* no descriptor was left to accept a connection */
    bool shortage_logged;        /* a shortage of descriptors or memory was logged */
    uint32_t no_cma_logged;      /* the lack of cross-memory attach was logged */
    uid_t uid;                   /* effective user when `listen_fd` was made */
    pid_t rejected[SP_REJECTED]; /* processes whose rejection was logged last */
    uint32_t num_rejected;       /* number of such lines */
    struct sp_address addr;
    int epoll_fd; /* the background thread waits for it */
    int listen_fd;
    int kick_fd;  /* eventfd of sp_kick() */
    int timer_fd; /* timerfd of sp_start_timer() */
    int seg_fd;   /* memfd of the segment */
    int spare_fd; /* closed for a moment to reject a peer when no other descriptor is left */
    struct sp_segment *seg;
    uint32_t num_rings;                     /* rings of the segment: maximum number of endpoints */
    struct sp_peer self;                    /* the peer of connections within this process */
    LIST_HEAD(sp_peer_list, sp_peer) peers; /* all except dead ones */
    struct ut_hash_table by_producer_id, by_key; /* struct sp_peer */
    struct sp_peer_list dead;  /* which the current batch of epoll events may still name */
    uint64_t retry_ms;         /* next attempt to connect or to listen; 0: none */
    uint64_t jitter_seed;      /* for the delays between attempts */
    uint32_t last_producer_id; /* the producer id assigned last */
    uint32_t deaths; /* atomic: number of peers that have died; 0: no slot can be abandoned */
    struct sp_ep *eps[SP_MAX_EPS]; /* NULL: no endpoint with this index */
    uint32_t eps_high_water;       /* no endpoint has had this index or a higher one */
    struct {
        uint64_t head;            /* initial head of the next endpoint with this index */
        uint32_t conn_generation; /* of the endpoints' last connection */
    } ep_history[SP_MAX_EPS];
    uint32_t timer_on;                  /* atomic: the timer is set */
    uint32_t has_pending_notifications; /* atomic: a peer has pending_notifications */
    uint32_t mrs_high_water;            /* no region has had this index or a higher one */
    uint32_t num_free_mrs;
    STAILQ_HEAD(sp_mr_queue, sp_mr) free_mrs; /* freed first, used first */
    uint64_t mr_serial;                       /* serial number of the region registered last */
    struct sp_pagerefs *pagerefs;             /* NULL: no memory is remapped */
    struct sp_remap remap;
    bool maps_peers;           /* UTOFU_SHM_MAP is not 0: map memory of peers */
    bool no_map_logged;        /* a failed mapping of a peer's memory was logged */
    uint64_t mapped_bytes;     /* atomic: mapped memory of peers */
    uint64_t max_mapped_bytes; /* limit=MIB of UTOFU_SHM_MAP */
};

static inline struct sp_prov *sp_prov_of(struct prov *prov)
{
    return (struct sp_prov *)prov;
}

/*
 * An endpoint
 */

struct sp_ep {
    /* every poll reads these */
    const struct sp_slot *next_slot;
    uint64_t vacant;           /* the state of next_slot while it is empty */
    uint32_t must_check_peers; /* atomic: a peer died or came up, or an endpoint was closed */
    uint32_t num_active;
    struct sp_ring *ring;
    uint64_t head; /* position of next_slot */
    struct sp_prov *prov;
    void *owner; /* VCQ, for wake() and request() */
    const struct prov_callbacks *callbacks;
    uint64_t id;
    uint32_t index;          /* index in the directory */
    uint32_t wake_by_timer;  /* atomic: the timer must wake the owner */
    bool in_poll;            /* connections must not be freed */
    uint64_t claimed_at;     /* head at which a slot was claimed, but not published */
    uint32_t claimed;        /* number of polls in a row that found this */
    struct sp_conn **active; /* connections with pending work */
    struct sp_conn **conns;  /* by the low bits of conn->conn_id */
    uint32_t conns_size;     /* allocated entries of `conns`, a power of two */
    uint32_t num_conns;      /* entries of `conns` in use */
    uint32_t next_conn;      /* where the next search for a free entry of `conns` begins */
    uint32_t active_size;    /* allocated entries of `active` */
    uint32_t num_live;       /* connections in memory, including closed ones */
    SLIST_HEAD(sp_conn_list, sp_conn) discarded; /* closed during a poll; freed at its end */
};

/* The type in provider.h is opaque; this is the same object. */
static inline struct sp_ep *sp_ep_of(struct prov_ep *ep)
{
    return (struct sp_ep *)ep;
}

/*
 * A connection
 */

enum sp_conn_state {
    SP_CONN_WAITING,    /* waits for the peer process */
    SP_CONN_REQUESTING, /* waits for the peer's ACCEPT or REJECT */
    SP_CONN_REQUESTED,  /* waits for the owner to accept or reject */
    SP_CONN_ACCEPTING,  /* ACCEPT is not sent yet */
    SP_CONN_UP,
    SP_CONN_DOWN,
};

/* A control message of a connection. */
enum sp_ctl {
    SP_CTL_NONE,
    SP_CTL_REQUEST = SP_KIND_REQUEST,
    SP_CTL_ACCEPT = SP_KIND_ACCEPT,
    SP_CTL_REJECT = SP_KIND_REJECT,
    SP_CTL_CLOSE = SP_KIND_CLOSE,
    SP_CTL_ERROR = SP_KIND_ERROR,
};

struct sp_conn {
    struct sp_ep *ep;
    struct sp_peer *peer;
    struct sp_ring *ring;         /* ring of the peer's endpoint */
    uint64_t ring_free_until;     /* see sp_ring_has_room() */
    struct sp_op_queue *op_queue; /* created for the first delayed operation */
    struct sp_map *map;           /* created for the first mapping of the peer's memory */
    struct prov_mapping mapping; /* mapped memory of the peer; empty while operations are delayed */
    struct prov_mapping lcl_region_cache; /* cached access check: the local region used last, if it
                                             allows reading and writing (provider/mapped.h) */
    void *ctx;                            /* argument of callbacks for the connection */
    const uint32_t *rmt_dir_state;        /* state of the peer's endpoint in the peer's directory */
    uint32_t rmt_state;                   /* *rmt_dir_state when the connection was made */
    uint32_t conn_id, rmt_conn_id;        /* id on this side, and on the peer's */
    uint8_t state;                        /* enum sp_conn_state */
    uint8_t ctl;                          /* enum sp_ctl: control message to be sent */
    bool closed;                          /* closed by the owner: only ctl remains to be sent */
    bool up_due;                          /* up() must be called */
    bool down_due;                        /* down() must be called */
    uint8_t reason;                       /* reason for down(): enum prov_reason */
    uint8_t private_data_size, rmt_private_data_size;
    uint32_t rmt_index;       /* index of the peer's endpoint in the peer's directory */
    uint32_t active_index;    /* index in ep->active, plus 1; 0: not there */
    uint32_t error_op_number; /* content of ERROR: see sp_slot */
    uint32_t error_status;    /* enum prov_status: content of ERROR, too */
    uint64_t rmt_id;          /* of the peer's endpoint */
    uint64_t executed_here;   /* counted operations of the peer that this process has executed */
    SLIST_ENTRY(sp_conn) next_discarded;
    uint8_t private_data[PROV_PRIVATE_DATA_MAX], rmt_private_data[PROV_PRIVATE_DATA_MAX];
};

/* The type in provider.h is opaque; this is the same object. */
static inline struct sp_conn *sp_conn_of(struct prov_conn *conn)
{
    return (struct sp_conn *)conn;
}

/* True if the peer's endpoint is still the one of the connection. After that is closed, its ring
 * may belong to another endpoint, even with the same id, and slots published there are lost. So
 * this is checked before publishing a slot that completes an operation. */
static inline bool sp_conn_rmt_ep_is_open(const struct sp_conn *conn)
{
    return __builtin_expect(
        __atomic_load_n(conn->rmt_dir_state, __ATOMIC_ACQUIRE) == conn->rmt_state, 1);
}

#endif
