/* SPDX-License-Identifier: Apache-2.0 */
/* librdmacm: ids, their events, and the order of calls; the adapter's process decides on them. */
#include "client.h"

#include <errno.h>
#include <infiniband/ib.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct cl_channel {
    struct rdma_event_channel channel;
    uint32_t handle;
};

struct cl_id {
    struct rdma_cm_id id;
    uint32_t handle;
    uint32_t events, acked; /* handed out */
    struct ad_ece ours, theirs;
};

struct cl_event {
    struct rdma_cm_event event; /* first, as callers have a pointer to it */
    struct cl_id *counted;
    uint8_t data[AD_PRIVATE_MOST];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static int result(int rc)
{
    errno = rc;
    return rc ? -1 : 0;
}

EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
    const char *module = getenv("UT_ADAPTER_RDMACM"); /* 0: the kernel's is not there */
    struct ad_msg msg = {.op = AD_CM_CHANNEL};
    struct cl_channel *c = calloc(1, sizeof(*c));
    bool there = (!module || strcmp(module, "0") != 0) && cl_connect();
    int rc = !c ? ENOMEM : there ? cl_call(&msg, &c->channel.fd) : ENODEV;

    if (rc) {
        free(c);
        errno = rc;
        return NULL;
    }
    cl_used(1);
    c->handle = msg.handle;
    return &c->channel;
}

EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    struct ad_msg msg = {.op = AD_DESTROY, .handle = ((struct cl_channel *)channel)->handle};

    cl_call(&msg, NULL);
    cl_used(-1);
    close(channel->fd);
    free(channel);
}

static struct cl_id *new_id(struct rdma_event_channel *channel, void *context,
                            enum rdma_port_space ps)
{
    struct cl_id *id = calloc(1, sizeof(*id));

    if (id)
        id->id = (struct rdma_cm_id){
            .channel = channel, .context = context, .ps = ps, .qp_type = IBV_QPT_RC};
    return id;
}

EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out,
                          void *context, enum rdma_port_space ps)
{
    bool has_ps = ps == RDMA_PS_TCP || ps == RDMA_PS_IB;
    struct cl_id *id = has_ps ? new_id(channel, context, ps) : NULL;
    struct ad_msg msg = {.op = AD_CM_CREATE,
                         .handle = ((struct cl_channel *)channel)->handle,
                         .user = (uintptr_t)id};
    int rc = id ? cl_call(&msg, NULL) : has_ps ? ENOMEM : EPROTONOSUPPORT;

    if (rc)
        free(id);
    else
        id->handle = msg.handle;
    if (!rc)
        *out = &id->id;
    return result(rc);
}

EXPORT int rdma_destroy_id(struct rdma_cm_id *base)
{
    struct cl_id *id = (struct cl_id *)base;
    struct ad_msg msg = {.op = AD_CM_DESTROY, .handle = id->handle};
    int rc = cl_call(&msg, NULL);

    if (rc)
        return result(rc);
    pthread_mutex_lock(&lock);
    while (id->events != id->acked)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    free(id->id.route.path_rec);
    free(id);
    return 0;
}

/* The daemon's information on addresses and the device. */
static void take_route(struct cl_id *id, const struct ad_cm_route *route)
{
    id->id.route.addr.src_storage = route->src;
    id->id.route.addr.dst_storage = route->dst;
    id->id.port_num = route->port_num;
    if (route->dlid && !id->id.route.path_rec)
        id->id.route.path_rec = calloc(1, sizeof(*id->id.route.path_rec));
    if (route->dlid && id->id.route.path_rec) {
        id->id.route.num_paths = 1;
        id->id.route.path_rec->dlid = htobe16(route->dlid);
        id->id.route.path_rec->sl = route->sl;
    }
    if (!route->port_num)
        return;
    struct ibv_context *context = cl_context_of_port(&id->id.port_num);
    if (!id->id.verbs)
        id->id.verbs = context;
}

static size_t size_of(const struct sockaddr *addr)
{
    return addr->sa_family == AF_INET6   ? sizeof(struct sockaddr_in6)
           : addr->sa_family == AD_AF_IB ? sizeof(struct sockaddr_ib)
                                         : sizeof(struct sockaddr_in);
}

