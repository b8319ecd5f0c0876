/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs [blocks [row]], with 2 processes
 *
 * The overhead of the library over verbs: each of its operations compared with code that only uses
 * ibv_* and does the same between the same two processes, in alternating blocks. The medians of the
 * blocks count. Prints pairs and their ratio, without limits. `row`: only rows with this text in
 * their names.
 *
 * After many empty polls, loops yield the CPU, on both sides: in a virtual machine two spinning
 * processes stall each other.
 */
#include <endian.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "butterfly.h"
#include "circuit.h"
#include "measure.h"
#include "party.h"

enum {
    STAG = 1,
    SIZE = 2 << 20,
    /* in the memory of either process: */
    IN = 0,        /* the ping-pong's word */
    STOP = 64,     /* the number of the block that rank 0 has measured */
    WORD = 128,    /* destination of adds */
    OUT = 256,     /* source of the ping-pong */
    LANDED = 4096, /* destination of gets */
    STREAM_IN = 65536,
    STREAM_OUT = 1 << 20,
    PIECE = 65536,
    WINDOW = 8,
    RECVS = 512,
    RECVS_AT_ONCE = 32,
    SIGNAL_EVERY = 64,
    SPINS = 200,
    MAX_BLOCKS = 1000,
    WARM_BLOCKS = 40, /* not counted; an emulated machine takes a tenth of a second to warm up */
};

static uint8_t *memory;
static uint64_t value; /* of the ping-pong, never the same twice */

static inline void yield_after_spins(unsigned int *spins)
{
    if (++*spins > SPINS)
        sched_yield();
}

static uint64_t *word_at(size_t offset)
{
    return (uint64_t *)(void *)(memory + offset);
}

static void await_word(size_t offset, uint64_t what)
{
    unsigned int spins = 0;

    while (__atomic_load_n(word_at(offset), __ATOMIC_ACQUIRE) != what)
        yield_after_spins(&spins);
}

/*** bare verbs ***/

static struct {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    int gid_index;
    uint32_t posted, signalled; /* signalled: and not yet polled */
    uint32_t used_recvs;
} raw;

struct card {
    union ibv_gid gid;
    uint64_t memory;
    uint32_t qp_num, rkey;
};
static struct card cards[2], *peer_card;

static void require_success(bool ok, const char *what)
{
    if (!ok)
        party_fail(1, "%s: %m", what);
}

static void raw_recvs(void)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)memory + LANDED + 64, .length = 64, .lkey = raw.mr->lkey};
    struct ibv_recv_wr wr[RECVS_AT_ONCE], *bad;

    for (int i = 0; i < RECVS_AT_ONCE; i++)
        wr[i] = (struct ibv_recv_wr){
            .sg_list = &sge, .num_sge = 1, .next = i + 1 < RECVS_AT_ONCE ? &wr[i + 1] : NULL};
    require_success(ibv_post_srq_recv(raw.srq, wr, &bad) == 0, "ibv_post_srq_recv");
}

