/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams between unreliable queue pairs (UD): the behaviour of a device, on the software adapter
 * and on rdma_rxe.
 */
#include "check_verbs.h"

enum { QKEY = 0x1234567, GRH = 40, AT = 4096 };

/* A UD queue pair with its queues; receives go to mem + AT. */
struct port {
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_qp *qp;
    struct ibv_ah *ah; /* to the own port */
    uint8_t *mem;
    struct ibv_mr *mr;
};

static int to(struct port *p, enum ibv_qp_state state, uint32_t qkey, int mask)
{
    struct ibv_qp_attr attr = {
        .qp_state = state, .port_num = 1, .pkey_index = dev.pkey_index, .qkey = qkey};

    return ibv_modify_qp(p->qp, &attr, IBV_QP_STATE | mask);
}

static void port_make(struct port *p)
{
    struct ibv_qp_init_attr init = {
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD,
    };
    struct ibv_ah_attr attr = way_to_itself();

    memset(p, 0, sizeof(*p));
    CHECK((p->send_cq = init.send_cq = ibv_create_cq(dev.context, 64, NULL, NULL, 0)));
    CHECK((p->recv_cq = init.recv_cq = ibv_create_cq(dev.context, 64, NULL, NULL, 0)));
    CHECK((p->qp = ibv_create_qp(dev.pd, &init)));
    p->mem = mmap(NULL, MEM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p->mem != MAP_FAILED);
    CHECK((p->mr = ibv_reg_mr(dev.pd, p->mem, MEM, IBV_ACCESS_LOCAL_WRITE)));
    CHECK((p->ah = ibv_create_ah(dev.pd, &attr)));
}

