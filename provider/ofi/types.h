/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this provider share.
 *
 * Each endpoint of the core is a reliable datagram endpoint (FI_EP_RDM) of libfabric, which carries
 * the connections to all of its peers. The process has one more, the control endpoint, which the
 * background thread serves: connections are asked for, answered and closed through it, and by its
 * answers it is known that the process lives.
 *
 * All a fabric has to do is to carry messages reliably and in order (FI_ORDER_SAS), and it may
 * report them in another one: see order.h. Data travel in them, or, where the fabric has RMA and
 * they are long, are fetched by whoever is to get them: see pull.h. The target checks each
 * operation against its own regions, copies so that the last bytes land last, and counts what it
 * has executed.
 *
 * Locks: prov->control.lock before prov->lock. What belongs to an endpoint is protected by its
 * owner's lock, but for what is marked as shared.
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

#include "common/bounce.h"
#include "lib.h"
#include "provider.h"
#include "providers.h"

#if FI_MAJOR_VERSION == 1 && FI_MINOR_VERSION < 17
#    define FI_PROTO_XNET 25
#endif

#define FP_CAT "ofi"

#define fp_container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

enum {
    FP_VERSION = 5,        /* of what the processes exchange */
    FP_NAME_MAX = 72,      /* bytes of the name that the fabric gives an endpoint */
    FP_KEY_SIZE = 16,      /* bytes of a process's key, */
    FP_TAG_SIZE = 16,      /* of what seals a note with it, */
    FP_NONCE_SIZE = 16,    /* and of what either end draws for a connection */
    FP_PIECE = 8192,       /* bytes of data in a message */
    FP_INLINE = 32,        /* writes up to this size need no registered source */
    FP_SMALL = 256,        /* messages up to this size have small buffers */
    FP_RECEIVES = 128,     /* receives that are posted for an endpoint */
    FP_OPS = 128,          /* of a connection that are not reported, a power of two */
    FP_READS = 16,         /* of a connection that are not answered, a power of two */
    FP_QUEUED = 8,         /* messages of a connection that the fabric has not taken yet */
    FP_SENDING = 32,       /* and that it has taken, but not finished */
    FP_SAVED = 32,         /* operations that are executed without saying so */
    FP_BUCKETS = 256,      /* of the table of peers, */
    FP_PEERS = 1 << 18,    /* and how many it may have */
    FP_CHUNK = 131072,     /* bytes that are fetched at once */
    FP_CHUNKS = 4,         /* that a connection fetches at a time */
    FP_GRANTS = 16,        /* regions of the peer whose keys a connection remembers */
    FP_PULLS = 16,         /* transfers of a connection that are to be fetched */
    FP_MIN_MESSAGE = 2048, /* bytes that the fabric must carry in order */
};

_Static_assert((int)FP_PIECE <= (int)PROV_BOUNCE_MAX, "copied at once");

/*
 * Between processes
 */

/* A process: the name of its control endpoint is the last member. */
struct fp_address {
    uint32_t version;
    uint32_t fabric; /* a hash of what two processes must have in common */
    uint32_t boot, pid_ns;
    uint32_t pid;
    uint8_t name_size, zero[3];
    uint64_t start; /* when it was started, in ticks since boot; 0: not known */
    uint8_t name[FP_NAME_MAX];
};

/* What a process publishes. Who has it may ask the process for connections: see seal.h. */
struct fp_record {
    uint8_t key[FP_KEY_SIZE];
    struct fp_address address; /* without the rest of its name */
};
_Static_assert(sizeof(struct fp_record) <= PROV_ADDR_MAX, "the core's limit");

enum fp_note_kind {
    FP_ASK = 1, /* for a connection of from_id's to to_id */
    FP_ACCEPT,
    FP_REJECT,
    FP_NONE, /* there is no endpoint of that id */
    FP_BYE,  /* everything has been executed, and the connection ends */
    FP_GONE, /* what was accepted is not wanted any more, or messages were lost */
    FP_PING,
    FP_PONG,
};

enum fp_sealed_by { FP_BY_RECEIVERS = 1, FP_BY_SENDERS }; /* whose key */