static void raw_open(struct card *card)
{
    struct ibv_gid_entry gids[64];
    struct ibv_device **list = ibv_get_device_list(NULL);

    require_success(list && *list, "no RDMA device");
    require_success((raw.context = ibv_open_device(*list)), "ibv_open_device");
    ssize_t n = ibv_query_gid_table(raw.context, gids, 64, 0);
    for (ssize_t i = 0; i < n; i++)
        if (gids[i].gid_type == IBV_GID_TYPE_ROCE_V2 && gids[i].gid.raw[10] == 0xff) {
            card->gid = gids[i].gid;
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
    require_success((raw.qp = ibv_create_qp(raw.pd, &init)), "ibv_create_qp");
    raw.mr = ibv_reg_mr(raw.pd, memory, SIZE,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                            IBV_ACCESS_REMOTE_ATOMIC);
    require_success(raw.mr, "ibv_reg_mr");
    for (int i = 0; i < RECVS; i += RECVS_AT_ONCE)
        raw_recvs();
    card->memory = (uintptr_t)memory;
    card->qp_num = raw.qp->qp_num;
    card->rkey = raw.mr->rkey;
}

static void raw_connect(void)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
                            .port_num = 1,
                            .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                               IBV_ACCESS_REMOTE_ATOMIC};

    require_success(
        ibv_modify_qp(raw.qp, &a,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
        "ibv_modify_qp to INIT");
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                             .path_mtu = IBV_MTU_4096,
                             .dest_qp_num = peer_card->qp_num,
                             .max_dest_rd_atomic = 16,
                             .min_rnr_timer = 12,
                             .ah_attr = {.is_global = 1,
                                         .port_num = 1,
                                         .grh = {.dgid = peer_card->gid,
                                                 .hop_limit = 64,
                                                 .sgid_index = (uint8_t)raw.gid_index}}};
    require_success(ibv_modify_qp(raw.qp, &a,
                                  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                      IBV_QP_MIN_RNR_TIMER) == 0,
                    "ibv_modify_qp to RTR");
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                             .timeout = 16,
                             .retry_cnt = 6,
                             .rnr_retry = 7,
                             .max_rd_atomic = 16};
    require_success(ibv_modify_qp(raw.qp, &a,
                                  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                      IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) ==
                        0,
                    "ibv_modify_qp to RTS");
}

static void raw_post(enum ibv_wr_opcode opcode, size_t from, size_t to, uint32_t length,
                     unsigned int flags)
{
    struct ibv_sge sge = {.addr = (uintptr_t)memory + from, .length = length, .lkey = raw.mr->lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &sge,
                                   .num_sge = 1,
                                   .send_flags = flags,
                                   .opcode = opcode,
                                   .imm_data = htobe32((uint32_t)value)};

    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = peer_card->memory + to;
        wr.wr.atomic.compare_add = 1;
        wr.wr.atomic.rkey = peer_card->rkey;
    } else {
        wr.wr.rdma.remote_addr = peer_card->memory + to;
        wr.wr.rdma.rkey = peer_card->rkey;
    }
    require_success(ibv_post_send(raw.qp, &wr, &bad) == 0, "ibv_post_send");
    raw.signalled += (flags & IBV_SEND_SIGNALED) != 0;
}

static unsigned int now_and_then(void)
{
    return ++raw.posted % SIGNAL_EVERY ? 0 : IBV_SEND_SIGNALED;
}

static bool raw_sent(void)
{
    struct ibv_wc wc;
    int n = ibv_poll_cq(raw.send_cq, 1, &wc);

    require_success(n == 0 || (n == 1 && wc.status == IBV_WC_SUCCESS), "ibv_poll_cq");
    raw.signalled -= (uint32_t)n;
    return n == 1;
}

static void raw_await_sent(void)
{
    unsigned int spins = 0;

    while (!raw_sent())
        yield_after_spins(&spins);
}

/* If only some requests are signalled: polls for a completion once, long after. */
static void raw_reap(void)
{
    if (raw.signalled && raw.posted % SIGNAL_EVERY == SIGNAL_EVERY / 2)
        raw_await_sent();
}

static void raw_reap_all(void)
{
    while (raw.signalled)
        raw_await_sent();
}

static void raw_await_recv(void)
{
    struct ibv_wc wc;
    unsigned int spins = 0;

    while (ibv_poll_cq(raw.recv_cq, 1, &wc) == 0)
        yield_after_spins(&spins);
    require_success(wc.status == IBV_WC_SUCCESS, "a receive");
    if (++raw.used_recvs % RECVS_AT_ONCE == 0)
        raw_recvs();
}

static void raw_memory(int count)
{
    for (int i = 0; i < count; i++) {
        value++;
        if (party.rank == 1)
            await_word(IN, value);
        *word_at(OUT) = value;
        raw_post(IBV_WR_RDMA_WRITE, OUT, IN, 8, IBV_SEND_INLINE | now_and_then());
        raw_reap();
        if (party.rank == 0)
            await_word(IN, value);
    }
    raw_reap_all();
}

