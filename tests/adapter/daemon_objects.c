/* SPDX-License-Identifier: Apache-2.0 */
/* The adapter's objects, for requests of libibverbs, and their events. */
#include "daemon.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { SMALLEST_CLASS = 8, FIRST_QPN = 17 };

/* A growing table of pointers; entries are not reused. */
struct table {
    void **at;
    uint32_t used, size;
};

static struct table handles = {.used = 1}, qpns = {.used = FIRST_QPN}, keys = {.used = 1};

static uint32_t table_add(struct table *t, void *what)
{
    if (t->used >= t->size) {
        uint32_t size = t->size ? t->size * 2 : 1024;
        t->at = realloc(t->at, size * sizeof(*t->at));
        if (!t->at)
            abort();
        memset(t->at + t->size, 0, (size - t->size) * sizeof(*t->at));
        t->size = size;
    }
    t->at[t->used] = what;
    return t->used++;
}

static void *table_find(const struct table *t, uint32_t index)
{
    return index < t->used && t->at ? t->at[index] : NULL;
}

/*** memory of a segment ***/

static int class_of(uint64_t size)
{
    int n = SMALLEST_CLASS;

    while ((UINT64_C(1) << n) < size)
        n++;
    return n;
}

uint64_t segment_alloc(struct proc *proc, uint64_t size)
{
    int n = class_of(size);

    if (n >= NUM_CLASSES)
        return 0;
    if (proc->num_free[n]) {
        uint64_t block = proc->free[n][--proc->num_free[n]];
        memset((char *)proc->segment + block, 0, size);
        return block;
    }
    uint64_t at = (proc->used + 63) & ~UINT64_C(63);
    if (at + (UINT64_C(1) << n) > AD_SEGMENT)
        return 0;
    proc->used = at + (UINT64_C(1) << n);
    return at;
}

void segment_free(struct proc *proc, uint64_t block, uint64_t size)
{
    int n = class_of(size);
    uint64_t *more = realloc(proc->free[n], (proc->num_free[n] + 1) * sizeof(*more));

    if (!more)
        abort();
    proc->free[n] = more;
    more[proc->num_free[n]++] = block;
}

static void *segment_at(struct proc *proc, uint64_t offset)
{
    return (char *)proc->segment + offset;
}

/*** objects ***/

struct object *object_new(struct proc *proc, enum kind kind, size_t size, uint64_t user,
                          struct object *parent)
{
    struct object *object = calloc(1, size);

    if (!object)
        abort();
    object->kind = kind;
    object->user = user;
    object->proc = proc;
    object->parent = parent;
    if (parent)
        parent->users++;
    vp_list_init(&object->link);
    vp_list_append(&proc->objects, &object->link);
    object->handle = table_add(&handles, object);
    return object;
}

struct object *object_find(const struct proc *proc, uint32_t handle, enum kind kind)
{
    struct object *object = table_find(&handles, handle);

    return object && object->proc == proc && object->kind == kind ? object : NULL;
}

void object_free(struct object *object)
{
    handles.at[object->handle] = NULL;
    vp_list_remove(&object->link);
    if (object->parent)
        object->parent->users--;
    free(object);
}

struct qp *qp_find(uint32_t qpn)
{
    return table_find(&qpns, qpn);
}

struct mr *mr_find(uint32_t key)
{
    struct mr *mr = table_find(&keys, key >> 8);

    return mr && mr->key == key ? mr : NULL;
}

/*** queues of events ***/

void queue_open(struct queue *queue)
{
    vp_list_init(&queue->events);
    /* the user decides whether it blocks: it is never read while it is 0 */
    queue->fd = eventfd(0, EFD_CLOEXEC);
}

static void set_readable(struct queue *queue, bool readable)
{
    uint64_t value = 1;

    if (readable)
        (void)!write(queue->fd, &value, sizeof(value));
    else
        (void)!read(queue->fd, &value, sizeof(value));
}

struct event *queue_add(struct queue *queue, struct object *about)
{
    struct event *event = calloc(1, sizeof(*event));

    if (!event)
        abort();
    event->about = about;
    vp_list_init(&event->link);
    if (vp_list_empty(&queue->events))
        set_readable(queue, true);
    vp_list_append(&queue->events, &event->link);
    return event;
}

