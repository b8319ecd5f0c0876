/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types that the files of this provider share.
 *
 * Each endpoint of the core is a reliable datagram endpoint (FI_EP_RDM) of libfabric, which carries
 * the connections to all of its peers. The process has one more endpoint, the control endpoint,
 * which the background thread serves. It carries control messages: requests for connections, the
 * replies, and pings that show whether a process is alive.
 *
 * A fabric only has to carry messages reliably and in order (FI_ORDER_SAS); it may report them in
 * another order, see pool.h. Data are sent in messages, or with RMA: long transfers are read by
 * the receiver or written by the origin (rma.h). The target checks each
 * operation against its own regions, copies so that the last bytes are written last, and counts
 * executed operations.
 *
 * Locks: prov->control.lock before prov->lock. The owner's lock protects the data of an endpoint,
 * except data marked as shared.
 */
#ifndef FP_TYPES_H
#define FP_TYPES_H

#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/bounce.h"
#include "lib.h"
#include "provider.h"
#include "providers.h"
#include "util/hash_table.h"

#if FI_MAJOR_VERSION == 1 && FI_MINOR_VERSION < 17
#    define FI_PROTO_XNET 25
#endif

#define FP_CAT "ofi"

#define fp_container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

enum {
    FP_VERSION = 5,        /* of the messages between processes */
    FP_NAME_MAX = 72,      /* bytes of the fabric's name of an endpoint */
    FP_KEY_SIZE = 16,      /* bytes of a process's key */
    FP_TAG_SIZE = 16,      /* bytes of the signature of a control message */
    FP_NONCE_SIZE = 16,    /* bytes of an end's random number for a connection */
    FP_PIECE = 8192,       /* bytes of data in a message */
    FP_INLINE = 32,        /* maximum bytes of a write from unregistered memory */
    FP_SMALL = 256,        /* maximum bytes of a message in a small buffer */
    FP_RECEIVES = 128,     /* receives posted per endpoint */
    FP_OPS = 128,          /* unreported operations of a connection, a power of two */
    FP_READS = 16,         /* unanswered reads of a connection, a power of two */
    FP_QUEUED = 8,         /* messages of a connection that the fabric has not accepted yet */
    FP_SENDING = 32,       /* messages of a connection accepted by the fabric, not completed */
    FP_UNACKED_MAX = 32,   /* executed operations after which an acknowledgement is sent */
    FP_PEERS = 1 << 18,    /* maximum number of peers */
    FP_CHUNK = 131072,     /* maximum bytes fetched by one RMA read */
    FP_CHUNKS = 4,         /* concurrent RMA reads of a connection */
    FP_RKEY_CACHE = 16,    /* regions of the peer whose keys a connection caches */
    FP_RMA_READS = 16,     /* transfers of a connection that wait for fetching */
    FP_CTRL_POLL_SOON = 8, /* initial value of fp_ep.ctrl_poll_after */
    FP_MIN_MESSAGE = 2048, /* bytes that the fabric must carry in order */
};

_Static_assert((int)FP_PIECE <= (int)PROV_BOUNCE_MAX, "the bounce buffer takes a whole piece");

/*
 * Exchanged between processes
 */

/* A process; the last member is the name of its control endpoint. */
struct fp_address {
    uint32_t version;
    uint32_t fabric; /* a hash of the properties that two processes must have in common */
    uint32_t boot, pid_ns;
    uint32_t pid;
    uint8_t name_size, zero[3];
    uint64_t start; /* start time in ticks since boot; 0: unknown */
    uint8_t name[FP_NAME_MAX];
};

/* The record that a process publishes. A process that has the record may request connections, see
 * auth.h. */
struct fp_record {
    uint8_t key[FP_KEY_SIZE];
    struct fp_address address; /* without the unused part of its name */
};
_Static_assert(sizeof(struct fp_record) <= PROV_ADDR_MAX, "the core's limit");

enum fp_ctrl_kind {
    FP_CONN_REQUEST = 1, /* request for a connection from from_id to to_id */
    FP_CONN_ACCEPT,
    FP_CONN_REJECT,
    FP_CONN_NO_ENDPOINT, /* no endpoint has that id */
    FP_CONN_CLOSE,       /* all operations have been executed, and the connection ends */
    FP_CONN_BROKEN,      /* the accepted connection is no longer wanted, or messages were lost */
    FP_PING,
    FP_PONG,
};

