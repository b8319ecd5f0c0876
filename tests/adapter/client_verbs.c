/* SPDX-License-Identifier: Apache-2.0 */
/* libibverbs' devices and objects: requests to the adapter's process. */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Functions of the library that the headers call by other names. */
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

struct cl_context {
    struct verbs_context vctx; /* ends with the part that callers have a pointer to */
    uint32_t handle;
    uint32_t device; /* 0; or of two, each with one port, 1 */
};

struct cl_mr {
    struct ibv_mr mr;
};

/* An object cannot be destroyed before its events are acknowledged. */
static pthread_mutex_t events_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t events_acked = PTHREAD_COND_INITIALIZER;

static struct cl_context *cl_context(struct ibv_context *context)
{
    return (struct cl_context *)((char *)context - offsetof(struct cl_context, vctx.context));
}

static void *failed(int err)
{
    errno = err;
    return NULL;
}

/*** devices ***/

static int query(struct ad_device *out)
{
    struct ad_msg msg = {.op = AD_QUERY};
    int rc = cl_call(&msg, NULL);

    if (!rc)
        *out = msg.device;
    return rc;
}

/* The device that the context is of. */
static int query_of(struct ibv_context *context, struct ad_device *out)
{
    uint32_t device = cl_context(context)->device;
    int rc = query(out);

    if (rc || !out->other[0])
        return rc;
    if (device && out->other_attr.max_qp) {
        out->attr = out->other_attr;
        out->max_inline = out->other_inline;
    }
    out->attr.phys_port_cnt = 1;
    out->ports[0] = out->ports[device];
    for (uint32_t i = 0; i < out->ports[0].num_gids; i++)
        out->ports[0].gids[i].port_num = 1;
    return 0;
}

void cl_attr_of(struct ibv_context *context, struct ibv_qp_attr *attr)
{
    attr->port_num -= (uint8_t)cl_context(context)->device;
    attr->ah_attr.port_num -= (uint8_t)cl_context(context)->device;
}

/* They outlive the list: contexts point to them, and names are asked for later. */
static struct ibv_device devices[AD_MAX_PORTS];

static void fill_in(int device, const char *name)
{
    devices[device].node_type = IBV_NODE_CA;
    devices[device].transport_type = IBV_TRANSPORT_IB;
    snprintf(devices[device].name, sizeof(devices[device].name), "%s", name);
    snprintf(devices[device].dev_name, sizeof(devices[device].dev_name), "uverbs%d", device);
}

EXPORT struct ibv_device **ibv_get_device_list(int *num)
{
    struct ibv_device **list = calloc(AD_MAX_PORTS + 1, sizeof(*list));
    struct ad_device about;

    if (num)
        *num = 0;
    if (!list)
        return failed(ENOMEM);
    if (!cl_connect() || query(&about))
        return list;
    fill_in(0, about.name);
    list[0] = &devices[0];
    if (about.other[0]) {
        fill_in(1, about.other);
        list[1] = &devices[1];
    }
    if (num)
        *num = about.other[0] ? 2 : 1;
    return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

static bool keeps_pages, keeps_huge_pages; /* against fork */

EXPORT int ibv_fork_init(void)
{
    keeps_pages = true;
    keeps_huge_pages = getenv("RDMAV_HUGEPAGES_SAFE");
    return 0;
}

EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
    struct ad_device about;

    if (query(&about) || !about.shares_pages)
        return IBV_FORK_UNNEEDED;
    return keeps_pages ? IBV_FORK_ENABLED : IBV_FORK_DISABLED;
}

/* Of active_speed_ex in struct ibv_port_attr of rdma-core 50, behind all that older ones have. */
enum { SPEED_EX_AT = 52 };
_Static_assert(sizeof(struct ibv_port_attr) >= SPEED_EX_AT, "the older one is the beginning");