/* What control endpoints send each other. */
struct fp_note {
    uint8_t kind, hello_size, name_size;
    uint8_t refusal;
    uint32_t from_conn, to_conn;
    uint32_t executed; /* FP_BYE, FP_GONE: how many of the receiver's operations, */
    uint32_t refused;  /* and which one was refused; refusal: as what, or PROV_OK */
    uint32_t by;       /* enum fp_sealed_by */
    uint64_t from_id, to_id;
    uint8_t hello[PROV_HELLO_MAX];
    uint8_t nonce[FP_NONCE_SIZE]; /* in FP_ASK and FP_ACCEPT, */
    uint8_t name[FP_NAME_MAX];    /* and so the name of the sender's endpoint */
    struct fp_address process;    /* the sender */
    uint8_t tag[FP_TAG_SIZE];
};

enum fp_kind {
    FP_START = 1,
    FP_WRITE,
    FP_READ,
    FP_MESSAGE,
    FP_DATA,
    FP_FAIL,
    FP_ACK,
    FP_NUDGE,
    FP_PULL,
    FP_OFFER,
    FP_PLACED,
    FP_WANT,
    FP_KEY
};
enum { FP_NOTIFY = 1, FP_SIGNAL = 2 };

/* Begins everything that endpoints send each other. */
struct fp_head {
    uint64_t secret;     /* of the connection, in this direction */
    uint8_t kind, flags; /* flags: FP_NOTIFY, FP_SIGNAL; FP_FAIL: enum prov_status, and nothing
                          * behind the operation is executed */
    uint16_t number;     /* of the message: 0, 1... in the order in which they are sent */
    uint32_t to;         /* the receiver's name of the connection */
    uint32_t seq;        /* of the operation; FP_NUDGE: of the last one that was sent */
    uint32_t ack;        /* how many of the receiver's operations the sender has executed */
};

/* FP_WRITE: bytes follow, from `offset` on. FP_READ: without. FP_DATA: bytes that were read.
 * FP_PLACED: the last bytes of a write; the fabric has placed the others. FP_WANT: asks for the
 * fabric's key for such a write. */
struct fp_xfer {
    struct fp_head head;
    uint64_t rmt;
    uint32_t rkey, length;
    uint32_t offset, imm;
};

/* FP_PULL: a write whose data the receiver fetches from there. FP_OFFER: as the answer to a read.
 */
struct fp_offer {
    struct fp_xfer x;
    uint64_t key, at; /* the fabric's: of a region, and the address or offset there */
};

/* FP_KEY: how the fabric's writes find a region of the sender. */
struct fp_key {
    struct fp_head head;
    uint64_t addr, size, key, at; /* `at` is the fabric's address, or offset, of the first byte */
    uint32_t rkey, is_granted;
};

/*
 * In this process
 */

/* What libfabric has of an endpoint. */
struct fp_fids {
    struct fid_domain *domain; /* of its own, or the process's: see fp_fids_open() */
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_wait *wait; /* where the queue has one */
    int cq_fd;             /* -1: the fabric has none to sleep on */
};

enum fp_buf_kind { FP_BUF_RECEIVE, FP_BUF_SEND, FP_BUF_PULL, FP_BUF_PLACE };

/* A buffer, and what libfabric needs to name an operation on it. */
struct fp_buf {
    struct fi_context2 context; /* the first member */
    struct fp_buf *next;
    void *desc;  /* for FI_MR_LOCAL */
    void *owner; /* a send's: its connection, or its peer */
    struct fp_pool *pool;
    uint32_t size;
    uint8_t kind;
    uint64_t bytes[]; /* 8-byte aligned */
};

struct fp_slab;

/* Buffers of one size, of one endpoint. */
struct fp_pool {
    struct fp_prov *prov;
    const struct fp_fids *fids;
    size_t item; /* bytes that a buffer can hold */
    struct fp_buf *free;
    struct fp_slab *slabs;
};

struct fp_region {
    struct prov_mr mr;
    uint64_t addr, size;
    unsigned int access; /* 0: free */
    uint32_t next_free;
    struct fp_exposure *exposures; /* to the fabric's RMA */
    bool is_private;               /* the fabric does not take it */
};

enum fp_fate { FP_LIVES, FP_DEAD };

