/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs provider without a device: this file replaces librdmacm and libibverbs. Devices do
 * nothing; ids of connections check the order of calls that the kernel requires. The time is
 * fake_now, and advances a little with each reading. To be included once, by a program that is
 * linked with the rest of the provider.
 */
#ifndef FAKE_VERBS_H
#define FAKE_VERBS_H

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include <time.h>

static struct timespec fake_now;
static long fake_tick_ns; /* advance per reading */

static int fake_clock(clockid_t clock, struct timespec *time)
{
    (void)clock;
    fake_now.tv_nsec += fake_tick_ns;
    fake_now.tv_sec += fake_now.tv_nsec / 1000000000;
    fake_now.tv_nsec %= 1000000000;
    *time = fake_now;
    return 0;
}

#include "util/clock.h"

#define clock_gettime fake_clock
#include "../../src/util/clock.c"
#undef clock_gettime

#include "../../provider/verbs/connect/cm.h"
#include "../../provider/verbs/connect/conn.h"
#include "../../provider/verbs/conn_types.h"
#include "../../provider/verbs/ep_types.h"
#include "../../provider/verbs/provider.c"
#include "../../provider/verbs/connect/rdmacm.h"
#include "../../provider/verbs/connect/handshake.h"

enum { IDS = 32, REPORTS = 64, ARRIVALS = 250 };

/*
 * Devices that do nothing
 */

static struct ibv_device device = {.name = "fake0"};
static struct ibv_context context = {.device = &device, .async_fd = -1, .cmd_fd = -1};
static struct ibv_pd pd = {.context = &context};
static struct ibv_wc reports[REPORTS]; /* of requests, in order */
static unsigned int num_reports;
static enum ibv_wc_status fake_status = IBV_WC_WR_FLUSH_ERR; /* of requests */
static struct ibv_wc arrivals[ARRIVALS];                     /* of receives */
static unsigned int num_arrivals;
static void (*fake_sent)(const struct ibv_qp *qp, const struct ibv_send_wr *wr);
static unsigned int fake_qps, fake_most_qps = UINT_MAX; /* existing, and allowed */
static uint32_t qp_num, fake_sq_depth; /* the latter: of the queue pair made last */
static int fake_vectors[2];            /* of the completion queues made last */
static unsigned int fake_num_vectors;

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *arg,
                             struct ibv_comp_channel *channel, int vector)
{
    struct ibv_cq *cq = calloc(1, sizeof(*cq));

    (void)channel;
    fake_vectors[fake_num_vectors++ % 2] = vector;
    *cq = (struct ibv_cq){.context = c, .cq_context = arg, .cqe = cqe};
    return cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    free(cq);
    return 0;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
    cq->cqe = cqe;
    return 0;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *p, struct ibv_srq_init_attr *attr)
{
    struct ibv_srq *srq = calloc(1, sizeof(*srq));

    *srq = (struct ibv_srq){.context = p->context, .srq_context = attr->srq_context, .pd = p};
    return srq;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
    free(srq);
    return 0;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    (void)srq, (void)attr, (void)mask;
    return 0;
}

/* Enhancements: those of queue pairs, and those set in the queue pair made last; options 0: none
 * set. */
static struct ibv_ece fake_ece, fake_ece_used;

struct ibv_qp *ibv_create_qp(struct ibv_pd *p, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp *qp = fake_qps < fake_most_qps ? calloc(1, sizeof(*qp)) : NULL;

    if (!qp) {
        errno = ENOMEM;
        return NULL;
    }
    fake_qps++;
    fake_sq_depth = attr->cap.max_send_wr;
    fake_ece_used.options = 0;
    *qp =
        (struct ibv_qp){.context = p->context, .qp_context = attr->qp_context, .qp_num = ++qp_num};
    return qp;
}

static int fake_modify_fails;                                 /* once, with this error, */
static enum ibv_qp_state fake_modify_fails_in = IBV_QPS_INIT; /* to this state or a later one */

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    int rc = attr->qp_state >= fake_modify_fails_in ? fake_modify_fails : 0;

    (void)qp, (void)mask;
    if (rc)
        fake_modify_fails = 0;
    return rc;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    *ece = qp->qp_num == qp_num && fake_ece_used.options ? fake_ece_used : fake_ece;
    return ece->vendor_id ? 0 : EOPNOTSUPP;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp;
    fake_ece_used = *ece;
    fake_ece_used.options &= fake_ece.options;
    return 0;
}

/* At most one asynchronous event is pending. */
static struct ibv_async_event fake_async;
static bool fake_has_async;
static int fake_async_end = EAGAIN; /* errno when there is none */

int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *event)
{
    (void)c;
    if (!fake_has_async) {
        errno = fake_async_end;
        return -1;
    }
    fake_has_async = false;
    *event = fake_async;
    return 0;
}

static void (*fake_async_acked)(void);

