/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connection management: the ids of rdma_cm, their states and the messages between them. The kernel
 * of the one host is at both ends: a message is delivered at once, except while the wire is silent;
 * then a timer delivers it again, as the kernel would repeat it.
 */
#include "daemon.h"

#include <errno.h>
#include <infiniband/ib.h>
#include <string.h>
#include <stdlib.h>
#include <sys/eventfd.h>

enum {
    FIRST_PORT = 32768,
    LAST_PORT = 60999,
    ANSWER_MS = 68719,      /* 16 times 4.3 s, as the kernel waits for an answer */
    REPEAT_MS = 4295,       /* interval of repeated messages */
    REPEAT_SILENT_MS = 100, /* a shorter one, for tests of silence */
    /* of enum ib_cm_rej_reason */
    REJ_TIMEOUT = 4,
    REJ_INVALID_SERVICE_ID = 8,
    REJ_STALE_CONN = 10,
    REJ_CONSUMER_DEFINED = 28,
};

enum step {
    IDLE,
    BOUND,
    LISTENS,
    RESOLVED,
    ROUTED,
    REQ_SENT,
    REQ_RCVD,
    REP_SENT,
    REP_RCVD,
    ESTABLISHED,
    DREQ_SENT,
    DREQ_RCVD,
    OVER, /* rejected, timed out, or in time-wait */
};

struct cm_channel {
    struct object base;
    struct queue queue;
};

struct cm_id {
    struct object base;
    struct vp_list all; /* of ids */
    struct cm_channel *channel;
    enum step step;
    struct ad_cm_route route;
    struct cm_id *peer;        /* the other end, while it has this id as its peer */
    struct cm_id *listener;    /* of an id whose request was not fetched yet */
    bool known;                /* false: made by a request that was not accepted yet; no events */
    uint32_t backlog, waiting; /* of a listener: requests that were not fetched yet */
    uint32_t qpn, remote_qpn;
    uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count;
    struct ad_cm_param param; /* of the message that is repeated */
    struct timer timer;
    uint64_t give_up_at;
    uint8_t mtu; /* of the port that the request comes from (RoCE), or of the path (InfiniBand) */
    uint8_t tos; /* which the request carries as the traffic class of the path */
};

static struct vp_list ids = {&ids, &ids};

/*** addresses ***/

static uint16_t *port_of(struct sockaddr_storage *addr)
{
    return addr->ss_family == AF_INET6 ? &((struct sockaddr_in6 *)addr)->sin6_port
                                       : &((struct sockaddr_in *)addr)->sin_port;
}

static bool is_gid_of(const struct ibv_gid_entry *entry, const struct sockaddr_storage *addr)
{
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
    const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
    const struct sockaddr_ib *ib = (const struct sockaddr_ib *)addr;

    if (addr->ss_family == AD_AF_IB)
        return entry->gid_type == IBV_GID_TYPE_IB && memcmp(entry->gid.raw, &ib->sib_addr, 16) == 0;
    if (entry->gid_type == IBV_GID_TYPE_IB)
        return false; /* not such an address */
    if (addr->ss_family == AF_INET6)
        return memcmp(entry->gid.raw, &in6->sin6_addr, 16) == 0;
    return addr->ss_family == AF_INET && entry->gid.raw[10] == 0xff && entry->gid.raw[0] == 0 &&
           memcmp(entry->gid.raw + 12, &in->sin_addr, 4) == 0;
}

/* IPoIB: the address of a network interface, not of the table of GIDs. */
static bool is_ipoib_of(const struct ad_port *port, const struct sockaddr_storage *addr)
{
    return port->ipoib && addr->ss_family == AF_INET &&
           ((const struct sockaddr_in *)addr)->sin_addr.s_addr == port->ipoib;
}

/* The port whose address it is, and its GID; 0: none. */
static uint8_t find_port(const struct sockaddr_storage *addr, uint8_t *gid_index)
{
    for (int p = 0; p < profile.device.attr.phys_port_cnt; p++) {
        const struct ad_port *port = &profile.device.ports[p];
        for (uint32_t i = 0; i < port->num_gids; i++) {
            if (!(is_gid_of(&port->gids[i], addr) && !(port->elsewhere & 1u << i)) &&
                !is_ipoib_of(port, addr))
                continue;
            if (gid_index)
                *gid_index = (uint8_t)i;
            return (uint8_t)(p + 1);
        }
    }
    return 0;
}

