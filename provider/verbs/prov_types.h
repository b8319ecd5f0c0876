/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data types of the provider, its devices and ports, which all files share.
 *
 * Locks. The fast path (posting, completions, receives) runs under the endpoint's lock, which its
 * owner holds, and takes no other lock. prov->lock protects what the background thread and the
 * owners share: the lists, the phase of a connection, its pending events. The slow calls of a
 * handshake run in progress() without prov->lock; conn->hs.busy protects the connection.
 */
#ifndef VP_PROV_TYPES_H
#define VP_PROV_TYPES_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "heap.h"
#include "list.h"
#include "provider.h"

enum {
    VP_MAX_DEVICES = 16,
    VP_MAX_PORTS = 6, /* an address has room for as many */
    VP_KEY_BYTES = 7, /* fits into the 56 bytes of a connect request */
};

#define VP_CAT "verbs"

struct vp_ep;
struct vp_ud;
struct vp_udcm;

/* Budget of queue pairs of this process on a device: see qp_budget.c. Protected by prov->lock. */
struct vp_qp_budget {
    unsigned int max, limit; /* `limit` is smaller while the device has no more */
    unsigned int taken;
    unsigned int opening;         /* queue pairs in use by active handshakes */
    unsigned int num_open;        /* connections in `open` */
    unsigned int num_evicting;    /* connections in `evicting` */
    unsigned int num_not_evicted; /* consecutive connections that were kept, since in use */
    unsigned int burst;           /* of these, since the last pause */
    bool active_turn;             /* the next free queue pair goes to waiting_active */
    struct vp_list open;          /* vp_conn.budget_link: up, least recently used first */
    struct vp_list evicting; /* vp_conn.budget_link: asked to suspend, or ending; latest last */
    struct vp_list waiting_active;  /* vp_conn.hs.link: active handshakes that wait */
    struct vp_list waiting_passive; /* vp_conn.hs.link: passive handshakes that wait */
    uint64_t resume_at;             /* ms: when connections may be asked again */
    uint64_t shrunk_until;          /* ms: end of the smaller `limit` */
};

/* How a device orders arriving data, and how the order is known: see order.h. */
enum vp_order {
    VP_ORDER_UNKNOWN, /* the device promises no order */
    VP_ORDER_UNASKED, /* libibverbs has no query for the order */
    VP_ORDER_SAFE,    /* UTOFU_VERBS_ORDER=safe */
    VP_ORDER_TRUSTED, /* UTOFU_VERBS_ORDER=trust: in the order of sending */
    VP_ORDER_PROMISED,
    VP_ORDER_SOFTWARE, /* rdma_rxe whose kernel copies packets forwards */
    VP_ORDER_BACKWARD, /* rdma_rxe whose kernel may copy a packet backwards */
    VP_ORDER_128,      /* the device promises order within aligned 128 bytes */
    VP_ORDER_RELAXED,  /* the memory keys have relaxed ordering: no order */
};

/* Unit of order: an adapter places the bytes of an aligned block of this size in ascending order,
 * and different blocks in any order. A smaller unit has a larger number. Peers exchange these
 * numbers. */
enum vp_unit { VP_UNIT_WHOLE, VP_UNIT_128, VP_UNIT_64, VP_UNIT_WORD };

/* Options of enhanced connection establishment: see ece.h. Options 0: none. */
struct vp_ece {
    uint32_t vendor_id, options;
};

/* Values of ibv_device_attr.vendor_id for rdma_rxe, bnxt_re, and mlx4 and mlx5. */
enum { VP_VENDOR_RXE = 0xffffff, VP_VENDOR_BROADCOM = 0x14e4, VP_VENDOR_MELLANOX = 0x2c9 };

