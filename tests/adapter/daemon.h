/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the adapter's process: see daemon.c. It has one thread. */
#ifndef ADAPTER_DAEMON_H
#define ADAPTER_DAEMON_H

#include "../../provider/verbs/list.h"
#include "proto.h"

#include <stddef.h>
#include <sys/types.h>

#define NS_PER_MS UINT64_C(1000000)

/*** timers ***/

struct timer {
    struct vp_list link;
    uint64_t at;
    void (*due)(struct timer *timer);
};

uint64_t now_ns(void);
void timer_init(struct timer *timer, void (*due)(struct timer *timer));
void timer_set(struct timer *timer, uint64_t at);
static inline void timer_stop(struct timer *timer)
{
    vp_list_remove(&timer->link);
}

/*** objects ***/

enum kind {
    K_CONTEXT,
    K_PD,
    K_MR,
    K_CHANNEL,
    K_CQ,
    K_SRQ,
    K_QP,
    K_AH,
    K_CM_CHANNEL,
    K_CM_ID,
    NUM_KINDS
};

enum { NUM_CLASSES = 40 };

struct proc {
    struct vp_list link;
    int sock;
    pid_t pid;
    void *segment;
    struct ad_bells *bells;
    uint64_t used;               /* of the segment */
    struct vp_list objects;      /* struct object.link */
    uint64_t *free[NUM_CLASSES]; /* free blocks of 1 << n bytes */
    uint32_t num_free[NUM_CLASSES];
};

struct object {
    struct vp_list link;
    enum kind kind;
    uint32_t handle;
    uint32_t users; /* number of objects made from it */
    uint64_t user;
    struct proc *proc;
    struct object *parent; /* the context, PD etc. that it is made from; NULL */
};

/* Events for the library; fd is readable while there are any. */
struct queue {
    int fd;
    struct vp_list events;
};

struct event {
    struct vp_list link;
    struct object *about;  /* dropped with this object; NULL: of the device */
    struct ad_cm_event cm; /* of a channel of the CM: */
    struct ad_cm_route route;
    struct object *child; /* a request's new id */
    uint32_t type, port;  /* other events */
};

void queue_open(struct queue *queue);
void queue_close(struct queue *queue);
struct event *queue_add(struct queue *queue, struct object *about);
struct event *queue_take(struct queue *queue);
void queue_purge(struct queue *queue, const struct object *about);

struct context {
    struct object base;
    uint32_t device; /* 0; or of two, each with one port, 1 */
    struct queue async;
};

struct mr {
    struct object base;
    uint64_t addr, size, iova;
    uint32_t access, key;
};

struct channel {
    struct object base;
    struct queue queue;
};

struct cq {
    struct object base;
    struct ad_cq *ring;
    struct channel *channel;
    struct context *context;
    uint64_t block, data_block; /* in the segment, to be freed */
    uint64_t size, data_size;
    bool overflowed;
};

struct srq {
    struct object base;
    struct ad_ring *ring;
    uint64_t block, size;
    uint32_t limit; /* event below this number of receives; 0: none */
    struct context *context;
};

struct ah {
    struct object base;
    struct ibv_ah_attr attr;
};

struct piece;

struct qp {
    struct object base;
    uint32_t qpn;
    enum ibv_qp_type type;
    struct ad_ring *sq, *rq;
    uint64_t block, size, rq_block, rq_size;
    struct cq *send_cq, *recv_cq;
    struct srq *srq;
    struct context *context;
    struct ibv_qp_attr attr; /* qp_state in it is also in sq->state */
    struct vp_list ready;    /* in the list of queue pairs with work */
    struct timer timer;      /* waits for an answer, or for a receive */
    uint8_t retries, rnr_retries;
    bool waits, established, holds;
    bool on_wire;          /* the request being executed has had its time there, */
    uint64_t left_wire;    /* and the latest of those was gone then; */
    bool follows;          /* this one was posted before */
    bool loaded;           /* the atomic being executed has read the word: */
    uint64_t found;        /* this */
    uint64_t held;         /* wr_id of a receive that it has taken for a message in flight */
    struct timer ending;   /* in the error state: until the last receive is reported */
    uint32_t executed;     /* number of requests, reported or not */
    struct piece **pieces; /* of writes that are not placed yet */
    uint32_t num_pieces, room_pieces;
    uint32_t *parts; /* number of pieces of each request, by its place in the ring */
    struct timer placing;
    struct {
        struct ad_ece can;
        uint32_t how; /* AD_ECE_... */
        bool is_set;
        uint32_t wanted; /* options, with is_set */
        uint32_t said;   /* result of ibv_query_ece() */
        uint32_t used;   /* from RTR on */
    } ece;
};

