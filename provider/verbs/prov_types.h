/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The provider, its devices and their ports: data that all files share.
 *
 * Who may touch what
 *   The fast path (posting, completions, receives) runs under the endpoint's lock, which its owner
 *   holds, and takes no other lock. prov->lock guards what the background thread and the owners
 *   share: the lists, a connection's phase, its pending events. The slow calls of a handshake run
 *   in progress() without it, with conn->hs.busy set: a busy connection is not taken apart.
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
    VP_KEY_BYTES = 7, /* what fits beside the rest into the 56 bytes of a request */
};

#define VP_CAT "verbs"

struct vp_ep;
struct vp_ud;
struct vp_calls;

/* Queue pairs of connections: see places.c. Under prov->lock. */
struct vp_places {
    unsigned int most,
        limit; /* this process may have; the latter less where a device has no more */
    unsigned int taken;
    unsigned int opening;   /* of these: of own handshakes, */
    unsigned int num_open;  /* in `open`, */
    unsigned int soon_free; /* and in `asked` */
    unsigned int kept;      /* asked in a row, and not given up; */
    unsigned int burst;     /* of these since the last pause */
    bool own_turn;          /* of `own` and `others` */
    struct vp_list open;    /* vp_conn.place_link: up, the least recently used first */
    struct vp_list asked;   /* vp_conn.place_link: asked to rest, or ending; the latest last */
    struct vp_list own;     /* vp_conn.hs_link: wait for a place to ask their peer, */
    struct vp_list others;  /* or to answer it */
    uint64_t look_at;       /* ms: none is asked before */
    uint64_t short_until;   /* ms: `limit` is less till then */
};

/* In which order a device places what arrives, and how that is known: see order.h. */
enum vp_order {
    VP_ORDER_UNKNOWN, /* the device promises nothing */
    VP_ORDER_UNASKED, /* libibverbs cannot ask */
    VP_ORDER_SAFE,    /* UTOFU_VERBS_ORDER=safe */
    VP_ORDER_TRUSTED, /* UTOFU_VERBS_ORDER=trust: as it was sent */
    VP_ORDER_PROMISED,
    VP_ORDER_SOFTWARE, /* rdma_rxe: its CPU copies packet by packet */
    VP_ORDER_128,      /* the device promises each aligned 128 bytes */
    VP_ORDER_RELAXED,  /* the memory keys have relaxed ordering: any */
};

/* The unit of order: so many bytes, aligned to as many, are placed in ascending order, and two
 * units in any order. The smaller the unit, the larger the number, which goes over the wire. */
enum vp_unit { VP_UNIT_WHOLE, VP_UNIT_128, VP_UNIT_64, VP_UNIT_WORD };

/* Enhancements of a connection: see ece.h. Options 0: none. */
struct vp_ece {
    uint32_t vendor_id, options;
};

/* Of struct ibv_device_attr: rdma_rxe, bnxt_re. */
enum { VP_VENDOR_RXE = 0xffffff, VP_VENDOR_BROADCOM = 0x14e4 };

/* Does the device raise IBV_EVENT_QP_LAST_WQE_REACHED behind the last receive of a queue pair? No
 * query says so. It does not mean that with bnxt_re, which raises it for each error that the
 * adapter reports of a queue pair with an SRQ, and for no other (Linux 6.12,
 * drivers/infiniband/hw/bnxt_re/ main.c, bnxt_re_handle_qp_async_event()). */
enum vp_last_wqe {
    VP_LAST_WQE_UNKNOWN,
    VP_LAST_WQE_RAISED,
    VP_LAST_WQE_NEVER,
    VP_LAST_WQE_NO_VERDICT,
};

struct vp_device {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_device_attr attr;
    unsigned int index;
    unsigned int max_inline; /* what a queue pair really takes */
    bool has_wr_api;         /* ibv_wr_start() and friends */
    uint8_t order;           /* enum vp_order */
    bool relaxed;            /* memory keys have relaxed ordering */
    bool has_srq;            /* and it is used */
    uint8_t last_wqe;        /* enum vp_last_wqe, under prov->lock */
    bool gone;               /* removed or fatally broken */
    struct vp_ece ece;       /* of its queue pairs */
    bool no_ece;             /* it refused what it had offered; by progress() */
    struct vp_places places;
};

/* IBV_ACCESS_RELAXED_ORDERING, which headers before rdma-core 28 lack. A kernel that does not know
 * it ignores it, as IBV_ACCESS_OPTIONAL_RANGE says. */
enum { VP_ACCESS_RELAXED = 1 << 20 };

/* What all memory keys of a device have. */
static inline int vp_key_flags(const struct vp_device *dev)
{
    return dev->relaxed ? VP_ACCESS_RELAXED : 0;
}

