/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a transport must do. A provider moves bytes between endpoints of the processes of a job; it
 * knows nothing of uTofu. The core knows nothing of a transport but what stands here.
 *
 * Objects
 *   prov       a transport, opened once per process
 *   prov_mr    memory that the transport may touch
 *   prov_ep    an endpoint; the core owns one per VCQ (and transport)
 *   prov_conn  a reliable, ordered connection between a local and a remote endpoint
 *
 * Threads
 *   Calls that take an endpoint or a connection are made with the owner's lock held: never two at
 *   once for one endpoint, at once for different endpoints. Callbacks come only from inside
 *   ep_poll() of their endpoint, so under that same lock; a callback may post operations, connect,
 *   accept, reject and close connections. prov->wake() is the exception: see below.
 *   open, reg, dereg, ep_open, address and caps may be called from any thread at any time.
 *   progress() is called by one background thread, with no endpoint's lock held. A provider's own
 *   locks are never held while a callback runs.
 *
 * Order
 *   On one connection operations take effect at the target in the order they were posted (a write
 *   posted after a read needs PROV_FENCE to wait for it), messages and immediates arrive in order
 *   behind the data posted before them, and done() comes in the order of posting. The bytes of a
 *   write become visible in ascending order.
 *   Where done() says that an operation was refused (PROV_RMT_ACCESS, PROV_RMT_FAULT), nothing that
 *   was posted behind it is executed, but reads may have been: the connection goes down. What is
 *   found at once, by a negative return of the call, was not posted, and leaves the connection as
 *   it is.
 *   Where any_order() says so, writes take effect in any order, and so do their parts: what is left
 *   is that within each caps.line bytes of the target, aligned to as many, the last word of a write
 *   comes last; the line is that of the process whose memory it is. Messages, immediates, reads and
 *   atomics still wait for what is before them, and writes with PROV_STRONG keep the order above.
 */
#ifndef PROV_PROVIDER_H
#define PROV_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PROV_ADDR_MAX = 120, /* bytes of a process's address */
    PROV_HELLO_MAX = 32, /* bytes of the hello that travels with a connection */
    PROV_MSG_MAX = 1024, /* every provider carries messages of at least this many bytes */
    PROV_COPY_MAX = 64,  /* every provider copies at least this much for PROV_COPY */
    PROV_LINE = 256,     /* bytes of a line where nothing makes it shorter: see "Order" above */
};

struct prov_ep;
struct prov_conn;
struct prov_ops;
struct prov_mapping;

struct prov {
    const struct prov_ops *ops;
};

/* Memory that the transport may touch. The provider embeds this. */
struct prov_mr {
    uint32_t lkey; /* names it in this process's operations */
    uint32_t rkey; /* names it in a peer's operations */
};

enum prov_access {
    PROV_ACCESS_READ = 1,   /* peers may read it */
    PROV_ACCESS_WRITE = 2,  /* this process's reads land there, and peers may write it */
    PROV_ACCESS_ATOMIC = 4, /* peers may do atomics on it (where the provider has them) */
};

/* How an operation ended. */
enum prov_status {
    PROV_OK = 0,
    PROV_LCL_ACCESS, /* local key, range or memory is bad; the connection may be down now */
    PROV_RMT_ACCESS, /* remote key, range or access right is bad; the connection goes down */
    PROV_RMT_FAULT,  /* the key is good but the target's memory is not there (unmapped); so */
    PROV_PEER,       /* the peer is dead or unreachable */
    PROV_FLUSHED,    /* not (known to be) executed: an earlier operation broke the connection */
    PROV_FAILED,     /* anything else; logged where it was decided */
};

/* Why a connection did not come up, or went down. */
enum prov_reason {
    PROV_REASON_PEER_DEAD,   /* its process is known to be gone */
    PROV_REASON_NO_ENDPOINT, /* the process lives but has no endpoint of that id (yet) */
    PROV_REASON_REJECTED,    /* the peer's core said no: see reject() */
    PROV_REASON_BROKEN,      /* an operation failed and took the connection along; try again */
    PROV_REASON_CLOSED,      /* the peer closed its endpoint or connection in an orderly way */
    PROV_REASON_RESTS,       /* closed because there are too many connections; both ends have got
                              * everything: connect again when there is something to send */
    PROV_REASON_GROWS,       /* as RESTS; closed because longer queues are wanted */
    PROV_REASON_LOCAL,       /* this side has no resources, or its device is gone; logged */
    PROV_REASON_SILENT,      /* no answer for too long: the host is gone, or the process stopped */
};