static bool same_ip(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    uint8_t x = 255, y = 255;

    return find_port(a, &x) && find_port(a, &x) == find_port(b, &y) && x == y;
}

static bool is_taken(const struct sockaddr_storage *addr)
{
    for (struct vp_list *l = ids.next; l != &ids; l = l->next) {
        struct cm_id *id = vp_container_of(l, struct cm_id, all);
        if ((id->step == BOUND || id->step == LISTENS) && same_ip(&id->route.src, addr) &&
            *port_of(&id->route.src) == *port_of((struct sockaddr_storage *)(uintptr_t)addr))
            return true;
    }
    return false;
}

static uint16_t some_port(void)
{
    static uint16_t next = FIRST_PORT;

    next = next >= LAST_PORT ? FIRST_PORT : next + 1;
    return htons(next);
}

static int bind_to(struct cm_id *id, const struct sockaddr_storage *addr)
{
    uint8_t port = find_port(addr, NULL);

    if (!port)
        return ENODEV;
    id->route.src = *addr;
    if (addr->ss_family == AD_AF_IB) { /* no requests are made with these: it has no port number */
        id->route.port_num = port;
        return 0;
    }
    if (*port_of(&id->route.src)) {
        if (is_taken(&id->route.src))
            return EADDRINUSE;
    } else {
        do
            *port_of(&id->route.src) = some_port();
        while (is_taken(&id->route.src));
    }
    id->route.port_num = port;
    return 0;
}

/*** events ***/

static struct event *tell(struct cm_id *id, enum rdma_cm_event_type type, int status)
{
    if (!id->known)
        return NULL; /* the program does not know it yet */
    struct event *event = queue_add(&id->channel->queue, &id->base);
    event->cm = (struct ad_cm_event){.type = type, .status = status, .user = id->base.user};
    event->route = id->route;
    return event;
}

/* With the private data of the message, which always has its full size. */
static void tell_data(struct cm_id *id, enum rdma_cm_event_type type, int status,
                      const struct ad_cm_param *param, uint8_t size)
{
    struct event *event = tell(id, type, status);

    if (!event)
        return;
    event->cm.param = *param;
    event->cm.param.data_size = size;
}

static void repeat_later(struct cm_id *id)
{
    timer_set(&id->timer,
              now_ns() + (fault_is_silent() ? REPEAT_SILENT_MS : REPEAT_MS) * NS_PER_MS);
}

static void wait_for_answer(struct cm_id *id)
{
    id->give_up_at = now_ns() + ANSWER_MS * NS_PER_MS;
    repeat_later(id);
}

static void over(struct cm_id *id)
{
    id->step = OVER;
    id->remote_qpn = 0;
    timer_stop(&id->timer);
}

static void unlink_peer(struct cm_id *id)
{
    if (id->peer)
        id->peer->peer = NULL;
    id->peer = NULL;
}

/*** messages ***/

static void got_rej(struct cm_id *id, int reason, const struct ad_cm_param *param)
{
    static const struct ad_cm_param none;

    over(id);
    tell_data(id, RDMA_CM_EVENT_REJECTED, reason, param ? param : &none,
              reason == REJ_CONSUMER_DEFINED ? AD_REJ_DATA : 0);
}

static void send_rej(struct cm_id *id, int reason, const struct ad_cm_param *param)
{
    struct cm_id *peer = id->peer;

    unlink_peer(id);
    over(id);
    if (peer && !fault_is_silent())
        got_rej(peer, reason, param);
}

/* Notifies the other end, which answers when its process disconnects, too. */
static void send_dreq(struct cm_id *id)
{
    struct cm_id *peer = id->peer;

    if (id->step != DREQ_SENT)
        wait_for_answer(id);
    id->step = DREQ_SENT;
    if (!peer || fault_is_silent())
        return;
    if (peer->step == ESTABLISHED || peer->step == REP_SENT) {
        peer->step = DREQ_RCVD;
        timer_stop(&peer->timer);
        tell(peer, RDMA_CM_EVENT_DISCONNECTED, 0);
    } else if (peer->step == DREQ_SENT) { /* both disconnected at the same time */
        unlink_peer(id);
        over(peer);
        tell(peer, RDMA_CM_EVENT_DISCONNECTED, 0);
        over(id);
        tell(id, RDMA_CM_EVENT_DISCONNECTED, 0);
    }
}