/* Whose key signs a control message. */
enum fp_signed_by { FP_SIGNED_BY_RECEIVER = 1, FP_SIGNED_BY_SENDER };

/* A control message between two processes. */
struct fp_ctrl_msg {
    uint8_t kind, hello_size, name_size;
    uint8_t refusal;
    uint32_t from_conn, to_conn;
    /* FP_CONN_CLOSE, FP_CONN_BROKEN: number of the receiver's operations that were executed, and
     * number of the refused operation; refusal: its status, or PROV_OK */
    uint32_t executed, refused;
    uint32_t signed_by; /* enum fp_signed_by */
    uint64_t from_id, to_id;
    uint8_t hello[PROV_PRIVATE_DATA_MAX];
    uint8_t nonce[FP_NONCE_SIZE]; /* in FP_CONN_REQUEST and FP_CONN_ACCEPT, as is name */
    uint8_t name[FP_NAME_MAX];    /* of the sender's endpoint */
    struct fp_address process;    /* address of the sender */
    uint8_t tag[FP_TAG_SIZE];
};

enum fp_kind {
    FP_START = 1,
    FP_WRITE,
    FP_READ,
    FP_MESSAGE,
    FP_READ_DATA,
    FP_REFUSAL,
    FP_ACK,
    FP_ACK_REQUEST,
    FP_WRITE_OFFER,
    FP_READ_OFFER,
    FP_RMA_WRITE,
    FP_RKEY_REQUEST,
    FP_RKEY_REPLY
};
enum { FP_NOTIFY = 1, FP_SIGNAL = 2 };

/* The header of every message between endpoints. */
struct fp_head {
    uint64_t secret;     /* secret of the connection in this direction */
    uint8_t kind, flags; /* flags: FP_NOTIFY, FP_SIGNAL; FP_REFUSAL: enum prov_status, and no later
                          * operation is executed */
    uint16_t number;     /* number of the message: 0, 1... in the order of sending */
    uint32_t to;         /* id of the connection at the receiver */
    uint32_t seq; /* number of the operation; FP_ACK_REQUEST: of the last one that was sent */
    uint32_t ack; /* number of the receiver's operations that the sender has executed */
};

/* FP_WRITE: bytes follow, for `offset`. FP_READ: without bytes. FP_READ_DATA: bytes that were read.
 * FP_RMA_WRITE: the last bytes of a write whose other bytes the fabric has written.
 * FP_RKEY_REQUEST: requests the fabric's key for such a write. */
struct fp_xfer {
    struct fp_head head;
    uint64_t rmt;
    uint32_t rkey, length;
    uint32_t offset, imm;
};

/* FP_WRITE_OFFER: a write whose data the receiver fetches. FP_READ_OFFER: the answer to a read,
 * whose data the receiver fetches. */
struct fp_offer {
    struct fp_xfer x;
    uint64_t key, at; /* the fabric's key of a region, and the address or offset in the region */
};

/* FP_RKEY_REPLY: the parameters of the fabric's writes to a region of the sender. */
struct fp_rkey_reply {
    struct fp_head head;
    uint64_t addr, size, key, at; /* `at` is the fabric's address, or offset, of the first byte */
    uint32_t rkey, is_granted;
};

/*
 * Within this process
 */

struct fp_net_infos;
struct fp_net_domain;

/* libfabric's objects of an endpoint. */
struct fp_fids {
    struct fid_domain *domain; /* its own, or the process's: see fp_fids_open() */
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_wait *wait;            /* wait set of the queue; NULL: none */
    int cq_fd;                        /* -1: no descriptor to sleep on */
    struct fp_net_domain *net_domain; /* see net_infos.h; NULL: none */
};

enum fp_buf_kind { FP_BUF_RECEIVE, FP_BUF_SEND, FP_BUF_RMA_READ, FP_BUF_RMA_WRITE };

/* A buffer, with libfabric's context of an operation on it. */
struct fp_buf {
    struct fi_context2 context; /* the first member */
    struct fp_buf *next;
    void *desc;  /* for FI_MR_LOCAL */
    void *owner; /* of a send: its connection, or its peer */
    struct fp_pool *pool;
    uint32_t size;
    uint8_t kind;
    uint64_t bytes[]; /* 8-byte aligned */
};

struct fp_slab;

/* Buffers of one size for one endpoint. */
struct fp_pool {
    struct fp_prov *prov;
    const struct fp_fids *fids;
    size_t buf_size; /* bytes of data in a buffer */
    struct fp_buf *free;
    struct fp_slab *slabs;
};

