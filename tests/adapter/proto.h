/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the software adapter's library (client*.c, preloaded) and its process (daemon*.c): the
 * requests over the control socket, and the layout of queues in the memory that both have mapped.
 */
#ifndef ADAPTER_PROTO_H
#define ADAPTER_PROTO_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#define AD_SOCKET_VARIABLE "UT_ADAPTER_SOCKET" /* name of an abstract socket */

enum {
    AD_AF_IB = 27, /* AF_IB, which not every header has */
    AD_MAX_PORTS = 2,
    AD_FIRST_IFINDEX = 1000, /* of the first port's network interface */
    AD_MAX_GIDS = 4,
    AD_MAX_PKEYS = 2,
    AD_PRIVATE_MOST = 224,
    AD_BELLS = 1 << 16, /* entries of a process's ring of doorbells; one per QP */
    AD_REQ_DATA = 56,   /* private data in the CM's messages, after rdma_cm's header */
    AD_REP_DATA = 196,
    AD_REJ_DATA = 148,
    AD_GRH = 40,             /* bytes before a datagram's data, at its receiver */
    AD_FULL_MEMBER = 0x8000, /* of a partition, in its P_Key */
};

/* A process's segment: allocated by the daemon, sparse. Objects are named by their offset in it. */
#define AD_SEGMENT (UINT64_C(4) << 30)

/*** queues ***/

struct ad_wqe {
    uint64_t wr_id, remote_addr, compare_add, swap;
    uint32_t opcode, flags, rkey, imm;
    uint32_t num_sge, inline_size;
    uint32_t ah, remote_qpn, qkey; /* of a datagram */
    uint32_t unused;
    /* then the inline data, or struct ibv_sge */
};

struct ad_rwqe {
    uint64_t wr_id;
    uint32_t num_sge, unused;
    /* then struct ibv_sge */
};

/* A send, receive or shared receive queue. head and tail only grow; size is a power of two. */
struct ad_ring {
    uint32_t head;  /* written by the library: posted */
    uint32_t tail;  /* written by the daemon: finished */
    uint32_t limit; /* number of entries that may be posted */
    uint32_t mask, stride;
    uint32_t max_sge;
    uint32_t rings; /* send queue: already in the ring of doorbells */
    uint32_t state; /* send queue: enum ibv_qp_state */
    uint64_t data;  /* offset of the entries in the segment */
};

enum { AD_ARM_NONE, AD_ARM_SOLICITED, AD_ARM_ANY };

struct ad_cq {
    uint32_t head; /* written by the daemon */
    uint32_t tail; /* written by the library */
    uint32_t limit, mask;
    uint32_t armed; /* AD_ARM_... */
    uint32_t unused;
    uint64_t data; /* offset of struct ibv_wc[] */
};

/* At the start of each segment. */
struct ad_bells {
    uint32_t head, tail;
    uint32_t posts_to_go; /* AD_FAULT_POST: posts until one fails; 0: none does */
    uint32_t qpns[AD_BELLS];
};

/* One for all processes: does the daemon sleep? */
struct ad_global {
    uint32_t asleep;
};

/** * properties of the adapter ** */

struct ad_port {
    struct ibv_port_attr attr;
    uint32_t active_speed_ex; /* of rdma-core 50; 0: active_speed says it */
    uint32_t ipoib;           /* IPv4 address of its network interface, network order; 0: none */
    struct ibv_gid_entry gids[AD_MAX_GIDS];
    uint32_t num_gids;
    uint32_t elsewhere; /* bits: GIDs of interfaces in other network namespaces */
    char netdev[16];    /* its network interface; empty: none */
    uint16_t pkeys[AD_MAX_PKEYS];
};

/* Enhancements of a connection (ECE): those that a queue pair supports, or is to use, in words of
 * its vendor. */
struct ad_ece {
    uint32_t vendor_id, options;
};

/* Values of rdma-core 47 (libibverbs/verbs.h): a flag, and capabilities. */
enum { AD_RETURN_CAPS = 1, AD_WHOLE_MSG = 1, AD_ALIGNED_128_BYTES = 2 };