static void send_drep(struct cm_id *id)
{
    struct cm_id *peer = id->peer;

    unlink_peer(id);
    over(id);
    if (peer && peer->step == DREQ_SENT) {
        over(peer);
        tell(peer, RDMA_CM_EVENT_DISCONNECTED, 0);
    }
}

static struct cm_id *find_listener(const struct sockaddr_storage *addr)
{
    for (struct vp_list *l = ids.next; l != &ids; l = l->next) {
        struct cm_id *id = vp_container_of(l, struct cm_id, all);
        if (id->step == LISTENS && same_ip(&id->route.src, addr) &&
            *port_of(&id->route.src) == *port_of((struct sockaddr_storage *)(uintptr_t)addr))
            return id;
    }
    return NULL;
}

/* The connection that this host has with that queue pair. */
static struct cm_id *find_connected_to(uint32_t qpn)
{
    for (struct vp_list *l = ids.next; l != &ids; l = l->next) {
        struct cm_id *id = vp_container_of(l, struct cm_id, all);
        if (qpn && id->remote_qpn == qpn)
            return id;
    }
    return NULL;
}

static void timer_due(struct timer *timer);

static struct cm_id *new_id(struct proc *proc, struct cm_channel *channel, uint64_t user)
{
    struct cm_id *id = (struct cm_id *)object_new(proc, K_CM_ID, sizeof(*id), user, &channel->base);

    id->channel = channel;
    vp_list_init(&id->all);
    vp_list_append(&ids, &id->all);
    timer_init(&id->timer, timer_due);
    return id;
}

static void new_request(struct cm_id *listener, struct cm_id *origin)
{
    const struct ad_cm_param *param = &origin->param;
    struct cm_id *id = new_id(listener->base.proc, listener->channel, 0);

    id->step = REQ_RCVD;
    id->route = (struct ad_cm_route){.src = origin->route.dst,
                                     .dst = origin->route.src,
                                     .port_num = listener->route.port_num,
                                     .sl = origin->route.sl};
    id->remote_qpn = param->qp_num;
    id->responder_resources = param->initiator_depth;
    id->initiator_depth = param->responder_resources;
    id->retry_count = param->retry_count;
    id->rnr_retry_count = param->rnr_retry_count;
    id->tos = origin->tos;
    id->mtu = origin->mtu;
    id->peer = origin;
    origin->peer = id;
    id->listener = listener;
    listener->waiting++;
    struct event *event = queue_add(&listener->channel->queue, &listener->base);
    event->cm = (struct ad_cm_event){.type = RDMA_CM_EVENT_CONNECT_REQUEST,
                                     .user = listener->base.user,
                                     .new_child = id->base.handle,
                                     .param = *param};
    event->cm.param.responder_resources = id->responder_resources;
    event->cm.param.initiator_depth = id->initiator_depth;
    event->cm.param.data_size = AD_REQ_DATA;
    event->route = id->route;
    event->child = &id->base;
}

/* The request arrives at the other kernel. */
static void deliver_req(struct cm_id *origin)
{
    struct cm_id *stale = find_connected_to(origin->param.qp_num);
    struct cm_id *listener = find_listener(&origin->route.dst);

    if (stale) {
        got_rej(origin, REJ_STALE_CONN, NULL);
        if (stale->step == ESTABLISHED)
            send_dreq(stale);
    } else if (!listener) {
        got_rej(origin, REJ_INVALID_SERVICE_ID, NULL);
    } else if (listener->waiting < listener->backlog) {
        new_request(listener, origin);
    } /* otherwise it is dropped, and will be repeated */
}

static void deliver_rep(struct cm_id *id)
{
    struct cm_id *origin = id->peer;

    if (origin && origin->step == REP_RCVD)
        return; /* repeated, and received before */
    if (!origin || origin->step != REQ_SENT) {
        got_rej(id, REJ_CONSUMER_DEFINED, NULL);
        return;
    }
    timer_stop(&origin->timer);
    origin->step = REP_RCVD;
    origin->remote_qpn = id->param.qp_num;
    origin->responder_resources = id->param.initiator_depth;
    origin->initiator_depth = id->param.responder_resources;
    origin->rnr_retry_count = id->param.rnr_retry_count;
    struct ad_cm_param param = id->param;
    param.responder_resources = origin->responder_resources;
    param.initiator_depth = origin->initiator_depth;
    tell_data(origin, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, &param, AD_REP_DATA);
}