struct event *queue_take(struct queue *queue)
{
    if (vp_list_empty(&queue->events))
        return NULL;
    struct event *event = vp_container_of(queue->events.next, struct event, link);
    vp_list_remove(&event->link);
    if (vp_list_empty(&queue->events))
        set_readable(queue, false);
    return event;
}

/* Removes the events of an object that ends; NULL: all. */
void queue_purge(struct queue *queue, const struct object *about)
{
    for (struct vp_list *l = queue->events.next, *next; l != &queue->events; l = next) {
        struct event *event = vp_container_of(l, struct event, link);
        next = l->next;
        if (about && event->about != about)
            continue;
        vp_list_remove(&event->link);
        free(event);
        if (vp_list_empty(&queue->events))
            set_readable(queue, false);
    }
}

void queue_close(struct queue *queue)
{
    queue_purge(queue, NULL);
    close(queue->fd);
}

void async_event(struct context *context, struct object *about, uint32_t type, uint32_t port)
{
    struct event *event = queue_add(&context->async, about);

    event->type = type;
    event->port = port;
}

/* Of two devices each has one port. */
bool port_is_of(const struct context *context, uint8_t port)
{
    return !profile.device.other[0] || port == context->device + 1;
}

void async_event_to_all(uint32_t type, uint32_t port)
{
    for (struct vp_list *p = all_procs.next; p != &all_procs; p = p->next) {
        struct proc *proc = vp_container_of(p, struct proc, link);
        for (struct vp_list *l = proc->objects.next; l != &proc->objects; l = l->next) {
            struct object *object = vp_container_of(l, struct object, link);
            struct context *context = (struct context *)object;
            if (object->kind == K_CONTEXT && (!port || port_is_of(context, (uint8_t)port)))
                async_event(context, NULL, type, port);
        }
    }
}

static struct context *context_of(struct object *object)
{
    while (object->kind != K_CONTEXT)
        object = object->parent;
    return (struct context *)object;
}

void queues_to_error(enum kind kind)
{
    uint32_t type = kind == K_CQ ? IBV_EVENT_CQ_ERR : IBV_EVENT_SRQ_ERR;

    for (struct vp_list *p = all_procs.next; p != &all_procs; p = p->next) {
        struct proc *proc = vp_container_of(p, struct proc, link);
        for (struct vp_list *l = proc->objects.next; l != &proc->objects; l = l->next) {
            struct object *object = vp_container_of(l, struct object, link);
            if (object->kind == kind)
                async_event(context_of(object), object, type, 0);
        }
    }
}

static int take_event(struct queue *queue, struct ad_msg *msg)
{
    struct event *event = queue_take(queue);

    if (!event)
        return EAGAIN;
    msg->event.user = event->about ? event->about->user : 0;
    msg->event.type = event->type;
    msg->event.port = event->port;
    free(event);
    return 0;
}

int receives_left(const struct proc *proc, uint32_t *count)
{
    int rc = ENOENT;

    *count = 0;
    for (const struct vp_list *l = proc->objects.next; l != &proc->objects; l = l->next) {
        const struct object *object = vp_container_of(l, struct object, link);
        if (object->kind != K_SRQ)
            continue;
        const struct ad_ring *ring = ((const struct srq *)object)->ring;
        *count += AD_LOAD(ring->head) - ring->tail;
        rc = 0;
    }
    return rc;
}

static bool is_connected(const struct object *object)
{
    const struct qp *qp = (const struct qp *)object;

    return object->kind == K_QP && qp->type == IBV_QPT_RC && qp->attr.qp_state == IBV_QPS_RTS;
}

/* The queue pairs of the process that are ready to send, and the options that they use. */
void enhanced(const struct proc *proc, uint32_t *options, uint32_t *count)
{
    *options = *count = 0;
    for (const struct vp_list *l = proc->objects.next; l != &proc->objects; l = l->next) {
        const struct object *object = vp_container_of(l, struct object, link);
        if (!is_connected(object))
            continue;
        *options |= ((const struct qp *)object)->ece.used;
        ++*count;
    }
}

/* The same with the bits of their traffic classes. */
void classes_of(const struct proc *proc, uint32_t *classes, uint32_t *count)
{
    *classes = *count = 0;
    for (const struct vp_list *l = proc->objects.next; l != &proc->objects; l = l->next) {
        const struct object *object = vp_container_of(l, struct object, link);
        if (!is_connected(object))
            continue;
        *classes |= ((const struct qp *)object)->attr.ah_attr.grh.traffic_class;
        ++*count;
    }
}

