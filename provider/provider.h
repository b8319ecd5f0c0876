/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of a transport. A provider moves bytes between endpoints of the processes of a job;
 * it does not depend on uTofu. The core, the library without its providers (src/), depends on
 * nothing of a transport but this interface.
 *
 * Objects
 *   prov       a transport, opened once per process
 *   prov_mr    memory that the transport may touch
 *   prov_ep    an endpoint. Its owner is a VCQ, which has one endpoint per transport
 *   prov_conn  a reliable, ordered connection between a local and a remote endpoint
 *
 * Threads
 *   The caller of a function for an endpoint or a connection holds the owner's lock: calls for one
 *   endpoint never overlap, calls for different endpoints may. Only ep_poll() makes callbacks, for
 *   its own endpoint, so under the same lock. A callback may post operations, connect, accept,
 *   reject and close connections. prov->wake() is the exception: see below.
 *   Any thread may call open, reg, dereg, ep_open, address and caps at any time. One background
 *   thread calls progress(), without the lock of an endpoint. A provider holds none of its own
 *   locks while a callback runs.
 *
 * Order
 *   Operations of one connection take effect at the target in the order of posting (a write posted
 *   after a read needs PROV_FENCE to wait for the read). Messages and immediates arrive in order
 *   after the data posted before them. done() is called in the order of posting. The bytes of a
 *   write become visible in ascending order.
 *   If done() reports a refused operation (PROV_RMT_ACCESS, PROV_RMT_FAULT), no operation posted
 *   after it is executed, except reads, and the connection goes down. If a call returns a negative
 *   value, its operation was not posted, and the connection is unchanged.
 *   If any_order() returns true, writes and their parts take effect in any order. One rule is left:
 *   within each aligned line of caps.line bytes of the target, the last word of a write becomes
 *   visible last; caps.line is that of the target's process. Messages, immediates, reads and
 *   atomics still wait for earlier operations, and writes with PROV_STRONG_ORDER keep the order
 * above.
 */
#ifndef PROV_PROVIDER_H
#define PROV_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PROV_ADDR_MAX = 120,        /* maximum bytes of a process's address */
    PROV_PRIVATE_DATA_MAX = 32, /* maximum bytes of private data in a connection request */
    PROV_MSG_MAX = 1024,        /* every provider carries messages of at least this size */
    PROV_INLINE_MAX = 64,       /* maximum bytes of a write with PROV_INLINE */
    PROV_TOFU_LINE = 256, /* bytes of a cache line of the Tofu machines; maximum of caps.line */
};

struct prov_ep;
struct prov_conn;
struct prov_ops;
struct prov_mapping;

struct prov {
    const struct prov_ops *ops;
};

/* A memory region. The provider embeds this struct. */
struct prov_mr {
    uint32_t lkey; /* key in this process's operations */
    uint32_t rkey; /* key in a peer's operations */
};

enum prov_access {
    PROV_ACCESS_READ = 1,   /* peers may read the memory */
    PROV_ACCESS_WRITE = 2,  /* reads of this process, and peers, may write to the memory */
    PROV_ACCESS_ATOMIC = 4, /* peers may execute atomics, if the provider supports them */
};

/* The result of an operation. */
enum prov_status {
    PROV_OK = 0,
    PROV_LCL_ACCESS, /* bad local key, range or memory; the connection may be down now */
    PROV_RMT_ACCESS, /* bad remote key, range or access right; the connection goes down */
    PROV_RMT_FAULT,  /* valid key, but unmapped target memory; the connection goes down */
    PROV_PEER,       /* the peer is dead or unreachable */
    PROV_FLUSHED,    /* perhaps not executed: an earlier operation broke the connection */
    PROV_FAILED,     /* any other reason; logged */
};