void ibv_ack_async_event(struct ibv_async_event *event)
{
    (void)event;
    if (fake_async_acked)
        fake_async_acked();
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
                 struct ibv_qp_init_attr *init)
{
    (void)qp, (void)mask, (void)init;
    attr->qp_state = fake_now.tv_sec & 1 ? IBV_QPS_ERR : IBV_QPS_RTS;
    return 0;
}

static struct ibv_port_attr fake_port = {.state = IBV_PORT_ACTIVE};
static int fake_port_fails; /* the query */

#undef ibv_query_port
int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    (void)c, (void)port;
    *(struct ibv_port_attr *)attr = fake_port;
    return fake_port_fails;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    unsigned int kept = 0;

    for (unsigned int i = 0; i < num_reports; i++)
        if (reports[i].qp_num != qp->qp_num)
            reports[kept++] = reports[i];
    num_reports = kept;
    fake_qps--;
    free(qp);
    return 0;
}

static bool fake_reg_fails; /* for lack of memory */

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *p, void *addr, size_t size, int access)
{
    struct ibv_mr *mr = fake_reg_fails ? NULL : calloc(1, sizeof(*mr));

    (void)access;
    if (!mr) {
        errno = ENOMEM;
        return NULL;
    }
    *mr = (struct ibv_mr){.pd = p, .addr = addr, .length = size};
    return mr;
}

/* The function behind the macro ibv_reg_mr() where the access is no constant. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *p, void *addr, size_t size, uint64_t iova,
                                unsigned int access)
{
    (void)iova;
    return ibv_reg_mr(p, addr, size, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    free(mr);
    return 0;
}

/* Receives ever posted, and the end of the last buffer. */
static unsigned int fake_receives;
static uintptr_t fake_receives_end;

static unsigned int fake_takes_receives = UINT_MAX; /* this many more are accepted */

static int take_receives(struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    for (; wr; wr = wr->next) {
        if (fake_takes_receives == 0) {
            *bad = wr;
            return ENOMEM;
        }
        fake_takes_receives -= fake_takes_receives != UINT_MAX;
        uintptr_t end = (uintptr_t)wr->sg_list->addr + wr->sg_list->length;
        fake_receives++;
        if (end > fake_receives_end)
            fake_receives_end = end;
    }
    return 0;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)srq;
    return take_receives(wr, bad);
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)qp;
    return take_receives(wr, bad);
}

static bool fake_refuses; /* requests */

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    for (; wr; wr = wr->next) {
        if (num_reports == REPORTS || fake_refuses) {
            *bad = wr;
            return ENOMEM;
        }
        if (wr->send_flags & IBV_SEND_SIGNALED)
            reports[num_reports++] =
                (struct ibv_wc){.wr_id = wr->wr_id, .status = fake_status, .qp_num = qp->qp_num};
        if (fake_sent)
            fake_sent(qp, wr);
    }
    return 0;
}

static int take(struct ibv_wc *from, unsigned int *there, int most, struct ibv_wc *wc)
{
    int n = 0;

    while (n < most && (unsigned int)n < *there) {
        wc[n] = from[n];
        n++;
    }
    *there -= (unsigned int)n;
    memmove(from, from + n, *there * sizeof(from[0]));
    return n;
}

static bool fake_holds;                 /* no request completes */
static void (*fake_polled)(bool sends); /* called before each poll of a completion queue */

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
    bool sends = cq == ((struct vp_ep *)cq->cq_context)->send_cq;

    if (fake_polled)
        fake_polled(sends);
    if (!sends)
        return take(arrivals, &num_arrivals, most, wc);
    return fake_holds ? 0 : take(reports, &num_reports, most, wc);
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
    (void)cq, (void)solicited;
    return 0;
}

/*
 * The connection manager
 */

enum step { IDLE, ADDRESS, ROUTE, ASKED, ANSWERED, INCOMING, ACCEPTED, CONNECTED, GONE };

struct fake_id {
    struct rdma_cm_id id;
    enum step step;
    struct ibv_ece ours, theirs;
};

static struct fake_id *ids[IDS];
static struct rdma_event_channel channel = {.fd = -1};
static struct rdma_cm_event pending; /* at most one event is pending */
static bool is_pending;

static bool (*fake_more)(void); /* makes another event pending, if there is one */

static struct fake_id *new_id(void *ctx, enum step step)
{
    for (int i = 0; i < IDS; i++) {
        if (ids[i])
            continue;
        ids[i] = calloc(1, sizeof(*ids[i]));
        ids[i]->id = (struct rdma_cm_id){
            .verbs = &context, .channel = &channel, .context = ctx, .port_num = 1};
        ids[i]->id.route.addr.dst_sin.sin_family = AF_INET;
        ids[i]->step = step;
        return ids[i];
    }
    return NULL;
}