uint32_t count_regions(const struct proc *proc)
{
    uint32_t n = 0;

    for (struct vp_list *l = proc->objects.next; l != &proc->objects; l = l->next)
        n += vp_container_of(l, struct object, link)->kind == K_MR;
    return n;
}

/*** creation ***/

static int open_context(struct proc *proc, struct ad_msg *msg, int *fd)
{
    struct context *context;

    if (msg->handle > (profile.device.other[0] != '\0'))
        return ENODEV;
    context = (struct context *)object_new(proc, K_CONTEXT, sizeof(*context), msg->user, NULL);
    context->device = msg->handle;
    queue_open(&context->async);
    msg->handle = context->base.handle;
    *fd = context->async.fd;
    return 0;
}

static int alloc_pd(struct proc *proc, struct ad_msg *msg)
{
    struct object *context = object_find(proc, msg->handle, K_CONTEXT);

    if (!context)
        return EINVAL;
    msg->handle = object_new(proc, K_PD, sizeof(struct object), 0, context)->handle;
    return 0;
}

static int reg_mr(struct proc *proc, struct ad_msg *msg)
{
    struct object *pd = object_find(proc, msg->handle, K_PD);

    if (!pd)
        return EINVAL;
    struct mr *mr = (struct mr *)object_new(proc, K_MR, sizeof(*mr), 0, pd);
    mr->addr = msg->mr.addr;
    mr->size = msg->mr.size;
    mr->iova = msg->mr.iova;
    mr->access = msg->mr.access;
    mr->key = table_add(&keys, mr) << 8 | random_below(256);
    msg->handle = mr->base.handle;
    msg->mr.key = mr->key;
    return 0;
}

static int create_channel(struct proc *proc, struct ad_msg *msg, int *fd)
{
    struct object *context = object_find(proc, msg->handle, K_CONTEXT);

    if (!context)
        return EINVAL;
    struct channel *c = (struct channel *)object_new(proc, K_CHANNEL, sizeof(*c), 0, context);
    queue_open(&c->queue);
    msg->handle = c->base.handle;
    *fd = c->queue.fd;
    return 0;
}

static uint32_t power_of_two(uint32_t n)
{
    uint32_t p = 1;

    while (p < n)
        p *= 2;
    return p;
}

static int cq_entries(struct cq *cq, uint32_t cqe)
{
    uint64_t size = (uint64_t)power_of_two(cqe) * sizeof(struct ibv_wc);
    uint64_t block = segment_alloc(cq->base.proc, size);

    if (!block)
        return ENOMEM;
    cq->data_block = block;
    cq->data_size = size;
    return 0;
}

static int create_cq(struct proc *proc, struct ad_msg *msg)
{
    struct object *context = object_find(proc, msg->handle, K_CONTEXT);
    struct object *channel = object_find(proc, msg->cq.channel, K_CHANNEL);

    if (!context || (msg->cq.channel && !channel) ||
        msg->cq.cqe > (uint32_t)profile.device.attr.max_cqe)
        return EINVAL;
    struct cq *cq = (struct cq *)object_new(proc, K_CQ, sizeof(*cq), msg->user, context);
    cq->channel = (struct channel *)channel;
    cq->context = (struct context *)context;
    cq->size = sizeof(*cq->ring);
    cq->block = segment_alloc(proc, cq->size);
    if (!cq->block || cq_entries(cq, msg->cq.cqe)) {
        object_free(&cq->base);
        return ENOMEM;
    }
    cq->ring = segment_at(proc, cq->block);
    cq->ring->data = cq->data_block;
    cq->ring->limit = msg->cq.cqe;
    cq->ring->mask = power_of_two(msg->cq.cqe) - 1;
    msg->handle = cq->base.handle;
    msg->cq.offset = cq->block;
    return 0;
}