/* Why a connection was not established, or went down. */
enum prov_reason {
    PROV_REASON_PEER_DEAD,     /* the peer's process has ended */
    PROV_REASON_NO_ENDPOINT,   /* the process lives, but has no endpoint with this id (yet) */
    PROV_REASON_REJECTED,      /* the peer's core refused: see reject() */
    PROV_REASON_BROKEN,        /* an operation failed and broke the connection; try again */
    PROV_REASON_CLOSED,        /* the peer closed its endpoint or connection in an orderly way */
    PROV_REASON_SUSPENDED,     /* closed because there are too many connections; all data were
                                * delivered; reconnect before the next operation */
    PROV_REASON_RESIZE_QUEUES, /* as SUSPENDED, to make longer queues in the next connection */
    PROV_REASON_REFUSED,       /* one process refuses the other; may change; logged on both sides */
    PROV_REASON_LOCAL,         /* this side lacks resources, or its device failed; logged */
    PROV_REASON_SILENT, /* no answer for too long: the host is down, or the process stopped */
};

enum prov_flags {
    PROV_SIGNAL = 1,    /* call done() soon; without the flag, done() may be delayed until that
                         * of a later operation */
    PROV_FENCE = 2,     /* execute after all earlier reads and atomics of the connection */
    PROV_SOLICITED = 4, /* (message or immediate) wake the target if it sleeps */
    PROV_MORE = 8,      /* the next operation follows immediately: the doorbell may wait until
                         * ep_flush() */
    PROV_INLINE = 16, /* write: the provider copies the source, at most PROV_INLINE_MAX bytes, which
                       * need not be registered */
    PROV_NOTIFY = 32, /* write: deliver `imm` to the peer after the data */
    PROV_SIGNAL_SRC = 64,   /* as PROV_SIGNAL, unless the call returns PROV_SRC_FREE */
    PROV_UNSIGNALLED = 128, /* write: if several consecutive writes with this flag end with PROV_OK,
                             * unsignalled_done() may be called for the last one only */
    PROV_STRONG_ORDER = 256, /* write: takes effect after earlier writes, and its last line after
                              * its rest; the target's memory must also be readable. read: its last
                              * line is written after its rest. Unless any_order(), this holds
                              * without the flag, too */
    PROV_DELIVERY_COMPLETE =
        512,              /* the program waits for a local notice. write: done() means that the data
                           * are in the target's memory, even for a CPU that is notified by other means
                           * than this connection; the target's memory must be readable */
    PROV_NO_SPLIT = 1024, /* write: of any size, whatever set_split_threshold() set */
};

/* The events that wake a sleeping owner: see ep_arm(). */
enum prov_arm {
    PROV_ARM_SOLICITED = 1, /* events that need the owner's CPU */
    PROV_ARM_ALL,           /* every completion and arrival */
};

/* Return value of posting: a set of these bits, or a negative errno. */
enum prov_posted {
    PROV_SRC_FREE = 1, /* the local source may be overwritten now */
    PROV_COMPLETE = 2, /* (with PROV_SRC_FREE) already executed with PROV_OK: done() is NOT called.
                        * Only if all earlier operations of the connection are reported */
};
/*
 * Negative return values of write(), read(), send() and atomic(): nothing was posted, and done() is
 * not called.
 *   -EAGAIN    no room now; call ep_poll() and try again
 *   -ENOTCONN  the connection is not up: down() was called, or will be
 *   -EACCES    PROV_RMT_ACCESS, detected by the call; the connection is still up
 *   -EFAULT    PROV_RMT_FAULT, detected by the call; the connection is still up
 *   -EPERM     PROV_LCL_ACCESS, detected by the call; the connection is still up
 *   -EIO       PROV_FAILED, logged
 *   -EMSGSIZE  write() of at least the size of set_split_threshold(): the core splits it
 */

struct prov_xfer {
    void *lcl;       /* local memory: source of a write, destination of a read */
    uint64_t rmt;    /* address in the target process */
    uint32_t length; /* bytes; if 0, neither memory is accessed */
    uint32_t lkey, rkey;
    uint32_t imm;    /* with PROV_NOTIFY */
    uint32_t flags;  /* enum prov_flags */
    uint64_t cookie; /* passed to done() */
};

enum prov_atomic_op { PROV_ATOMIC_FADD = 1, PROV_ATOMIC_CSWAP = 2 };

