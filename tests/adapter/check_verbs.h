/* SPDX-License-Identifier: Apache-2.0 */
/* Two connected queue pairs of this process, and helpers for tests of a device. */
#ifndef ADAPTER_CHECK_VERBS_H
#define ADAPTER_CHECK_VERBS_H

#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: %s (errno: %s)\n", __FILE__, __LINE__, #cond,                  \
                    strerror(errno));                                                              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { MEM = 1 << 16, DEPTH = 16, PATIENCE_S = 60 };

struct device {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_device_attr attr;
    union ibv_gid gid;
    int gid_index; /* -1: InfiniBand, with a LID */
    uint16_t lid, pkey_index;
    enum ibv_mtu mtu;
};

/* One side of a connection. */
struct end {
    struct ibv_comp_channel *channel;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    uint8_t *mem;
    struct ibv_mr *mr;
    uint32_t max_inline;
};

/* The settings of a test. */
struct wishes {
    bool srq, sig_all;
    uint32_t cq_size, sq_depth;
    uint8_t timeout, retry_cnt, rnr_retry;
    int access; /* of the memory */
};

static struct device dev;

static inline void find_gid(void)
{
    static struct ibv_gid_entry table[64];
    static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
    ssize_t n = ibv_query_gid_table(dev.context, table, 64, 0);

    for (ssize_t i = 0; i < n; i++) {
        if (memcmp(table[i].gid.raw, v4, sizeof(v4)) != 0)
            continue;
        dev.gid = table[i].gid;
        dev.gid_index = (int)table[i].gid_index;
    }
    CHECK(dev.gid_index >= 0);
}

/* The first partition that the port is a full member of. */
static inline void find_partition(uint16_t num)
{
    __be16 pkey;

    for (dev.pkey_index = 0; dev.pkey_index < num; dev.pkey_index++) {
        CHECK(ibv_query_pkey(dev.context, 1, dev.pkey_index, &pkey) == 0);
        if (be16toh(pkey) & 0x8000)
            return;
    }
    CHECK(!"a partition");
}

/* The n-th device, from 0 on. */
static inline void open_nth(int n)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_port_attr port;

    if (!list || !list[0] || !list[n]) {
        printf("skipped: no RDMA device\n");
        exit(77);
    }
    CHECK((dev.context = ibv_open_device(list[n])));
    ibv_free_device_list(list);
    CHECK((dev.pd = ibv_alloc_pd(dev.context)));
    CHECK(ibv_query_device(dev.context, &dev.attr) == 0);
    CHECK(ibv_query_port(dev.context, 1, &port) == 0 && port.state == IBV_PORT_ACTIVE);
    dev.mtu = port.active_mtu;
    dev.gid_index = -1;
    dev.lid = port.lid;
    find_partition(port.pkey_tbl_len);
    if (port.link_layer == IBV_LINK_LAYER_ETHERNET)
        find_gid();
}

static inline void open_device(void)
{
    open_nth(0);
}

static inline void end_open(struct end *e, const struct wishes *w)
{
    int cqe = w->cq_size ? (int)w->cq_size : 64;
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
    struct ibv_qp_init_attr init = {
        .cap = {.max_send_wr = w->sq_depth ? w->sq_depth : DEPTH,
                .max_recv_wr = DEPTH,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 32},
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = w->sig_all,
    };

    memset(e, 0, sizeof(*e));
    CHECK((e->channel = ibv_create_comp_channel(dev.context)));
    CHECK((e->send_cq = ibv_create_cq(dev.context, cqe, NULL, NULL, 0)));
    CHECK((e->recv_cq = ibv_create_cq(dev.context, cqe, NULL, e->channel, 0)));
    if (w->srq)
        CHECK((e->srq = ibv_create_srq(dev.pd, &srq)));
    init.send_cq = e->send_cq;
    init.recv_cq = e->recv_cq;
    init.srq = e->srq;
    e->qp = ibv_create_qp(dev.pd, &init);
    if (!e->qp) { /* some devices take no data inline */
        init.cap.max_inline_data = 0;
        CHECK((e->qp = ibv_create_qp(dev.pd, &init)));
    }
    e->max_inline = init.cap.max_inline_data;
    e->mem = mmap(NULL, MEM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(e->mem != MAP_FAILED);
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    if (dev.attr.atomic_cap != IBV_ATOMIC_NONE)
        access |= IBV_ACCESS_REMOTE_ATOMIC;
    if (w->access)
        access = w->access;
    CHECK((e->mr = ibv_reg_mr(dev.pd, e->mem, MEM, access)));
}

static inline void end_close(struct end *e)
{
    if (e->qp)
        CHECK(ibv_destroy_qp(e->qp) == 0);
    if (e->srq)
        CHECK(ibv_destroy_srq(e->srq) == 0);
    CHECK(ibv_destroy_cq(e->send_cq) == 0 && ibv_destroy_cq(e->recv_cq) == 0);
    CHECK(ibv_destroy_comp_channel(e->channel) == 0);
    CHECK(ibv_dereg_mr(e->mr) == 0);
    munmap(e->mem, MEM);
}

static inline int to_init(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .pkey_index = dev.pkey_index};

    attr.qp_access_flags =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/* From the device's port to that port. */
static inline struct ibv_ah_attr way_to_itself(void)
{
    struct ibv_ah_attr attr = {.port_num = 1, .is_global = dev.gid_index >= 0};

    if (!attr.is_global) {
        attr.dlid = dev.lid;
        return attr;
    }
    attr.grh.dgid = dev.gid;
    attr.grh.sgid_index = (uint8_t)dev.gid_index;
    attr.grh.hop_limit = 64;
    return attr;
}

static inline int to_rtr(struct ibv_qp *qp, uint32_t peer)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = dev.mtu,
                               .dest_qp_num = peer,
                               .max_dest_rd_atomic = 1,
                               .min_rnr_timer = 12};

    attr.ah_attr = way_to_itself();
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static inline int to_rts(struct ibv_qp *qp, const struct wishes *w)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                               .timeout = w->timeout ? w->timeout : 14,
                               .retry_cnt = w->retry_cnt ? w->retry_cnt : 6,
                               .rnr_retry = w->rnr_retry,
                               .max_rd_atomic = 1};

    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static inline void connect_ends(struct end *a, struct end *b, const struct wishes *w)
{
    CHECK(to_init(a->qp) == 0 && to_init(b->qp) == 0);
    CHECK(to_rtr(a->qp, b->qp->qp_num) == 0 && to_rtr(b->qp, a->qp->qp_num) == 0);
    CHECK(to_rts(a->qp, w) == 0 && to_rts(b->qp, w) == 0);
}