/* The library holds the queue's lock. */
static int resize_cq(struct proc *proc, struct ad_msg *msg)
{
    struct cq *cq = (struct cq *)object_find(proc, msg->handle, K_CQ);
    uint32_t cqe = msg->cq.cqe;

    if (!cq || cqe > (uint32_t)profile.device.attr.max_cqe)
        return EINVAL;
    if (!profile.device.has_resize)
        return EOPNOTSUPP;
    struct ad_cq old = *cq->ring;
    struct ibv_wc *from = segment_at(proc, cq->data_block);
    uint64_t old_block = cq->data_block, old_size = cq->data_size;
    if (old.head - old.tail > cqe)
        return EINVAL;
    if (cq_entries(cq, cqe))
        return ENOMEM;
    struct ibv_wc *to = segment_at(proc, cq->data_block);
    cq->ring->mask = power_of_two(cqe) - 1;
    for (uint32_t i = old.tail; i != old.head; i++)
        to[i & cq->ring->mask] = from[i & old.mask];
    cq->ring->limit = cqe;
    cq->ring->data = cq->data_block;
    segment_free(proc, old_block, old_size);
    return 0;
}

/* A ring of `num` entries of `stride` bytes behind its head. Returns its block, 0: no memory. */
static uint64_t make_ring(struct proc *proc, struct ad_ring **out, uint32_t num, uint32_t stride,
                          uint32_t max_sge, uint64_t *size)
{
    uint32_t places = power_of_two(num ? num : 1);
    const uint64_t head = 64;

    stride = (stride + 7) & ~7u;
    *size = head + (uint64_t)places * stride;
    uint64_t block = segment_alloc(proc, *size);
    if (!block)
        return 0;
    *out = segment_at(proc, block);
    **out = (struct ad_ring){.limit = num,
                             .mask = places - 1,
                             .stride = stride,
                             .max_sge = max_sge,
                             .data = block + head};
    return block;
}

static uint32_t receive_stride(uint32_t max_sge)
{
    return (uint32_t)(sizeof(struct ad_rwqe) + max_sge * sizeof(struct ibv_sge));
}

static int create_srq(struct proc *proc, struct ad_msg *msg)
{
    struct object *pd = object_find(proc, msg->handle, K_PD);
    const struct ibv_device_attr *attr = &profile.device.attr;

    if (!pd)
        return EINVAL;
    if (attr->max_srq < 1)
        return EOPNOTSUPP;
    if (msg->srq.attr.max_wr < 1 || msg->srq.attr.max_wr > (uint32_t)attr->max_srq_wr ||
        msg->srq.attr.max_sge > (uint32_t)attr->max_srq_sge)
        return EINVAL;
    struct srq *srq = (struct srq *)object_new(proc, K_SRQ, sizeof(*srq), msg->user, pd);
    uint32_t max_sge = msg->srq.attr.max_sge;
    srq->block = make_ring(proc, &srq->ring, msg->srq.attr.max_wr, receive_stride(max_sge), max_sge,
                           &srq->size);
    if (!srq->block) {
        object_free(&srq->base);
        return ENOMEM;
    }
    srq->context = context_of(pd);
    msg->handle = srq->base.handle;
    msg->srq.offset = srq->block;
    return 0;
}

static int modify_srq(struct proc *proc, struct ad_msg *msg)
{
    struct srq *srq = (struct srq *)object_find(proc, msg->handle, K_SRQ);

    if (!srq || (msg->srq.mask & ~(uint32_t)IBV_SRQ_LIMIT))
        return srq ? EOPNOTSUPP : EINVAL;
    if (msg->srq.attr.srq_limit > srq->ring->limit)
        return EINVAL;
    srq->limit = msg->srq.attr.srq_limit;
    return 0;
}

/** * address handles ** */

static int create_ah(struct proc *proc, struct ad_msg *msg)
{
    struct object *pd = object_find(proc, msg->handle, K_PD);
    const struct ibv_ah_attr *attr = &msg->ah;

    if (!pd || attr->port_num < 1 || attr->port_num > profile.device.attr.phys_port_cnt ||
        !port_is_of(context_of(pd), attr->port_num))
        return EINVAL;
    const struct ad_port *port = &profile.device.ports[attr->port_num - 1];
    if (attr->is_global ? attr->grh.sgid_index >= port->num_gids
                        : port->attr.link_layer == IBV_LINK_LAYER_ETHERNET)
        return EINVAL;
    uint8_t to = port_at(attr);
    if (attr->is_global && (!to || (to != attr->port_num && !profile.switched)))
        return ETIMEDOUT; /* nobody has it there: the kernel has asked the network */
    struct ah *ah = (struct ah *)object_new(proc, K_AH, sizeof(*ah), 0, pd);
    ah->attr = *attr;
    msg->handle = ah->base.handle;
    return 0;
}