/* A process that connections lead to. Shared. It stays until the provider is closed. */
struct fp_peer {
    struct fp_peer *next;
    struct fp_prov *prov;
    struct fp_address address;
    uint8_t key[FP_KEY_SIZE]; /* where has_key: it has published it */
    uint32_t has_key;         /* atomic */
    fi_addr_t at;             /* of its control endpoint; FI_ADDR_NOTAVAIL: not known yet */
    unsigned int conns;
    int pidfd;                     /* of a process of this host; -1 */
    uint64_t looked_ms, waited_ms; /* the last look at it; how long nothing has been heard */
    uint32_t blocked;              /* in this round the fabric took a note no more */
    uint32_t fate;                 /* atomic: enum fp_fate */
    uint64_t ended_ms;             /* set before FP_DEAD: when this process has heard of that */
    uint32_t silences;             /* atomic: how often it was given up */
    uint32_t pings;                /* atomic: the number of the last question */
    uint32_t answered;             /* atomic: and that of the last answer */
    uint32_t wanted;               /* atomic: an answer that somebody waits for */
};

/* A note on its way to an endpoint. */
struct fp_mail {
    struct fp_mail *next;
    struct fp_peer *peer;
    uint32_t silences; /* of the peer: given up since, the note is dropped */
    uint64_t until_ms; /* and so from then on, if no connection leads to the peer */
    struct fp_note note;
};

enum fp_state {
    FP_ASKED,    /* for: FP_ACCEPT or a refusal comes */
    FP_AWAITED,  /* the core has not answered request() */
    FP_ACCEPTED, /* FP_START comes */
    FP_UP,
    FP_CLOSING, /* by its owner; the peer has not executed everything */
    FP_DOWN,    /* down() was called */
    FP_CLOSED,  /* to be freed */
};

struct fp_op {
    uint64_t cookie, rmt;
    uint8_t *lcl;
    void *desc; /* FP_PLACED: the fabric's name of its memory */
    uint32_t lkey, rkey, length, moved, imm;
    uint32_t writes; /* of the fabric, that are under way */
    uint8_t kind, flags, status;
    bool ended;    /* by data that came */
    bool may_lack; /* its memory may not be there: it is not the core's */
};

/* A read that the peer wants answered. */
struct fp_answer {
    uint64_t rmt;
    uint32_t rkey, length, moved, seq;
};

/* A transfer that is fetched, and a part of one. */
struct fp_pull {
    struct fp_pull *next;
    struct fp_offer offer;
    uint32_t asked, moved; /* bytes */
    uint8_t status;        /* enum prov_status */
    bool is_read;          /* an operation of ours */
};

enum fp_grant_state { FP_WANTED, FP_GRANTED, FP_REFUSED };

/* What is known of a region of the peer; rkey 0: nothing. */
struct fp_grant {
    uint64_t addr, size, key, at;
    uint32_t rkey, seq; /* seq: of the operation that asked */
    uint8_t state;      /* enum fp_grant_state */
};

struct fp_chunk {
    struct fp_buf *buf;
    struct fp_pull *pull;
    bool came;
};

struct fp_conn {
    struct fp_ep *ep;
    struct fp_peer *peer;
    void *ctx;
    enum fp_state state;
    uint32_t name, rmt_name; /* here and there */
    uint64_t secret_in, secret_out;
    uint8_t nonce[FP_NONCE_SIZE], rmt_nonce[FP_NONCE_SIZE];
    uint64_t peer_id;
    uint32_t silences; /* of the peer, when the connection was asked for */
    fi_addr_t at;      /* the peer's endpoint */
    uint8_t hello[PROV_HELLO_MAX];
    uint8_t hello_size;

    /* own operations: [reported, posted), of which [reported, sent) are sent */
    uint32_t reported, sent, posted;
    uint32_t acked; /* executed there, as far as is known */
    uint32_t reads_out;
    uint32_t offered_from;  /* the first of those that the peer fetches, */
    bool offered;           /* behind which nothing else is posted until they are executed */
    uint32_t seen_reported; /* by the last look, for operations that wait for long */
    uint32_t failed_at;     /* where `failed`: the operation that the peer has refused */
    struct fp_op ops[FP_OPS];
    struct fp_grant grants[FP_GRANTS];

    /* the peer's operations */
    uint32_t executed, told; /* how many, and how many the peer knows of */
    uint32_t taken;          /* how many have come: these, and writes that are being fetched */
    uint32_t written;        /* bytes of the write that is coming in */
    uint8_t refusal;         /* of an operation: enum prov_status. None behind it is executed, */
    uint32_t refused;        /* nor it: its number */
    uint32_t first_answer, last_answer;
    struct fp_answer answers[FP_READS];

    /* what is fetched, in order; asking: the first of which not all is asked for */
    struct fp_pull *pulls, **last_pull, *asking;
    unsigned int num_pulls;
    uint32_t first_chunk, last_chunk;
    struct fp_chunk chunks[FP_CHUNKS];

