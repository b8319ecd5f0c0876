/* SPDX-License-Identifier: Apache-2.0 */
/* Tests whether InfiniBand ports of this host reach each other: see reach.h. */
#include "reach.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "ud.h"
#include "util/clock.h"
#include "util/log.h"

enum { HEADER = 40, NONCE_BYTES = 8, TRIES = 3, TRY_MS = 10, PAUSE_NS = 100000 };

/* One of the two ports, with a UD queue pair for the test. */
struct test_port {
    struct vp_port port;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct ibv_qp *qp;
    uint32_t qkey;
    uint8_t bytes[HEADER + NONCE_BYTES]; /* a datagram as it arrives; the sender uses its end */
};

static int make_objects(struct test_port *test_port)
{
    struct ibv_context *context = test_port->port.dev->context;
    struct ibv_qp_init_attr init = {
        .cap = {.max_send_wr = TRIES, .max_recv_wr = TRIES, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD,
        .sq_sig_all = 1,
    };

    test_port->pd = ibv_alloc_pd(context);
    test_port->cq = ibv_create_cq(context, 2 * TRIES, NULL, NULL, 0);
    test_port->mr = test_port->pd ? ibv_reg_mr(test_port->pd, test_port->bytes,
                                               sizeof(test_port->bytes), IBV_ACCESS_LOCAL_WRITE)
                                  : NULL;
    init.send_cq = init.recv_cq = test_port->cq;
    test_port->qp = test_port->cq && test_port->mr ? ibv_create_qp(test_port->pd, &init) : NULL;
    return test_port->qp ? 0 : -1;
}

static int open_test_port(struct test_port *test_port, const struct vp_port *port, uint32_t qkey)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = port->num, .qkey = qkey};
    struct ibv_sge sge = {.length = sizeof(test_port->bytes)};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

    memset(test_port, 0, sizeof(*test_port));
    test_port->port = *port;
    test_port->qkey = qkey;
    if (vp_ud_probe_port(&test_port->port, -1) || make_objects(test_port))
        return -1;
    attr.pkey_index = test_port->port.pkey_index;
    if (ibv_modify_qp(test_port->qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
        return -1;
    sge.addr = (uintptr_t)test_port->bytes;
    sge.lkey = test_port->mr->lkey;
    for (int i = 0; i < TRIES; i++)
        if (ibv_post_recv(test_port->qp, &wr, &bad))
            return -1;
    attr.qp_state = IBV_QPS_RTR;
    if (ibv_modify_qp(test_port->qp, &attr, IBV_QP_STATE))
        return -1;
    attr.qp_state = IBV_QPS_RTS;
    return ibv_modify_qp(test_port->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) ? -1 : 0;
}

static void close_test_port(struct test_port *test_port)
{
    if (test_port->qp)
        ibv_destroy_qp(test_port->qp);
    if (test_port->mr)
        ibv_dereg_mr(test_port->mr);
    if (test_port->cq)
        ibv_destroy_cq(test_port->cq);
    if (test_port->pd)
        ibv_dealloc_pd(test_port->pd);
}

static bool has_arrived(struct test_port *to, const uint8_t *sent)
{
    struct ibv_wc wc;

    while (ibv_poll_cq(to->cq, 1, &wc) > 0)
        if (wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV &&
            memcmp(to->bytes + HEADER, sent, NONCE_BYTES) == 0)
            return true;
    return false;
}

static bool send_and_wait(struct test_port *from, struct test_port *to, struct ibv_ah *ah)
{
    struct ibv_sge sge = {(uintptr_t)(from->bytes + HEADER), NONCE_BYTES, from->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    struct timespec pause = {0, PAUSE_NS};

    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = to->qp->qp_num;
    wr.wr.ud.remote_qkey = to->qkey;
    for (int i = 0; i < TRIES; i++) {
        if (ibv_post_send(from->qp, &wr, &bad))
            return false;
        for (uint64_t test_port = ut_clock_ms() + TRY_MS; ut_clock_ms() <= test_port;) {
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

    /* a subnet has one master subnet manager, which assigns each LID once */
    return ibv_query_port(a->dev->context, a->num, &x) ||
           ibv_query_port(b->dev->context, b->num, &y) || x.sm_lid != y.sm_lid || x.lid == y.lid;
}

bool vp_port_reaches(const struct vp_port *from, const struct vp_port *to)
{
    struct {
        uint32_t qkey;
        uint8_t bytes[NONCE_BYTES];
    } random_bytes;
    struct ibv_ah_attr path;
    struct test_port ports[2] = {0};
    bool arrived = false;

    if (is_other_subnet(from, to) ||
        getrandom(&random_bytes, sizeof(random_bytes), 0) != sizeof(random_bytes))
        return false;
    random_bytes.qkey &= INT32_MAX; /* the kernel reserves qkeys with the highest bit */
    if (open_test_port(&ports[0], from, random_bytes.qkey) ||
        open_test_port(&ports[1], to, random_bytes.qkey)) {
        ut_info(VP_CAT,
                "it is not known whether ports %s:%u and %s:%u reach each other: no queue pair",
                ibv_get_device_name(from->dev->context->device), from->num,
                ibv_get_device_name(to->dev->context->device), to->num);
    } else {
        memcpy(ports[0].bytes + HEADER, random_bytes.bytes, NONCE_BYTES);
        vp_ud_path(&ports[0].port, &ports[1].port.at, &path);
        struct ibv_ah *ah = ibv_create_ah(ports[0].pd, &path);
        arrived = ah && send_and_wait(&ports[0], &ports[1], ah);
        if (ah)
            ibv_destroy_ah(ah);
    }
    close_test_port(&ports[0]);
    close_test_port(&ports[1]);
    return arrived;
}