/* daemon_objects.c */
struct object *object_new(struct proc *proc, enum kind kind, size_t size, uint64_t user,
                          struct object *parent);
struct object *object_find(const struct proc *proc, uint32_t handle, enum kind kind);
void object_free(struct object *object);
int object_destroy(struct object *object);
uint64_t segment_alloc(struct proc *proc, uint64_t size);
void segment_free(struct proc *proc, uint64_t block, uint64_t size);
int verbs_request(struct proc *proc, struct ad_msg *msg, int *fd);
void async_event(struct context *context, struct object *about, uint32_t type, uint32_t port);
/* All completion queues or all shared receive queues. */
void queues_to_error(enum kind kind);
void async_event_to_all(uint32_t type, uint32_t port);
bool port_is_of(const struct context *context, uint8_t port);
struct qp *qp_find(uint32_t qpn);
struct mr *mr_find(uint32_t key);
struct proc *procs_first(void);
int receives_left(const struct proc *proc, uint32_t *count);
void enhanced(const struct proc *proc, uint32_t *options, uint32_t *count);
uint32_t count_regions(const struct proc *proc);
void classes_of(const struct proc *proc, uint32_t *classes, uint32_t *count);

/* daemon_datagram.c */
uint8_t port_at(const struct ibv_ah_attr *attr);
/* Is there a way from one port to the other? 0: no port. */
bool ports_reach(uint8_t from, uint8_t to);
bool is_let_through(const struct ibv_ah_attr *attr);
bool share_partition(const struct qp *a, const struct qp *b);
bool send_datagram(struct qp *qp, const struct ad_wqe *w, const void *data, uint32_t size);

/* daemon_transport.c */
bool receive_datagram(struct qp *to, const struct ibv_wc *wc, const void *data, uint32_t size,
                      bool solicited);
void qp_ready(struct qp *qp);
bool run_ready(void);
void qp_init(struct qp *qp);
void qp_has_rings(struct qp *qp);
void qp_to_error(struct qp *qp);
void qp_reset(struct qp *qp);
void qp_gone(struct qp *qp);
/* Do data of any WRITE wait to be placed? */
bool pieces_wait(void);
/* Places the data that wait, if any of them are for memory with this key. */
void qp_place_all_of(struct qp *qp, uint32_t rkey);
void qp_set_state(struct qp *qp, enum ibv_qp_state state);
/* What is on the wire arrives now. */
void wires_end(void);

/* daemon_cm.c */
int cm_request(struct proc *proc, struct ad_msg *msg, int *fd);
void cm_destroy(struct object *object);
void cm_channel_destroy(struct object *object);

/* daemon_profile.c */
struct profile {
    struct ad_device device;
    bool raises_last_wqe;  /* IBV_EVENT_QP_LAST_WQE_REACHED */
    bool raises_at_error;  /* the same event for each error, whatever is still to be reported */
    bool raises_qp_errors; /* the responder's QP_ACCESS_ERR and QP_REQ_ERR */
    bool errors_notify;    /* a failed completion wakes who waits for solicited ones */
    bool reorders;         /* WRITEs pass each other */
    bool one_fabric; /* LIDs of other ports are reached; else there is no route between ports */
    uint32_t unit;   /* bytes, aligned to as many, that are placed by themselves; 0: packets are */
    bool words_of_rxe; /* for what is wrong in a request or receive itself */
    bool switched;     /* all ports reach each other */
    bool bonded;       /* the port is a bond of two links */
};
extern struct profile profile;
bool profile_choose(const char *name);
void profile_list(void);
bool read_number(const char *text, uint64_t *number);
bool fault_parse(const char *text);
int fault_set(uint32_t what, uint32_t count);
bool fault_hits(enum ad_fault what); /* consumes one of those left */
uint8_t fault_sl(void);              /* of all paths; 0: any */
uint64_t fault_late_ms(void);
uint64_t fault_last_late_ms(void);
bool fault_holds(uint32_t wire); /* from 1 on: a port, or a link of a bond */
bool fault_cuts(uint32_t wire);
uint64_t fault_rate(void); /* bytes a millisecond; 0: no limit */
bool fault_is_silent(void);
void fault_new_process(const struct proc *proc);
uint32_t random_below(uint32_t n);
void random_seed(uint64_t seed);

extern struct vp_list all_procs;

#endif