struct fp_region {
    struct prov_mr mr;
    uint64_t addr, size;
    unsigned int access; /* 0: free */
    STAILQ_ENTRY(fp_region) next_free;
    struct fp_registration *registrations; /* registrations for the fabric's RMA */
    bool is_unregistrable;                 /* the fabric cannot register the region */
};

enum fp_liveness { FP_ALIVE, FP_DEAD };

/* A process with connections to this one. Shared. It is not freed until the provider is closed. */
struct fp_peer {
    struct ut_hash_entry by_address;
    SLIST_ENTRY(fp_peer) next; /* in prov->peers */
    struct fp_prov *prov;
    struct fp_address address;
    uint8_t key[FP_KEY_SIZE]; /* valid if has_key: the peer has published it */
    uint32_t has_key;         /* atomic */
    fi_addr_t at;             /* its control endpoint; FI_ADDR_NOTAVAIL: unknown */
    unsigned int conns;
    int pidfd;                      /* of a process on this host; else -1 */
    int port_fd;                    /* of the background thread, see refused.h; -1: none */
    uint64_t checked_ms, silent_ms; /* time of the last check; how long the peer has been silent */
    uint32_t blocked;               /* the last round in which a message to the peer was not sent */
    uint32_t liveness;              /* atomic: enum fp_liveness */
    uint64_t ended_ms; /* when this process learned of the peer's end; set before FP_DEAD */
    uint32_t timeouts; /* atomic: number of times that the peer was given up; orders nothing else */
    /* atomic numbers that order nothing else: the lock of the queue does */
    uint32_t last_ping;    /* atomic: number of the last ping */
    uint32_t last_pong;    /* atomic: number of the last pong */
    uint32_t awaited_pong; /* atomic: number of the pong that a connection waits for */
};

/* A queued control message. */
struct fp_ctrl_entry {
    STAILQ_ENTRY(fp_ctrl_entry) next;
    struct fp_peer *peer;
    uint32_t timeouts; /* value of the peer when queued: if the peer was given up since, the message
                          is dropped */
    uint64_t due_ms;   /* not sent before this time */
    uint64_t until_ms; /* the message is dropped after this time if the peer has no connection */
    struct fp_ctrl_msg msg;
};

STAILQ_HEAD(fp_ctrl_queue, fp_ctrl_entry);

enum fp_state {
    FP_REQUESTED, /* requested by this side: waits for FP_CONN_ACCEPT or a rejection */
    FP_INCOMING,  /* requested by the peer: the core has not answered request() */
    FP_ACCEPTED,  /* waits for FP_START */
    FP_UP,
    FP_CLOSING, /* closed by its owner; the peer has not executed all operations */
    FP_DOWN,    /* down() was called */
    FP_CLOSED,  /* to be freed */
};

struct fp_op {
    uint64_t cookie, rmt;
    uint8_t *lcl;
    void *desc; /* FP_RMA_WRITE: the fabric's descriptor of its memory */
    uint32_t lkey, rkey, length, transferred, imm;
    uint32_t writes; /* number of the fabric's writes in flight */
    uint8_t kind, flags, status;
    bool ended;           /* ended by data that arrived */
    bool may_be_unmapped; /* the memory belongs to the program, which may unmap it */
};

/* A read of the peer that is being served. */
struct fp_served_read {
    uint64_t rmt;
    uint32_t rkey, length, transferred, seq;
};

/* A transfer by RMA reads. */
struct fp_rma_read {
    STAILQ_ENTRY(fp_rma_read) next;
    struct fp_offer offer;
    uint32_t requested, transferred; /* bytes */
    uint8_t status;                  /* enum prov_status */
    bool is_read;                    /* a read of this side */
};

enum fp_rkey_state { FP_RKEY_REQUESTED, FP_RKEY_GRANTED, FP_RKEY_REFUSED };

/* A cached key of a region of the peer; rkey 0: none. */
struct fp_rkey {
    uint64_t addr, size, key, at;
    uint32_t rkey, seq; /* seq: of the operation that requested it */
    uint8_t state;      /* enum fp_rkey_state */
};

struct fp_chunk {
    struct fp_buf *buf;
    struct fp_rma_read *transfer;
    bool arrived;
};

