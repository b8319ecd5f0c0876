/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A way to agree on a connection: the calls of cm.c and probe.c, and the events for them. Two
 * processes exchange the numbers of their queue pairs, and that they are ready, by
 *   rdmacm   librdmacm, which needs an IP address on each port (rdmacm.c)
 *   ud       datagrams between queue pairs of type UD, whose address is published (udcm.c)
 * Both carry the same private data, and report a refusal, an end or silence in the same way.
 *
 * An id of a connection or a probe is opened by resolve_addr(), or comes with a request. Calls for
 * one id are made one at a time; those of different ids may be made by several threads.
 */
#ifndef VP_CM_OPS_H
#define VP_CM_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "verbs/conn_types.h"
#include "verbs/prov_types.h"

/* What a refusal means to the origin of the request. */
enum vp_reject_reason {
    VP_REJ_NO_ENDPOINT = 1, /* this one and the next three are sent by the peer's provider */
    VP_REJ_BY_CORE,
    VP_REJ_WRONG_KEY,
    VP_REJ_BUSY,  /* also sent by the kernel when it is overrun */
    VP_REJ_ALIVE, /* the answer to a probe */
    VP_REJ_DEAD,  /* nobody listens there */
};

enum vp_cm_event_type {
    VP_CM_OTHER,            /* ignored */
    VP_CM_ADDR_RESOLVED,    /* (active) the peer's address is resolved: resolve_route() is next */
    VP_CM_ROUTE_RESOLVED,   /* (active) the route is resolved: connect() is next */
    VP_CM_CONNECT_REQUEST,  /* a peer's request, or a probe */
    VP_CM_WRONG_KEY,        /* a request without the key, which is not answered */
    VP_CM_CONNECT_RESPONSE, /* (active) accepted: establish() is next */
    VP_CM_ESTABLISHED,      /* (passive) the peer has confirmed */
    VP_CM_REJECTED,         /* the request is refused, or the peer gave up */
    VP_CM_RESOLVE_ERROR,    /* the address or the route could not be resolved */
    VP_CM_UNREACHABLE,      /* no answer came */
    VP_CM_DISCONNECTED,     /* the peer has disconnected */
    VP_CM_DEVICE_REMOVAL,   /* the device is gone */
};

struct vp_cm_event {
    enum vp_cm_event_type type;
    struct vp_cm_id *id;        /* of the handshake; NULL: the event is a request, or of a port */
    struct vp_port *port;       /* of a request, a stranger or a removal */
    struct vp_cm_id request_id; /* of a request: its owner copies it and calls set_owner() */
    struct vp_peer from;        /* of a request: where its origin listens */
    enum vp_reject_reason reject_reason;
    uint8_t rsp_resources, init_depth; /* of a request: what the origin asked for */
    struct vp_ece ece; /* of a request: the origin's offer; of an answer: the peer's choice */
    uint8_t size;      /* of the private data */
    uint8_t data[256];
};

struct vp_cm_ops {
    const char *name;
    bool reports_peer_death; /* an event reports every end of the peer's process */

    /* Starts a handshake. 0: VP_CM_ADDR_RESOLVED or VP_CM_RESOLVE_ERROR follows; 1: connect() is
     * next; -ECONNREFUSED: the peer's process is known to be gone; or -errno. */
    int (*resolve_addr)(struct vp_prov *prov, struct vp_cm_id *id, struct vp_port *port,
                        const struct vp_peer *peer);
    /* 0: VP_CM_ROUTE_RESOLVED or VP_CM_RESOLVE_ERROR follows; -EXDEV, logged: through another
     * device; -errno.
     */
    int (*resolve_route)(struct vp_prov *prov, struct vp_cm_id *id, const struct vp_port *port);
    /* connect() sends the request and accept() the answer, with id->ece; establish() says that the
     * answer has arrived. 0 or -errno. */
    int (*connect)(struct vp_cm_id *id, struct rdma_conn_param *param);
    int (*accept)(struct vp_cm_id *id, struct rdma_conn_param *param);
    int (*establish)(struct vp_cm_id *id);
    void (*reject)(struct vp_cm_id *id, enum vp_reject_reason reject_reason);
    /* Ends a connection that was up: the peer gets VP_CM_DISCONNECTED. */
    void (*disconnect)(struct vp_cm_id *id);
    /* Forgets the id. A waiting peer is told that nothing follows. */
    void (*destroy)(struct vp_cm_id *id);
    /* Attributes for the change to attr->qp_state, as rdma_init_qp_attr() gives them. 0, or -errno:
     * the peer has given up meanwhile. */
    int (*init_qp_attr)(struct vp_cm_id *id, struct ibv_qp_attr *attr, int *mask);
    /* The id of a request has moved here. */
    void (*set_owner)(struct vp_cm_id *id);
};

extern const struct vp_cm_ops vp_rdmacm_ops, vp_udcm_ops;

/* Forgets an id if it is open. */
static inline void vp_cm_id_destroy(struct vp_cm_id *id)
{
    if (id->ops)
        id->ops->destroy(id);
    id->ops = NULL;
}

#endif
