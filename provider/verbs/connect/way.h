/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A way to agree on a connection: what cm.c and probe.c ask of it, and what they hear from it. Two
 * processes tell each other the numbers of their queue pairs, and that they are ready, by
 *   rdmacm   librdmacm, which needs an IP address on each port (rdmacm.c)
 *   ud       datagrams between queue pairs of type UD, whose address is published (udcm.c)
 * Both carry the same private data, and say the same where a process refuses, leaves or is silent.
 *
 * An id of a connection or a probe is opened by begin(), or comes with a request. Calls for one id
 * are made one at a time; those of different ids may be made by several threads.
 */
#ifndef VP_WAY_H
#define VP_WAY_H

#include <stdbool.h>
#include <stdint.h>

#include "verbs/conn_types.h"
#include "verbs/prov_types.h"

/* What a refused request means to the one who asked. */
enum vp_refusal {
    VP_REFUSED_NO_ENDPOINT = 1, /* this one and the next three: said by the peer's provider */
    VP_REFUSED_BY_CORE,
    VP_REFUSED_STRANGER,
    VP_REFUSED_BUSY,  /* also what the kernel says for it when it is overrun */
    VP_REFUSED_ALIVE, /* the answer to a probe */
    VP_REFUSED_DEAD,  /* nobody listens there */
};

enum vp_heard {
    VP_HEARD_OTHER,    /* nothing that matters */
    VP_HEARD_ADDRESS,  /* (active) the peer's address is resolved: route() is next */
    VP_HEARD_ROUTE,    /* (active) and so is the route to it: ask() is next */
    VP_HEARD_REQUEST,  /* a peer asks, or a probe */
    VP_HEARD_STRANGER, /* somebody without the key, who gets no answer */
    VP_HEARD_ANSWER,   /* (active) accepted: confirm() is next */
    VP_HEARD_READY,    /* (passive) the peer has confirmed */
    VP_HEARD_REFUSAL,  /* the request is refused, or the peer gave up */
    VP_HEARD_NO_WAY,   /* the address or the route could not be resolved */
    VP_HEARD_NOTHING,  /* no answer came */
    VP_HEARD_END,      /* the peer has disconnected */
    VP_HEARD_REMOVAL,  /* the device is gone */
};

struct vp_event {
    enum vp_heard what;
    struct vp_id *id;     /* whose; NULL: a request, or of a port */
    struct vp_port *port; /* of a request, a stranger or a removal */
    struct vp_id asks;    /* a request's: its owner copies it, and calls adopt() */
    struct vp_peer from;  /* a request's: where its origin listens */
    enum vp_refusal refusal;
    uint8_t rsp_resources, init_depth; /* a request's: what the origin asked for */
    struct vp_ece ece; /* a request's: what the origin offers; an answer's: what the peer uses */
    uint8_t size;      /* of the private data */
    uint8_t data[256];
};

struct vp_way {
    const char *name;
    bool tells_of_deaths; /* an event comes where the peer's process ends, however it does */

    /* Starts a handshake. 0: VP_HEARD_ADDRESS or VP_HEARD_NO_WAY comes; 1: ask() is next;
     * -ECONNREFUSED: the peer's process is known to be gone; or another -errno. */
    int (*begin)(struct vp_prov *prov, struct vp_id *id, struct vp_port *port,
                 const struct vp_peer *peer);
    /* 0: VP_HEARD_ROUTE or VP_HEARD_NO_WAY comes; -EXDEV, logged: it leads elsewhere; -errno. */
    int (*route)(struct vp_prov *prov, struct vp_id *id, const struct vp_port *port);
    /* Sends the request, or the answer to it, with id->ece; or says that the answer has come. 0 or
     * -errno. */
    int (*ask)(struct vp_id *id, struct rdma_conn_param *param);
    int (*answer)(struct vp_id *id, struct rdma_conn_param *param);
    int (*confirm)(struct vp_id *id);
    void (*refuse)(struct vp_id *id, enum vp_refusal refusal);
    /* A connection that was up: tells the peer, who hears VP_HEARD_END. */
    void (*disconnect)(struct vp_id *id);
    /* Forgets the id. A peer that waits for something is told that nothing comes. */
    void (*drop)(struct vp_id *id);
    /* Attributes for the change to attr->qp_state, as rdma_init_qp_attr() gives them. 0 or -errno:
     * the peer has given up meanwhile. */
    int (*qp_attr)(struct vp_id *id, struct ibv_qp_attr *attr, int *mask);
    /* The id of a request is this one from now on. */
    void (*adopt)(struct vp_id *id);
};

extern const struct vp_way vp_way_rdmacm, vp_way_ud;

/* Forgets an id, if it is open. */
static inline void vp_id_drop(struct vp_id *id)
{
    if (id->way)
        id->way->drop(id);
    id->way = NULL;
}

#endif
