/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The provider, its devices and ports: data types that all files share.
 *
 * Locks. The fast path (posting, completions, receives) runs under the endpoint's lock, which its
 * owner holds, and takes no other lock. prov->lock guards what the background thread and the owners
 * share: the lists, the phase of a connection, its pending events. The slow calls of a handshake
 * run in progress() without prov->lock and with conn->hs.busy set, which protects the connection.
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
    VP_MAX_PORTS = 6, /* as many as an address has room for */
    VP_KEY_BYTES = 7, /* fits into the 56 bytes of a request */
};

#define VP_CAT "verbs"

struct vp_ep;
struct vp_ud;
struct vp_udcm;

/* Places for queue pairs of a device: see places.c. Under prov->lock. */
struct vp_qp_budget {
    unsigned int max, limit; /* of this process; `limit` is less where a device has no more */
    unsigned int taken;
    unsigned int opening;    /* taken places of own handshakes, */
    unsigned int num_open;   /* of connections in `open`, */
    unsigned int soon_free;  /* and of connections in `asked` */
    unsigned int num_in_use; /* connections asked in a row that kept their places; */
    unsigned int burst;      /* those since the last pause */
    bool active_turn;        /* the next place goes to `own`, not to `others` */
    struct vp_list open;     /* vp_conn.place_link: up, the least recently used first */
    struct vp_list evicting; /* vp_conn.place_link: asked to rest, or ending; the latest last */
    struct vp_list waiting_active;  /* vp_conn.hs.link: wait for a place to ask their peer */
    struct vp_list waiting_passive; /* vp_conn.hs.link: wait for a place to answer their peer */
    uint64_t resume_at;             /* ms: when connections may be asked again */
    uint64_t shrunk_until;          /* ms: end of the smaller `limit` */
};

/* Order in which a device places arriving data, and the reason: see order.h. */
enum vp_order {
    VP_ORDER_UNKNOWN, /* the device promises nothing */
    VP_ORDER_UNASKED, /* libibverbs cannot ask */
    VP_ORDER_SAFE,    /* UTOFU_VERBS_ORDER=safe */
    VP_ORDER_TRUSTED, /* UTOFU_VERBS_ORDER=trust: in the order of sending */
    VP_ORDER_PROMISED,
    VP_ORDER_SOFTWARE, /* rdma_rxe whose kernel copies packets forwards */
    VP_ORDER_BACKWARD, /* rdma_rxe whose kernel may copy a packet backwards */
    VP_ORDER_128,      /* the device promises each aligned 128 bytes */
    VP_ORDER_RELAXED,  /* the memory keys have relaxed ordering: any order */
};

/* The unit of order: the bytes of an aligned block of this size are placed in ascending order,
 * different blocks in any order. A smaller unit has a larger number, which is sent to peers. */
enum vp_unit { VP_UNIT_WHOLE, VP_UNIT_128, VP_UNIT_64, VP_UNIT_WORD };

/* Enhancements of a connection: see ece.h. Options 0: none. */
struct vp_ece {
    uint32_t vendor_id, options;
};

/* vendor_id of struct ibv_device_attr: rdma_rxe, bnxt_re, mlx4 and mlx5. */
enum { VP_VENDOR_RXE = 0xffffff, VP_VENDOR_BROADCOM = 0x14e4, VP_VENDOR_MELLANOX = 0x2c9 };

/* Does the device raise IBV_EVENT_QP_LAST_WQE_REACHED after the last receive of a queue pair? No
 * query tells. bnxt_re raises this event for each error that the adapter reports of a queue pair
 * with an SRQ, and not otherwise (Linux 6.12, drivers/infiniband/hw/bnxt_re/main.c,
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
    unsigned int max_inline; /* largest inline size that a queue pair takes */
    bool has_wr_api;         /* ibv_wr_start() and related functions */
    uint8_t order;           /* enum vp_order */
    bool relaxed;            /* memory keys have relaxed ordering */
    bool has_srq;            /* a shared receive queue is available and used */
    uint8_t last_wqe;        /* enum vp_last_wqe, under prov->lock */
    bool gone;               /* removed, or failed for good */
    struct vp_ece ece;       /* of the queue pairs of the device */
    bool no_ece;             /* the device refused the enhancements it offered; set by progress() */
    struct vp_qp_budget budget;
};

/* IBV_ACCESS_RELAXED_ORDERING, which headers before rdma-core 28 lack. Older kernels ignore the
 * flag, as it is in IBV_ACCESS_OPTIONAL_RANGE. */
enum { VP_ACCESS_RELAXED = 1 << 20 };

/* Access flags of all memory keys of a device. */
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
    uint8_t sl;   /* InfiniBand: service level of the path, as far as it is known; not sent */
    uint32_t qpn, qkey;
    uint8_t key[VP_UD_KEY_BYTES]; /* has to be in each datagram */
};

