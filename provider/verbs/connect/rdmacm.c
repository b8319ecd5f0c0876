/* SPDX-License-Identifier: Apache-2.0 */
/* Connection manager operations by librdmacm: see rdmacm.h. */
#include "rdmacm.h"

#include <errno.h>
#include <string.h>

#include "verbs/ports/address.h"
#include "verbs/ports/ece.h"
#include "verbs/ep_types.h"
#include "util/env.h"
#include "util/log.h"
#include "util/fd_check.h"

/* enum ib_cm_rej_reason: sent by the peer's kernel if no process listens. */
enum { REJ_INVALID_SERVICE_ID = 8 };

struct reject_msg {
    uint8_t magic[4];
    uint8_t reject_reason;
};

static const uint8_t reject_magic[4] = {'u', 'T', 'f', 'R'};

struct vp_cm_id vp_rdmacm_listener = {.kind = VP_CM_ID_LISTENER, .ops = &vp_rdmacm_ops};

static void reject_request(struct vp_cm_id *id, enum vp_reject_reason reject_reason)
{
    struct reject_msg msg = {.reject_reason = (uint8_t)reject_reason};

    if (ut_fd_were_closed())
        return;
    memcpy(msg.magic, reject_magic, sizeof(reject_magic));
    rdma_reject(id->cm, &msg, sizeof(msg));
}

enum vp_reject_reason vp_rdmacm_reject_reason(const struct rdma_cm_event *event)
{
    struct reject_msg msg;

    if (event->status == REJ_INVALID_SERVICE_ID || event->status == -ECONNREFUSED)
        return VP_REJ_DEAD;
    if (event->param.conn.private_data_len >= sizeof(msg)) {
        memcpy(&msg, event->param.conn.private_data, sizeof(msg));
        if (memcmp(msg.magic, reject_magic, sizeof(reject_magic)) == 0)
            return (enum vp_reject_reason)msg.reject_reason;
    }
    return VP_REJ_BUSY;
}

/* Sets the traffic_class of UTOFU_VERBS_CONNECT, or that of the port, before the route is
 * resolved. */
static void set_traffic_class(struct rdma_cm_id *id, const struct vp_port *port)
{
    uint64_t wanted = ut_env_num(UT_ENV_VERBS_TRAFFIC_CLASS);
    bool is_set = wanted <= UINT8_MAX;
    uint8_t traffic_class = (uint8_t)(is_set ? wanted : (uint64_t)port->traffic_class);

    if (!is_set && (port->gid_index < 0 || port->traffic_class < 0))
        return;
    if (rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &traffic_class,
                        sizeof(traffic_class)))
        ut_error(VP_CAT, "traffic class %u (%s) is not used: %s", traffic_class,
                 is_set ? "traffic_class of UTOFU_VERBS_CONNECT" : port->name, strerror(errno));
}

static int resolve_addr(struct vp_prov *prov, struct vp_cm_id *id, struct vp_port *port,
                        const struct vp_peer *peer)
{
    union vp_sockaddr from = port->addr, to = peer->ip;
    int timeout_ms = (int)prov->tuning.step_ms / 2;

    vp_set_ip_port(&from, 0);
    if (rdma_create_id(prov->channel, &id->cm, id, RDMA_PS_TCP))
        return -errno;
    id->ops = &vp_rdmacm_ops;
    set_traffic_class(id->cm, port);
    return rdma_resolve_addr(id->cm, &from.sa, &to.sa, timeout_ms) ? -errno : 0;
}

static int resolve_route(struct vp_prov *prov, struct vp_cm_id *id, const struct vp_port *port)
{
    const char *name = ibv_get_device_name(port->dev->context->device);

    if (!id->cm->verbs || strcmp(ibv_get_device_name(id->cm->verbs->device), name) != 0) {
        ut_error(VP_CAT, "the route from %s to a peer leads through another device", port->name);
        return -EXDEV;
    }
    return rdma_resolve_route(id->cm, (int)prov->tuning.step_ms / 2) ? -errno : 0;
}

static int connect_to_peer(struct vp_cm_id *id, struct rdma_conn_param *param)
{
    vp_ece_send(id->cm, &id->ece);
    return rdma_connect(id->cm, param) ? -errno : 0;
}

static int accept_peer(struct vp_cm_id *id, struct rdma_conn_param *param)
{
    vp_ece_send(id->cm, &id->ece);
    return rdma_accept(id->cm, param) ? -errno : 0;
}