static void raw_ping_pong(int count, enum ibv_wr_opcode opcode)
{
    for (int i = 0; i < count; i++) {
        value++;
        if (party.rank == 1)
            raw_await_recv();
        *word_at(OUT) = value;
        raw_post(opcode, OUT, IN, 8, IBV_SEND_INLINE | now_and_then());
        raw_reap();
        if (party.rank == 0)
            raw_await_recv();
    }
    raw_reap_all();
}

static void raw_notice(int count)
{
    raw_ping_pong(count, IBV_WR_RDMA_WRITE_WITH_IMM);
}

static void raw_send(int count)
{
    raw_ping_pong(count, IBV_WR_SEND);
}

/* Two exchanges, each a SEND of either side at the same time: the minimum for a barrier of two. */
static void raw_cross(int count)
{
    for (int i = 0; i < 2 * count; i++) {
        raw_post(IBV_WR_SEND, OUT, IN, 8, IBV_SEND_INLINE | now_and_then());
        raw_reap();
        raw_await_recv();
    }
    raw_reap_all();
}

static void raw_get(int count)
{
    for (int i = 0; i < count && party.rank == 0; i++) {
        raw_post(IBV_WR_RDMA_READ, LANDED, OUT, 8, IBV_SEND_SIGNALED);
        raw_await_sent();
    }
}

static void raw_add(int count)
{
    for (int i = 0; i < count && party.rank == 0; i++) {
        raw_post(IBV_WR_ATOMIC_FETCH_AND_ADD, LANDED, WORD, 8, IBV_SEND_SIGNALED);
        raw_await_sent();
    }
}

/* Only the calls, with no earlier requests under way: see await_posted(). */
static void raw_calls(int count)
{
    for (int i = 0; i < count && party.rank == 0; i++) {
        struct ibv_wc wc;
        raw_post(IBV_WR_RDMA_WRITE, OUT, WORD, 8, IBV_SEND_INLINE | now_and_then());
        int n = ibv_poll_cq(raw.send_cq, 1, &wc);
        require_success(n == 0 || (n == 1 && wc.status == IBV_WC_SUCCESS), "ibv_poll_cq");
        raw.signalled -= (uint32_t)n;
    }
}

static void raw_pieces(int count, enum ibv_wr_opcode opcode)
{
    for (int i = 0; i < count + WINDOW && party.rank == 0; i++) {
        if (i >= WINDOW)
            raw_await_sent();
        if (i < count)
            raw_post(opcode, STREAM_OUT, STREAM_IN, PIECE, IBV_SEND_SIGNALED);
    }
}

static void raw_puts(int count)
{
    raw_pieces(count, IBV_WR_RDMA_WRITE);
}

static void raw_gets(int count)
{
    raw_pieces(count, IBV_WR_RDMA_READ);
}

/*** the library ***/

static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t peer;
static utofu_stadd_t lcl, rmt;
static utofu_vbg_id_t gates[2][CIRCUIT_MAX_GATES];

static void await_tcq(void)
{
    unsigned int spins = 0;
    void *cbdata;
    int rc;

    while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
        yield_after_spins(&spins);
    party_check(rc, "utofu_poll_tcq");
}

static void await_notice(void)
{
    struct utofu_mrq_notice notice;
    unsigned int spins = 0;
    int rc;

    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        yield_after_spins(&spins);
    party_check(rc, "utofu_poll_mrq");
}

static void put_bytes(size_t from, size_t to, size_t size, unsigned long flags)
{
    party_check(utofu_put(vcq, peer, lcl + from, rmt + to, size, 0, flags, NULL), "utofu_put");
}

static void our_memory(int count)
{
    for (int i = 0; i < count; i++) {
        value++;
        if (party.rank == 1)
            await_word(IN, value);
        *word_at(OUT) = value;
        put_bytes(OUT, IN, 8, UTOFU_ONESIDED_FLAG_TCQ_NOTICE);
        await_tcq();
        if (party.rank == 0)
            await_word(IN, value);
    }
}