int rdma_create_id(struct rdma_event_channel *c, struct rdma_cm_id **id, void *ctx,
                   enum rdma_port_space ps)
{
    struct fake_id *fake = new_id(ctx, IDLE);

    (void)c, (void)ps;
    if (!fake) {
        errno = ENOMEM;
        return -1;
    }
    *id = &fake->id;
    return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
    for (int i = 0; i < IDS; i++) {
        if (!ids[i] || &ids[i]->id != id)
            continue;
        if (is_pending && pending.id == id)
            is_pending = false;
        free(ids[i]);
        ids[i] = NULL;
        return 0;
    }
    abort(); /* it was destroyed before */
}

static int goes_to(struct rdma_cm_id *id, enum step from, enum step to)
{
    struct fake_id *fake = (struct fake_id *)id;

    if (fake->step != from) {
        errno = EINVAL;
        return -1;
    }
    fake->step = to;
    return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
                      int timeout)
{
    (void)src, (void)dst, (void)timeout;
    return goes_to(id, IDLE, ADDRESS);
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout)
{
    (void)timeout;
    return goes_to(id, IDLE, ROUTE);
}

int rdma_set_option(struct rdma_cm_id *id, int level, int option, void *value, size_t size)
{
    (void)id, (void)level, (void)option, (void)value, (void)size;
    return 0;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    (void)param;
    return goes_to(id, IDLE, ASKED);
}

int rdma_establish(struct rdma_cm_id *id)
{
    return goes_to(id, ANSWERED, CONNECTED);
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    (void)param;
    return goes_to(id, INCOMING, ACCEPTED);
}

int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
    ((struct fake_id *)id)->ours = *ece;
    return 0;
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
    *ece = ((struct fake_id *)id)->theirs;
    return 0;
}

static int fake_refusal; /* enum vp_reject_reason: the last one that a peer got */

int rdma_reject(struct rdma_cm_id *id, const void *bytes, uint8_t size)
{
    const struct rdma_cm_event event = {.param.conn = {bytes, size}};

    fake_refusal = (int)vp_rdmacm_reject_reason(&event);
    return goes_to(id, INCOMING, GONE);
}

int rdma_disconnect(struct rdma_cm_id *id)
{
    return goes_to(id, CONNECTED, GONE);
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    (void)id, (void)attr, (void)mask;
    return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *c, struct rdma_cm_event **event)
{
    (void)c;
    if (!is_pending && !(fake_more && fake_more())) {
        errno = EAGAIN;
        return -1;
    }
    is_pending = false;
    *event = &pending;
    return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    (void)event;
    return 0;
}

/* The provider creates its channel itself. */
struct rdma_event_channel *rdma_create_event_channel(void)
{
    return NULL;
}

void rdma_destroy_event_channel(struct rdma_event_channel *c)
{
    (void)c;
}

/*
 * A provider with one port and one endpoint
 */

static struct rdma_cm_id listener;

static struct vp_prov *fake_open(const struct prov_config *config)
{
    static struct vp_cm_id listener_id = {.kind = VP_CM_ID_LISTENER};
    struct vp_prov *prov;

    context.ops.post_srq_recv = post_srq_recv;
    context.ops.post_recv = post_recv;
    context.ops.post_send = post_send;
    context.ops.poll_cq = poll_cq;
    context.ops.req_notify_cq = req_notify_cq;
    if (create_prov(config, &prov) != 0)
        abort();
    prov->tuning.srq_depth = prov->tuning.sq_depth = 16;
    prov->channel = &channel;
    prov->devices[0] = (struct vp_device){
        .context = &context, .pd = &pd, .has_srq = true, .last_wqe = VP_LAST_WQE_NEVER};
    prov->devices[0].attr = (struct ibv_device_attr){
        .max_cqe = 1 << 20, .max_srq_wr = 16, .max_qp_wr = 16, .max_qp_rd_atom = 16};
    vp_budget_init(prov, &prov->devices[0]);
    prov->num_devices = 1;
    listener = (struct rdma_cm_id){.verbs = &context, .context = &listener_id, .port_num = 1};
    prov->ports[0] = (struct vp_port){.dev = &prov->devices[0],
                                      .num = 1,
                                      .max_msg = 4096,
                                      .mtu = IBV_MTU_1024,
                                      .cm_ops = &vp_rdmacm_ops,
                                      .listener = &listener,
                                      .name = "fake0"};
    prov->ports[0].addr.in.sin_family = AF_INET;
    prov->num_ports = 1;
    return prov;
}

/* All its endpoints are closed. */
static void fake_close(struct vp_prov *prov)
{
    if (prov->devices[0].budget.taken || prov->devices[0].budget.num_evicting)
        abort(); /* a place was not given back */
    prov->num_devices = prov->num_ports = 0;
    vp_close(&prov->base);
    for (int i = 0; i < IDS; i++)
        if (ids[i])
            abort(); /* an endpoint was not closed */
}

#endif