static int call(struct rdma_cm_id *base, struct ad_msg *msg)
{
    struct cl_id *id = (struct cl_id *)base;

    msg->handle = id->handle;
    msg->user = (uintptr_t)id;
    return result(cl_call(msg, NULL));
}

/* A call that changes the addresses; others may run beside readers of them. */
static int call_for_route(struct rdma_cm_id *base, struct ad_msg *msg)
{
    int rc = call(base, msg);

    if (!rc)
        take_route((struct cl_id *)base, &msg->cm.route);
    return rc;
}

EXPORT int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
    struct ad_msg msg = {.op = AD_CM_BIND};

    memcpy(&msg.cm.src, addr, size_of(addr));
    return call_for_route(id, &msg);
}

EXPORT int rdma_set_option(struct rdma_cm_id *id, int level, int option, void *value, size_t size)
{
    struct ad_msg msg = {.op = AD_CM_TOS};

    if (level != RDMA_OPTION_ID || option != RDMA_OPTION_ID_TOS || size != 1)
        return result(ENOSYS);
    msg.cm.number = *(const uint8_t *)value;
    return call(id, &msg);
}

EXPORT int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    struct ad_msg msg = {.op = AD_CM_LISTEN, .cm = {.number = (uint32_t)backlog}};

    return call_for_route(id, &msg);
}

EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
                             int timeout_ms)
{
    struct ad_msg msg = {.op = AD_CM_RESOLVE_ADDR, .cm = {.number = (uint32_t)timeout_ms}};

    if (src)
        memcpy(&msg.cm.src, src, size_of(src));
    memcpy(&msg.cm.dst, dst, size_of(dst));
    return call_for_route(id, &msg);
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
    struct ad_msg msg = {.op = AD_CM_RESOLVE_ROUTE, .cm = {.number = (uint32_t)timeout_ms}};

    return call(id, &msg);
}

/* For requests, answers and refusals. */
static int with_param(struct rdma_cm_id *id, enum ad_op op, const struct rdma_conn_param *param,
                      unsigned int most)
{
    struct ad_msg msg = {.op = op};
    struct ad_cm_param *to = &msg.cm.param;

    if (param->private_data_len > most)
        return result(EINVAL);
    *to = (struct ad_cm_param){.qp_num = param->qp_num,
                               .responder_resources = param->responder_resources,
                               .initiator_depth = param->initiator_depth,
                               .retry_count = param->retry_count,
                               .rnr_retry_count = param->rnr_retry_count,
                               .srq = param->srq,
                               .data_size = param->private_data_len,
                               .ece = ((struct cl_id *)id)->ours};
    if (param->private_data_len)
        memcpy(to->data, param->private_data, param->private_data_len);
    return call(id, &msg);
}

/* librdmacm's own check. */
static bool is_valid(const struct rdma_cm_id *id, const struct rdma_conn_param *param)
{
    struct ibv_device_attr attr;

    if (!id->verbs || ibv_query_device(id->verbs, &attr))
        return false;
    return (param->responder_resources == RDMA_MAX_RESP_RES ||
            param->responder_resources <= attr.max_qp_rd_atom) &&
           (param->initiator_depth == RDMA_MAX_INIT_DEPTH ||
            param->initiator_depth <= attr.max_qp_init_rd_atom);
}

EXPORT int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    if (!param || !is_valid(id, param))
        return result(EINVAL);
    return with_param(id, AD_CM_CONNECT, param, AD_REQ_DATA);
}

EXPORT int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    if (!param || !is_valid(id, param))
        return result(EINVAL);
    struct cl_id *c = (struct cl_id *)id;
    if (!c->ours.vendor_id) /* as with rdma_rxe */
        c->ours.vendor_id = c->theirs.vendor_id;
    return with_param(id, AD_CM_ACCEPT, param, AD_REP_DATA);
}

EXPORT int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t size)
{
    struct rdma_conn_param param = {.private_data = data, .private_data_len = size};

    return with_param(id, AD_CM_REJECT, &param, AD_REJ_DATA);
}