/* Whether the device raises IBV_EVENT_QP_LAST_WQE_REACHED after the last receive of a queue pair.
 * No query tells. bnxt_re raises this event only for errors that the adapter reports of a queue
 * pair with an SRQ (Linux 6.12, drivers/infiniband/hw/bnxt_re/main.c,
 * bnxt_re_handle_qp_async_event()). */
enum vp_last_wqe {
    VP_LAST_WQE_UNKNOWN,
    VP_LAST_WQE_RAISED,
    VP_LAST_WQE_NEVER,
    VP_LAST_WQE_UNRELIABLE,
};

struct vp_device {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_device_attr attr;
    unsigned int index;
    unsigned int max_inline; /* maximum inline size of a queue pair */
    bool has_wr_api;         /* the device supports ibv_wr_start() */
    uint8_t order;           /* enum vp_order */
    bool relaxed;            /* memory keys have relaxed ordering */
    bool has_srq;            /* a shared receive queue is available and used */
    uint8_t last_wqe;        /* enum vp_last_wqe, under prov->lock */
    bool gone;               /* removed, or failed permanently */
    struct vp_ece ece;       /* ECE options that queue pairs of the device offer */
    bool no_ece; /* the device rejected the options that it had offered; set by progress() */
    struct vp_qp_budget budget;
};

/* IBV_ACCESS_RELAXED_ORDERING, which headers before rdma-core 28 do not define. Older kernels
 * ignore the flag, since it is in IBV_ACCESS_OPTIONAL_RANGE. */
enum { VP_ACCESS_RELAXED = 1 << 20 };

/* Returns the access flags for all memory regions of a device. */
static inline int vp_mr_access_flags(const struct vp_device *dev)
{
    return dev->relaxed ? VP_ACCESS_RELAXED : 0;
}

union vp_sockaddr {
    struct sockaddr sa;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

enum { VP_UD_KEY_BYTES = 16 };

/* Address at which a process receives datagrams: see ud.h. */
struct vp_ud_addr {
    union ibv_gid gid;
    uint16_t lid; /* 0: RoCE */
    uint8_t sl;   /* InfiniBand: service level of the path, if known; not sent */
    uint32_t qpn, qkey;
    uint8_t key[VP_UD_KEY_BYTES]; /* each datagram must have this key */
};

/* Address at which a peer listens. */
struct vp_peer {
    bool ud;              /* `at` is valid, otherwise `ip` */
    union vp_sockaddr ip; /* with the port number */
    struct vp_ud_addr at;
};

/* The bits after the prefix are 0. */
struct vp_network {
    uint8_t family, prefix; /* AF_INET or AF_INET6; number of bits */
    uint8_t address[16];
    uint8_t fabric_number; /* number of the fabric, if several fabrics have the same address */
    bool by_ip;            /* the network of an IP address, otherwise of an InfiniBand GID */
};

struct vp_port {
    struct vp_device *dev;
    uint8_t num;
    uint32_t max_msg;
    unsigned int speed; /* Mbit/s; 0: unknown */
    uint8_t mtu;        /* enum ibv_mtu */
    struct vp_network network;
    uint8_t phys_link;              /* ports with the same number share a physical link */
    uint8_t paths;                  /* number of physical links; more than 1 for a bond (LAG) */
    bool uses_datagrams;            /* datagrams establish the connections */
    const struct vp_cm_ops *cm_ops; /* set when the port is used */
    union vp_sockaddr addr;         /* with the port number of the listener */
    struct rdma_cm_id *listener;
    int gid_index; /* -1: InfiniBand, addressed without a GID */
    /* for connections by datagrams */
    struct vp_ud *ud; /* NULL: no datagrams */
    struct vp_ud_addr at;
    bool needs_grh; /* InfiniBand: a LID alone does not suffice */
    uint16_t pkey_index;
    int16_t traffic_class; /* RoCE: traffic class of the port's configuration; -1: none */
    uint8_t rdmacm_class;  /* traffic class that librdmacm uses by default */
    char name[80];
    /* used by progress() only */
    uint64_t down_since; /* ms; 0: the port is up */
    bool lost;           /* down for too long: its connections have failed */
    bool no_address;     /* the port has lost its address */
};

/* Why a port, or a whole device (port 0), is not used. */
struct vp_port_exclusion {
    char device[IBV_SYSFS_NAME_MAX];
    unsigned int port;
    char why[256];
};
enum { VP_MAX_EXCLUSIONS = 64 };
struct vp_survey {
    unsigned int num_exclusions;
    struct vp_port_exclusion exclusions[VP_MAX_EXCLUSIONS];
};

/* Settings from the environment. */
struct vp_tuning {
    unsigned int sq_depth, srq_depth, rq_depth, inline_size, rd_atomic, max_connecting;
    /* minimum size of data whose notice is a separate request; 0: no limit */
    unsigned int notice_apart;
    unsigned int rails; /* minimum size of a write that several ports share; 0: none */
    /* 0: all queue pairs of the device, shared by the processes of the host */
    unsigned int max_qps;
    unsigned int step_ms; /* timeout of one step of a handshake, and interval of slow checks */
    uint8_t timeout, retry_count; /* in the encoding of queue pairs */
};

struct vp_prov {
    struct prov base;
    struct prov_config config;
    struct vp_tuning tuning;
    struct vp_device devices[VP_MAX_DEVICES];
    unsigned int num_devices;
    struct vp_port ports[VP_MAX_PORTS];
    unsigned int num_ports;
    bool many_ports; /* processes of the host use several ports: see PROV_DELIVERY_COMPLETE */
    uint8_t key[VP_KEY_BYTES];
    uint8_t ud_key[VP_UD_KEY_BYTES]; /* begins with `key` */
    uint32_t qkey;
    struct {
        const struct vp_cm_ops *rdmacm, *ud;
        struct vp_cm_id *listener; /* id of the rdmacm listener */
    } cm;
    struct rdma_event_channel *channel;
    struct vp_udcm *udcm;     /* handshakes by datagrams: udcm.c */
    struct vp_survey *survey; /* collects exclusions for vp_survey(); otherwise NULL */
    int epoll_fd, kick_fd;