enum prov_flags {
    PROV_SIGNAL = 1,      /* report done() soon; without it done() may come with a later one's */
    PROV_FENCE = 2,       /* start after all earlier reads and atomics of the connection */
    PROV_SOLICITED = 4,   /* (message or immediate) wake the target if it sleeps */
    PROV_MORE = 8,        /* more follows at once: the doorbell may wait until ep_flush() */
    PROV_COPY = 16,       /* write: the source is not registered, at most PROV_COPY_MAX bytes */
    PROV_NOTIFY = 32,     /* write: deliver `imm` to the peer behind the data */
    PROV_SIGNAL_SRC = 64, /* as PROV_SIGNAL, unless this returns PROV_SRC_FREE */
    PROV_UNSIGNALLED =
        128,           /* write: where several of these that were posted one right after the other
                        * end with PROV_OK, the last one's unsignalled_done() may stand for all of them */
    PROV_STRONG = 256, /* write: takes effect behind earlier writes, and its last line behind its
                        * rest; the target's memory must be readable too. read: its last line
                        * lands behind its rest. So it is without the flag, too, unless
                        * any_order() */
    PROV_LANDED = 512, /* write: done() says that the data is in the target's memory, also for a CPU
                        * that learns of it by another way than this connection; the target's
                        * memory must be readable */
};

/* What wakes an owner that sleeps: see ep_arm(). */
enum prov_arm {
    PROV_ARM_SOLICITED = 1, /* what needs its CPU */
    PROV_ARM_ALL,           /* every completion and arrival */
};

/* What posting returns: a set of these bits, or a negative errno. */
enum prov_posted {
    PROV_SRC_FREE = 1, /* the local source may be overwritten already */
    PROV_COMPLETE = 2, /* (with PROV_SRC_FREE) executed already, PROV_OK; done() will NOT be called
                        * for it. Only when no earlier operation of the connection is still to be
                        * reported */
};
/*
 * Negative returns of write(), read(), send() and atomic(): nothing was posted, done() will not be
 * called.
 *   -EAGAIN    no room now; call ep_poll() and try again
 *   -ENOTCONN  the connection is not up (down() comes or came)
 *   -EACCES    PROV_RMT_ACCESS found at once; the connection is still up
 *   -EFAULT    PROV_RMT_FAULT found at once; the connection is still up
 *   -EPERM     PROV_LCL_ACCESS found at once; the connection is still up
 *   -EIO       PROV_FAILED, logged
 */

struct prov_xfer {
    void *lcl;       /* local memory: source of a write, destination of a read */
    uint64_t rmt;    /* address in the target process */
    uint32_t length; /* bytes; 0 is allowed: then neither memory is looked at */
    uint32_t lkey, rkey;
    uint32_t imm;    /* with PROV_NOTIFY */
    uint32_t flags;  /* enum prov_flags */
    uint64_t cookie; /* comes back in done() */
};

enum prov_atomic_op { PROV_ATOMIC_FADD = 1, PROV_ATOMIC_CSWAP = 2 };

struct prov_atomic {
    enum prov_atomic_op op;
    uint64_t rmt;     /* 8-byte aligned address in the target process */
    uint64_t operand; /* FADD: what to add; CSWAP: the new value */
    uint64_t compare; /* CSWAP */
    uint64_t *result; /* old value lands here (registered memory) */
    uint32_t lkey, rkey;
    uint32_t flags;
    uint64_t cookie;
};

/* Called from inside ep_poll(). `ctx` is what the core gave for the connection. */
struct prov_callbacks {
    /* An operation ended. */
    void (*done)(void *ctx, uint64_t cookie, enum prov_status status);
    /* An operation with PROV_UNSIGNALLED ended with PROV_OK, and so did those with that flag that
     * were posted right before it, as far as they were not reported yet. */
    void (*unsignalled_done)(void *ctx, uint64_t cookie);
    /* A message arrived; `data` is 8-byte aligned and valid during the call. */
    void (*message)(void *ctx, const void *data, size_t size);
    /* A write with PROV_NOTIFY arrived. */
    void (*notify)(void *ctx, uint32_t imm);
    /* A peer asks the provider `prov` for a connection. The core answers with accept() or reject(),
     * now or from a later call under the endpoint's lock. */
    void (*request)(void *owner, struct prov *prov, struct prov_conn *conn, uint64_t peer_id,
                    const void *hello, size_t hello_size);
    /* A connection that this side asked for, or accepted, is up. `hello` is the peer's (for an
     * accepted one the same bytes as in request()). */
    void (*up)(void *ctx, const void *hello, size_t hello_size);
    /* The connection never came up, or is down. done() was called for every operation before
     * (in order: PROV_OK up to what is known to be executed, the failed one, PROV_FLUSHED). Only
     * conn_close() may follow. */
    void (*down)(void *ctx, enum prov_reason reason);
    /* More messages and immediates had arrived than half of what the endpoint can receive, before
     * it was polled: peers may have waited. Transports that cannot tell do not call it. NULL: not
     * wanted. */
    void (*crowded)(void *owner);
};

