/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the preloaded library: see client.c. */
#ifndef ADAPTER_CLIENT_H
#define ADAPTER_CLIENT_H

#include "proto.h"

#include <pthread.h>

#define EXPORT __attribute__((visibility("default")))

struct client {
    int sock, bell_fd;
    void *segment;
    struct ad_global *global;
    unsigned int users; /* contexts and event channels */
};

struct cl_cq {
    struct ibv_cq cq;
    pthread_mutex_t lock;
    struct ad_cq *ring;
    uint32_t comp_events, async_events; /* handed out */
};

struct cl_srq {
    struct ibv_srq srq;
    pthread_mutex_t lock;
    struct ad_ring *ring;
    uint32_t async_events;
};

struct cl_qp {
    struct ibv_qp_ex qpx; /* first, as callers have a pointer to it */
    pthread_mutex_t lock;
    struct ad_ring *sq, *rq;
    uint32_t max_inline;
    bool sig_all;
    /* ibv_wr_start() to ibv_wr_complete() */
    uint32_t built; /* the next entry */
    struct ad_wqe *wqe;
    int rc;
    uint32_t async_events;
};

extern struct client client;

/* Sends the request and waits for the answer, which replaces it; *fd: a descriptor attached to the
 * answer. Returns its errno. */
int cl_call(struct ad_msg *msg, int *fd);
/* Connects if there is an adapter; false: there is none. */
bool cl_connect(void);
void cl_used(int change);
void cl_ring(struct cl_qp *qp);
/* Waits until the queue of `fd` has an event, unless the descriptor does not block. */
bool cl_wait_readable(int fd);
/* Of the device that has this port of the adapter's process, and the port's number on it. */
struct ibv_context *cl_context_of_port(uint8_t *port);
/* Numbers of ports in what the adapter's process says: as the device has them. */
void cl_attr_of(struct ibv_context *context, struct ibv_qp_attr *attr);

static inline void *cl_at(uint64_t offset)
{
    return (char *)client.segment + offset;
}

/* client_verbs.c: of adapter_ece() */
void cl_ece(const struct ad_ece *can, uint32_t how);

/* client_data.c */
void cl_data_ops(struct ibv_context_ops *ops);
void cl_wr_ops(struct ibv_qp_ex *qpx);
void cl_counts(struct ad_counts *out);
void cl_cq_clean(struct ibv_cq *cq, uint32_t qpn);

#endif