static void port_open(struct port *p, uint32_t qkey)
{
    port_make(p);
    CHECK(to(p, IBV_QPS_INIT, qkey, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
    CHECK(to(p, IBV_QPS_RTR, 0, 0) == 0 && to(p, IBV_QPS_RTS, 0, IBV_QP_SQ_PSN) == 0);
}

static void port_close(struct port *p)
{
    CHECK(ibv_destroy_ah(p->ah) == 0 && ibv_destroy_qp(p->qp) == 0);
    CHECK(ibv_destroy_cq(p->send_cq) == 0 && ibv_destroy_cq(p->recv_cq) == 0);
    CHECK(ibv_dereg_mr(p->mr) == 0);
    munmap(p->mem, MEM);
}

static void receive(struct port *p, uint64_t wr_id, uint32_t size)
{
    struct ibv_sge sge = {(uintptr_t)p->mem + AT, size, p->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

    CHECK(ibv_post_recv(p->qp, &wr, &bad) == 0);
}

static void send_to(struct port *p, uint32_t qpn, uint32_t qkey, uint32_t size)
{
    struct ibv_sge sge = {(uintptr_t)p->mem, size, p->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 1,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;

    wr.wr.ud.ah = p->ah;
    wr.wr.ud.remote_qpn = qpn;
    wr.wr.ud.remote_qkey = qkey;
    CHECK(ibv_post_send(p->qp, &wr, &bad) == 0);
}

/* The datagram is lost, and its sender does not learn of it; the next one arrives. */
static void is_lost(struct port *a, struct port *b, uint32_t qpn, uint32_t qkey)
{
    send_to(a, qpn, qkey, 8);
    CHECK(next(a->send_cq).status == IBV_WC_SUCCESS);
    usleep(20000);
    CHECK(is_empty(b->recv_cq));
    send_to(a, b->qp->qp_num, QKEY, 9);
    CHECK(next(a->send_cq).status == IBV_WC_SUCCESS && next(b->recv_cq).byte_len == GRH + 9);
}

static void a_datagram_arrives_behind_its_header(void)
{
    struct port a, b;

    port_open(&a, 1);
    port_open(&b, QKEY);
    receive(&b, 7, GRH + 16);
    memcpy(a.mem, "datagram", 8);
    send_to(&a, b.qp->qp_num, QKEY, 8);
    CHECK(next(a.send_cq).status == IBV_WC_SUCCESS);
    struct ibv_wc wc = next(b.recv_cq);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.wr_id == 7);
    CHECK(wc.byte_len == GRH + 8 && wc.qp_num == b.qp->qp_num && wc.src_qp == a.qp->qp_num);
    CHECK(memcmp(b.mem + AT + GRH, "datagram", 8) == 0);
    CHECK(dev.gid_index < 0 || wc.wc_flags & IBV_WC_GRH);
    port_close(&a);
    port_close(&b);
}

static void who_has_another_key_or_number_does_not_get_it(void)
{
    struct port a, b;

    port_open(&a, QKEY);
    port_open(&b, QKEY);
    receive(&b, 1, GRH + 16);
    is_lost(&a, &b, b.qp->qp_num, QKEY + 1);
    receive(&b, 2, GRH + 16);
    is_lost(&a, &b, b.qp->qp_num + 1000, QKEY);
    port_close(&a);
    port_close(&b);
}

static void what_finds_no_receive_is_lost(void)
{
    struct port a, b;

    port_open(&a, 1);
    port_open(&b, QKEY);
    send_to(&a, b.qp->qp_num, QKEY, 8);
    CHECK(next(a.send_cq).status == IBV_WC_SUCCESS);
    usleep(20000);
    receive(&b, 1, GRH + 16);
    usleep(20000);
    CHECK(is_empty(b.recv_cq));
    send_to(&a, b.qp->qp_num, QKEY, 9);
    CHECK(next(b.recv_cq).byte_len == GRH + 9);
    port_close(&a);
    port_close(&b);
}

static void more_than_a_packet_does_not_go(void)
{
    struct port a, b;
    uint32_t mtu = 128u << dev.mtu;

    port_open(&a, 1);
    port_open(&b, QKEY);
    receive(&b, 1, GRH + mtu + 16);
    receive(&b, 2, GRH + mtu + 16);
    send_to(&a, b.qp->qp_num, QKEY, mtu);
    CHECK(next(b.recv_cq).byte_len == GRH + mtu);
    CHECK(next(a.send_cq).status == IBV_WC_SUCCESS);
    send_to(&a, b.qp->qp_num, QKEY, mtu + 1);
    next(a.send_cq); /* devices differ in the status */
    usleep(20000);
    CHECK(is_empty(b.recv_cq));
    port_close(&a);
    port_close(&b);
}

static void states_need_a_key_and_no_peer(void)
{
    struct port a;

    port_make(&a);
    CHECK(to(&a, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT) != 0);
    CHECK(to(&a, IBV_QPS_INIT, QKEY, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
    CHECK(to(&a, IBV_QPS_RTS, 0, IBV_QP_SQ_PSN) != 0);
    CHECK(to(&a, IBV_QPS_RTR, 0, 0) == 0 && to(&a, IBV_QPS_RTS, 0, IBV_QP_SQ_PSN) == 0);
    CHECK(state_of(a.qp) == IBV_QPS_RTS);
    port_close(&a);
}

static void there_is_no_way_from_a_port_that_is_not_there(void)
{
    struct ibv_ah_attr attr = way_to_itself();

    attr.port_num = 77;
    CHECK(!ibv_create_ah(dev.pd, &attr));
}

static const struct named_test tests[] = {
    TEST(a_datagram_arrives_behind_its_header), TEST(who_has_another_key_or_number_does_not_get_it),
    TEST(what_finds_no_receive_is_lost),        TEST(more_than_a_packet_does_not_go),
    TEST(states_need_a_key_and_no_peer),        TEST(there_is_no_way_from_a_port_that_is_not_there),
};

int main(int argc, char **argv)
{
    return run_tests(tests, sizeof(tests) / sizeof(tests[0]), argc > 1 ? argv[1] : NULL);
}