struct prov_ep_attr {
    unsigned int tni; /* which port it lives on */
    uint64_t id;      /* names it among all endpoints of the job: 48 bits */
    void *owner;
    const struct prov_callbacks *callbacks;
    unsigned int depth; /* most operations that the owner will have outstanding */
};

struct prov_config {
    /* Some endpoint of `owner` needs ep_poll(): called from progress(), without any lock. May come
     * once more for an endpoint that is being closed: what `owner` points to outlives it. */
    void (*wake)(void *owner);
    unsigned int num_tnis;
    unsigned int peer_timeout_ms; /* a silent peer is given up after this */
    unsigned int job_timeout_ms;  /* and one whose address cannot be resolved, after this */
    unsigned int local_size;      /* processes of the job on this host; 0: not known */
    unsigned int local_rank;      /* and which of them this is, from 0 on */
    bool reports_slowness; /* the one process of its host that warns of slow configurations */
};

struct prov_caps {
    uint32_t max_inline;   /* writes up to this size return PROV_SRC_FREE */
    bool reads_source;     /* of those, and inside write(), with plain loads: their lkey is not
                            * looked at, and the core may copy the source before it calls */
    uint32_t max_message;  /* at least PROV_MSG_MAX */
    uint64_t max_xfer;     /* largest write or read */
    uint32_t atomic_ops;   /* bit (1 << enum prov_atomic_op) */
    bool atomics_coherent; /* with the target CPU's own atomic instructions, and with the atomics of
                            * its other devices; without it, among those of one device only */
    uint32_t line;         /* bytes, at most PROV_LINE: see "Order" above */
    bool blind_to_deaths;  /* a peer whose process has ended is PROV_REASON_SILENT */
    bool rests;            /* its connections may end as PROV_REASON_RESTS or PROV_REASON_GROWS */
    char device[64];       /* device and port of this TNI, to be printed */
};

/* A port of a network adapter, used or not, to be printed. Unknown numbers are 0, texts empty. */
struct prov_port {
    char device[64];
    unsigned int port;
    char link[16];   /* "Ethernet", "InfiniBand" */
    char state[16];  /* "active", "down"... */
    char netdev[16]; /* the network device below it */
    int gid_index;   /* -1: none */
    char gid[48];
    char connects_by[16];  /* of a port in use: what makes its connections, as "rdmacm" */
    char address[48];      /* where this process listened, */
    char network[56];      /* and the network of this address, as 10.1.0.0/16 */
    uint32_t speed;        /* Mbit/s; 0: not known */
    int numa_node;         /* -1: not known */
    uint32_t mtu, max_mtu; /* bytes */
    char atomics[8];       /* "none", "hca": coherent among devices, "glob": with CPUs too */
    uint32_t max_inline;   /* bytes; of a port in use */
    uint32_t max_conns;    /* of this process, on the adapter of a port in use; 0: no limit */
    bool any_order;        /* of a port in use: what arrives is placed in any order, */
    uint32_t order_unit;   /* but for aligned units of so many bytes; 0: all is in order; */
    bool relaxed_keys;     /* its memory keys have relaxed ordering; */
    char order_why[64];    /* and how the order is known */
    uint32_t ece_vendor;   /* enhancements that its connections offer, of a port in use: whose, */
    uint32_t ece_options;  /* and which; 0: none */
    uint32_t srq_depth;    /* receives that the peers of an endpoint share, or */
    uint32_t rq_depth;     /* that each connection has of its own; of a port in use */
    uint32_t tnis;         /* in use: bit n for TNI n. 0: not in use */
    char why_not[256];     /* not in use: the reason */
};

struct prov_ops {
    const char *name;

    /* Finds its devices and starts listening. 0; -ENODEV after an info line that says what was
     * looked for; other negative errno after an error line. */
    int (*open)(const struct prov_config *config, struct prov **prov);
    /* Every endpoint has been closed. */
    void (*close)(struct prov *prov);
    /* At exit, with what was posted done: peers are told that the process ends, where nobody else
     * does. Endpoints may be open. NULL: there is nothing to do. */
    void (*leave)(struct prov *prov);
    /* The bytes that peers need to reach this process; returns how many (<= PROV_ADDR_MAX). */
    size_t (*address)(struct prov *prov, void *buf);
    /* An IP address of this host that peers reach, IPv4 as ::ffff:a.b.c.d. False: it has none.
     * NULL: the provider does not use IP. */
    bool (*ip)(struct prov *prov, uint8_t ip[16]);
    void (*caps)(struct prov *prov, unsigned int tni, struct prov_caps *caps);
    /* TNIs with the same number share memory registrations. */
    unsigned int (*device)(struct prov *prov, unsigned int tni);