/* A peer's endpoint in the address vector of an endpoint: see names.h. */
struct fp_name {
    struct ut_hash_entry by_name;
    TAILQ_ENTRY(fp_name) idle; /* without connections */
    unsigned int conns;
    fi_addr_t at;
    uint8_t name[FP_NAME_MAX];
};

/* What a side of a connection tells the other one. */
struct fp_hello {
    uint8_t bytes[PROV_PRIVATE_DATA_MAX];
    uint8_t size;
};

struct fp_conn {
    struct fp_ep *ep;
    struct fp_peer *peer;
    void *ctx;
    enum fp_state state;
    uint32_t id, rmt_id; /* id of the connection on this side, and on the peer's */
    uint64_t secret_in, secret_out;
    uint8_t nonce[FP_NONCE_SIZE], rmt_nonce[FP_NONCE_SIZE];
    uint64_t peer_id;
    uint32_t timeouts;                /* value of the peer when the connection was requested */
    struct fp_name *name;             /* the peer's endpoint; NULL: not known yet */
    fi_addr_t at;                     /* the same */
    struct fp_hello hello, rmt_hello; /* of this side and of the peer */

    /* this side's operations: [reported, posted), of which [reported, sent) are sent */
    uint32_t reported, sent, posted;
    uint32_t acked; /* number of operations that the peer has executed, as far as known */
    uint32_t reads_in_flight;
    uint32_t first_offered; /* the first write that the peer fetches */
    bool offered; /* the peer fetches writes; other operations wait until these are executed */
    uint32_t seen_reported;  /* value at the last check for stalled operations */
    uint64_t seen_progress;  /* value of count_progress() at the last check */
    unsigned int stalled_ms; /* since the last progress */
    uint32_t rmt_refused_op; /* if rmt_refused: the operation that the peer has refused */
    struct fp_op ops[FP_OPS];
    struct fp_rkey rkeys[FP_RKEY_CACHE];

    /* the peer's operations */
    uint32_t executed, acks_sent; /* number executed, and number acknowledged */
    uint32_t received;            /* number received: the executed ones, and writes being fetched */
    uint32_t written;             /* received bytes of the current write */
    /* status (enum prov_status) and number of the operation that this side has refused, and after
     * which no operation is executed */
    uint8_t lcl_refusal;
    uint32_t lcl_refused_seq;
    uint32_t first_served, last_served;
    struct fp_served_read served_reads[FP_READS];

    /* transfers by RMA reads, in order; posting: the first one not completely requested */
    STAILQ_HEAD(fp_rma_reads, fp_rma_read) rma_reads;
    struct fp_rma_read *posting;
    unsigned int num_rma_reads;
    uint32_t first_chunk, last_chunk;
    struct fp_chunk chunks[FP_CHUNKS];

    /* messages that the fabric has not accepted, and their number */
    struct fp_buf *first, **last;
    unsigned int num_queued, num_sending;
    unsigned int num_rma_writes; /* number of RMA writes in flight */

    /* numbers of messages, and early messages: see pool.h */
    uint16_t next_out, next_in, seen_in;
    unsigned int stall_checks;
    struct fp_buf *early_msgs; /* sorted by number */

    struct fp_conn *next_busy, *next_ack_now, *next_ack_later, *next_closed;
    bool busy, ack_now, ack_later; /* is in the lists of the endpoint */
    bool peer_closed; /* the peer has closed the connection: earlier messages may still arrive */
    bool lcl_refusal_due; /* FP_REFUSAL must be sent, after the replies to earlier operations */
    bool rmt_refused;     /* the peer has refused an operation, and executes no later one */
    bool is_self;         /* both ends belong to this endpoint */
    bool peer_died;       /* the peer's process has ended: see EXIT_GRACE_MS */
    bool peer_broke;      /* the peer says that the connection is broken */
    bool broken;          /* the fabric failed: the pong number `awaited_pong` decides */
    uint32_t awaited_pong;
    uint64_t peer_closed_ms;
};