struct prov_atomic {
    enum prov_atomic_op op;
    uint64_t rmt;     /* 8-byte aligned address in the target process */
    uint64_t operand; /* FADD: the addend; CSWAP: the new value */
    uint64_t compare; /* CSWAP */
    uint64_t *result; /* destination of the old value (registered memory) */
    uint32_t lkey, rkey;
    uint32_t flags;
    uint64_t cookie;
};

/* Called from inside ep_poll(). `ctx` is the core's pointer for the connection. */
struct prov_callbacks {
    /* An operation has ended. */
    void (*done)(void *ctx, uint64_t cookie, enum prov_status status);
    /* An operation with PROV_UNSIGNALLED has ended with PROV_OK, and so have all unreported
     * operations with this flag that were posted directly before it. */
    void (*unsignalled_done)(void *ctx, uint64_t cookie);
    /* A message has arrived; `data` is 8-byte aligned, and valid during the call. */
    void (*message)(void *ctx, const void *data, size_t size);
    /* A write with PROV_NOTIFY has arrived. */
    void (*notify)(void *ctx, uint32_t imm);
    /* A peer requests a connection over the provider `prov`. The core calls accept() or reject(),
     * at once or later under the endpoint's lock. */
    void (*request)(void *owner, struct prov *prov, struct prov_conn *conn, uint64_t peer_id,
                    const void *private_data, size_t private_data_size);
    /* A connection that this side requested, or accepted, is up. `private_data`: those of the peer;
     * for an accepted connection the same bytes as in request(). */
    void (*up)(void *ctx, const void *private_data, size_t private_data_size);
    /* The connection could not be established, or is down. done() was called for every operation:
     * with PROV_OK for those known to be executed, then with the error of the failed one, then with
     * PROV_FLUSHED. Only conn_close() may follow. */
    void (*down)(void *ctx, enum prov_reason reason);
    /* More than half of the endpoint's receive buffers were filled before a poll: peers may have
     * waited. Transports without this information never call this. NULL: not wanted. */
    void (*srq_low)(void *owner);
};

struct prov_ep_attr {
    unsigned int tni; /* TNI whose port the endpoint uses */
    uint64_t id;      /* unique among all endpoints of the job: 48 bits */
    void *owner;      /* argument of wake() and of callbacks for the endpoint */
    const struct prov_callbacks *callbacks;
    unsigned int depth; /* maximum number of outstanding operations of the owner */
    unsigned int rail;  /* 0; or, for parts of writes (set_split_threshold()), its number among the
                         * endpoints of its owner. If connections are too many, those of rails are
                         * closed first. If a port has several physical links, each rail uses
                         * another one */
};

struct prov_config {
    /* An endpoint of `owner` needs ep_poll(): called from progress(), without any lock. May be
     * called once more for an endpoint being closed: `owner` must stay valid. */
    void (*wake)(void *owner);
    unsigned int num_tnis;
    unsigned int peer_timeout_ms; /* time after which a silent peer is given up */
    unsigned int job_timeout_ms;  /* the same for a peer whose address cannot be resolved */
    unsigned int job_size;        /* processes of the job; 0: not known */
    unsigned int local_size;      /* processes of the job on this host; 0: not known */
    unsigned int local_rank;      /* number of this process among them, from 0 on */
    bool is_warning_process; /* the one process of its host that warns of slow configurations */
};

struct prov_caps {
    uint32_t max_inline;   /* maximum bytes of a write that always returns PROV_SRC_FREE */
    bool reads_source;     /* write() reads the source of such writes by plain loads: their lkey is
                            * ignored, and the core may copy the source before the call */
    uint32_t max_message;  /* at least PROV_MSG_MAX */
    uint64_t max_xfer;     /* maximum bytes of a write or read */
    uint32_t atomic_ops;   /* bit (1 << enum prov_atomic_op) */
    bool atomics_coherent; /* atomics are coherent with atomic instructions of the target's CPU, and
                            * with its other devices; otherwise among those of one device only */
    uint32_t line;         /* bytes, at most PROV_TOFU_LINE: see "Order" above */
    bool no_peer_death_event; /* a peer whose process has ended is PROV_REASON_SILENT */
    bool suspends; /* connections may end as PROV_REASON_SUSPENDED or PROV_REASON_RESIZE_QUEUES */
    uint32_t num_ports;       /* TNI n has port n % num_ports; 0 or 1: all TNIs have one */
    uint32_t speed;           /* of this TNI's port, Mbit/s; 0: not known */
    uint32_t split_threshold; /* minimum bytes of a write that is faster over several ports; 0: none
                                 is */
    uint32_t max_rails; /* number of TNIs behind this one that may take parts of such a write: over
                         * ports with other physical links, or over several links of one port */
    char device[64];    /* device and port of this TNI, for printing */
};