static int query_port(struct ibv_context *context, uint8_t num, struct ibv_port_attr *attr,
                      size_t size)
{
    struct ad_device about;
    int rc = query_of(context, &about);

    if (rc)
        return rc;
    if (num < 1 || num > about.attr.phys_port_cnt)
        return EINVAL;
    const struct ad_port *port = &about.ports[num - 1];
    uint8_t full[SPEED_EX_AT + sizeof(port->active_speed_ex)] = {0};
    memcpy(full, &port->attr, sizeof(port->attr));
    memcpy(full + SPEED_EX_AT, &port->active_speed_ex, sizeof(port->active_speed_ex));
    memset(attr, 0, size);
    memcpy(attr, full, size < sizeof(full) ? size : sizeof(full));
    return 0;
}

EXPORT int ibv_query_port(struct ibv_context *context, uint8_t num,
                          struct _compat_ibv_port_attr *attr)
{
    return query_port(context, num, (struct ibv_port_attr *)attr,
                      offsetof(struct ibv_port_attr, port_cap_flags2));
}

EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    struct ad_device about;

    if (query_of(context, &about) || port < 1 || port > about.attr.phys_port_cnt || index < 0 ||
        index >= about.ports[port - 1].attr.pkey_tbl_len)
        return -1;
    *pkey = htobe16(about.ports[port - 1].pkeys[index]);
    return 0;
}

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    struct ad_device about;
    int rc = query_of(context, &about);

    if (!rc)
        *attr = about.attr;
    return rc;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                                    size_t most, uint32_t flags, size_t entry_size)
{
    struct ad_device about;
    size_t n = 0;

    (void)flags;
    if (entry_size < sizeof(*entries))
        return -EINVAL;
    if (query_of(context, &about))
        return -EIO;
    for (int p = 0; p < about.attr.phys_port_cnt; p++)
        for (uint32_t i = 0; i < about.ports[p].num_gids && n < most; i++)
            entries[n++] = about.ports[p].gids[i];
    return (ssize_t)n;
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                             struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
    struct ad_device about;

    (void)flags;
    if (size < sizeof(*entry) || query_of(context, &about) || port < 1 ||
        port > about.attr.phys_port_cnt || index >= about.ports[port - 1].num_gids)
        return EINVAL;
    *entry = about.ports[port - 1].gids[index];
    return 0;
}

static struct ibv_srq *create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct cl_context *c = calloc(1, sizeof(*c));
    struct ad_msg msg = {.op = AD_OPEN, .handle = (uint32_t)(device - devices)};
    int fd = -1;

    if (!c)
        return failed(ENOMEM);
    if (!cl_connect()) {
        free(c);
        return failed(ENODEV);
    }
    int rc = cl_call(&msg, &fd);
    if (rc) {
        free(c);
        return failed(rc);
    }
    cl_used(1);
    c->handle = msg.handle;
    c->device = (uint32_t)(device - devices);
    c->vctx.sz = sizeof(c->vctx);
    c->vctx.query_port = query_port;
    c->vctx.create_qp_ex = create_qp_ex;
    struct ibv_context *context = &c->vctx.context;
    context->device = device;
    context->abi_compat = (void *)UINTPTR_MAX; /* verbs_get_ctx(): there is a verbs_context */
    context->cmd_fd = client.sock;
    context->async_fd = fd;
    context->num_comp_vectors = 1;
    cl_data_ops(&context->ops);
    return context;
}

static int destroy(uint32_t handle)
{
    struct ad_msg msg = {.op = AD_DESTROY, .handle = handle};

    return cl_call(&msg, NULL);
}

EXPORT int ibv_close_device(struct ibv_context *context)
{
    struct cl_context *c = cl_context(context);
    struct ad_msg msg = {.op = AD_CLOSE, .handle = c->handle};
    int rc = cl_call(&msg, NULL);

    cl_used(-1);
    close(context->async_fd);
    free(c);
    return rc;
}