/*** queue pairs ***/

/* Is the context of a second device that differs from the first? */
static bool is_other(const struct context *context)
{
    return context->device && profile.device.other_attr.max_qp;
}

static const struct ibv_device_attr *attr_of(const struct context *context)
{
    return is_other(context) ? &profile.device.other_attr : &profile.device.attr;
}

static int check_cap(const struct context *context, const struct ibv_qp_cap *cap, bool has_srq)
{
    const struct ibv_device_attr *attr = attr_of(context);

    if (cap->max_send_wr > (uint32_t)attr->max_qp_wr ||
        cap->max_send_sge > (uint32_t)attr->max_sge ||
        cap->max_inline_data >
            (is_other(context) ? profile.device.other_inline : profile.device.max_inline))
        return EINVAL;
    if (!has_srq && (cap->max_recv_wr > (uint32_t)attr->max_qp_wr ||
                     cap->max_recv_sge > (uint32_t)attr->max_sge))
        return EINVAL;
    return 0;
}

static int make_rings(struct qp *qp, struct ibv_qp_cap *cap)
{
    struct proc *proc = qp->base.proc;
    uint32_t data = (uint32_t)(cap->max_send_sge * sizeof(struct ibv_sge));

    if (data < cap->max_inline_data)
        data = cap->max_inline_data;
    qp->block = make_ring(proc, &qp->sq, cap->max_send_wr, (uint32_t)sizeof(struct ad_wqe) + data,
                          cap->max_send_sge, &qp->size);
    if (!qp->srq)
        qp->rq_block = make_ring(proc, &qp->rq, cap->max_recv_wr, receive_stride(cap->max_recv_sge),
                                 cap->max_recv_sge, &qp->rq_size);
    return qp->block && (qp->srq || qp->rq_block) ? 0 : ENOMEM;
}

static void fill_in(struct qp *qp, struct cq *send_cq, struct cq *recv_cq, struct srq *srq)
{
    qp->send_cq = send_cq;
    qp->recv_cq = recv_cq;
    qp->srq = srq;
    qp->context = context_of(&qp->base);
    send_cq->base.users++;
    recv_cq->base.users++;
    if (srq)
        srq->base.users++;
}

static void release_qp(struct qp *qp)
{
    if (qp->block)
        segment_free(qp->base.proc, qp->block, qp->size);
    if (qp->rq_block)
        segment_free(qp->base.proc, qp->rq_block, qp->rq_size);
    qp->send_cq->base.users--;
    qp->recv_cq->base.users--;
    if (qp->srq)
        qp->srq->base.users--;
    if (qp->qpn)
        qpns.at[qp->qpn] = NULL;
    free(qp->pieces);
    free(qp->parts);
    object_free(&qp->base);
}

static int create_qp(struct proc *proc, struct ad_msg *msg)
{
    struct object *pd = object_find(proc, msg->handle, K_PD);
    struct cq *send_cq = (struct cq *)object_find(proc, msg->qp.send_cq, K_CQ);
    struct cq *recv_cq = (struct cq *)object_find(proc, msg->qp.recv_cq, K_CQ);
    struct srq *srq = (struct srq *)object_find(proc, msg->qp.srq, K_SRQ);

    if (!pd || !send_cq || !recv_cq || (msg->qp.srq && !srq))
        return EINVAL;
    if (msg->qp.type != IBV_QPT_RC && msg->qp.type != IBV_QPT_UD)
        return EOPNOTSUPP;
    int rc = check_cap(context_of(pd), &msg->qp.cap, srq != NULL);
    if (rc)
        return rc;
    struct qp *qp = (struct qp *)object_new(proc, K_QP, sizeof(*qp), msg->user, pd);
    fill_in(qp, send_cq, recv_cq, srq);
    qp_init(qp);
    rc = make_rings(qp, &msg->qp.cap);
    if (rc) {
        release_qp(qp);
        return rc;
    }
    qp_has_rings(qp);
    qp->attr.cap = msg->qp.cap;
    qp->type = (enum ibv_qp_type)msg->qp.type;
    if (qp->type == IBV_QPT_RC)
        qp->ece.can = msg->qp.ece;
    qp->ece.said = qp->ece.can.options;
    qp->ece.how = msg->qp.ece_how;
    qp->qpn = table_add(&qpns, qp);
    msg->handle = qp->base.handle;
    msg->qp.qpn = qp->qpn;
    msg->qp.sq = qp->block;
    msg->qp.rq = qp->rq_block;
    return 0;
}