    pthread_mutex_t lock;
    pthread_cond_t
        changed;        /* signalled when a connection is no longer busy, or a wake-up has ended */
    struct vp_list eps; /* vp_ep.link */
    struct vp_list queue;            /* vp_conn.hs.link: active handshakes to be started */
    struct vp_list accepts;          /* vp_conn.hs.link: passive handshakes to be replied to */
    struct vp_heap handshake_timers; /* vp_conn.hs.timer: deadlines of handshakes */
    struct vp_list reaping;    /* vp_conn.hs.link: connections to be disconnected or destroyed */
    struct vp_list probes;     /* vp_probe.link */
    struct vp_list wakes;      /* vp_ep.wake_link: owners to wake */
    struct vp_ep *waking;      /* the endpoint whose owner is being woken */
    unsigned int num_requests; /* total number of connect requests */
    unsigned int connecting;   /* first attempts in flight */
    unsigned int window;       /* maximum of `connecting` */
    unsigned int handshake_ms; /* recent duration of a handshake; 0: unknown */
    uint64_t next_deadline;    /* ms: earliest deadline of handshakes and probes; 0: none */
    uint64_t sleeps_until;     /* ms: when progress() has to run next; 0: no such time */
    uint64_t wrong_keys;       /* number of requests with a wrong key */
    /* rate limit of rejects: used by progress() only */
    uint64_t rejects_at;        /* ms: when rejects_left was computed */
    unsigned int rejects_left;  /* rejects left in the current burst */
    uint64_t read_paused_until; /* ms: end of a pause in reading the event channel; 0: no pause */
};

static inline struct vp_prov *vp_prov(struct prov *prov)
{
    return vp_container_of(prov, struct vp_prov, base);
}

#endif