/*** domains and memory ***/

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct ad_msg msg = {.op = AD_ALLOC_PD, .handle = cl_context(context)->handle};
    struct ibv_pd *pd = calloc(1, sizeof(*pd));
    int rc = pd ? cl_call(&msg, NULL) : ENOMEM;

    if (rc) {
        free(pd);
        return failed(rc);
    }
    *pd = (struct ibv_pd){.context = context, .handle = msg.handle};
    return pd;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
    int rc = destroy(pd->handle);

    if (!rc)
        free(pd);
    return rc;
}

struct range {
    uintptr_t at, end; /* searched from `at` on */
    bool write;
};

/* One line of /proc/self/maps. False: there is a gap in the range, or memory without the rights. */
static bool covers(struct range *r, const char *line)
{
    char *rest;
    uintptr_t from = strtoull(line, &rest, 16), to = strtoull(rest + 1, &rest, 16);

    if (to <= r->at)
        return true;
    if (from > r->at || rest[1] != 'r' || (r->write && rest[2] != 'w'))
        return false;
    r->at = to;
    return true;
}

/* Is all of the memory mapped, with the rights? The kernel would pin it. */
static bool can_pin(const void *addr, size_t size, bool write)
{
    struct range r = {(uintptr_t)addr, (uintptr_t)addr + size, write};
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    bool ok = true;

    if (!maps)
        return true;
    while (ok && r.at < r.end && fgets(line, sizeof(line), maps))
        ok = covers(&r, line);
    fclose(maps);
    return ok && r.at >= r.end;
}

/* Parts of huge pages cannot be protected from children; memory of that size counts as such. */
static bool can_keep(size_t size)
{
    enum { HUGE_PAGE = 1 << 21 };
    struct ad_device about;

    return !keeps_pages || keeps_huge_pages || size < HUGE_PAGE || query(&about) ||
           !about.shares_pages;
}

static bool takes_any_memory(void)
{
    struct ad_device about;

    return query(&about) == 0 && about.takes_any_memory;
}

static bool makes_only_relaxed_keys(void)
{
    struct ad_device about;

    return query(&about) == 0 && about.only_relaxed_keys;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t size, uint64_t iova,
                                       unsigned int access)
{
    const unsigned int writes =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    struct ad_msg msg = {
        .op = AD_REG_MR, .handle = pd->handle, .mr = {(uintptr_t)addr, size, iova, access, 0}};
    const unsigned int remote_writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    struct cl_mr *mr = calloc(1, sizeof(*mr));
    int rc = mr ? 0 : ENOMEM;

    if (!rc && (access & remote_writes) && !(access & IBV_ACCESS_LOCAL_WRITE))
        rc = EINVAL;
    if (!rc && !can_pin(addr, size, access & writes) && !takes_any_memory())
        rc = EFAULT;
    if (!rc && !can_keep(size))
        rc = EINVAL;
    if (!rc && !(access & IBV_ACCESS_RELAXED_ORDERING) && makes_only_relaxed_keys())
        rc = EINVAL;
    if (!rc)
        rc = cl_call(&msg, NULL);
    if (rc) {
        free(mr);
        return failed(rc);
    }
    mr->mr = (struct ibv_mr){.context = pd->context,
                             .pd = pd,
                             .addr = addr,
                             .length = size,
                             .handle = msg.handle,
                             .lkey = msg.mr.key,
                             .rkey = msg.mr.key};
    return &mr->mr;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t size, int access)
{
    return ibv_reg_mr_iova2(pd, addr, size, (uintptr_t)addr, (unsigned int)access);
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
    int rc = destroy(mr->handle);

    if (!rc)
        free(mr);
    return rc;
}

/*** completion channels and queues ***/