static int needed_by_ud(enum ibv_qp_state from, enum ibv_qp_state to)
{
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
        return 0;
    if (to == IBV_QPS_INIT && (from == IBV_QPS_RESET || from == IBV_QPS_INIT))
        return from == IBV_QPS_RESET ? IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY : 0;
    if (to == IBV_QPS_RTR)
        return from == IBV_QPS_INIT ? 0 : -1;
    if (to == IBV_QPS_RTS && from == IBV_QPS_RTR)
        return IBV_QP_SQ_PSN;
    return to == IBV_QPS_RTS && from == IBV_QPS_RTS ? 0 : -1;
}

/* The attributes that RC requires for a transition. */
static int needed_by_rc(enum ibv_qp_state from, enum ibv_qp_state to)
{
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
        return 0;
    if (to == IBV_QPS_INIT && (from == IBV_QPS_RESET || from == IBV_QPS_INIT))
        return from == IBV_QPS_RESET ? IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS : 0;
    if (to == IBV_QPS_RTR && from == IBV_QPS_INIT)
        return IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    if (to == IBV_QPS_RTS && from == IBV_QPS_RTR)
        return IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
               IBV_QP_MAX_QP_RD_ATOMIC;
    return to == IBV_QPS_RTS && from == IBV_QPS_RTS ? 0 : -1;
}

static void take_attr(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
    if (mask & IBV_QP_PKEY_INDEX)
        to->pkey_index = from->pkey_index;
    if (mask & IBV_QP_PORT)
        to->port_num = from->port_num;
    if (mask & IBV_QP_ACCESS_FLAGS)
        to->qp_access_flags = from->qp_access_flags;
    if (mask & IBV_QP_AV)
        to->ah_attr = from->ah_attr;
    if (mask & IBV_QP_PATH_MTU)
        to->path_mtu = from->path_mtu;
    if (mask & IBV_QP_DEST_QPN)
        to->dest_qp_num = from->dest_qp_num;
    if (mask & IBV_QP_RQ_PSN)
        to->rq_psn = from->rq_psn;
    if (mask & IBV_QP_SQ_PSN)
        to->sq_psn = from->sq_psn;
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
        to->max_dest_rd_atomic = from->max_dest_rd_atomic;
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
        to->max_rd_atomic = from->max_rd_atomic;
    if (mask & IBV_QP_MIN_RNR_TIMER)
        to->min_rnr_timer = from->min_rnr_timer;
    if (mask & IBV_QP_TIMEOUT)
        to->timeout = from->timeout;
    if (mask & IBV_QP_RETRY_CNT)
        to->retry_cnt = from->retry_cnt;
    if (mask & IBV_QP_RNR_RETRY)
        to->rnr_retry = from->rnr_retry;
    if (mask & IBV_QP_QKEY)
        to->qkey = from->qkey;
}

/* Does the partition exist, is the packet size allowed, and has the device an address? A packet
 * may be larger than the port's MTU: Linux 6.1, drivers/infiniband/sw/rxe/rxe_qp.c,
 * rxe_qp_chk_attr(). */
static bool is_valid_path(const struct ibv_qp_attr *attr, int mask)
{
    const struct ad_port *port = &profile.device.ports[0];
    const struct ibv_ah_attr *av = &attr->ah_attr;

    if (mask & IBV_QP_PKEY_INDEX && attr->pkey_index >= port->attr.pkey_tbl_len)
        return false;
    if (mask & IBV_QP_PATH_MTU && attr->path_mtu > port->attr.max_mtu)
        return false;
    return !(mask & IBV_QP_AV) || av->is_global ||
           port->attr.link_layer == IBV_LINK_LAYER_INFINIBAND;
}

