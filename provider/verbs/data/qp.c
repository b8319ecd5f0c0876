/* SPDX-License-Identifier: Apache-2.0 */
/* Connection objects and their queue pairs: see qp.h. */
#include "qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "recvs.h"
#include "util/clock.h"
#include "util/fd_check.h"
#include "util/log.h"
#include "verbs/connect/cm_ops.h"
#include "verbs/ep_types.h"
#include "verbs/ports/device.h"
#include "verbs/ports/ece.h"
#include "verbs/ports/order.h"
#include "verbs/ports/qp_budget.h"
#include "verbs/signalled.h"
#include "verbs/wake.h"

enum { FLOW_LABEL_MASK = 0xfffff };

struct vp_conn *vp_conn_new(struct vp_ep *ep, bool active)
{
    struct vp_conn *conn = calloc(1, sizeof(*conn));

    if (!conn)
        return NULL;
    conn->ep = ep;
    conn->active = active;
    conn->signal_due = ep->signal_every;
    conn->sq_depth = ep->sq_first;
    conn->phase = active ? VP_QUEUED : VP_REQUESTED;
    conn->reject_reason = VP_REJ_BY_CORE;
    conn->end.reason = VP_REASON_UNKNOWN;
    conn->id.kind = VP_CM_ID_CONN;
    vp_list_init(&conn->service_link);
    vp_list_init(&conn->hs.link);
    vp_list_init(&conn->ev_link);
    vp_list_init(&conn->ep_link);
    vp_list_init(&conn->budget_link);
    return conn;
}

static int alloc_ring(struct vp_conn *conn)
{
    uint32_t size = 1;

    while (size < conn->sq_depth)
        size *= 2;
    conn->ops = calloc(size, sizeof(*conn->ops));
    if (!conn->ops)
        return -ENOMEM;
    for (uint32_t i = 0; i < size; i++) {
        conn->ops[i].conn = conn;
        conn->ops[i].slot = i;
    }
    conn->sq_mask = size - 1;
    return 0;
}