struct cl_channel {
    struct ibv_comp_channel channel;
    uint32_t handle;
};

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct ad_msg msg = {.op = AD_CREATE_CHANNEL, .handle = cl_context(context)->handle};
    struct cl_channel *c = calloc(1, sizeof(*c));
    int fd = -1, rc = c ? cl_call(&msg, &fd) : ENOMEM;

    if (rc) {
        free(c);
        return failed(rc);
    }
    c->channel = (struct ibv_comp_channel){.context = context, .fd = fd};
    c->handle = msg.handle;
    return &c->channel;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    if (__atomic_load_n(&channel->refcnt, __ATOMIC_RELAXED))
        return EBUSY;
    int rc = destroy(((struct cl_channel *)channel)->handle);
    close(channel->fd);
    free(channel);
    return rc;
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *user,
                                    struct ibv_comp_channel *channel, int vector)
{
    struct cl_cq *cq = calloc(1, sizeof(*cq));
    struct ad_msg msg = {.op = AD_CREATE_CQ,
                         .handle = cl_context(context)->handle,
                         .user = (uintptr_t)cq,
                         .cq = {.cqe = (uint32_t)cqe}};
    int rc = !cq ? ENOMEM : cqe < 1 || vector < 0 || vector > 0 ? EINVAL : 0;

    if (channel)
        msg.cq.channel = ((struct cl_channel *)channel)->handle;
    if (!rc)
        rc = cl_call(&msg, NULL);
    if (rc) {
        free(cq);
        return failed(rc);
    }
    cq->cq = (struct ibv_cq){.context = context,
                             .channel = channel,
                             .cq_context = user,
                             .handle = msg.handle,
                             .cqe = (int)msg.cq.cqe};
    pthread_mutex_init(&cq->lock, NULL);
    cq->ring = cl_at(msg.cq.offset);
    if (channel)
        __atomic_fetch_add(&channel->refcnt, 1, __ATOMIC_RELAXED);
    return &cq->cq;
}

EXPORT int ibv_resize_cq(struct ibv_cq *base, int cqe)
{
    struct cl_cq *cq = (struct cl_cq *)base;
    struct ad_msg msg = {.op = AD_RESIZE_CQ, .handle = base->handle, .cq = {.cqe = (uint32_t)cqe}};

    pthread_mutex_lock(&cq->lock);
    int rc = cqe < 1 ? EINVAL : cl_call(&msg, NULL);
    if (!rc)
        base->cqe = (int)msg.cq.cqe;
    pthread_mutex_unlock(&cq->lock);
    return rc;
}

static void wait_for_acks(const uint32_t *events, const uint32_t *acks)
{
    pthread_mutex_lock(&events_lock);
    while (*events != *acks)
        pthread_cond_wait(&events_acked, &events_lock);
    pthread_mutex_unlock(&events_lock);
}

EXPORT int ibv_destroy_cq(struct ibv_cq *base)
{
    struct cl_cq *cq = (struct cl_cq *)base;
    int rc = destroy(base->handle);

    if (rc)
        return rc;
    wait_for_acks(&cq->comp_events, &base->comp_events_completed);
    wait_for_acks(&cq->async_events, &base->async_events_completed);
    if (base->channel)
        __atomic_fetch_sub(&base->channel->refcnt, 1, __ATOMIC_RELAXED);
    pthread_mutex_destroy(&cq->lock);
    free(cq);
    return 0;
}

/* The counter of events of the object that the event is about. */
static uint32_t *handed_out(enum ad_op op, const struct ad_msg *msg)
{
    static uint32_t none;
    void *object = (void *)(uintptr_t)msg->event.user;

    if (op == AD_GET_COMP)
        return &((struct cl_cq *)object)->comp_events;
    switch (msg->event.type) {
    case IBV_EVENT_CQ_ERR:
        return &((struct cl_cq *)object)->async_events;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return &((struct cl_srq *)object)->async_events;
    default:
        return object ? &((struct cl_qp *)object)->async_events : &none;
    }
}