/* Address at which a peer listens. */
struct vp_peer {
    bool ud;              /* takes datagrams; else has an address of librdmacm */
    union vp_sockaddr ip; /* with the port number */
    struct vp_ud_addr at;
};

/* The bits after the prefix are 0. */
struct vp_network {
    uint8_t family, prefix; /* AF_INET, AF_INET6; bits */
    uint8_t address[16];
    uint8_t part; /* of fabrics of one address that do not reach each other: which */
    bool by_ip;   /* it is that of an IP address, else of an InfiniBand port's GID */
};

struct vp_port {
    struct vp_device *dev;
    uint8_t num;
    uint32_t max_msg;
    unsigned int speed; /* Mbit/s; 0: not known */
    uint8_t mtu;        /* enum ibv_mtu */
    struct vp_network network;
    uint8_t wire;                   /* ports with one number have one physical link, */
    uint8_t paths;                  /* or that many: a bond of all ports of an adapter (LAG) */
    bool uses_datagrams;            /* connections are made by datagrams */
    const struct vp_cm_ops *cm_ops; /* set once the port is used */
    union vp_sockaddr addr;         /* with the port number of the listener */
    struct rdma_cm_id *listener;
    int gid_index; /* -1: InfiniBand, addressed without a GID */
    /* for connections made by datagrams */
    struct vp_ud *ud; /* NULL: not by datagrams */
    struct vp_ud_addr at;
    bool needs_grh; /* InfiniBand: a LID alone is not enough */
    uint16_t pkey_index;
    int16_t traffic_class; /* RoCE: of its connections, where none is set; -1: */
    uint8_t rdmacm_class;  /* that of librdmacm, which needs not be told */
    char name[80];
    /* used by progress() only */
    uint64_t down_since; /* ms; 0: the port is up */
    bool lost;           /* down for too long: its connections have ended */
    bool no_address;     /* the port has lost its address */
};

/* Why a port, or a whole device (number 0), is not used. */
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

/* Read once from the environment, then adjusted to each device. */
struct vp_tuning {
    unsigned int sq_depth, srq_depth, rq_depth, inline_size, rd_atomic, max_connecting;
    unsigned int notice_apart; /* least bytes of data with a separate notice; 0: no limit */
    unsigned int rails;        /* least bytes of a write that several ports share; 0: none does */
    unsigned int max_qps;      /* 0: all that the device has, shared by the processes of the host */
    unsigned int step_ms; /* duration of a step of a handshake, and pause between slow checks */
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
    bool many_ports; /* processes of the host use several ports: see PROV_LANDED */
    uint8_t key[VP_KEY_BYTES];
    uint8_t ud_key[VP_UD_KEY_BYTES]; /* begins with `key` */
    uint32_t qkey;
    struct {
        const struct vp_cm_ops *rdmacm, *ud;
        struct vp_cm_id *listener; /* id of the rdmacm listener */
    } cm;
    struct rdma_event_channel *channel;
    struct vp_udcm *udcm;     /* handshakes by datagrams: udcm.c */
    struct vp_survey *survey; /* collects refusals in vp_survey(); else NULL */
    int epoll_fd, kick_fd;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* a connection is no longer busy, or a wake-up has ended */
    struct vp_list eps;     /* vp_ep.link */
    struct vp_list queue;   /* vp_conn.hs.link: waiting to ask their peer */
    struct vp_list accepts; /* vp_conn.hs.link: asked by their peer, which waits for the answer */
    struct vp_heap handshake_timers; /* vp_conn.hs.timer: waiting for the peer, or for a time */
    struct vp_list reaping;          /* vp_conn.hs.link: to be destroyed */
    struct vp_list probes;           /* vp_probe.link */
    struct vp_list wakes;            /* vp_ep.wake_link: owners to wake */
    struct vp_ep *waking;            /* the owner of this endpoint is being woken */
    unsigned int num_requests;       /* connections asked for, in total */
    unsigned int connecting;         /* handshakes in flight */
    unsigned int window;             /* limit for `connecting` */
    unsigned int handshake_ms;       /* recent duration of a handshake; 0: not known */
    uint64_t next_deadline;          /* earliest in `shaking` and `probes`, ms; 0: none */
    uint64_t sleeps_until;           /* when progress() wants to run next, ms; 0: no such time */
    uint64_t wrong_keys;             /* requests with a wrong key */
    /* used by progress() only: rate of refusals */
    uint64_t rejects_at;        /* ms: when refusals_left was computed */
    unsigned int rejects_left;  /* refusals left in the current burst */
    uint64_t read_paused_until; /* ms: end of a pause in reading the channel; 0: no pause */
};

static inline struct vp_prov *vp_prov(struct prov *prov)
{
    return vp_container_of(prov, struct vp_prov, base);
}

#endif