int vp_conn_create_qp(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;
    struct vp_device *dev = ep->port->dev;
    struct ibv_qp_init_attr_ex attr = {
        .qp_context = conn,
        .send_cq = ep->send_cq,
        .recv_cq = ep->recv_cq,
        .srq = ep->srq,
        .cap = {.max_send_wr = conn->sq_depth,
                .max_recv_wr = ep->rq_depth,
                .max_send_sge = 1,
                .max_recv_sge = ep->srq ? 0 : 1,
                .max_inline_data = ep->max_inline},
        .qp_type = IBV_QPT_RC,
        .pd = dev->pd,
        .comp_mask = IBV_QP_INIT_ATTR_PD | (dev->has_wr_api ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                          IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND |
                          IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                          IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
    };

    int rc = alloc_ring(conn);
    if (!rc && !ep->srq)
        rc = vp_recvs_create(conn);
    struct ibv_qp *qp = rc ? NULL : ibv_create_qp_ex(dev->context, &attr);
    if (!qp) {
        rc = rc ? rc : -errno;
        vp_recvs_destroy(conn);
        free(conn->ops);
        conn->ops = NULL;
        return rc;
    }
    if (conn->recvs)
        conn->recvs->qp = qp;
    conn->qpx = dev->has_wr_api ? ibv_qp_to_qp_ex(qp) : NULL;
    pthread_mutex_lock(&ep->prov->lock);
    conn->qp = qp; /* from here on receives count for this connection */
    pthread_mutex_unlock(&ep->prov->lock);
    return 0;
}

/* The kernel did not find the route to the peer's port again, for example because very many
 * processes resolve routes. The peer replied a moment ago, so another attempt may succeed. */
static bool is_route_lost(int err)
{
    return err == ETIMEDOUT || err == EHOSTUNREACH || err == ENETUNREACH || err == ENODATA;
}

struct vp_ece vp_conn_ece_offer(const struct vp_conn *conn)
{
    if (conn->hs.no_ece || conn->ep->port->dev->no_ece)
        return (struct vp_ece){0};
    return vp_ece_of(conn->qp);
}

/* The accepting side may use fewer ECE options than offered, or none. The origin must use the same
 * options. */
static int retry_without_ece(struct vp_conn *conn)
{
    if (!conn->active)
        return 0;
    ut_debug(VP_CAT, "the peer uses ECE options that this side cannot use: offering none");
    conn->hs.no_ece = true;
    return -ECONNABORTED;
}

/* Called before INIT. */
static int apply_ece(struct vp_conn *conn)
{
    if (conn->ep->port->dev->no_ece && !conn->active)
        conn->ece.options = 0;
    int rc = conn->ece.options ? vp_ece_use(conn->qp, &conn->ece) : 0;

    if (!rc)
        return 0;
    ut_debug(VP_CAT, "ECE options %#x of vendor %#x: %s", conn->ece.options, conn->ece.vendor_id,
             strerror(-rc));
    conn->ece.options = 0;
    return retry_without_ece(conn);
}

/* Called after RTR, when the queue pair reports which of the set options it uses. */
static int verify_ece(struct vp_conn *conn)
{
    uint32_t set = conn->ece.options;

    if (set)
        conn->ece = vp_ece_of(conn->qp);
    return conn->ece.options == set ? 0 : retry_without_ece(conn);
}

/* True if the device rejected options that it had offered. Then they are not offered again. */
static bool is_ece_refused(struct vp_conn *conn, int err)
{
    struct vp_port *port = conn->ep->port;

    if (!conn->ece.options || (err != EINVAL && err != EOPNOTSUPP))
        return false;
    ut_info(
        VP_CAT,
        "setting up a queue pair on %s with ECE options %#x: %s: the options are not offered again",
        port->name, conn->ece.options, strerror(err));
    port->dev->no_ece = true;
    return true;
}

/* On RoCE, librdmacm returns the MTU of the origin's network interface (Linux 6.1,
 * drivers/infiniband/core/cma.c, cma_resolve_iboe_route()). The accepting side's port loses larger
 * packets than its own MTU. */
static enum ibv_mtu path_mtu(const struct vp_conn *conn, enum ibv_mtu mtu)
{
    if (conn->ep->port->mtu < mtu)
        mtu = (enum ibv_mtu)conn->ep->port->mtu;
    if (conn->active && conn->rmt_mtu < mtu)
        mtu = (enum ibv_mtu)conn->rmt_mtu;
    return mtu;
}

/* Until it sends its reply, the accepting side has the values that the origin requested, which may
 * exceed the limits of its device: Linux 6.1, drivers/infiniband/core/cm.c, cm_req_handler() and
 * cm_init_qp_rtr_attr(). Its reply is within the limits of both. */
static void limit_rd_atomics(const struct vp_conn *conn, struct ibv_qp_attr *attr)
{
    const struct ibv_device_attr *device = &conn->ep->port->dev->attr;

    if (attr->max_dest_rd_atomic > device->max_qp_rd_atom)
        attr->max_dest_rd_atomic = (uint8_t)device->max_qp_rd_atom;
    if (attr->max_rd_atomic > device->max_qp_init_rd_atom)
        attr->max_rd_atomic = (uint8_t)device->max_qp_init_rd_atom;
}

/* Bonds, on this host or between switches, select a link by the UDP source port, which follows from
 * the flow label (Linux 6.1, include/rdma/ib_verbs.h, rdma_flow_label_to_udp_sport()). UCX numbers
 * its paths in the same way (August 2026: src/uct/ib/base/ib_iface.c,
 * uct_ib_iface_fill_ah_attr_from_gid_lid()). */
static uint32_t flow_label_of(unsigned int rail)
{
    return ~rail & FLOW_LABEL_MASK;
}

/* Sets the RNR timer itself, since librdmacm's value is 655 ms. */
int vp_conn_connect_qp(struct vp_conn *conn)
{
    static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
    const struct vp_tuning *tuning = &conn->ep->prov->tuning;

    int rc = apply_ece(conn);
    if (rc)
        return rc;
    conn->packet = PROV_TOFU_LINE;
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        struct ibv_qp_attr attr = {.qp_state = states[i]};
        int mask = 0;
        if (conn->id.ops->init_qp_attr(&conn->id, &attr, &mask))
            return -ECONNABORTED;
        limit_rd_atomics(conn, &attr);
        if ((mask & IBV_QP_AV) && conn->ep->rail && attr.ah_attr.is_global)
            attr.ah_attr.grh.flow_label = flow_label_of(conn->ep->rail);
        if (mask & IBV_QP_PATH_MTU)
            attr.path_mtu = path_mtu(conn, attr.path_mtu);
        attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
        if (conn->ep->port->dev->attr.atomic_cap != IBV_ATOMIC_NONE)
            attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
        attr.min_rnr_timer = 12; /* 0.64 ms */
        attr.timeout = tuning->timeout;
        attr.retry_cnt = tuning->retry_count;
        attr.rnr_retry = 7; /* 7 means without limit */
        rc = ibv_modify_qp(conn->qp, &attr, mask);
        if (is_ece_refused(conn, rc))
            return -ECONNABORTED;
        if (is_route_lost(rc)) {
            ut_info(VP_CAT, "setting up a queue pair on %s: %s", conn->ep->port->name,
                    strerror(rc));
            return -ECONNABORTED;
        }
        if (rc) {
            ut_error(VP_CAT, "setting up a queue pair on %s: %s", conn->ep->port->name,
                     strerror(rc));
            return -rc;
        }
        if (mask & IBV_QP_PATH_MTU)
            conn->packet = 128u << attr.path_mtu;
        if (states[i] == IBV_QPS_INIT && conn->recvs) {
            rc = vp_recvs_post_all(conn->ep, conn->recvs);
            if (rc)
                return rc;
        }
        conn->qp_state = (uint8_t)states[i];
        rc = states[i] == IBV_QPS_RTR ? verify_ece(conn) : 0;
        if (rc)
            return rc;
    }
    conn->lcl_unit = (uint8_t)vp_qp_unit(conn->ep->port->dev, conn->qp);
    return 0;
}