struct ad_device {
    char name[32];
    char other[32]; /* of a second device, which has the second port; empty: there is one device */
    struct ibv_device_attr attr;
    struct ibv_device_attr other_attr; /* of the second device, if max_qp is not 0 */
    uint32_t other_inline;
    struct ad_port ports[AD_MAX_PORTS];
    uint32_t max_inline;
    bool has_wr_api, has_resize;
    bool drops_on_destroy;  /* unpolled completions of a QP are dropped with it */
    bool takes_any_memory;  /* even if the CPU cannot access it */
    bool shares_pages;      /* registered ones with children, until ibv_fork_init() */
    uint32_t data_in_order; /* capabilities of ibv_query_qp_data_in_order() */
    bool only_relaxed_keys; /* registration with other keys is refused */
    struct ad_ece ece;      /* of queue pairs; vendor_id 0: not supported */
};

/* Where adapter_ece()'s queue pairs fail: nowhere, in ibv_set_ece(), or in ibv_modify_qp(). */
enum { AD_ECE_WORKS, AD_ECE_REFUSES, AD_ECE_FAILS };

/* Faults: see --help. */
enum ad_fault {
    AD_FAULT_POST,        /* the n-th post fails: counted by the library */
    AD_FAULT_CREATE,      /* the n-th call that makes an object has no memory */
    AD_FAULT_ADDR,        /* n addresses are not resolved */
    AD_FAULT_ROUTE,       /* n routes are not resolved */
    AD_FAULT_CONNECT,     /* n requests end in CONNECT_ERROR */
    AD_FAULT_UNKNOWN,     /* every n-th WRITE or atomic is executed and ends with RETRY_EXC */
    AD_FAULT_SILENCE,     /* nothing arrives for n ms */
    AD_FAULT_PORT,        /* the first port is down for n ms, 0: is up */
    AD_FAULT_DEVICE,      /* the device fails */
    AD_FAULT_QUEUES,      /* n=1: completion queues are in error, 2: shared receive queues */
    AD_FAULT_GID,         /* the first port lacks its IPv4 address for n ms */
    AD_FAULT_PEERMEM,     /* 1: memory is registered that the CPU cannot reach */
    AD_FAULT_PLACED_LATE, /* what is acknowledged is in memory n ms later, or behind a READ */
    AD_FAULT_FORK,  /* 1: as kernels before 5.12, which share registered pages with children */
    AD_FAULT_LOSS,  /* every n-th datagram is lost, */
    AD_FAULT_TWICE, /* arrives twice, */
    AD_FAULT_LATE,  /* or late, behind others */
    AD_FAULT_LID,   /* the first port has another LID for n ms, 0: its own */
    AD_FAULT_SL,    /* InfiniBand: packets of other service levels than n are lost, 0: of none */
    AD_FAULT_LAST_LATE, /* LAST_WQE_REACHED is raised n ms later */
    AD_FAULT_RATE,      /* each port moves n KB a second in each direction, 0: has no limit */
    AD_FAULT_HOLD,      /* requests by the n-th port wait, 0: by none */
    AD_FAULT_CUT,       /* requests by the n-th port end with RETRY_EXC, 0: by none, 99: by any */
    AD_NUM_FAULTS
};

/* The requests of a process: adapter_counts(). */
enum { AD_NUM_OPCODES = 8 };
struct ad_counts {
    uint64_t opcodes[AD_NUM_OPCODES]; /* requests, by enum ibv_wr_opcode */
    uint64_t signalled, inlined, fenced, solicited;
    uint64_t doorbells;          /* number of calls that post requests */
    uint64_t completions, recvs; /* polled, of requests and of receives */
};

/*** requests ***/