static bool is_valid(const struct context *context, const struct ibv_qp_attr *attr, int mask)
{
    const struct ibv_device_attr *device = attr_of(context);

    if (!is_valid_path(attr, mask))
        return false;

    return !(mask & IBV_QP_PORT &&
             (attr->port_num < 1 || attr->port_num > profile.device.attr.phys_port_cnt)) &&
           !(mask & IBV_QP_MAX_DEST_RD_ATOMIC &&
             attr->max_dest_rd_atomic > device->max_qp_rd_atom) &&
           !(mask & IBV_QP_MAX_QP_RD_ATOMIC && attr->max_rd_atomic > device->max_qp_init_rd_atom) &&
           !(mask & IBV_QP_TIMEOUT && attr->timeout > 31) &&
           !(mask & IBV_QP_RETRY_CNT && attr->retry_cnt > 7) &&
           !(mask & IBV_QP_RNR_RETRY && attr->rnr_retry > 7) &&
           !(mask & IBV_QP_MIN_RNR_TIMER && attr->min_rnr_timer > 31);
}

/** * enhancements: as on mlx5, whose firmware accepts the options that it supports ** */

static int set_ece(struct proc *proc, const struct ad_msg *msg)
{
    struct qp *qp = (struct qp *)object_find(proc, msg->handle, K_QP);

    if (!qp || qp->attr.qp_state > IBV_QPS_INIT)
        return EINVAL;
    if (!qp->ece.can.vendor_id)
        return EOPNOTSUPP;
    if (msg->ece.vendor_id != qp->ece.can.vendor_id || qp->ece.how == AD_ECE_REFUSES)
        return EINVAL;
    qp->ece.is_set = true;
    qp->ece.wanted = msg->ece.options;
    qp->ece.said = 0; /* until the queue pair is ready to receive */
    return 0;
}

static int query_ece(struct proc *proc, struct ad_msg *msg)
{
    const struct qp *qp = (const struct qp *)object_find(proc, msg->handle, K_QP);

    if (!qp)
        return EINVAL;
    if (!qp->ece.can.vendor_id)
        return EOPNOTSUPP;
    msg->ece = (struct ad_ece){qp->ece.can.vendor_id, qp->ece.said};
    return 0;
}

/* Ready to receive: from here on it uses the requested options that it supports. */
static void use_ece(struct qp *qp)
{
    qp->ece.used = qp->ece.is_set ? qp->ece.wanted & qp->ece.can.options : 0;
    if (qp->ece.is_set)
        qp->ece.said = qp->ece.used;
}

static int modify_qp(struct proc *proc, const struct ad_msg *msg)
{
    struct qp *qp = (struct qp *)object_find(proc, msg->handle, K_QP);
    int mask = (int)msg->modify.mask;

    if (!qp || !is_valid(qp->context, &msg->modify.attr, mask) ||
        (mask & IBV_QP_PORT && !port_is_of(qp->context, msg->modify.attr.port_num)))
        return EINVAL;
    enum ibv_qp_state from = qp->attr.qp_state;
    enum ibv_qp_state to = mask & IBV_QP_STATE ? msg->modify.attr.qp_state : from;
    int need = qp->type == IBV_QPT_UD ? needed_by_ud(from, to) : needed_by_rc(from, to);
    if (need < 0 || (mask & need) != need)
        return EINVAL;
    if (to == IBV_QPS_ERR) {
        qp_to_error(qp);
        return 0;
    }
    if (to == IBV_QPS_RESET) {
        qp_reset(qp);
        return 0;
    }
    if (to == IBV_QPS_RTR && qp->ece.is_set && qp->ece.how == AD_ECE_FAILS)
        return EINVAL;
    if (to == IBV_QPS_RTR && from != to)
        use_ece(qp);
    take_attr(&qp->attr, &msg->modify.attr, mask);
    qp_set_state(qp, to);
    return 0;
}

static int query_qp(struct proc *proc, struct ad_msg *msg)
{
    struct qp *qp = (struct qp *)object_find(proc, msg->handle, K_QP);

    if (!qp)
        return EINVAL;
    msg->modify.attr = qp->attr;
    msg->modify.attr.cur_qp_state = qp->attr.qp_state;
    return 0;
}

/*** the end of objects ***/