static void deliver_rtu(struct cm_id *id)
{
    struct cm_id *peer = id->peer;

    if (!peer || peer->step != REP_SENT)
        return;
    timer_stop(&peer->timer);
    peer->step = ESTABLISHED;
    tell(peer, RDMA_CM_EVENT_ESTABLISHED, 0);
}

/* Repeats the message, or gives up. */
static void timer_due(struct timer *timer)
{
    struct cm_id *id = vp_container_of(timer, struct cm_id, timer);

    if (now_ns() >= id->give_up_at) {
        enum rdma_cm_event_type type =
            id->step == DREQ_SENT ? RDMA_CM_EVENT_DISCONNECTED : RDMA_CM_EVENT_UNREACHABLE;
        unlink_peer(id);
        over(id);
        tell(id, type, type == RDMA_CM_EVENT_UNREACHABLE ? -ETIMEDOUT : 0);
        return;
    }
    repeat_later(id);
    if (fault_is_silent())
        return;
    if (id->step == REQ_SENT && !id->peer)
        deliver_req(id);
    else if (id->step == REP_SENT)
        deliver_rep(id);
    else if (id->step == DREQ_SENT)
        send_dreq(id);
    else if (id->step == ESTABLISHED)
        deliver_rtu(id);
}

/** * requests of libraries ** */

static int open_channel(struct proc *proc, struct ad_msg *msg, int *fd)
{
    struct cm_channel *c = (struct cm_channel *)object_new(proc, K_CM_CHANNEL, sizeof(*c), 0, NULL);

    queue_open(&c->queue);
    msg->handle = c->base.handle;
    *fd = c->queue.fd;
    return 0;
}

void cm_channel_destroy(struct object *object)
{
    queue_close(&((struct cm_channel *)object)->queue);
    object_free(object);
}

static int create(struct proc *proc, struct ad_msg *msg)
{
    struct object *channel = object_find(proc, msg->handle, K_CM_CHANNEL);

    if (!channel)
        return EINVAL;
    struct cm_id *id = new_id(proc, (struct cm_channel *)channel, msg->user);
    id->known = true;
    msg->handle = id->base.handle;
    return 0;
}

static int listen_on(struct cm_id *id, uint32_t backlog)
{
    if (id->step != BOUND)
        return EINVAL;
    id->backlog = backlog;
    id->step = LISTENS;
    return 0;
}

/* Is there a route from the id's port to the other, 0: an unknown one? */
static bool reaches(const struct cm_id *id, uint8_t to)
{
    uint8_t from = id->route.port_num;

    if (id->route.dst.ss_family == AD_AF_IB)
        return ports_reach(from, to);
    return to && (profile.switched || from == to);
}