static void our_calls(int count)
{
    for (int i = 0; i < count && party.rank == 0; i++) {
        put_bytes(OUT, WORD, 8, UTOFU_ONESIDED_FLAG_TCQ_NOTICE);
        await_tcq();
    }
}

static void our_notice(int count)
{
    for (int i = 0; i < count; i++) {
        value++;
        if (party.rank == 1)
            await_notice();
        *word_at(OUT) = value;
        put_bytes(OUT, IN, 8,
                  UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
        await_tcq();
        if (party.rank == 0)
            await_notice();
    }
}

static void our_get(int count)
{
    for (int i = 0; i < count && party.rank == 0; i++) {
        party_check(utofu_get(vcq, peer, lcl + LANDED, rmt + OUT, 8, 0,
                              UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL),
                    "utofu_get");
        await_notice();
    }
}

/* The target polls, as a program that expects data does. */
static void our_add(int count)
{
    static uint64_t blocks;
    struct utofu_mrq_notice notice;
    unsigned int spins = 0;

    blocks++;
    while (party.rank == 1 && __atomic_load_n(word_at(STOP), __ATOMIC_ACQUIRE) != blocks)
        if (utofu_poll_mrq(vcq, 0, &notice) == UTOFU_ERR_NOT_FOUND)
            yield_after_spins(&spins);
    for (int i = 0; i < count && party.rank == 0; i++) {
        party_check(utofu_armw8(vcq, peer, UTOFU_ARMW_OP_ADD, 1, rmt + WORD, 0,
                                UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL),
                    "utofu_armw8");
        await_notice();
    }
    if (party.rank == 0) {
        *word_at(OUT) = blocks;
        put_bytes(OUT, STOP, 8, UTOFU_ONESIDED_FLAG_TCQ_NOTICE);
        await_tcq();
    }
}

static void our_gets(int count)
{
    for (int i = 0; i < count + WINDOW && party.rank == 0; i++) {
        if (i >= WINDOW)
            await_notice();
        if (i < count)
            party_check(utofu_get(vcq, peer, lcl + STREAM_OUT, rmt + STREAM_IN, PIECE, 0,
                                  UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL),
                        "utofu_get");
    }
}

static void our_puts(int count)
{
    for (int i = 0; i < count + WINDOW && party.rank == 0; i++) {
        if (i >= WINDOW)
            await_tcq();
        if (i < count)
            put_bytes(STREAM_OUT, STREAM_IN, PIECE, UTOFU_ONESIDED_FLAG_TCQ_NOTICE);
    }
}

/* Two barriers, which are comparable with a message and its answer. */
static void our_barriers(int count)
{
    for (int i = 0; i < 2 * count; i++) {
        unsigned int spins = 0;
        int rc;
        party_check(utofu_barrier(gates[party.rank][0], 0), "utofu_barrier");
        while ((rc = utofu_poll_barrier(gates[party.rank][0], 0)) == UTOFU_ERR_NOT_COMPLETED)
            yield_after_spins(&spins);
        party_check(rc, "utofu_poll_barrier");
    }
}

/*** both ***/

struct row {
    const char *what;
    void (*ours)(int count), (*bare)(int count);
    int count, one_way; /* repetitions in a block, each of this many one-way times */
    bool rate;          /* bytes per second instead of time */
    bool calls;         /* only the calls are measured, in ns */
};

/* Waits until all posted requests are executed: the library and the device have room for more. */
static void await_posted(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    raw_reap_all();
    nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
}

static float median_of(float *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), bench_compare);
    return v[n / 2];
}