static void destroy_cq(struct cq *cq)
{
    if (cq->channel)
        queue_purge(&cq->channel->queue, &cq->base);
    queue_purge(&cq->context->async, &cq->base);
    segment_free(cq->base.proc, cq->block, cq->size);
    segment_free(cq->base.proc, cq->data_block, cq->data_size);
    object_free(&cq->base);
}

/* Data of WRITEs whose key has been checked are placed first: a WRITE that succeeds has all of its
 * data in memory. */
static void end_mr(const struct mr *mr)
{
    for (uint32_t qpn = FIRST_QPN; pieces_wait() && qpn < qpns.used; qpn++) {
        if (qpns.at[qpn])
            qp_place_all_of(qpns.at[qpn], mr->key);
    }
    keys.at[mr->key >> 8] = NULL;
}

int object_destroy(struct object *object)
{
    if (object->users)
        return EBUSY;
    switch (object->kind) {
    case K_CONTEXT:
        queue_close(&((struct context *)object)->async);
        break;
    case K_MR:
        end_mr((struct mr *)object);
        break;
    case K_CHANNEL:
        queue_close(&((struct channel *)object)->queue);
        break;
    case K_CQ:
        destroy_cq((struct cq *)object);
        return 0;
    case K_SRQ:
        queue_purge(&((struct srq *)object)->context->async, object);
        segment_free(object->proc, ((struct srq *)object)->block, ((struct srq *)object)->size);
        break;
    case K_QP:
        qp_gone((struct qp *)object);
        queue_purge(&((struct qp *)object)->context->async, object);
        release_qp((struct qp *)object);
        return 0;
    case K_CM_CHANNEL:
        cm_channel_destroy(object);
        return 0;
    case K_CM_ID:
        cm_destroy(object);
        return 0;
    default:
        break;
    }
    object_free(object);
    return 0;
}

static int destroy(struct proc *proc, uint32_t handle)
{
    struct object *object = table_find(&handles, handle);

    return object && object->proc == proc ? object_destroy(object) : EINVAL;
}

static int get_event(struct proc *proc, struct ad_msg *msg)
{
    struct object *object =
        object_find(proc, msg->handle, msg->op == AD_GET_COMP ? K_CHANNEL : K_CONTEXT);

    if (!object)
        return EINVAL;
    return take_event(msg->op == AD_GET_COMP ? &((struct channel *)object)->queue
                                             : &((struct context *)object)->async,
                      msg);
}

static bool makes_something(uint32_t op)
{
    return op == AD_OPEN || op == AD_ALLOC_PD || op == AD_REG_MR || op == AD_CREATE_CHANNEL ||
           op == AD_CREATE_CQ || op == AD_RESIZE_CQ || op == AD_CREATE_SRQ || op == AD_CREATE_QP ||
           op == AD_CREATE_AH;
}

int verbs_request(struct proc *proc, struct ad_msg *msg, int *fd)
{
    if (makes_something(msg->op) && fault_hits(AD_FAULT_CREATE))
        return ENOMEM;
    switch (msg->op) {
    case AD_QUERY:
        msg->device = profile.device;
        return 0;
    case AD_OPEN:
        return open_context(proc, msg, fd);
    case AD_ALLOC_PD:
        return alloc_pd(proc, msg);
    case AD_REG_MR:
        return reg_mr(proc, msg);
    case AD_CREATE_CHANNEL:
        return create_channel(proc, msg, fd);
    case AD_CREATE_CQ:
        return create_cq(proc, msg);
    case AD_RESIZE_CQ:
        return resize_cq(proc, msg);
    case AD_CREATE_SRQ:
        return create_srq(proc, msg);
    case AD_MODIFY_SRQ:
        return modify_srq(proc, msg);
    case AD_CREATE_QP:
        return create_qp(proc, msg);
    case AD_CREATE_AH:
        return create_ah(proc, msg);
    case AD_MODIFY_QP:
        return modify_qp(proc, msg);
    case AD_QUERY_QP:
        return query_qp(proc, msg);
    case AD_SET_ECE:
        return set_ece(proc, msg);
    case AD_QUERY_ECE:
        return query_ece(proc, msg);
    case AD_GET_COMP:
    case AD_GET_ASYNC:
        return get_event(proc, msg);
    case AD_CLOSE:
    case AD_DESTROY:
        return destroy(proc, msg->handle);
    default:
        return EINVAL;
    }
}