static int resolve_addr(struct cm_id *id, const struct ad_msg *msg)
{
    if (id->step != IDLE && id->step != BOUND)
        return EINVAL;
    if (id->step == IDLE) {
        int rc = bind_to(id, msg->cm.src.ss_family ? &msg->cm.src : &msg->cm.dst);
        if (rc)
            return rc;
    }
    id->step = BOUND;
    id->route.dst = msg->cm.dst;
    uint8_t port = find_port(&id->route.dst, NULL);
    if (fault_hits(AD_FAULT_ADDR) || !reaches(id, port)) {
        tell(id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
        return 0;
    }
    id->step = RESOLVED;
    tell(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    return 0;
}

/* What the subnet manager says of the path; with RoCE, what the own interface says: Linux 6.1,
 * drivers/infiniband/core/cma.c, cma_resolve_iboe_route(). */
static void find_path(struct cm_id *id)
{
    const struct ad_port *from = &profile.device.ports[id->route.port_num - 1];
    uint8_t port = find_port(&id->route.dst, NULL);

    id->mtu = (uint8_t)from->attr.active_mtu;
    if (!port)
        return;
    const struct ad_port *to = &profile.device.ports[port - 1];
    id->route.dlid = to->attr.lid;
    id->route.sl = fault_sl();
    if (to->attr.lid && to->attr.active_mtu < from->attr.active_mtu)
        id->mtu = (uint8_t)to->attr.active_mtu;
}

static int resolve_route(struct cm_id *id)
{
    if (id->step != RESOLVED)
        return EINVAL;
    if (fault_hits(AD_FAULT_ROUTE)) {
        tell(id, RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT);
        return 0;
    }
    id->step = ROUTED;
    find_path(id);
    tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    return 0;
}

static int connect_to(struct cm_id *id, const struct ad_msg *msg)
{
    if (id->step != ROUTED)
        return EINVAL;
    id->param = msg->cm.param;
    id->qpn = id->param.qp_num;
    id->retry_count = id->param.retry_count;
    id->rnr_retry_count = id->param.rnr_retry_count;
    id->step = REQ_SENT;
    if (fault_hits(AD_FAULT_CONNECT)) {
        over(id);
        tell(id, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
        return 0;
    }
    wait_for_answer(id);
    if (!fault_is_silent())
        deliver_req(id);
    return 0;
}

static int accept_it(struct cm_id *id, const struct ad_msg *msg)
{
    if (id->step != REQ_RCVD)
        return EINVAL;
    id->param = msg->cm.param;
    id->qpn = id->param.qp_num;
    id->responder_resources = id->param.responder_resources;
    id->initiator_depth = id->param.initiator_depth;
    id->base.user = msg->user;
    id->known = true;
    id->step = REP_SENT;
    wait_for_answer(id);
    if (!fault_is_silent())
        deliver_rep(id);
    return 0;
}

static int establish(struct cm_id *id)
{
    if (id->step != REP_RCVD)
        return EINVAL;
    id->step = ESTABLISHED;
    if (fault_is_silent())
        wait_for_answer(id);
    else
        deliver_rtu(id);
    return 0;
}

static int reject(struct cm_id *id, const struct ad_msg *msg)
{
    if (id->step != REQ_RCVD && id->step != REP_RCVD)
        return EINVAL;
    send_rej(id, REJ_CONSUMER_DEFINED, &msg->cm.param);
    return 0;
}

static int disconnect(struct cm_id *id)
{
    if (id->step < REQ_SENT)
        return EINVAL;
    if (id->step == ESTABLISHED)
        send_dreq(id);
    else if (id->step == DREQ_RCVD)
        send_drep(id);
    return 0;
}

static void path_attr(const struct cm_id *id, struct ibv_qp_attr *attr)
{
    uint8_t from = 0, to = 0;
    uint8_t from_port = find_port(&id->route.src, &from), to_port = find_port(&id->route.dst, &to);

    attr->path_mtu = (enum ibv_mtu)id->mtu;
    attr->dest_qp_num = id->remote_qpn;
    attr->rq_psn = 0;
    attr->max_dest_rd_atomic = id->responder_resources;
    attr->min_rnr_timer = 0;
    attr->ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = from_port};
    if (to_port && profile.device.ports[to_port - 1].attr.lid) {
        attr->ah_attr.is_global = 0;
        attr->ah_attr.dlid = profile.device.ports[to_port - 1].attr.lid;
        attr->ah_attr.sl = id->route.sl;
        return;
    }
    if (to_port)
        attr->ah_attr.grh.dgid = profile.device.ports[to_port - 1].gids[to].gid;
    attr->ah_attr.grh.sgid_index = from;
    attr->ah_attr.grh.hop_limit = 64;
    attr->ah_attr.grh.traffic_class = id->tos;
}

static bool has_met(const struct cm_id *id)
{
    return id->step == REQ_RCVD || id->step == REP_SENT || id->step == REP_RCVD ||
           id->step == ESTABLISHED;
}

static int qp_attr(const struct cm_id *id, struct ad_msg *msg)
{
    struct ibv_qp_attr *attr = &msg->modify.attr;

    if (!id->route.port_num)
        return EINVAL;
    msg->modify.mask = IBV_QP_STATE;
    /* before there is a connection, the kernel has no other answer */
    switch (id->step < REQ_SENT ? IBV_QPS_INIT : attr->qp_state) {
    case IBV_QPS_INIT:
        attr->pkey_index = 0; /* profiles with an address have no other */
        attr->port_num = id->route.port_num;
        attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
        msg->modify.mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        return 0;
    case IBV_QPS_RTR:
        path_attr(id, attr);
        msg->modify.mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        return has_met(id) ? 0 : EINVAL;
    case IBV_QPS_RTS:
        attr->sq_psn = 0;
        attr->timeout = 19;
        attr->retry_cnt = id->retry_count;
        attr->rnr_retry = id->rnr_retry_count;
        attr->max_rd_atomic = id->initiator_depth;
        msg->modify.mask |= IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_MAX_QP_RD_ATOMIC;
        return has_met(id) ? 0 : EINVAL;
    default:
        return EINVAL;
    }
}

static int get_event(struct proc *proc, struct ad_msg *msg)
{
    struct cm_channel *channel = (struct cm_channel *)object_find(proc, msg->handle, K_CM_CHANNEL);
    struct event *event = channel ? queue_take(&channel->queue) : NULL;

    if (!event)
        return channel ? EAGAIN : EINVAL;
    if (event->child) {
        struct cm_id *child = (struct cm_id *)event->child;
        child->listener->waiting--;
        child->listener = NULL;
    }
    msg->got.event = event->cm;
    msg->got.route = event->route;
    free(event);
    return 0;
}

/* The message to the other end when an id is destroyed. */
static void say_goodbye(struct cm_id *id)
{
    switch (id->step) {
    case REQ_SENT:
        send_rej(id, REJ_TIMEOUT, NULL);
        break;
    case REQ_RCVD:
    case REP_SENT:
    case REP_RCVD:
        send_rej(id, REJ_CONSUMER_DEFINED, NULL);
        break;
    case ESTABLISHED:
        send_dreq(id);
        break;
    case DREQ_RCVD:
        send_drep(id);
        break;
    default:
        break;
    }
}

void cm_destroy(struct object *object)
{
    struct cm_id *id = (struct cm_id *)object;

    for (struct vp_list *l = ids.next, *next; l != &ids; l = next) {
        struct cm_id *child = vp_container_of(l, struct cm_id, all);
        next = l->next;
        if (child->listener == id) {
            child->listener = NULL;
            cm_destroy(&child->base); /* no process can know it any more */
        }
    }
    say_goodbye(id);
    unlink_peer(id);
    timer_stop(&id->timer);
    if (id->listener)
        id->listener->waiting--;
    queue_purge(&id->channel->queue, object);
    vp_list_remove(&id->all);
    object_free(object);
}

static int request_of_id(struct cm_id *id, struct ad_msg *msg)
{
    switch (msg->op) {
    case AD_CM_BIND: {
        int rc = id->step == IDLE ? bind_to(id, &msg->cm.src) : EINVAL;
        id->step = rc ? id->step : BOUND;
        return rc;
    }
    case AD_CM_LISTEN:
        return listen_on(id, msg->cm.number);
    case AD_CM_RESOLVE_ADDR:
        return resolve_addr(id, msg);
    case AD_CM_RESOLVE_ROUTE:
        return resolve_route(id);
    case AD_CM_CONNECT:
        return connect_to(id, msg);
    case AD_CM_ACCEPT:
        return accept_it(id, msg);
    case AD_CM_ESTABLISH:
        return establish(id);
    case AD_CM_REJECT:
        return reject(id, msg);
    case AD_CM_DISCONNECT:
        return disconnect(id);
    case AD_CM_TOS:
        id->tos = (uint8_t)msg->cm.number;
        return 0;
    default:
        return EINVAL;
    }
}

int cm_request(struct proc *proc, struct ad_msg *msg, int *fd)
{
    struct cm_id *id;

    switch (msg->op) {
    case AD_CM_CHANNEL:
        return open_channel(proc, msg, fd);
    case AD_CM_CREATE:
        return create(proc, msg);
    case AD_CM_GET_EVENT:
        return get_event(proc, msg);
    }
    id = (struct cm_id *)object_find(proc, msg->handle, K_CM_ID);
    if (!id)
        return EINVAL;
    if (msg->op == AD_CM_DESTROY)
        return object_destroy(&id->base);
    if (msg->op == AD_CM_QP_ATTR)
        return qp_attr(id, msg);
    int rc = request_of_id(id, msg);
    msg->cm.route = id->route;
    return rc;
}