EXPORT int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
    if (!id || id->qp || !ece || !ece->vendor_id || ece->comp_mask)
        return result(EINVAL);
    ((struct cl_id *)id)->ours = (struct ad_ece){ece->vendor_id, ece->options};
    return 0;
}

EXPORT int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
    if (!id || id->qp || !ece)
        return result(EINVAL);
    const struct ad_ece *theirs = &((struct cl_id *)id)->theirs;
    *ece = (struct ibv_ece){.vendor_id = theirs->vendor_id, .options = theirs->options};
    return 0;
}

EXPORT int rdma_establish(struct rdma_cm_id *id)
{
    struct ad_msg msg = {.op = AD_CM_ESTABLISH};

    return call(id, &msg);
}

EXPORT int rdma_disconnect(struct rdma_cm_id *id)
{
    struct ad_msg msg = {.op = AD_CM_DISCONNECT};

    return call(id, &msg);
}

EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    struct ad_msg msg = {.op = AD_CM_QP_ATTR, .handle = ((struct cl_id *)id)->handle};

    msg.modify.attr = *attr;
    int rc = cl_call(&msg, NULL);
    if (!rc) {
        *attr = msg.modify.attr;
        if (id->verbs)
            cl_attr_of(id->verbs, attr);
        *mask = (int)msg.modify.mask;
    }
    return result(rc);
}

/*** events ***/

/* A request comes with an id of its own. */
static struct cl_id *child_of(struct cl_id *listener, uint32_t handle)
{
    struct cl_id *id = new_id(listener->id.channel, listener->id.context, listener->id.ps);

    if (id)
        id->handle = handle;
    return id;
}

static struct rdma_cm_event *make_event(const struct ad_msg *msg)
{
    const struct ad_cm_event *from = &msg->got.event;
    struct cl_event *to = calloc(1, sizeof(*to));
    struct cl_id *id = (struct cl_id *)(uintptr_t)from->user, *listener = NULL;

    if (!to)
        return NULL;
    if (from->new_child) {
        listener = id;
        id = child_of(listener, from->new_child);
    }
    if (id && (listener || from->type == RDMA_CM_EVENT_ADDR_RESOLVED ||
               from->type == RDMA_CM_EVENT_ROUTE_RESOLVED))
        take_route(id, &msg->got.route);
    if (id && (listener || from->type == RDMA_CM_EVENT_CONNECT_RESPONSE))
        id->theirs = from->param.ece;
    to->counted = listener ? listener : id;
    memcpy(to->data, from->param.data, sizeof(to->data));
    to->event = (struct rdma_cm_event){.id = &id->id,
                                       .listen_id = listener ? &listener->id : NULL,
                                       .event = (enum rdma_cm_event_type)from->type,
                                       .status = from->status};
    to->event.param.conn = (struct rdma_conn_param){
        .private_data = from->param.data_size ? to->data : NULL,
        .private_data_len = from->param.data_size,
        .responder_resources = from->param.responder_resources,
        .initiator_depth = from->param.initiator_depth,
        .retry_count = from->param.retry_count,
        .rnr_retry_count = from->param.rnr_retry_count,
        .srq = from->param.srq,
        .qp_num = from->param.qp_num,
    };
    return &to->event;
}

static int next_event(struct cl_channel *channel, struct rdma_cm_event **event)
{
    struct ad_msg msg = {.op = AD_CM_GET_EVENT, .handle = channel->handle};

    pthread_mutex_lock(&lock);
    int rc = cl_call(&msg, NULL);
    if (!rc) {
        *event = make_event(&msg);
        rc = *event ? 0 : ENOMEM;
    }
    if (!rc)
        ((struct cl_event *)*event)->counted->events++;
    pthread_mutex_unlock(&lock);
    return rc;
}

EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    int rc;

    do
        rc = next_event((struct cl_channel *)channel, event);
    while (rc == EAGAIN && cl_wait_readable(channel->fd));
    return result(rc);
}

EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    struct cl_event *e = (struct cl_event *)event;

    pthread_mutex_lock(&lock);
    e->counted->acked++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    free(e);
    return 0;
}