static int establish_conn(struct vp_cm_id *id)
{
    return rdma_establish(id->cm) ? -errno : 0;
}

static void disconnect(struct vp_cm_id *id)
{
    if (!ut_fd_were_closed())
        rdma_disconnect(id->cm); /* fails if the peer disconnected first */
}

static void destroy_id(struct vp_cm_id *id)
{
    if (id->cm && !ut_fd_were_closed())
        rdma_destroy_id(id->cm);
    id->cm = NULL;
}

static int init_qp_attr(struct vp_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    return rdma_init_qp_attr(id->cm, attr, mask) ? -errno : 0;
}

static void set_owner(struct vp_cm_id *id)
{
    id->cm->context = id;
}

/*** events ***/

static enum vp_cm_event_type event_type_from(enum rdma_cm_event_type type)
{
    switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        return VP_CM_ADDR_RESOLVED;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        return VP_CM_ROUTE_RESOLVED;
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        return VP_CM_CONNECT_REQUEST;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        return VP_CM_CONNECT_RESPONSE;
    case RDMA_CM_EVENT_ESTABLISHED:
        return VP_CM_ESTABLISHED;
    case RDMA_CM_EVENT_REJECTED:
        return VP_CM_REJECTED;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
        return VP_CM_RESOLVE_ERROR;
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
        return VP_CM_UNREACHABLE;
    case RDMA_CM_EVENT_DISCONNECTED:
        return VP_CM_DISCONNECTED;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        return VP_CM_DEVICE_REMOVAL;
    default: /* address changes, end of time-wait */
        return VP_CM_OTHER;
    }
}

static struct vp_port *port_of_listener(struct vp_prov *prov, const struct rdma_cm_id *listener)
{
    for (unsigned int i = 0; i < prov->num_ports; i++)
        if (prov->ports[i].listener == listener)
            return &prov->ports[i];
    return NULL;
}

static void fill_connect_request(struct vp_prov *prov, const struct rdma_cm_event *raw,
                                 struct vp_cm_event *event)
{
    event->port = port_of_listener(prov, raw->listen_id);
    event->request_id =
        (struct vp_cm_id){.kind = VP_CM_ID_CONN, .ops = &vp_rdmacm_ops, .cm = raw->id};
    event->rsp_resources = raw->param.conn.responder_resources;
    event->init_depth = raw->param.conn.initiator_depth;
    memset(&event->from, 0, sizeof(event->from));
    memcpy(&event->from.ip, rdma_get_peer_addr(raw->id), sizeof(event->from.ip));
}

/* Takes the next event and acknowledges it, so that ids can be destroyed. */
bool vp_rdmacm_next(struct vp_prov *prov, struct vp_cm_event *event)
{
    struct rdma_cm_event *raw;

    if (!prov->channel || rdma_get_cm_event(prov->channel, &raw))
        return false;
    event->type = event_type_from(raw->event);
    event->id = event->type == VP_CM_CONNECT_REQUEST ? NULL : raw->id->context;
    event->port = NULL;
    event->ece = event->type == VP_CM_CONNECT_REQUEST || event->type == VP_CM_CONNECT_RESPONSE
                     ? vp_ece_received(raw->id)
                     : (struct vp_ece){0};
    event->size = raw->param.conn.private_data ? raw->param.conn.private_data_len : 0;
    if (event->size)
        memcpy(event->data, raw->param.conn.private_data, event->size);
    if (event->type == VP_CM_CONNECT_REQUEST)
        fill_connect_request(prov, raw, event);
    else if (event->type == VP_CM_REJECTED)
        event->reject_reason = vp_rdmacm_reject_reason(raw);
    if (event->id && event->id->kind == VP_CM_ID_LISTENER) {
        event->port = port_of_listener(prov, raw->id);
        event->id = NULL;
    }
    if (raw->status)
        ut_debug(VP_CAT, "%s, status %d", rdma_event_str(raw->event), raw->status);
    rdma_ack_cm_event(raw);
    return true;
}

const struct vp_cm_ops vp_rdmacm_ops = {
    .name = "rdmacm",
    .reports_peer_death = true,
    .resolve_addr = resolve_addr,
    .resolve_route = resolve_route,
    .connect = connect_to_peer,
    .accept = accept_peer,
    .establish = establish_conn,
    .reject = reject_request,
    .disconnect = disconnect,
    .destroy = destroy_id,
    .init_qp_attr = init_qp_attr,
    .set_owner = set_owner,
};
