/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Half round-trip times of 8-byte writes between two processes, through the provider and by bare
 * verbs of the same form, turn about in one run: what the provider adds. verbs_bench [rounds]
 *
 * "memory": the receiver polls the word. "immediate": it polls its queue. Poll loops give the CPU
 * away after a while: in a virtual machine two spinning processes stall each other.
 */
#include "verbs_common.h"

#include <endian.h>
#include <infiniband/verbs.h>

enum { MEM = 4096, SIGNAL_EVERY = 64, RECVS = 512, BLOCKS = 10, SPINS = 200 };

static struct vt_node node;
static struct vt_ep ep;
static uint8_t *mem;
static int me;
static struct vt_shared *shared;

static inline void relax(unsigned int *spins)
{
    if (++*spins > SPINS)
        sched_yield();
}

/*** bare verbs ***/

static struct {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    union ibv_gid gid;
    int gid_index;
    uint32_t posted;
} raw;

struct raw_card {
    uint32_t qp_num;
    union ibv_gid gid;
};
static struct raw_card *raw_cards; /* shared */

static void raw_recv(void)
{
    struct ibv_recv_wr wr = {0}, *bad;

    CHECK(ibv_post_srq_recv(raw.srq, &wr, &bad) == 0);
}

static void raw_open(void)
{
    struct ibv_gid_entry gids[64];
    struct ibv_device **list = ibv_get_device_list(NULL);

    CHECK(list && *list && (raw.context = ibv_open_device(*list)));
    ssize_t n = ibv_query_gid_table(raw.context, gids, 64, 0);
    for (ssize_t i = 0; i < n; i++)
        if (gids[i].gid_type == IBV_GID_TYPE_ROCE_V2 && gids[i].gid.raw[10] == 0xff) {
            raw.gid = gids[i].gid;
            raw.gid_index = (int)gids[i].gid_index;
        }
    raw.pd = ibv_alloc_pd(raw.context);
    raw.send_cq = ibv_create_cq(raw.context, 1024, NULL, NULL, 0);
    raw.recv_cq = ibv_create_cq(raw.context, 1024, NULL, NULL, 0);
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = RECVS, .max_sge = 1}};
    raw.srq = ibv_create_srq(raw.pd, &srq);
    struct ibv_qp_init_attr init = {
        .send_cq = raw.send_cq,
        .recv_cq = raw.recv_cq,
        .srq = raw.srq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 256, .max_send_sge = 1, .max_inline_data = 64}};
    raw.qp = ibv_create_qp(raw.pd, &init);
    raw.mr = ibv_reg_mr(raw.pd, mem, MEM, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    CHECK(raw.qp && raw.mr);
    for (int i = 0; i < RECVS; i++)
        raw_recv();
    raw_cards[me].qp_num = raw.qp->qp_num;
    raw_cards[me].gid = raw.gid;
    shared->words[me] = raw.mr->rkey;
}

