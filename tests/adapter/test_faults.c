/* SPDX-License-Identifier: Apache-2.0 */
/* The faults and profiles of the software adapter: each behaves as described. */
#include "check_verbs.h"
#include "fault.h"

static const struct wishes usual = {.rnr_retry = 7};

static void fault(enum ad_fault what, uint32_t count)
{
    CHECK(adapter_fault_set(what, count));
}

static bool is_profile(const char *name)
{
    return strncmp(ibv_get_device_name(dev.context->device), name, strlen(name)) == 0;
}

static void the_nth_post_fails(void)
{
    struct end a, b;

    pair_open(&a, &b, &usual);
    struct request r = request(&a, &b, IBV_WR_RDMA_WRITE, 8);
    fault(AD_FAULT_POST, 3);
    for (int i = 1; i <= 4; i++)
        CHECK(post(&a, &r) == (i == 3 ? ENOMEM : 0));
    fault(AD_FAULT_POST, 0); /* of other processes */
    for (int i = 0; i < 3; i++)
        CHECK(next(a.send_cq).status == IBV_WC_SUCCESS);
    end_close(&a);
    end_close(&b);
}

static void the_nth_creation_fails(void)
{
    fault(AD_FAULT_CREATE, 2);
    struct ibv_pd *pd = ibv_alloc_pd(dev.context);
    CHECK(pd && !ibv_create_cq(dev.context, 4, NULL, NULL, 0) && errno == ENOMEM);
    struct ibv_cq *cq = ibv_create_cq(dev.context, 4, NULL, NULL, 0);
    CHECK(cq && ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0);
}

static void a_write_of_unknown_fate_was_executed(void)
{
    struct end a, b;

    pair_open(&a, &b, &usual);
    memcpy(a.mem, "executed", 8);
    struct request r = request(&a, &b, IBV_WR_RDMA_WRITE, 8);
    fault(AD_FAULT_UNKNOWN, 1);
    CHECK(post(&a, &r) == 0 && next(a.send_cq).status == IBV_WC_RETRY_EXC_ERR);
    fault(AD_FAULT_UNKNOWN, 0);
    CHECK(memcmp(b.mem, "executed", 8) == 0 && state_of(a.qp) == IBV_QPS_ERR);
    end_close(&a);
    end_close(&b);
}

static void silence_is_survived_by_patience_only(void)
{
    struct wishes hasty = {.timeout = 10, .retry_cnt = 1, .rnr_retry = 7}; /* 8 ms */
    struct end a, b, c, d;

    pair_open(&a, &b, &(struct wishes){.timeout = 16, .retry_cnt = 6, .rnr_retry = 7});
    pair_open(&c, &d, &hasty);
    struct request r = request(&a, &b, IBV_WR_RDMA_WRITE, 8),
                   s = request(&c, &d, IBV_WR_RDMA_WRITE, 8);
    memcpy(a.mem, "arrived.", 8);
    fault(AD_FAULT_SILENCE, 300);
    CHECK(post(&a, &r) == 0 && post(&c, &s) == 0);
    CHECK(next(c.send_cq).status == IBV_WC_RETRY_EXC_ERR && is_empty(a.send_cq));
    CHECK(memcmp(b.mem, "arrived.", 8) != 0);
    CHECK(next(a.send_cq).status == IBV_WC_SUCCESS && memcmp(b.mem, "arrived.", 8) == 0);
    end_close(&a);
    end_close(&b);
    end_close(&c);
    end_close(&d);
}

static void async(enum ibv_event_type type)
{
    struct ibv_async_event event;

    CHECK(ibv_get_async_event(dev.context, &event) == 0 && event.event_type == type);
    ibv_ack_async_event(&event);
}

static void a_port_goes_down_and_comes_up(void)
{
    struct ibv_port_attr port;

    fault(AD_FAULT_PORT, 100);
    async(IBV_EVENT_PORT_ERR);
    CHECK(ibv_query_port(dev.context, 1, &port) == 0 && port.state == IBV_PORT_DOWN);
    async(IBV_EVENT_PORT_ACTIVE);
    CHECK(ibv_query_port(dev.context, 1, &port) == 0 && port.state == IBV_PORT_ACTIVE);
    fault(AD_FAULT_DEVICE, 1);
    async(IBV_EVENT_DEVICE_FATAL);
}