struct fp_ep {
    LIST_ENTRY(fp_ep) next; /* shared */
    struct fp_prov *prov;
    struct prov_ep_attr attr;
    struct fp_fids fids;
    uint8_t name[FP_NAME_MAX];
    uint8_t name_size;
    struct fp_conn **conns; /* index: the low bits of the connection id */
    uint32_t conns_size, num_conns;
    struct ut_hash_table names;                   /* struct fp_name, by the hash of its name */
    TAILQ_HEAD(fp_name_list, fp_name) idle_names; /* the oldest first */
    unsigned int num_idle_names;
    struct fp_conn *busy;      /* with messages to send */
    struct fp_conn *ack_now;   /* with operations to acknowledge now */
    struct fp_conn *ack_later; /* with operations to acknowledge at an empty poll */
    struct fp_conn *closed;    /* freed when no longer used */
    struct fp_pool small, large, receives, chunks;
    struct fp_buf *unposted; /* receives to be posted again */
    unsigned int num_used;   /* number of used receives since receives were last posted */
    uint32_t peer_events_seen;
    uint64_t checked_ms;      /* time of the last check for waiting operations */
    bool is_closing;          /* no more callbacks */
    uint32_t empty_polls;     /* number of empty polls since poll_control() */
    uint32_t ctrl_poll_after; /* number of empty polls before the next poll_control() */
    size_t inject;            /* maximum bytes of a message without a completion */

    struct fp_ctrl_queue ctrl_queue; /* shared */
    uint32_t has_ctrl, armed, retry; /* atomic, shared; retry: sends or receives must be
                                      * repeated */
};

/* The control endpoint. Shared. */
struct fp_control {
    pthread_mutex_t lock;
    struct fp_fids fids;
    struct fp_pool sends, receives;
    struct fp_buf *unposted;
    bool polled_by_owner; /* the owner of an endpoint is polling the control endpoint */
    unsigned int num_sending;
    /* with prov->lock */
    struct fp_ctrl_queue queue; /* control messages to send */
    uint32_t round;
};

struct fp_prov {
    struct prov base;
    struct prov_config config;
    const struct fp_lib *lib;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fp_net_infos *net_infos; /* see net_infos.h; NULL: none */
    uint64_t mr_mode;
    bool own_domains;        /* one domain per endpoint */
    bool over_sockets;       /* the fabric posts and polls by system calls on sockets */
    bool has_closed_low_fds; /* some of the descriptors 0 to 2 are closed */
    bool fds_lost;           /* atomic: the program has closed descriptors; see fd_guard.h */
    size_t inject;
    uint32_t piece;          /* bytes of data in a message, at most FP_PIECE */
    uint32_t rma_min;        /* minimum bytes of a transfer by RMA; 0: RMA is not used */
    uint32_t chunk;          /* maximum bytes of a read, at most FP_CHUNK */
    uint32_t rma_write_size; /* maximum bytes of an RMA write */
    uint32_t can_rma_write;  /* atomic: long puts use RMA writes */
    bool keeps_order;        /* the fabric orders messages after writes (FI_ORDER_SAW) */
    struct fp_address address;
    uint8_t key[FP_KEY_SIZE];
    int epoll_fd, timer_fd;
    struct fp_control control;
    pthread_mutex_t lock; /* of shared data */
    LIST_HEAD(fp_ep_list, fp_ep) eps;
    struct ut_hash_table by_address;         /* struct fp_peer, by the hash of its address */
    SLIST_HEAD(fp_peer_list, fp_peer) peers; /* the same, the newest first */
    uint32_t last_generation;                /* atomic: of a connection's id */
    uint32_t peer_events; /* atomic: number of events after which connections check their peers */
    uint32_t peer_events_reported; /* value at the last progress() */
    uint32_t timer_armed;
    uint64_t checked_ms;   /* time of the last check of the peers in progress() */
    uint64_t next_pass_ms; /* next time to check the peers; 0: no peer is alive */

    pthread_mutex_t regions_lock; /* of the fields below; no other lock is taken while it is held */
    struct fp_region **regions;
    uint32_t num_regions, regions_size, num_free_regions;
    STAILQ_HEAD(fp_region_queue, fp_region) free_regions; /* freed first, used first */
    uint64_t last_key;         /* atomic: last key for the fabric, if keys are short */
    uint64_t key_mask;         /* the bits of keys that the fabric accepts */
    uint8_t copy_method;       /* atomic: enum copy_method of region.c */
    struct prov_bounce bounce; /* for copies to and from memory that may be unmapped */
};

static inline bool fp_can_rma_write(const struct fp_prov *prov)
{
    return __atomic_load_n(&prov->can_rma_write, __ATOMIC_RELAXED);
}

static inline struct fp_prov *fp_prov_of(struct prov *base)
{
    return fp_container_of(base, struct fp_prov, base);
}

static inline const struct prov_callbacks *fp_callbacks(const struct fp_conn *conn)
{
    return conn->ep->attr.callbacks;
}

#endif