/* Takes an event from a queue of the daemon; waits if the descriptor blocks. */
static int next_event(struct ad_msg *msg, enum ad_op op, uint32_t handle, int fd)
{
    int rc;

    do {
        *msg = (struct ad_msg){.op = op, .handle = handle};
        pthread_mutex_lock(&events_lock);
        rc = cl_call(msg, NULL);
        if (!rc)
            ++*handed_out(op, msg);
        pthread_mutex_unlock(&events_lock);
    } while (rc == EAGAIN && cl_wait_readable(fd));
    errno = rc;
    return rc ? -1 : 0;
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **out, void **user)
{
    struct ad_msg msg;

    if (next_event(&msg, AD_GET_COMP, ((struct cl_channel *)channel)->handle, channel->fd))
        return -1;
    *out = (struct ibv_cq *)(uintptr_t)msg.event.user;
    *user = (*out)->cq_context;
    return 0;
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
    pthread_mutex_lock(&events_lock);
    cq->comp_events_completed += count;
    pthread_cond_broadcast(&events_acked);
    pthread_mutex_unlock(&events_lock);
}

/*** asynchronous events ***/

EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    struct ad_msg msg;

    if (next_event(&msg, AD_GET_ASYNC, cl_context(context)->handle, context->async_fd))
        return -1;
    event->event_type = (enum ibv_event_type)msg.event.type;
    event->element.port_num = (int)msg.event.port;
    if (msg.event.port)
        event->element.port_num -= (int)cl_context(context)->device;
    if (msg.event.user)
        event->element.qp = (struct ibv_qp *)(uintptr_t)msg.event.user; /* or CQ, or SRQ */
    return 0;
}

/* The counter of acknowledgements for the event's object; NULL: for events of a port or device. */
static uint32_t *acked(const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        return &event->element.cq->async_events_completed;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return &event->element.srq->events_completed;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return &event->element.qp->events_completed;
    default:
        return NULL;
    }
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
    uint32_t *count = acked(event);

    pthread_mutex_lock(&events_lock);
    if (count)
        ++*count;
    pthread_cond_broadcast(&events_acked);
    pthread_mutex_unlock(&events_lock);
}

/*** shared receive queues ***/

static struct ibv_srq *create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    struct cl_srq *srq = calloc(1, sizeof(*srq));
    struct ad_msg msg = {.op = AD_CREATE_SRQ, .handle = pd->handle, .user = (uintptr_t)srq};
    int rc = srq ? 0 : ENOMEM;

    msg.srq.attr = attr->attr;
    if (!rc)
        rc = cl_call(&msg, NULL);
    if (rc) {
        free(srq);
        return failed(rc);
    }
    attr->attr = msg.srq.attr;
    srq->srq = (struct ibv_srq){
        .context = pd->context, .srq_context = attr->srq_context, .pd = pd, .handle = msg.handle};
    srq->ring = cl_at(msg.srq.offset);
    pthread_mutex_init(&srq->lock, NULL);
    return &srq->srq;
}

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    return create_srq(pd, attr);
}

EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    struct ad_msg msg = {.op = AD_MODIFY_SRQ, .handle = srq->handle};

    msg.srq.attr = *attr;
    msg.srq.mask = (uint32_t)mask;
    return cl_call(&msg, NULL);
}

EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
    int rc = destroy(srq->handle);

    if (rc)
        return rc;
    wait_for_acks(&((struct cl_srq *)srq)->async_events, &srq->events_completed);
    pthread_mutex_destroy(&((struct cl_srq *)srq)->lock);
    free(srq);
    return 0;
}

/*** queue pairs ***/