/* A port of a network adapter, used or not, for printing. Unknown numbers are 0, texts empty. */
struct prov_port {
    char device[64];
    unsigned int port;
    char link[16];   /* "Ethernet", "InfiniBand" */
    char state[16];  /* "active", "down"... */
    char netdev[16]; /* its network device */
    int gid_index;   /* -1: none */
    char gid[48];
    char connects_by[16];  /* of a port in use: the connection manager, as "rdmacm" */
    char address[48];      /* where this process listens, */
    char network[56];      /* and the network of this address, as 10.1.0.0/16 */
    uint32_t speed;        /* Mbit/s; 0: unknown */
    int numa_node;         /* -1: unknown */
    uint32_t mtu, max_mtu; /* bytes */
    char atomics[8];       /* "none", "hca": coherent among devices, "glob": with CPUs too */
    uint32_t max_inline;   /* bytes; of a port in use */
    uint32_t max_conns;    /* of this process, on the adapter of a port in use; 0: no limit */
    bool any_order;        /* of a port in use: data may be placed in any order, */
    uint32_t order_unit;   /* except within aligned units of this size; 0: all data are in order; */
    bool relaxed_keys;     /* its memory keys have relaxed ordering; */
    char order_why[64];    /* and how the order was determined */
    uint32_t ece_vendor;   /* ECE of its connections, of a port in use: vendor, */
    uint32_t ece_options;  /* and options; 0: none */
    uint32_t srq_depth;    /* receives that all peers of an endpoint share, or */
    uint32_t rq_depth;     /* receives per connection; of a port in use */
    char parts[160];       /* by which ports its long writes go, or why by one; of a port in use */
    uint32_t tnis;         /* TNIs that use it: bit n for TNI n. 0: not in use */
    char why_not[256];     /* if not in use: the reason */
};

struct prov_ops {
    const char *name;

    /* Finds the devices and starts listening. 0; -ENODEV after an info line with the missing
     * device; other negative errno after an error line. */
    int (*open)(const struct prov_config *config, struct prov **prov);
    /* Called after every endpoint has been closed. */
    void (*close)(struct prov *prov);
    /* At exit, after all operations are done: tells peers that the process ends. Endpoints may be
     * open. NULL: peers notice without this. */
    void (*leave)(struct prov *prov);
    /* Writes this process's address for its peers. Returns its size, at most PROV_ADDR_MAX. */
    size_t (*address)(struct prov *prov, void *buf);
    /* Gets an IP address of this host that peers reach, IPv4 as ::ffff:a.b.c.d. False: none. NULL:
     * the provider does not use IP. */
    bool (*ip)(struct prov *prov, uint8_t ip[16]);
    void (*caps)(struct prov *prov, unsigned int tni, struct prov_caps *caps);
    /* TNIs with the same number share memory registrations. */
    unsigned int (*device)(struct prov *prov, unsigned int tni);

    /* Registers memory. -ENOMEM: the error line names RLIMIT_MEMLOCK if that is the reason;
     * -EFAULT: the memory is unmapped, or not writable although `access` requires it. */
    int (*reg)(struct prov *prov, unsigned int device, void *addr, size_t size, unsigned int access,
               struct prov_mr **mr);
    void (*dereg)(struct prov *prov, struct prov_mr *mr);