union vp_sockaddr {
    struct sockaddr sa;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

enum { VP_UD_KEY_BYTES = 16 };

/* Where a process takes datagrams: see ud.h. */
struct vp_ud_addr {
    union ibv_gid gid;
    uint16_t lid; /* 0: RoCE */
    uint32_t qpn, qkey;
    uint8_t key[VP_UD_KEY_BYTES]; /* in each datagram that it takes */
};

/* Where a peer listens. */
struct vp_peer {
    bool ud;              /* for datagrams; else at an address of librdmacm's */
    union vp_sockaddr ip; /* with its port number */
    struct vp_ud_addr at;
};

/* Bits behind the prefix are 0. */
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
    struct vp_network network;
    bool by_datagrams;        /* how its connections are made; */
    const struct vp_way *way; /* so, once the port is used */
    union vp_sockaddr addr;   /* with the port number that the listener got */
    struct rdma_cm_id *listener;
    int gid_index; /* -1: InfiniBand, whose address is not a GID's */
    /* for connections made by datagrams */
    struct vp_ud *ud; /* NULL: they are not */
    struct vp_ud_addr at;
    bool needs_grh; /* InfiniBand: LIDs do not suffice */
    uint8_t mtu;    /* enum ibv_mtu */
    uint16_t pkey_index;
    int16_t traffic_class; /* RoCE: of its connections, where none is set; -1: */
    uint8_t rdmacm_class;  /* that of librdmacm, which needs not be told */
    char name[80];
    /* only progress() touches these */
    uint64_t down_since; /* ms; 0: it is up */
    bool lost;           /* down for too long: so are its connections */
    bool no_address;     /* any more */
};

/* Why a port, or with number 0 a whole device, is not used. */
struct vp_port_refusal {
    char device[IBV_SYSFS_NAME_MAX];
    unsigned int port;
    char why[256];
};
enum { VP_MAX_REFUSALS = 64 };
struct vp_survey {
    unsigned int num_refusals;
    struct vp_port_refusal refusals[VP_MAX_REFUSALS];
};

/* Read once from the environment, then fitted to each device. */
struct vp_tuning {
    unsigned int sq_depth, srq_depth, rq_depth, inline_size, rd_atomic, max_connecting;
    unsigned int notice_apart; /* bytes from which a notice is a request of its own; 0: none */
    unsigned int max_qps;      /* 0: what the device has, shared by the processes of the host */
    unsigned int step_ms; /* for one step of a handshake, and between two looks at what is slow */
    uint8_t timeout, retry_count; /* as queue pairs want them */
};

struct vp_prov {
    struct prov base;
    struct prov_config config;
    struct vp_tuning tuning;
    struct vp_device devices[VP_MAX_DEVICES];
    unsigned int num_devices;
    struct vp_port ports[VP_MAX_PORTS];
    unsigned int num_ports;
    bool many_ports; /* the processes of a host use several: see PROV_LANDED */
    uint8_t key[VP_KEY_BYTES];
    uint8_t ud_key[VP_UD_KEY_BYTES]; /* begins with the other one */
    uint32_t qkey;
    struct {
        const struct vp_way *rdmacm, *ud;
        struct vp_id *listener; /* of rdmacm */
    } ways;
    struct rdma_event_channel *channel;
    struct vp_calls *calls;   /* handshakes by datagrams: udcm.c */
    struct vp_survey *survey; /* NULL but in vp_survey(): takes the reasons down */
    int epoll_fd, kick_fd;

    pthread_mutex_t lock;
    pthread_cond_t changed;  /* some connection is not busy any more, some wake-up is over */
    struct vp_list eps;      /* vp_ep.link */
    struct vp_list queue;    /* vp_conn.hs_link: wants to ask its peer */
    struct vp_list accepts;  /* vp_conn.hs_link: its peer has asked, and waits for the answer */
    struct vp_heap shaking;  /* vp_conn.hs_timer: waits for the peer, or for a time */
    struct vp_list reaping;  /* vp_conn.hs_link: to be destroyed */
    struct vp_list probes;   /* vp_probe.link */
    struct vp_list wakes;    /* vp_ep.wake_link: owners to wake */
    struct vp_ep *waking;    /* whose owner is being woken right now */
    unsigned int asked;      /* connections asked for so far */
    unsigned int connecting; /* handshakes in flight */
    unsigned int window;     /* how many may be */
    unsigned int took_ms;    /* what a handshake takes, as seen lately; 0: not yet */
    uint64_t next_deadline;  /* earliest in `shaking` and `probes`, ms; 0: none */
    uint64_t sleeps_until;   /* when progress() wants to run next, ms; 0: no such time */
    uint64_t strangers;      /* requests with a wrong key */
    /* only progress() touches these: how fast requests that lead to nothing are answered */
    uint64_t refused_at;        /* ms: when refusals_left was counted last */
    unsigned int refusals_left; /* before it is enough for now */
    uint64_t quiet_until;       /* ms: the channel is not looked at before; 0: it is */
};

static inline struct vp_prov *vp_prov(struct prov *prov)
{
    return vp_container_of(prov, struct vp_prov, base);
}

#endif