/* Resolves, or checks for the other event. */
static void way_to_self(enum rdma_cm_event_type want_addr, enum rdma_cm_event_type want_route)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = 1};
    struct rdma_cm_event *event;
    struct rdma_cm_id *id;

    memcpy(&to.sin_addr, dev.gid.raw + 12, 4);
    CHECK(channel && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 100) == 0);
    CHECK(rdma_get_cm_event(channel, &event) == 0 && event->event == want_addr);
    rdma_ack_cm_event(event);
    if (want_addr == RDMA_CM_EVENT_ADDR_RESOLVED) {
        CHECK(rdma_resolve_route(id, 100) == 0);
        CHECK(rdma_get_cm_event(channel, &event) == 0 && event->event == want_route);
        rdma_ack_cm_event(event);
    }
    CHECK(rdma_destroy_id(id) == 0);
    rdma_destroy_event_channel(channel);
}

static void so_many_addresses_and_routes_are_not_found(void)
{
    fault(AD_FAULT_ADDR, 1);
    way_to_self(RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_ROUTE_ERROR);
    fault(AD_FAULT_ROUTE, 1);
    way_to_self(RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_ERROR);
    way_to_self(RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static void bnxt_lacks_what_it_lacks(void)
{
    struct ibv_qp_init_attr_ex attr = {.comp_mask =
                                           IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                       .pd = dev.pd,
                                       .cap = {.max_send_wr = 1, .max_send_sge = 1},
                                       .qp_type = IBV_QPT_RC};
    struct ibv_cq *cq = ibv_create_cq(dev.context, 16, NULL, NULL, 0);
    bool is_poor = is_profile("bnxt");

    CHECK(cq && (ibv_resize_cq(cq, 32) != 0) == is_poor);
    attr.send_cq = attr.recv_cq = cq;
    struct ibv_qp *qp = ibv_create_qp_ex(dev.context, &attr);
    CHECK((qp == NULL) == (is_poor || is_profile("irdma")));
    if (qp)
        CHECK(ibv_destroy_qp(qp) == 0);
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr.cap.max_inline_data = 1;
    qp = ibv_create_qp_ex(dev.context, &attr);
    CHECK((qp == NULL) == is_poor);
    if (qp)
        CHECK(ibv_destroy_qp(qp) == 0);
    CHECK((dev.attr.max_cqe <= 4095) == is_poor);
    CHECK(ibv_create_cq(dev.context, dev.attr.max_cqe + 1, NULL, NULL, 0) == NULL);
    CHECK(ibv_destroy_cq(cq) == 0);
}

static void irdma_has_no_shared_receive_queue(void)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 1, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(dev.pd, &init);

    CHECK((srq == NULL) == is_profile("irdma") && (dev.attr.max_srq == 0) == is_profile("irdma"));
    if (srq)
        CHECK(ibv_destroy_srq(srq) == 0);
}

/* mlx5 and bnxt: nothing that was received is found when its queue pair is gone; and of mlx5 its
 * end is told. */
static void completions_go_with_their_queue_pair(void)
{
    struct wishes w = {.rnr_retry = 7, .srq = true};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    bool tells = is_profile("mlx5_"), goes = tells || is_profile("bnxt");
    struct end a, b;

    if (is_profile("irdma"))
        return;
    pair_open(&a, &b, &w);
    CHECK(post_receive(&b, 77, 8) == 0);
    struct request r = request(&a, &b, IBV_WR_SEND, 8);
    CHECK(post(&a, &r) == 0 && next(a.send_cq).status == IBV_WC_SUCCESS);
    CHECK(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE) == 0);
    CHECK(readable(dev.context->async_fd, tells ? 2000 : 0) == tells);
    if (tells)
        async(IBV_EVENT_QP_LAST_WQE_REACHED);
    CHECK(ibv_destroy_qp(b.qp) == 0);
    b.qp = NULL;
    CHECK(is_empty(b.recv_cq) == goes);
    end_close(&a);
    end_close(&b);
}

