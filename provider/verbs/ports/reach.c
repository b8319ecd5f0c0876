/* SPDX-License-Identifier: Apache-2.0 */
/* Who reaches whom among the InfiniBand ports of a host: see reach.h. */
#include "reach.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "ud.h"
#include "util/clock.h"
#include "util/log.h"

enum { HEADER = 40, SENT = 8, TRIES = 3, TRY_MS = 10, PAUSE_NS = 100000 };

/* One of the two ports, with a queue pair (UD) that lives as long as the question. */
struct end {
    struct vp_port port;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct ibv_qp *qp;
    uint32_t qkey;
    uint8_t bytes[HEADER + SENT]; /* a datagram as it arrives; the sender uses the end of it */
};

static int make_objects(struct end *end)
{
    struct ibv_context *context = end->port.dev->context;
    struct ibv_qp_init_attr init = {
        .cap = {.max_send_wr = TRIES, .max_recv_wr = TRIES, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD,
        .sq_sig_all = 1,
    };

    end->pd = ibv_alloc_pd(context);
    end->cq = ibv_create_cq(context, 2 * TRIES, NULL, NULL, 0);
    end->mr = end->pd ? ibv_reg_mr(end->pd, end->bytes, sizeof(end->bytes), IBV_ACCESS_LOCAL_WRITE)
                      : NULL;
    init.send_cq = init.recv_cq = end->cq;
    end->qp = end->cq && end->mr ? ibv_create_qp(end->pd, &init) : NULL;
    return end->qp ? 0 : -1;
}

static int open_end(struct end *end, const struct vp_port *port, uint32_t qkey)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = port->num, .qkey = qkey};
    struct ibv_sge sge = {.length = sizeof(end->bytes)};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

    memset(end, 0, sizeof(*end));
    end->port = *port;
    end->qkey = qkey;
    if (vp_ud_probe_port(&end->port, -1) || make_objects(end))
        return -1;
    attr.pkey_index = end->port.pkey_index;
    if (ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
        return -1;
    sge.addr = (uintptr_t)end->bytes;
    sge.lkey = end->mr->lkey;
    for (int i = 0; i < TRIES; i++)
        if (ibv_post_recv(end->qp, &wr, &bad))
            return -1;
    attr.qp_state = IBV_QPS_RTR;
    if (ibv_modify_qp(end->qp, &attr, IBV_QP_STATE))
        return -1;
    attr.qp_state = IBV_QPS_RTS;
    return ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) ? -1 : 0;
}

static void close_end(struct end *end)
{
    if (end->qp)
        ibv_destroy_qp(end->qp);
    if (end->mr)
        ibv_dereg_mr(end->mr);
    if (end->cq)
        ibv_destroy_cq(end->cq);
    if (end->pd)
        ibv_dealloc_pd(end->pd);
}

static bool has_arrived(struct end *to, const uint8_t *sent)
{
    struct ibv_wc wc;

    while (ibv_poll_cq(to->cq, 1, &wc) > 0)
        if (wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV &&
            memcmp(to->bytes + HEADER, sent, SENT) == 0)
            return true;
    return false;
}

static bool gets_there(struct end *from, struct end *to, struct ibv_ah *ah)
{
    struct ibv_sge sge = {(uintptr_t)(from->bytes + HEADER), SENT, from->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    struct timespec pause = {0, PAUSE_NS};

    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = to->qp->qp_num;
    wr.wr.ud.remote_qkey = to->qkey;
    for (int i = 0; i < TRIES; i++) {
        if (ibv_post_send(from->qp, &wr, &bad))
            return false;
        for (uint64_t end = ut_clock_ms() + TRY_MS; ut_clock_ms() <= end;) {
            if (has_arrived(to, from->bytes + HEADER))
                return true;
            nanosleep(&pause, NULL);
        }
    }
    return false;
}

static bool is_other_subnet(const struct vp_port *a, const struct vp_port *b)
{
    struct ibv_port_attr x, y;

    /* a subnet has one master subnet manager, and gives each LID once */
    return ibv_query_port(a->dev->context, a->num, &x) ||
           ibv_query_port(b->dev->context, b->num, &y) || x.sm_lid != y.sm_lid || x.lid == y.lid;
}

bool vp_port_reaches(const struct vp_port *from, const struct vp_port *to)
{
    struct {
        uint32_t qkey;
        uint8_t bytes[SENT];
    } chance;
    struct ibv_ah_attr path;
    struct end ends[2] = {0};
    bool there = false;

    if (is_other_subnet(from, to) || getrandom(&chance, sizeof(chance), 0) != sizeof(chance))
        return false;
    chance.qkey &= INT32_MAX; /* those with the highest bit are the kernel's */
    if (open_end(&ends[0], from, chance.qkey) || open_end(&ends[1], to, chance.qkey)) {
        ut_info(VP_CAT,
                "it is not known whether ports %s:%u and %s:%u reach each other: no queue pair",
                ibv_get_device_name(from->dev->context->device), from->num,
                ibv_get_device_name(to->dev->context->device), to->num);
    } else {
        memcpy(ends[0].bytes + HEADER, chance.bytes, SENT);
        vp_ud_path(&ends[0].port, &ends[1].port.at, &path);
        struct ibv_ah *ah = ibv_create_ah(ends[0].pd, &path);
        there = ah && gets_there(&ends[0], &ends[1], ah);
        if (ah)
            ibv_destroy_ah(ah);
    }
    close_end(&ends[0]);
    close_end(&ends[1]);
    return there;
}