void vp_conn_drop_qp(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;

    pthread_mutex_lock(&prov->lock);
    struct ibv_qp *qp = conn->qp;
    conn->qp = NULL;
    conn->qp_failed = false;
    conn->events &= (uint16_t)~VP_EV_QP_ERROR;
    pthread_mutex_unlock(&prov->lock);
    bool is_leaked = ut_fd_were_closed(); /* the device may still write to its receives */
    int rc = qp && !is_leaked ? ibv_destroy_qp(qp) : 0;
    if (rc)
        ut_debug(VP_CAT, "destroying a queue pair: %s", strerror(rc));
    conn->qp_state = IBV_QPS_RESET;
    if (!is_leaked)
        vp_recvs_destroy(conn);
    free(conn->ops);
    conn->ops = NULL;
    pthread_mutex_lock(&prov->lock);
    vp_budget_release_locked(conn);
    pthread_mutex_unlock(&prov->lock);
}

bool vp_conn_qp_to_error(struct vp_conn *conn)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    int rc = ut_fd_were_closed() ? EBADF : ibv_modify_qp(conn->qp, &attr, IBV_QP_STATE);

    if (rc)
        ut_debug(VP_CAT, "moving queue pair %u to the error state: %s", conn->qp->qp_num,
                 strerror(rc));
    return rc == 0;
}

void vp_conn_free(struct vp_conn *conn)
{
    vp_list_remove(&conn->ep_link);
    free(conn->ops);
    free(conn);
}

/*
 * Failing connections
 */

/* Limits for dead devices: other devices complete all requests at once after an error. POLL_MS:
 * interval of polls while the requests drain. */
enum { DRAIN_MS = 2000, DRAIN_GONE_MS = 200, POLL_MS = 10 };

void vp_conn_schedule_service(struct vp_conn *conn)
{
    if (vp_list_empty(&conn->service_link)) /* ep_close() iterates over the list */
        vp_list_append(&conn->ep->service_list, &conn->service_link);
    conn->ep->needs_slow_poll = true;
}

void vp_conn_set_reason(struct vp_conn *conn, enum prov_reason reason)
{
    conn->end.reason = (int8_t)reason;
}

/* An error of a part counts as an error of the whole transfer. */
bool vp_conn_record_error(struct vp_conn *conn, uint32_t seq, enum prov_status status)
{
    while (conn->ops[seq & conn->sq_mask].tag == VP_TAG_PART)
        seq++;
    if (conn->end.err_status && (int32_t)(seq - conn->end.err_seq) >= 0)
        return false;
    conn->end.err_seq = seq;
    conn->end.err_status = (uint8_t)status;
    return true;
}

void vp_conn_start_failing(struct vp_conn *conn)
{
    conn->state = VP_CONN_FAILING;
    /* while service_list is not empty, each poll takes send completions: sends_made_progress() in
     * ep.c */
    vp_clear_signalled(conn);
    uint64_t now = ut_clock_ms();
    conn->end.deadline = now + (conn->ep->port->dev->gone ? DRAIN_GONE_MS : DRAIN_MS);
    vp_conn_schedule_service(conn);
    /* some devices raise no event for flushed requests: arming schedules polls while draining */
    vp_ep_wake_later(conn->ep, now + POLL_MS);
}

bool vp_conn_post_failed(struct vp_conn *conn, uint32_t seq, enum prov_status status)
{
    if (conn->state == VP_CONN_FAILING)
        return false;
    conn->sq_xfer_max = conn->sq_max = 0;
    conn->inline_until = conn->head;
    conn->end.posted_end = seq;
    vp_conn_record_error(conn, seq, status);
    vp_conn_set_reason(conn, conn->ep->port->dev->gone ? PROV_REASON_LOCAL : PROV_REASON_BROKEN);
    bool flushes = vp_conn_qp_to_error(conn);
    vp_conn_start_failing(conn);
    return flushes;
}