static void qp_of(struct cl_qp *qp, struct ibv_context *context,
                  const struct ibv_qp_init_attr_ex *attr, const struct ad_msg *msg)
{
    qp->qpx.qp_base = (struct ibv_qp){.context = context,
                                      .qp_context = attr->qp_context,
                                      .pd = attr->pd,
                                      .send_cq = attr->send_cq,
                                      .recv_cq = attr->recv_cq,
                                      .srq = attr->srq,
                                      .handle = msg->handle,
                                      .qp_num = msg->qp.qpn,
                                      .state = IBV_QPS_RESET,
                                      .qp_type = attr->qp_type};
    qp->sq = cl_at(msg->qp.sq);
    qp->rq = msg->qp.rq ? cl_at(msg->qp.rq) : NULL;
    qp->max_inline = msg->qp.cap.max_inline_data;
    qp->sig_all = attr->sq_sig_all;
    pthread_mutex_init(&qp->lock, NULL);
    cl_wr_ops(&qp->qpx);
}

static int check_qp(const struct ibv_qp_init_attr_ex *attr)
{
    const uint64_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    struct ad_device about;
    int rc = query(&about);

    if (rc)
        return rc;
    if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd || !attr->send_cq || !attr->recv_cq)
        return EINVAL;
    if (attr->comp_mask & ~known ||
        (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS && !about.has_wr_api))
        return EOPNOTSUPP;
    return 0;
}

/* From adapter_ece(); NULL: the device's capabilities. */
static const struct ad_ece *ece_can;
static uint32_t ece_how;

void cl_ece(const struct ad_ece *can, uint32_t how)
{
    static struct ad_ece kept;

    if (can)
        kept = *can;
    ece_can = can ? &kept : NULL;
    ece_how = how;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    struct cl_qp *qp = calloc(1, sizeof(*qp));
    struct ad_msg msg = {.op = AD_CREATE_QP, .user = (uintptr_t)qp};
    struct ad_device about = {0};
    int rc = qp ? check_qp(attr) : ENOMEM;

    if (!rc && !ece_can)
        rc = query(&about);

    if (!rc) {
        msg.handle = attr->pd->handle;
        msg.qp.cap = attr->cap;
        msg.qp.send_cq = attr->send_cq->handle;
        msg.qp.recv_cq = attr->recv_cq->handle;
        msg.qp.srq = attr->srq ? attr->srq->handle : 0;
        msg.qp.type = attr->qp_type;
        msg.qp.sig_all = (uint32_t)attr->sq_sig_all;
        msg.qp.ece = ece_can ? *ece_can : about.ece;
        msg.qp.ece_how = ece_how;
        rc = cl_call(&msg, NULL);
    }
    if (rc) {
        free(qp);
        return failed(rc);
    }
    attr->cap = msg.qp.cap;
    qp_of(qp, context, attr, &msg);
    return &qp->qpx.qp_base;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_init_attr_ex ex = {.qp_context = attr->qp_context,
                                     .send_cq = attr->send_cq,
                                     .recv_cq = attr->recv_cq,
                                     .srq = attr->srq,
                                     .cap = attr->cap,
                                     .qp_type = attr->qp_type,
                                     .sq_sig_all = attr->sq_sig_all,
                                     .comp_mask = IBV_QP_INIT_ATTR_PD,
                                     .pd = pd};
    struct ibv_qp *qp = create_qp_ex(pd->context, &ex);

    if (qp)
        attr->cap = ex.cap;
    return qp;
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    return &((struct cl_qp *)qp)->qpx;
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    struct ad_msg msg = {.op = AD_MODIFY_QP, .handle = qp->handle};

    msg.modify.attr = *attr;
    msg.modify.attr.port_num += (uint8_t)cl_context(qp->context)->device;
    msg.modify.attr.ah_attr.port_num += (uint8_t)cl_context(qp->context)->device;
    msg.modify.mask = (uint32_t)mask;
    int rc = cl_call(&msg, NULL);
    if (!rc && mask & IBV_QP_STATE)
        qp->state = attr->qp_state;
    return rc;
}

EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
                        struct ibv_qp_init_attr *init)
{
    struct ad_msg msg = {.op = AD_QUERY_QP, .handle = qp->handle};
    int rc = cl_call(&msg, NULL);

