/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connection manager operations, called by the state machine of handshakes and by the probe, and
 * their events. Two processes exchange the numbers of their queue pairs, and confirm that these are
 * ready, by
 *   rdmacm   librdmacm, which needs an IP address on each port (rdmacm.c)
 *   ud       datagrams between UD queue pairs, whose addresses are published (udcm.c)
 * Both carry the same private data, and report rejects, disconnects and silence by the same events.
 *
 * An id of a connection or a probe is opened by resolve_addr(), or arrives with a connect request.
 * Calls for one id are made one at a time; several threads may call for different ids.
 */
#ifndef VP_CM_OPS_H
#define VP_CM_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "verbs/conn_types.h"
#include "verbs/prov_types.h"

/* Reason of a reject, for the origin of the request. */
enum vp_reject_reason {
    VP_REJ_NO_ENDPOINT = 1, /* sent by the peer's provider, as the next three */
    VP_REJ_BY_CORE,
    VP_REJ_WRONG_KEY,
    VP_REJ_BUSY,  /* also sent by a kernel that is overrun */
    VP_REJ_ALIVE, /* reply to a probe */
    VP_REJ_DEAD,  /* no process listens there */
};

enum vp_cm_event_type {
    VP_CM_OTHER,            /* to be ignored */
    VP_CM_ADDR_RESOLVED,    /* (active) the peer's address is resolved; next: resolve_route() */
    VP_CM_ROUTE_RESOLVED,   /* (active) the route is resolved; next: connect() */
    VP_CM_CONNECT_REQUEST,  /* a connect request or a probe of a peer */
    VP_CM_WRONG_KEY,        /* a request with a wrong key, which gets no reply */
    VP_CM_CONNECT_RESPONSE, /* (active) the peer accepted; next: establish() */
    VP_CM_ESTABLISHED,      /* (passive) the peer has confirmed the connection */
    VP_CM_REJECTED,         /* the peer rejected the request, or gave up */
    VP_CM_RESOLVE_ERROR,    /* the address or the route was not resolved */
    VP_CM_UNREACHABLE,      /* no reply came */
    VP_CM_DISCONNECTED,     /* the peer has disconnected */
    VP_CM_DEVICE_REMOVAL,   /* the device is gone */
};

struct vp_cm_event {
    enum vp_cm_event_type type;
    struct vp_cm_id *id;        /* the handshake; NULL: a request, or an event of a port */
    struct vp_port *port;       /* of a request, a wrong key or a removal */
    struct vp_cm_id request_id; /* of a request; the owner copies it and calls set_owner() */
    struct vp_peer from;        /* of a request: address at which the origin listens */
    enum vp_reject_reason reject_reason;
    uint8_t rsp_resources, init_depth; /* of a request: values that the origin requested */
    struct vp_ece ece; /* of a request: the origin's offer; of a response: the peer's choice */
    uint8_t size;      /* size of the private data */
    uint8_t data[256];
};

struct vp_cm_ops {
    const char *name;
    bool reports_peer_death; /* an event reports every death of a peer's process */

    /* Starts a handshake. Returns 0: VP_CM_ADDR_RESOLVED or VP_CM_RESOLVE_ERROR follows; 1:
     * connect() is next; -ECONNREFUSED: the peer's process has ended; or -errno. */
    int (*resolve_addr)(struct vp_prov *prov, struct vp_cm_id *id, struct vp_port *port,
                        const struct vp_peer *peer);
    /* Returns 0: VP_CM_ROUTE_RESOLVED or VP_CM_RESOLVE_ERROR follows; -EXDEV (logged): the route
     * leads through another device; or -errno. */
    int (*resolve_route)(struct vp_prov *prov, struct vp_cm_id *id, const struct vp_port *port);
    /* connect() sends the request, accept() sends the reply, each with id->ece; establish()
     * confirms the reply. Return 0 or -errno. */
    int (*connect)(struct vp_cm_id *id, struct rdma_conn_param *param);
    int (*accept)(struct vp_cm_id *id, struct rdma_conn_param *param);
    int (*establish)(struct vp_cm_id *id);
    void (*reject)(struct vp_cm_id *id, enum vp_reject_reason reject_reason);
    /* Closes a connection that was up: the peer gets VP_CM_DISCONNECTED. */
    void (*disconnect)(struct vp_cm_id *id);
    /* Destroys the id. Rejects a waiting peer. */
    void (*destroy)(struct vp_cm_id *id);
    /* Fills in the attributes for the transition to attr->qp_state, as rdma_init_qp_attr(). Returns
     * 0, or -errno: the peer has given up. */
    int (*init_qp_attr)(struct vp_cm_id *id, struct ibv_qp_attr *attr, int *mask);
    /* Tells that the id of a request has moved to this address. */
    void (*set_owner)(struct vp_cm_id *id);
};

extern const struct vp_cm_ops vp_rdmacm_ops, vp_udcm_ops;

/* Destroys an id if it is open. */
static inline void vp_cm_id_destroy(struct vp_cm_id *id)
{
    if (id->ops)
        id->ops->destroy(id);
    id->ops = NULL;
}

#endif