static inline void pair_open(struct end *a, struct end *b, const struct wishes *w)
{
    end_open(a, w);
    end_open(b, w);
    connect_ends(a, b, w);
}

/* A request for `size` bytes at the start of both memories. */
struct request {
    struct ibv_send_wr wr;
    struct ibv_sge sge;
};

static inline struct request request(const struct end *from, const struct end *to,
                                     enum ibv_wr_opcode opcode, uint32_t size)
{
    struct request r = {
        .wr = {.wr_id = 1, .num_sge = size != 0, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED},
        .sge = {.addr = (uintptr_t)from->mem, .length = size, .lkey = from->mr->lkey}};

    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
        r.wr.wr.atomic.remote_addr = (uintptr_t)to->mem;
        r.wr.wr.atomic.rkey = to->mr->rkey;
    } else {
        r.wr.wr.rdma.remote_addr = (uintptr_t)to->mem;
        r.wr.wr.rdma.rkey = to->mr->rkey;
    }
    return r;
}

static inline int post(struct end *e, struct request *r)
{
    struct ibv_send_wr *bad;

    r->wr.sg_list = &r->sge;
    return ibv_post_send(e->qp, &r->wr, &bad);
}

static inline int post_receive(struct end *e, uint64_t wr_id, uint32_t size)
{
    struct ibv_sge sge = {.addr = (uintptr_t)e->mem, .length = size, .lkey = e->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

    return e->srq ? ibv_post_srq_recv(e->srq, &wr, &bad) : ibv_post_recv(e->qp, &wr, &bad);
}

/* Waits for the next completion. */
static inline struct ibv_wc next(struct ibv_cq *cq)
{
    struct ibv_wc wc;

    for (int i = 0; i < PATIENCE_S * 1000; i++) {
        int n = ibv_poll_cq(cq, 1, &wc);
        CHECK(n >= 0);
        if (n)
            return wc;
        usleep(1000);
    }
    fprintf(stderr, "no completion came\n");
    exit(1);
}

static inline void expect_status(struct ibv_cq *cq, enum ibv_wc_status want)
{
    enum ibv_wc_status status = next(cq).status;

    if (status != want)
        fprintf(stderr, "%s, not %s\n", ibv_wc_status_str(status), ibv_wc_status_str(want));
    CHECK(status == want);
}

static inline bool is_empty(struct ibv_cq *cq)
{
    struct ibv_wc wc;

    return ibv_poll_cq(cq, 1, &wc) == 0;
}

static inline enum ibv_qp_state state_of(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;

    CHECK(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
    return attr.qp_state;
}

static inline bool readable(int fd, int timeout_ms)
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN};

    return poll(&pfd, 1, timeout_ms) == 1;
}

#define TEST(name)                                                                                 \
    {                                                                                              \
#        name, name                                                                                \
    }

/* In a process of its own, with its own device. False: the test failed. */
static inline bool run_test(const char *name, void (*test)(void), const char *only)
{
    int status;

    if (only && strcmp(only, name) != 0)
        return true;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(2 * PATIENCE_S);
        open_device();
        test();
        exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        exit(77);
    if (WIFSIGNALED(status))
        fprintf(stderr, "%s: %s\n", name, strsignal(WTERMSIG(status)));
    printf("%s %s\n", status ? "FAIL" : "ok  ", name);
    return status == 0;
}

struct named_test {
    const char *name;
    void (*test)(void);
};

/* Runs all tests, or the one named by `only`; returns the exit status of main(). */
static inline int run_tests(const struct named_test *tests, size_t num, const char *only)
{
    bool ok = true;

    for (size_t i = 0; i < num; i++)
        ok &= run_test(tests[i].name, tests[i].test, only);
    return ok ? 0 : 1;
}

#endif