    int (*ep_open)(struct prov *prov, const struct prov_ep_attr *attr, struct prov_ep **ep);
    /* Closes the remaining connections in order (no callbacks), then the endpoint. */
    void (*ep_close)(struct prov_ep *ep);
    /* Makes progress: completions, then messages, then control. Returns the number of callbacks; 0:
     * no event. Never blocks. */
    int (*ep_poll)(struct prov_ep *ep);
    /* Starts operations delayed by PROV_MORE. */
    void (*ep_flush)(struct prov_ep *ep);
    /* From now on progress() calls wake() for a solicited message, a connection event, an error, or
     * few receive buffers, also on connections that a later ep_poll() accepts; with PROV_ARM_ALL
     * for any event that ep_poll() would report. True: an event is there already; poll again. */
    bool (*ep_arm)(struct prov_ep *ep, enum prov_arm what);
    /* Tells that the owner polls and needs no wake-ups for now. May be a hint. */
    void (*ep_disarm)(struct prov_ep *ep);

    /* Requests a connection, and returns at once: up() or down() follows. -EPROTO (not logged): not
     * an address of this provider. -EHOSTUNREACH (logged): the peer is unreachable. -EAGAIN,
     * -ENOMEM: may succeed later. */
    int (*connect)(struct prov_ep *ep, const void *addr, size_t addr_size, unsigned int peer_tni,
                   uint64_t peer_id, const void *private_data, size_t private_data_size, void *ctx,
                   struct prov_conn **conn);
    /* Accepts a request. Operations may be posted from now on; posting returns -EAGAIN until they
     * can be sent. -EAGAIN: no room for the connection, which is closed as by reject(); the peer
     * sends its request again later. */
    int (*accept)(struct prov_conn *conn, const void *private_data, size_t private_data_size,
                  void *ctx);
    void (*reject)(struct prov_conn *conn); /* also closes the connection */
    /* Closes the connection in order and frees it. No callback follows. */
    void (*conn_close)(struct prov_conn *conn);

    int (*write)(struct prov_conn *conn, const struct prov_xfer *xfer);
    /* write() with PROV_UNSIGNALLED, of 1 to caps.max_inline bytes that need not be registered, for
     * a provider with reads_source. Returns 0 or a negative errno. May be NULL. */
    int (*write_inline)(struct prov_conn *conn, const void *data, uint64_t rmt, uint32_t rkey,
                        uint32_t length, uint64_t cookie);
    int (*read)(struct prov_conn *conn, const struct prov_xfer *xfer);
    /* Copies the bytes. flags: SIGNAL, FENCE, SOLICITED, MORE. */
    int (*send)(struct prov_conn *conn, const void *data, size_t size, unsigned int flags,
                uint64_t cookie);
    int (*atomic)(struct prov_conn *conn, const struct prov_atomic *atomic);
    /* Returns the address of the peer's [rmt, rmt + length) in this process, if the memory is
     * mapped, the key allows every access, and all earlier operations of the connection are
     * executed; otherwise NULL. Valid until the next call for the connection. May be NULL. */
    void *(*direct)(struct prov_conn *conn, uint64_t rmt, uint32_t length, uint32_t rkey);
    /* Returns the connection's mapping of the peer's memory (mapped.h). The contents change, the
     * address does not change while the connection exists. May be NULL. */
    const struct prov_mapping *(*mapping)(struct prov_conn *conn);
    /* True if writes of the connection may be placed in any order, as far as is known at up(). May
     * be NULL: never. */
    bool (*any_order)(struct prov_conn *conn);
    /* From now on write() of at least `min` bytes returns -EMSGSIZE, unless it has PROV_NO_SPLIT:
     * the core splits the write, and posts the parts to several connections. 0: never, as at first.
     * NULL: several ports are not faster. */
    void (*set_split_threshold)(struct prov_conn *conn, uint32_t min);

    /* For the background thread. fd() returns a descriptor to poll: a separate epoll instance, made
     * with ut_fd_open_ours(). The thread calls progress() when the descriptor is readable, or when
     * the time has passed that progress() returned last: milliseconds, or -1. */
    int (*fd)(struct prov *prov);
    int (*progress)(struct prov *prov);

    /* Reports every port of this machine, opened or not, as open() would find it now. NULL: the
     * transport has no ports. */
    void (*survey)(const struct prov_config *config, void *ctx,
                   void (*report)(void *ctx, const struct prov_port *port));
};

#endif