static void compare_row(const struct row *r, int blocks)
{
    static float us[2][MAX_BLOCKS], ratios[MAX_BLOCKS];
    float ours, bare;

    for (int block = -WARM_BLOCKS; block < blocks; block++) {
        for (int i = 0; i < 2; i++) {
            bool library = (block & 1) == i;
            party_barrier();
            if (r->calls && party.rank == 0)
                await_posted();
            double begin = bench_now();
            (library ? r->ours : r->bare)(r->count);
            if (block >= 0)
                us[library][block] = (float)((bench_now() - begin) / r->count / r->one_way);
        }
        if (block >= 0)
            ratios[block] = r->rate ? us[0][block] / us[1][block] : us[1][block] / us[0][block];
    }
    ours = median_of(us[1], blocks);
    bare = median_of(us[0], blocks);
    if (r->rate) {
        ours = PIECE / ours;
        bare = PIECE / bare;
    }
    if (r->calls) {
        ours *= 1000;
        bare *= 1000;
    }
    if (party.rank == 0)
        printf("%-46s %9.2f %9.2f %-5s ratio %.3f, by blocks %.3f\n", r->what, (double)ours,
               (double)bare,
               r->rate    ? "MB/s"
               : r->calls ? "ns"
                          : "us",
               (double)(ours / bare), (double)median_of(ratios, blocks));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *armw = getenv("UTOFU_ARMW");
    bool nic = armw && strcmp(armw, "nic") == 0;
    const struct row rows[] = {
        {"8-byte put, poll_tcq / post_send, poll_cq", our_calls, raw_calls, 32, 1, false, true},
        {"8-byte put seen in memory / RDMA WRITE", our_memory, raw_memory, 100, 2, false, false},
        {"8-byte put, remote notice / WRITE_WITH_IMM", our_notice, raw_notice, 100, 2, false,
         false},
        {"8-byte get / RDMA READ", our_get, raw_get, 100, 1, false, false},
        {"64 KiB puts / RDMA WRITEs", our_puts, raw_puts, 32, 1, true, false},
        {"64 KiB gets / RDMA READs", our_gets, raw_gets, 32, 1, true, false},
        {nic ? "armw8 ADD (nic) / FETCH_AND_ADD" : "armw8 ADD (cpu) / SEND and answer", our_add,
         nic ? raw_add : raw_send, 100, 1, false, false},
        {"barrier of two / SEND", our_barriers, raw_send, 100, 2, false, false},
        {"barrier of two / SENDs that cross", our_barriers, raw_cross, 100, 2, false, false},
    };
    long blocks = argc > 1 ? bench_number("verbs", argv[1], 1, MAX_BLOCKS) : 21;

    setenv("UTOFU_PROVIDER", "verbs", 0);
    memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require_success(memory != MAP_FAILED, "mmap");
    memset(memory, 0, SIZE);
    party_open("verbs", 2, 60);
    if (party.size != 2)
        party_fail(2, "runs with 2 processes, not %u", party.size);
    party_check(utofu_create_vcq_with_cmp_id(0, 0, 0, &vcq), "utofu_create_vcq_with_cmp_id");
    party_check(utofu_reg_mem_with_stag(vcq, memory, SIZE, STAG, 0, &lcl),
                "utofu_reg_mem_with_stag");
    peer = party_vcq_id(1 - party.rank, 0, 0);
    party_check(utofu_query_stadd(peer, STAG, &rmt), "utofu_query_stadd");
    struct card mine;
    raw_open(&mine);
    party_gather(&mine, sizeof(mine), cards, false);
    peer_card = &cards[1 - party.rank];
    raw_connect();
    bench_set_butterfly(gates);
    if (party.rank == 0)
        printf("%-46s %9s %9s\n", "medians; one way unless it is an answer", "ours", "bare");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (argc < 3 || strstr(rows[i].what, argv[2]))
            compare_row(&rows[i], (int)blocks);
    party_barrier(); /* the last block may be one-sided */
    party_check(
        utofu_free_vbg(gates[party.rank], circuit_gates(CIRCUIT_BUTTERFLY, 2, (int)party.rank)),
        "utofu_free_vbg");
    party_check(utofu_dereg_mem(vcq, lcl, 0), "utofu_dereg_mem");
    party_check(utofu_free_vcq(vcq), "utofu_free_vcq");
    party_close();
    return 0;
}