enum ad_op {
    AD_HELLO,
    AD_QUERY,
    AD_OPEN,
    AD_CLOSE,
    AD_ALLOC_PD,
    AD_REG_MR,
    AD_CREATE_CHANNEL,
    AD_CREATE_CQ,
    AD_RESIZE_CQ,
    AD_CREATE_SRQ,
    AD_MODIFY_SRQ,
    AD_CREATE_QP,
    AD_MODIFY_QP,
    AD_QUERY_QP,
    AD_SET_ECE,
    AD_QUERY_ECE,
    AD_ENHANCED, /* the process's queue pairs that are ready to send: number, and options */
    AD_CREATE_AH,
    AD_DESTROY, /* a PD, MR, channel, CQ, SRQ, QP or AH */
    AD_GET_COMP,
    AD_GET_ASYNC,
    AD_CM_CHANNEL,
    AD_CM_CREATE,
    AD_CM_BIND,
    AD_CM_LISTEN,
    AD_CM_RESOLVE_ADDR,
    AD_CM_RESOLVE_ROUTE,
    AD_CM_CONNECT,
    AD_CM_ACCEPT,
    AD_CM_ESTABLISH,
    AD_CM_REJECT,
    AD_CM_DISCONNECT,
    AD_CM_QP_ATTR,
    AD_CM_GET_EVENT,
    AD_CM_TOS,
    AD_CM_DESTROY,
    AD_FAULT,
    AD_CLASSES,  /* all traffic classes of those queue pairs */
    AD_REGIONS,  /* how many memory regions the process has: fault.count */
    AD_RECEIVES, /* how many wait in the process's SRQs: fault.count */
    AD_NUM_OPS
};

struct ad_cm_param {
    uint32_t qp_num;
    uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count, srq, data_size;
    struct ad_ece ece;
    uint8_t data[AD_PRIVATE_MOST];
};

struct ad_cm_event {
    uint32_t type;
    int32_t status;
    uint64_t user;      /* the library's id, or its listener's for a request */
    uint32_t new_child; /* request: handle of the new id */
    struct ad_cm_param param;
};

/* The binding of an id, in every answer about ids. */
struct ad_cm_route {
    struct sockaddr_storage src, dst;
    uint8_t port_num; /* 0: none yet */
    uint16_t dlid;    /* InfiniBand, once the route is resolved */
    uint8_t sl;
};

/* A request and its answer have the same form. */
struct ad_msg {
    uint32_t op;
    int32_t err;     /* answer: 0 or an errno */
    uint32_t handle; /* of the object: its own, or of the one that it is made from; AD_OPEN: which
                      * device, from 0 on */
    uint32_t pad;
    uint64_t user; /* the library's object */
    union {
        struct ad_device device;
        struct {
            uint64_t addr, size, iova;
            uint32_t access, key;
        } mr;
        struct {
            uint32_t cqe, channel;
            uint64_t offset;
        } cq;
        struct {
            struct ibv_srq_attr attr;
            uint32_t mask;
            uint64_t offset;
        } srq;
        struct {
            struct ibv_qp_cap cap;
            uint32_t send_cq, recv_cq, srq, type, sig_all, qpn;
            struct ad_ece ece;
            uint32_t ece_how; /* AD_ECE_... */
            uint64_t sq, rq;
        } qp;
        struct {
            struct ibv_qp_attr attr;
            uint32_t mask;
        } modify;
        struct ad_ece ece;
        struct ibv_ah_attr ah;
        struct {
            uint64_t user;
            uint32_t type, port;
        } event;
        struct {
            struct sockaddr_storage src, dst;
            uint32_t number; /* backlog or timeout */
            struct ad_cm_param param;
            struct ad_cm_route route;
        } cm;
        struct {
            struct ad_cm_event event;
            struct ad_cm_route route;
        } got;
        struct {
            uint32_t what, count;
        } fault;
    };
};

/* Loads and stores of data that the other side writes. */
#define AD_LOAD(x)     __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define AD_STORE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELEASE)

static inline void *ad_entry(void *segment, const struct ad_ring *ring, uint32_t index)
{
    return (char *)segment + ring->data + (uint64_t)(index & ring->mask) * ring->stride;
}

#endif