static void raw_connect(void)
{
    const struct raw_card *peer = &raw_cards[!me];
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

    CHECK(ibv_modify_qp(raw.qp, &a,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    a = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_4096,
        .dest_qp_num = peer->qp_num,
        .max_dest_rd_atomic = 16,
        .min_rnr_timer = 12,
        .ah_attr = {
            .is_global = 1,
            .port_num = 1,
            .grh = {.dgid = peer->gid, .hop_limit = 64, .sgid_index = (uint8_t)raw.gid_index}}};
    CHECK(ibv_modify_qp(raw.qp, &a,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                             .timeout = 16,
                             .retry_cnt = 6,
                             .rnr_retry = 7,
                             .max_rd_atomic = 16};
    CHECK(ibv_modify_qp(raw.qp, &a,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void raw_write(uint64_t value, bool imm)
{
    struct ibv_sge sge = {.addr = (uintptr_t)&value, .length = 8};
    struct ibv_send_wr *bad, wr = {.sg_list = &sge,
                                   .num_sge = 1,
                                   .send_flags = IBV_SEND_INLINE,
                                   .opcode = imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
                                   .imm_data = htobe32((uint32_t)value)};
    struct ibv_wc wc;

    wr.wr.rdma.remote_addr = shared->mem[!me];
    wr.wr.rdma.rkey = (uint32_t)shared->words[!me];
    if (++raw.posted % SIGNAL_EVERY == 0)
        wr.send_flags |= IBV_SEND_SIGNALED;
    CHECK(ibv_post_send(raw.qp, &wr, &bad) == 0);
    if (ibv_poll_cq(raw.send_cq, 1, &wc) > 0)
        CHECK(wc.status == IBV_WC_SUCCESS);
}

static void raw_wait(uint64_t value, bool imm)
{
    struct ibv_wc wc;
    unsigned int spins = 0;

    if (!imm) {
        while (__atomic_load_n((uint64_t *)(void *)mem, __ATOMIC_ACQUIRE) != value)
            relax(&spins);
        return;
    }
    while (ibv_poll_cq(raw.recv_cq, 1, &wc) == 0)
        relax(&spins);
    CHECK(wc.status == IBV_WC_SUCCESS && be32toh(wc.imm_data) == (uint32_t)value);
    raw_recv();
}

/*** the provider ***/

static struct vt_conn *conn;

static void prov_write(uint64_t value, bool imm)
{
    struct prov_xfer x = {.lcl = &value,
                          .rmt = shared->mem[!me],
                          .length = 8,
                          .rkey = shared->rkey[!me],
                          .imm = (uint32_t)value,
                          .flags = PROV_COPY | (imm ? PROV_NOTIFY : 0)};

    while (verbs_provider.write(conn->conn, &x) < 0)
        verbs_provider.ep_poll(ep.ep);
    if (!imm)
        verbs_provider.ep_poll(ep.ep);
}

static void prov_wait(uint64_t value, bool imm)
{
    unsigned int spins = 0;

    if (imm) {
        while (conn->last_imm != (uint32_t)value)
            if (!verbs_provider.ep_poll(ep.ep))
                relax(&spins);
        return;
    }
    while (__atomic_load_n((uint64_t *)(void *)mem, __ATOMIC_ACQUIRE) != value)
        relax(&spins);
}

static double ping_pong(int rounds, bool bare, bool imm)
{
    static uint64_t value;
    double start = vt_now();

    for (int i = 0; i < rounds; i++) {
        value++;
        for (int turn = 0; turn < 2; turn++) {
            if (turn == me)
                (bare ? raw_write : prov_write)(value, imm);
            else
                (bare ? raw_wait : prov_wait)(value, imm);
        }
    }
    return (vt_now() - start) / rounds / 2;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 2000, stage = 10;
    struct prov_mr *mr;

    shared = vt_share();
    raw_cards = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    me = child == 0;
    vt_open(&node, 4000);
    mem = mmap(NULL, MEM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(verbs_provider.reg(node.prov, 0, mem, MEM, PROV_ACCESS_WRITE, &mr) == 0);
    vt_ep_open(&node, &ep, 0, 1 + (uint64_t)me);
    vt_publish(shared, me, &node);
    shared->mem[me] = (uintptr_t)mem;
    shared->rkey[me] = mr->rkey;
    raw_open();
    vt_stage(shared, me, 1, &ep);
    raw_connect();
    struct vt_conn asked;
    if (me == 0) {
        vt_connect(&ep, shared->addr[1], shared->addr_size[1], 0, 2, &asked);
        WAIT_FOR(&ep, asked.up);
        conn = &asked;
    } else {
        WAIT_FOR(&ep, ep.num_accepted == 1 && ep.accepted[0]->up);
        conn = ep.accepted[0];
    }
    vt_stage(shared, me, 2, &ep);
    __atomic_store_n(&node.polls, false, __ATOMIC_RELEASE);
    for (int imm = 0; imm < 2; imm++) {
        double us[2][BLOCKS];
        for (int block = 0; block < BLOCKS; block++)
            for (int bare = 0; bare < 2; bare++) {
                vt_stage(shared, me, ++stage, NULL);
                us[bare][block] = ping_pong(rounds / BLOCKS, bare, imm) * 1e6;
            }
        qsort(us[0], BLOCKS, sizeof(double), by_value);
        qsort(us[1], BLOCKS, sizeof(double), by_value);
        if (me == 0)
            printf("8 bytes by %s: provider %.2f us, bare verbs %.2f us, ratio %.3f (medians); "
                   "best %.2f, %.2f us\n",
                   imm ? "immediate" : "memory", us[0][BLOCKS / 2], us[1][BLOCKS / 2],
                   us[0][BLOCKS / 2] / us[1][BLOCKS / 2], us[0][0], us[1][0]);
    }
    vt_stage(shared, me, ++stage, NULL);
    vt_ep_close(&ep);
    verbs_provider.dereg(node.prov, mr);
    vt_close(&node);
    if (me)
        _exit(0);
    return vt_reap(child);
}