/* The number of times that the last byte of a write is seen before its first one. */
static int overtakings(struct end *a, struct end *b)
{
    enum { SIZE = 16384, ROUNDS = 50 };
    volatile uint8_t *first = b->mem, *last = b->mem + SIZE - 1;
    struct request r = request(a, b, IBV_WR_RDMA_WRITE, SIZE);
    int seen = 0;

    for (uint8_t round = 1; round <= ROUNDS; round++) {
        memset(a->mem, round, SIZE);
        CHECK(post(a, &r) == 0);
        while (*last != round)
            ;
        seen += *first != round;
        CHECK(next(a->send_cq).status == IBV_WC_SUCCESS);
        CHECK(*first == round && *last == round); /* completed, so placed */
    }
    return seen;
}

/* All earlier data are in memory when a later SEND is received. */
static void a_send_pushes(struct end *a, struct end *b)
{
    struct request w = request(a, b, IBV_WR_RDMA_WRITE, 16384), s = request(a, b, IBV_WR_SEND, 0);

    for (uint8_t round = 101; round < 121; round++) {
        memset(a->mem, round, 16384);
        w.wr.send_flags = 0;
        CHECK(post_receive(b, 1, 8) == 0 && post(a, &w) == 0 && post(a, &s) == 0);
        CHECK(next(b->recv_cq).status == IBV_WC_SUCCESS);
        for (int i = 0; i < 16384; i++)
            CHECK(b->mem[i] == round);
        CHECK(next(a->send_cq).status == IBV_WC_SUCCESS);
    }
}

static void writes_pass_each_other_where_they_may(void)
{
    struct end a, b;

    pair_open(&a, &b, &usual);
    int seen = overtakings(&a, &b);
    printf("     %d of 50 writes showed their last byte first\n", seen);
    CHECK((seen > 0) == is_profile("mlx5_ar"));
    bool promised = ibv_query_qp_data_in_order(a.qp, IBV_WR_RDMA_WRITE, 0);
    CHECK(promised == is_profile("mlx5_0") && !(promised && seen));
    a_send_pushes(&a, &b);
    end_close(&a);
    end_close(&b);
}

/* mlx5: ends with different options do not understand each other. */
static void ends_that_disagree_do_not_understand_each_other(void)
{
    struct wishes w = {.rnr_retry = 7, .timeout = 1, .retry_cnt = 1};
    struct ibv_ece ece;
    struct end a, b;

    end_open(&a, &w);
    end_open(&b, &w);
    bool has = ibv_query_ece(b.qp, &ece) == 0;
    CHECK(has == is_profile("mlx5"));
    if (has)
        CHECK(ibv_set_ece(b.qp, &ece) == 0);
    connect_ends(&a, &b, &w);
    struct request r = request(&a, &b, IBV_WR_RDMA_WRITE, 8);
    CHECK(post(&a, &r) == 0);
    expect_status(a.send_cq, has ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS);
    end_close(&a);
    end_close(&b);
}

static const struct named_test tests[] = {
    TEST(the_nth_post_fails),
    TEST(the_nth_creation_fails),
    TEST(a_write_of_unknown_fate_was_executed),
    TEST(silence_is_survived_by_patience_only),
    TEST(a_port_goes_down_and_comes_up),
    TEST(so_many_addresses_and_routes_are_not_found),
    TEST(bnxt_lacks_what_it_lacks),
    TEST(irdma_has_no_shared_receive_queue),
    TEST(completions_go_with_their_queue_pair),
    TEST(writes_pass_each_other_where_they_may),
    TEST(ends_that_disagree_do_not_understand_each_other),
};

int main(int argc, char **argv)
{
    return run_tests(tests, sizeof(tests) / sizeof(tests[0]), argc > 1 ? argv[1] : NULL);
}