    (void)mask;
    if (rc)
        return rc;
    *attr = msg.modify.attr;
    cl_attr_of(qp->context, attr);
    qp->state = attr->qp_state;
    *init = (struct ibv_qp_init_attr){.qp_context = qp->qp_context,
                                      .send_cq = qp->send_cq,
                                      .recv_cq = qp->recv_cq,
                                      .srq = qp->srq,
                                      .cap = attr->cap,
                                      .qp_type = qp->qp_type,
                                      .sq_sig_all = ((struct cl_qp *)qp)->sig_all};
    return 0;
}

/* As in rdma-core 47 and later: ibv_query_qp_data_in_order() of libibverbs/verbs.c, and
 * mlx5_query_qp_data_in_order() of providers/mlx5/verbs.c, which reports an order only in RTS. */
EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
    struct ad_device about;

    (void)op;
    if (qp->state != IBV_QPS_RTS)
        return 0;
    if (query(&about))
        return 0;
    return flags & AD_RETURN_CAPS ? (int)about.data_in_order
                                  : !!(about.data_in_order & AD_WHOLE_MSG);
}

EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    struct ad_msg msg = {.op = AD_QUERY_ECE, .handle = qp->handle};
    int rc = cl_call(&msg, NULL);

    *ece = (struct ibv_ece){0};
    if (!rc)
        *ece = (struct ibv_ece){.vendor_id = msg.ece.vendor_id, .options = msg.ece.options};
    errno = rc;
    return rc;
}

EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    struct ad_msg msg = {
        .op = AD_SET_ECE, .handle = qp->handle, .ece = {ece->vendor_id, ece->options}};
    /* libibverbs' own check is the first one */
    int rc = !ece->vendor_id ? EOPNOTSUPP : ece->comp_mask ? EINVAL : cl_call(&msg, NULL);

    errno = rc;
    return rc;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *base)
{
    struct cl_qp *qp = (struct cl_qp *)base;
    struct ad_device about;
    int rc = query(&about);

    if (!rc)
        rc = destroy(base->handle);
    if (rc)
        return rc;
    if (about.drops_on_destroy) {
        cl_cq_clean(base->send_cq, base->qp_num);
        cl_cq_clean(base->recv_cq, base->qp_num);
    }
    wait_for_acks(&qp->async_events, &base->events_completed);
    pthread_mutex_destroy(&qp->lock);
    free(qp);
    return 0;
}

/** * address handles ** */

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct ad_msg msg = {.op = AD_CREATE_AH, .handle = pd->handle};
    struct ibv_ah *ah = calloc(1, sizeof(*ah));

    msg.ah = *attr;
    msg.ah.port_num += (uint8_t)cl_context(pd->context)->device;
    int rc = ah ? cl_call(&msg, NULL) : ENOMEM;
    if (rc) {
        free(ah);
        return failed(rc);
    }
    *ah = (struct ibv_ah){.context = pd->context, .pd = pd, .handle = msg.handle};
    return ah;
}

EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
    int rc = destroy(ah->handle);

    if (!rc)
        free(ah);
    return rc;
}

/* librdmacm has contexts of its own, one for each device. */
static struct ibv_context *shared_context(uint32_t device)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct ibv_context *contexts[AD_MAX_PORTS];
    static pid_t owners[AD_MAX_PORTS];

    pthread_mutex_lock(&lock);
    if (!contexts[device] || owners[device] != getpid()) {
        struct ibv_device **list = ibv_get_device_list(NULL);
        contexts[device] = list && list[device] ? ibv_open_device(list[device]) : NULL;
        owners[device] = getpid();
        free(list);
    }
    struct ibv_context *context = contexts[device];
    pthread_mutex_unlock(&lock);
    return context;
}

struct ibv_context *cl_context_of_port(uint8_t *port)
{
    struct ad_device about;
    uint32_t device = query(&about) == 0 && about.other[0] ? *port - 1u : 0;

    *port -= (uint8_t)device;
    return shared_context(device);
}