    /* -ENOMEM names RLIMIT_MEMLOCK in its error line where that is the reason; -EFAULT: the memory
     * is not there, or not writable as `access` asks. */
    int (*reg)(struct prov *prov, unsigned int device, void *addr, size_t size, unsigned int access,
               struct prov_mr **mr);
    void (*dereg)(struct prov *prov, struct prov_mr *mr);

    int (*ep_open)(struct prov *prov, const struct prov_ep_attr *attr, struct prov_ep **ep);
    /* Closes what is left of its connections in order (no callbacks), then the endpoint. */
    void (*ep_close)(struct prov_ep *ep);
    /* Progress of this endpoint: completions, then messages, then control. Returns the number of
     * callbacks made; 0: nothing was there. Never blocks. */
    int (*ep_poll)(struct prov_ep *ep);
    /* Starts what waits because of PROV_MORE. */
    void (*ep_flush)(struct prov_ep *ep);
    /* From now on a solicited message, a connection event, an error, or receive space running low
     * makes progress() call wake(), also on connections that a later ep_poll() accepts; with
     * PROV_ARM_ALL so does whatever makes ep_poll() call back. Returns true if something is there
     * already (then poll again). */
    bool (*ep_arm)(struct prov_ep *ep, enum prov_arm what);
    /* Wake-ups are not wanted for now: the owner polls. May be a hint. */
    void (*ep_disarm)(struct prov_ep *ep);

    /* Asks for a connection; returns at once. up() or down() follows. -EPROTO, without an error
     * line: this is no address of such a provider. -EAGAIN, -ENOMEM: it may succeed later. */
    int (*connect)(struct prov_ep *ep, const void *addr, size_t addr_size, unsigned int peer_tni,
                   uint64_t peer_id, const void *hello, size_t hello_size, void *ctx,
                   struct prov_conn **conn);
    /* From here on operations may be posted; they get -EAGAIN as long as they cannot go. Itself
     * returns -EAGAIN where there is no room for the connection: that is closed then, as by
     * reject(), and the peer asks again later. */
    int (*accept)(struct prov_conn *conn, const void *hello, size_t hello_size, void *ctx);
    void (*reject)(struct prov_conn *conn); /* and closes it */
    /* Takes the connection down in order and forgets it; no callback for it afterwards. */
    void (*conn_close)(struct prov_conn *conn);

    int (*write)(struct prov_conn *conn, const struct prov_xfer *xfer);
    /* write() with PROV_UNSIGNALLED, of 1 to caps.max_inline bytes that need not be registered, for
     * a provider that reads_source. Returns 0 or a negative errno. The entry may be NULL. */
    int (*write_few)(struct prov_conn *conn, const void *data, uint64_t rmt, uint32_t rkey,
                     uint32_t length, uint64_t cookie);
    int (*read)(struct prov_conn *conn, const struct prov_xfer *xfer);
    /* The bytes are copied. flags: SIGNAL, FENCE, SOLICITED, MORE. */
    int (*send)(struct prov_conn *conn, const void *data, size_t size, unsigned int flags,
                uint64_t cookie);
    int (*atomic)(struct prov_conn *conn, const struct prov_atomic *atomic);
    /* [rmt, rmt + length) of the peer as an address in this process, if it is mapped here, the key
     * allows every access there, and all earlier operations of the connection are executed; else
     * NULL. Valid until the next call for the connection. The entry may be NULL. */
    void *(*direct)(struct prov_conn *conn, uint64_t rmt, uint32_t length, uint32_t rkey);
    /* The connection's mapping of the peer's memory, see mapped.h: its content changes, its address
     * does not as long as the connection exists. The entry may be NULL. */
    const struct prov_mapping *(*mapping)(struct prov_conn *conn);
    /* Are writes of the connection placed in any order, as far as is known by up()? The entry may
     * be NULL: never. */
    bool (*any_order)(struct prov_conn *conn);

    /* Background thread: a descriptor to sleep on (an epoll of its own), and what to do when it is
     * readable or the time that the last call asked for has passed. Returns milliseconds until it
     * wants to be called again, or -1. */
    int (*fd)(struct prov *prov);
    int (*progress)(struct prov *prov);

    /* Tells every port of this machine, opened or not, as open() would find it now. NULL: the
     * transport has no ports. */
    void (*survey)(const struct prov_config *config, void *ctx,
                   void (*tell)(void *ctx, const struct prov_port *port));
};

#endif