    /* messages that the fabric has not taken, and how many */
    struct fp_buf *first, **last;
    unsigned int num_queued, num_sending;
    unsigned int num_placing; /* of those under way: writes of the fabric */

    /* numbers of messages; those that have come before their turn: see order.h */
    uint16_t next_out, next_in, seen_in;
    unsigned int looks;
    struct fp_buf *kept; /* by their numbers */

    struct fp_conn *next_busy, *next_due, *next_owing, *next_closed;
    bool busy, due, owing; /* in these lists of the endpoint */
    bool parting;          /* the peer has closed it: what it has sent before may still come */
    bool refusal_due;      /* FP_FAIL is to be sent, behind answers to what was before */
    bool failed;           /* the peer has refused an operation, and executes none behind it */
    bool is_self;          /* both ends are of this endpoint */
    bool orphaned;         /* the peer's process has ended: see LAST_WORDS_MS */
    bool gone;             /* the peer says that it is broken, and so it is */
    bool broken;           /* the fabric failed: the answer `wanted_answer` of the peer decides */
    uint32_t wanted_answer;
    uint64_t parting_ms;
};

struct fp_ep {
    struct fp_ep *next; /* shared */
    struct fp_prov *prov;
    struct prov_ep_attr attr;
    struct fp_fids fids;
    uint8_t name[FP_NAME_MAX];
    uint8_t name_size;
    struct fp_conn **conns; /* by the low bits of their names */
    uint32_t num_names, num_conns, last_generation;
    struct fp_conn *busy;   /* have something to send */
    struct fp_conn *due;    /* have something to acknowledge now, */
    struct fp_conn *owing;  /* or when a poll finds nothing */
    struct fp_conn *closed; /* are freed when nobody uses them */
    struct fp_pool small, large, receives, chunks;
    struct fp_buf *unposted; /* receives that the fabric has not taken */
    uint32_t news_seen;
    uint64_t looked_ms; /* at connections that wait for long */
    bool is_closing;    /* no callbacks any more */
    uint32_t empty_polls;
    size_t inject; /* bytes that are sent without a completion */

    struct fp_mail *mail, **last_mail; /* shared */
    uint32_t has_mail, armed, retry;   /* atomic, shared; retry: its sends or receives wait */
};

/* The control endpoint. Shared. */
struct fp_control {
    pthread_mutex_t lock;
    struct fp_fids fids;
    struct fp_pool sends, receives;
    struct fp_buf *unposted;
    bool helped; /* by who polls an endpoint */
    unsigned int num_sending;
    /* with prov->lock */
    struct fp_mail *first, **last; /* notes to be sent */
    uint32_t round;
};

struct fp_prov {
    struct prov base;
    struct prov_config config;
    const struct fp_lib *lib;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    uint64_t mr_mode;
    bool own_domains; /* each endpoint has one */
    size_t inject;
    uint32_t piece;    /* bytes of data in a message, at most FP_PIECE */
    uint32_t pull_min; /* bytes of the least transfer that is fetched; 0: none is */
    uint32_t chunk;    /* bytes that are fetched at once, at most FP_CHUNK */
    uint32_t part;     /* and that are placed at once */
    uint32_t places;   /* atomic: long writes are placed by the fabric */
    bool keeps_order;  /* messages behind them (FI_ORDER_SAW) */
    struct fp_address address;
    uint8_t key[FP_KEY_SIZE];
    int epoll_fd, tick_fd;
    struct fp_control control;
    pthread_mutex_t lock; /* of what is shared */
    struct fp_ep *eps;
    struct fp_peer *peers[FP_BUCKETS];
    uint32_t num_peers;
    uint32_t news;      /* atomic: how often connections had to look at their peers */
    uint32_t news_told; /* of progress() */
    uint32_t ticking;
    uint64_t looked_ms; /* at the peers; of progress() */

    pthread_mutex_t regions_lock; /* of the rest; nothing else is taken while it is held */
    struct fp_region **regions;
    uint32_t num_regions, room_for_regions, free_region;
    uint64_t last_key;         /* atomic: that was proposed to the fabric, where keys are short */
    uint64_t key_mask;         /* which of its bits the fabric takes */
    uint8_t way;               /* how the kernel copies: region.c */
    struct prov_bounce bounce; /* copies to and from memory that may not be there */
};

static inline bool fp_places(const struct fp_prov *prov)
{
    return __atomic_load_n(&prov->places, __ATOMIC_RELAXED);
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
