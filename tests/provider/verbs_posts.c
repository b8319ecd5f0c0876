/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which work requests the verbs provider posts (data/post.c), without a device: each case runs with
 * ibv_post_send() and with ibv_wr_start(), and the same requests have to come.
 *
 * Requests are written as text: W write, N write with immediate data, R read, S message, with the
 * offset of the remote address and the length; C control message, F fetch and add, X compare and
 * swap, with their numbers; r a read that flushes. Letters follow: s signalled, f fenced, i inline,
 * o solicited. A bar stands for a doorbell.
 */
#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../harness/check.h"
#include "verbs/data/post.h"
#include "verbs/data/qp.h"
#include "verbs/data/queues.h"
#include "verbs/signalled.h"

static void schedule_service(struct vp_conn *conn);
static bool post_is_refused(struct vp_conn *conn, uint32_t seq, enum prov_status status);

#define vp_conn_schedule_service schedule_service
#define vp_conn_post_failed      post_is_refused
#include "../../provider/verbs/data/post.c"

enum {
    DEPTH = 32,
    XFERS = 27, /* outstanding writes, reads and atomics */
    MESSAGES = DEPTH - 1,
    RING = 64,
    ROOM_MSGS = 4,
    SIGNAL_EVERY = 16,
    INLINE = 32,
    PACKET = 1024,
    MAX_MSG = 4096,
    APART = 2048,
    LKEY = 11,
    RKEY = 22,
    BOUNCE_LKEY = 33,
    IMM = 0x12345678,
    REMOTE = 1 << 20,
};

static uint8_t memory[64 << 10] __attribute__((aligned(4096)));
static uint8_t slab[VP_BOUNCE_SLOTS * PROV_MSG_MAX + 64];
static uint16_t bounce_free[VP_BOUNCE_SLOTS];
static struct ibv_mr bounce_mr = {.lkey = BOUNCE_LKEY};
static struct vp_batched chain[VP_BATCH_MAX];
static struct vp_op rings[2][RING];
static struct ibv_context context;
static struct ibv_device device = {.name = "fake0"};
static struct vp_port port = {.name = "fake0"};
static struct ibv_qp_ex qps[2];
static struct vp_ep ep;
static struct vp_conn conns[2];

static char trace[4000];
static unsigned int num_wrs, refused_from = UINT32_MAX; /* the latter: the first that is refused */
static unsigned int num_services, num_refusals;
static uint32_t refused_seq;
static bool flushes_after_refusal;

static void say(const char *format, ...)
{
    size_t at = strlen(trace);
    va_list ap;

    va_start(ap, format);
    vsnprintf(trace + at, sizeof(trace) - at, format, ap);
    va_end(ap);
}

static void expect(const char *what, const char *wanted)
{
    if (strcmp(trace, wanted) != 0)
        fprintf(stderr, "%s:\n  posted %s\n  wanted %s\n", what, trace, wanted);
    CHECK(strcmp(trace, wanted) == 0);
    trace[0] = '\0';
}

static void schedule_service(struct vp_conn *conn)
{
    (void)conn;
    num_services++;
}

static bool post_is_refused(struct vp_conn *conn, uint32_t seq, enum prov_status status)
{
    CHECK(status == PROV_FAILED);
    refused_seq = seq;
    num_refusals++;
    conn->sq_max = conn->sq_xfer_max = 0;
    conn->end.posted_end = seq;
    return flushes_after_refusal;
}

/*
 * The device
 */

static void note_data(const struct ibv_send_wr *wr, uint64_t offset)
{
    const struct ibv_sge *sge = wr->sg_list;
    const uint8_t *at = (const uint8_t *)(uintptr_t)sge->addr;

    if (wr->send_flags & IBV_SEND_INLINE)
        CHECK(memcmp(at, memory + offset, sge->length) == 0);
    else if (at >= slab && at < slab + VP_BOUNCE_SLOTS * PROV_MSG_MAX)
        CHECK(memcmp(at, memory + offset, sge->length) == 0 && sge->lkey == BOUNCE_LKEY);
    else
        CHECK(at == memory + offset && sge->lkey == LKEY);
}

static void note(const struct ibv_send_wr *wr)
{
    static const char letters[] = {[IBV_WR_RDMA_WRITE] = 'W',
                                   [IBV_WR_RDMA_WRITE_WITH_IMM] = 'N',
                                   [IBV_WR_RDMA_READ] = 'R',
                                   [IBV_WR_SEND] = 'S'};
    const struct vp_op *op = (const struct vp_op *)(uintptr_t)wr->wr_id;
    const struct ibv_sge *sge = wr->num_sge ? wr->sg_list : NULL;
    uint32_t length = sge ? sge->length : 0;
    bool is_message = wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM;
    uint64_t offset = is_message || !wr->wr.rdma.rkey ? 0 : wr->wr.rdma.remote_addr - REMOTE;

    CHECK(op == &rings[0][op->slot] || op == &rings[1][op->slot]);
    if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
        CHECK(wr->imm_data == htobe32(IMM));
    if (!is_message && wr->wr.rdma.rkey)
        CHECK(wr->wr.rdma.rkey == RKEY);
    if (wr->opcode == IBV_WR_SEND_WITH_IMM) {
        CHECK(!sge);
        say("C%x", be32toh(wr->imm_data));
    } else if (sge && sge->addr == (uintptr_t)slab + VP_BOUNCE_SLOTS * PROV_MSG_MAX) {
        CHECK(wr->opcode == IBV_WR_RDMA_READ && sge->lkey == BOUNCE_LKEY && length == 1);
        say("r%u", (unsigned int)offset);
    } else {
        say("%c%u+%u", letters[wr->opcode], (unsigned int)offset, length);
        if (sge)
            note_data(wr, offset);
    }
}

static int take(const struct ibv_send_wr *wr)
{
    if (num_wrs++ >= refused_from)
        return ENOMEM;
    if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        say("F%u:%u", (unsigned int)(wr->wr.atomic.remote_addr - REMOTE),
            (unsigned int)wr->wr.atomic.compare_add);
    else if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
        say("X%u:%u:%u", (unsigned int)(wr->wr.atomic.remote_addr - REMOTE),
            (unsigned int)wr->wr.atomic.compare_add, (unsigned int)wr->wr.atomic.swap);
    else
        note(wr);
    say("%s%s%s%s ", wr->send_flags & IBV_SEND_SIGNALED ? "s" : "",
        wr->send_flags & IBV_SEND_FENCE ? "f" : "", wr->send_flags & IBV_SEND_INLINE ? "i" : "",
        wr->send_flags & IBV_SEND_SOLICITED ? "o" : "");
    return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    CHECK(qp == &qps[0].qp_base || qp == &qps[1].qp_base);
    for (; wr; wr = wr->next) {
        int rc = take(wr);
        *bad = wr;
        if (rc)
            return rc;
    }
    say("| ");
    return 0;
}

/* Requests behind ibv_wr_start(): the device takes all or none. */
static struct ibv_send_wr begun[VP_BATCH_MAX + 1];
static struct ibv_sge begun_sges[VP_BATCH_MAX + 1];
static int num_begun = -1;

static void wr_start(struct ibv_qp_ex *qp)
{
    CHECK(num_begun == -1 && (qp == &qps[0] || qp == &qps[1]));
    num_begun = 0;
}

static struct ibv_send_wr *begin_wr(const struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode)
{
    struct ibv_send_wr *wr = &begun[num_begun++];

    CHECK(num_begun > 0 && num_begun <= VP_BATCH_MAX);
    *wr = (struct ibv_send_wr){.wr_id = qp->wr_id, .send_flags = qp->wr_flags, .opcode = opcode};
    return wr;
}

static void wr_rdma(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t rmt)
{
    struct ibv_send_wr *wr = begin_wr(qp, opcode);

    wr->wr.rdma.rkey = rkey;
    wr->wr.rdma.remote_addr = rmt;
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t rmt)
{
    wr_rdma(qp, IBV_WR_RDMA_WRITE, rkey, rmt);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t rmt, __be32 imm)
{
    wr_rdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, rmt);
    begun[num_begun - 1].imm_data = imm;
}

static void wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t rmt)
{
    wr_rdma(qp, IBV_WR_RDMA_READ, rkey, rmt);
}

static void wr_send(struct ibv_qp_ex *qp)
{
    begin_wr(qp, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *qp, __be32 imm)
{
    begin_wr(qp, IBV_WR_SEND_WITH_IMM)->imm_data = imm;
}

static void wr_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t rmt, uint64_t add)
{
    struct ibv_send_wr *wr = begin_wr(qp, IBV_WR_ATOMIC_FETCH_AND_ADD);

    CHECK(rkey == RKEY);
    wr->wr.atomic.remote_addr = rmt;
    wr->wr.atomic.compare_add = add;
}

static void wr_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t rmt, uint64_t compare,
                       uint64_t swap)
{
    struct ibv_send_wr *wr = begin_wr(qp, IBV_WR_ATOMIC_CMP_AND_SWP);

    CHECK(rkey == RKEY);
    wr->wr.atomic.remote_addr = rmt;
    wr->wr.atomic.compare_add = compare;
    wr->wr.atomic.swap = swap;
}

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
    struct ibv_send_wr *wr = &begun[num_begun - 1];

    CHECK(qp && !wr->sg_list);
    begun_sges[num_begun - 1] = (struct ibv_sge){addr, length, lkey};
    wr->sg_list = &begun_sges[num_begun - 1];
    wr->num_sge = 1;
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
    CHECK(qp->wr_flags & IBV_SEND_INLINE);
    wr_set_sge(qp, 0, (uintptr_t)addr, (uint32_t)length);
}

static void wr_set_sge_list(struct ibv_qp_ex *qp, size_t num, const struct ibv_sge *list)
{
    CHECK(qp && num == 0 && !list);
}

static int wr_complete(struct ibv_qp_ex *qp)
{
    int num = num_begun;

    CHECK(qp && num > 0);
    num_begun = -1;
    if (num_wrs + (unsigned int)num > refused_from) {
        num_wrs += (unsigned int)num;
        return ENOMEM;
    }
    for (int i = 0; i < num; i++)
        CHECK(take(&begun[i]) == 0);
    say("| ");
    return 0;
}

/*
 * An endpoint with two connections
 */

static void reset(bool with_wr_api)
{
    context.ops.post_send = post_send;
    context.device = &device;
    trace[0] = '\0';
    num_wrs = num_services = num_refusals = 0;
    refused_from = UINT32_MAX;
    flushes_after_refusal = false;
    ep = (struct vp_ep){.port = &port,
                        .room = 1000,
                        .room_msgs = ROOM_MSGS,
                        .room_signal = 8,
                        .room_inline = 8,
                        .cq_size = 1100,
                        .credits = 2,
                        .signal_every = SIGNAL_EVERY,
                        .max_inline = INLINE,
                        .max_msg = MAX_MSG,
                        .notice_apart = APART,
                        .sq_depth = 2 * DEPTH,
                        .chain = chain,
                        .bounce_slab = slab,
                        .bounce_mr = &bounce_mr,
                        .bounce_free = bounce_free,
                        .bounce_count = 3};
    for (uint16_t i = 0; i < 3; i++)
        bounce_free[i] = i;
    for (unsigned int c = 0; c < 2; c++) {
        qps[c] = (struct ibv_qp_ex){.qp_base = {.context = &context, .qp_context = &conns[c]},
                                    .wr_start = wr_start,
                                    .wr_rdma_write = wr_rdma_write,
                                    .wr_rdma_write_imm = wr_rdma_write_imm,
                                    .wr_rdma_read = wr_rdma_read,
                                    .wr_send = wr_send,
                                    .wr_send_imm = wr_send_imm,
                                    .wr_atomic_fetch_add = wr_fetch_add,
                                    .wr_atomic_cmp_swp = wr_cmp_swp,
                                    .wr_set_sge = wr_set_sge,
                                    .wr_set_sge_list = wr_set_sge_list,
                                    .wr_set_inline_data = wr_set_inline_data,
                                    .wr_complete = wr_complete};
        conns[c] = (struct vp_conn){.ep = &ep,
                                    .qp = &qps[c].qp_base,
                                    .qpx = with_wr_api ? &qps[c] : NULL,
                                    .ops = rings[c],
                                    .sq_mask = RING - 1,
                                    .sq_depth = DEPTH,
                                    .sq_xfer_max = XFERS,
                                    .sq_max = MESSAGES,
                                    .signal_due = SIGNAL_EVERY,
                                    .unsplit_max = MAX_MSG,
                                    .direct_max = with_wr_api ? MAX_MSG : 0,
                                    .slow_flags = PROV_MORE | PROV_FENCE | PROV_STRONG_ORDER,
                                    .packet = PACKET,
                                    .state = VP_CONN_UP,
                                    .last_request = VP_LAST_RESERVED};
        for (uint32_t i = 0; i < RING; i++)
            rings[c][i] = (struct vp_op){.conn = &conns[c], .slot = i};
        vp_update_inline_until(&conns[c]);
    }
}

static void set_unit(struct vp_conn *conn, enum vp_unit unit)
{
    conn->unit = (uint8_t)unit;
    if (conn->qpx && unit != VP_UNIT_WHOLE)
        conn->direct_max = PACKET;
}

static struct prov_conn *base(unsigned int c)
{
    return (struct prov_conn *)(void *)&conns[c];
}

static int write_at(unsigned int c, uint32_t offset, uint32_t length, uint32_t flags)
{
    return vp_write(base(c), &(struct prov_xfer){.lcl = memory + offset,
                                                 .rmt = REMOTE + offset,
                                                 .length = length,
                                                 .lkey = LKEY,
                                                 .rkey = RKEY,
                                                 .imm = IMM,
                                                 .flags = flags,
                                                 .cookie = 1000 + offset});
}

static int read_at(unsigned int c, uint32_t offset, uint32_t length, uint32_t flags)
{
    return vp_read(base(c), &(struct prov_xfer){.lcl = memory + offset,
                                                .rmt = REMOTE + offset,
                                                .length = length,
                                                .lkey = LKEY,
                                                .rkey = RKEY,
                                                .flags = flags,
                                                .cookie = 1000 + offset});
}

/* Sets how many requests are outstanding. */
static void outstanding(struct vp_conn *conn, uint32_t count)
{
    conn->head = conn->tail + count;
    conn->signal_due = conn->head + SIGNAL_EVERY;
    vp_update_inline_until(conn);
}

/*
 * Transfers
 */

enum {
    MORE = PROV_MORE,
    FENCE = PROV_FENCE,
    NOTIFY = PROV_NOTIFY,
    STRONG = PROV_STRONG_ORDER,
    DELIVERED = PROV_DELIVERY_COMPLETE,
    SIGNAL = PROV_SIGNAL,
    SOURCE = PROV_SIGNAL_SRC,
};

/* `busy`: another request is outstanding. `rc`: what the call returns. */
static const struct transfer {
    bool is_read, busy;
    enum vp_unit unit;
    uint32_t offset, length, flags;
    int rc;
    const char *wanted;
} transfers[] = {
    {0, 0, VP_UNIT_WHOLE, 8, 1, 0, PROV_SRC_FREE, "W8+1i | "},
    {0, 0, VP_UNIT_WHOLE, 8, INLINE, SIGNAL, PROV_SRC_FREE, "W8+32si | "},
    {0, 0, VP_UNIT_WHOLE, 8, INLINE, SOURCE, PROV_SRC_FREE, "W8+32i | "},
    {0, 0, VP_UNIT_WHOLE, 8, INLINE, SOURCE | FENCE, PROV_SRC_FREE, "W8+32fi | "},
    {0, 0, VP_UNIT_WHOLE, 8, INLINE + 1, 0, 0, "W8+33 | "},
    {0, 0, VP_UNIT_WHOLE, 8, INLINE + 1, SIGNAL, 0, "W8+33s | "},
    {0, 0, VP_UNIT_WHOLE, 8, INLINE + 1, SOURCE, 0, "W8+33s | "},
    {0, 0, VP_UNIT_WHOLE, 8, INLINE + 1, PROV_INLINE, PROV_SRC_FREE, "W8+33s | "},
    {0, 0, VP_UNIT_WHOLE, 8, PROV_INLINE_MAX, PROV_INLINE, PROV_SRC_FREE, "W8+64s | "},
    {0, 0, VP_UNIT_WHOLE, 8, PROV_INLINE_MAX + 1, PROV_INLINE, -EPERM, ""},
    {0, 0, VP_UNIT_WHOLE, 8, 0, 0, PROV_SRC_FREE, "W8+0 | "},
    {0, 0, VP_UNIT_WHOLE, 8, 0, NOTIFY | SIGNAL, PROV_SRC_FREE, "N8+0s | "},
    {0, 0, VP_UNIT_WHOLE, 8, 16, NOTIFY, PROV_SRC_FREE, "N8+16i | "},
    {0, 0, VP_UNIT_WHOLE, 8, 16, NOTIFY | PROV_SOLICITED, PROV_SRC_FREE, "N8+16io | "},
    {0, 0, VP_UNIT_WHOLE, 8, 16, PROV_SOLICITED, PROV_SRC_FREE, "W8+16i | "},
    {0, 0, VP_UNIT_WHOLE, 8, 100, NOTIFY | FENCE, 0, "N8+100f | "},
    {0, 1, VP_UNIT_WHOLE, 8, 100, STRONG, 0, "W8+100 | "},
    {0, 0, VP_UNIT_WHOLE, 8, MAX_MSG, 0, 0, "W8+4096 | "},
    {0, 0, VP_UNIT_WHOLE, 8, MAX_MSG + 1, 0, 0, "W8+4096 W4104+1 | "},
    {0, 0, VP_UNIT_WHOLE, 8, 2 * MAX_MSG, FENCE | SIGNAL, 0, "W8+4096f W4104+4096s | "},
    {0, 0, VP_UNIT_WHOLE, 8, 2 * MAX_MSG + 3, NOTIFY | PROV_SOLICITED, 0,
     "W8+4096 W4104+4096 N8200+3o | "},
    {0, 0, VP_UNIT_WHOLE, 0, VP_PARTS_MAX *MAX_MSG, 0, 0,
     "W0+4096 W4096+4096 W8192+4096 W12288+4096 W16384+4096 W20480+4096 W24576+4096 W28672+4096 "
     "| "},
    {0, 0, VP_UNIT_WHOLE, 0, VP_PARTS_MAX *MAX_MSG + 1, 0, -EIO, ""},
    {0, 0, VP_UNIT_WHOLE, 8, 16, DELIVERED | SIGNAL, PROV_SRC_FREE, "W8+16i r8s | "},
    {0, 0, VP_UNIT_WHOLE, 8, 0, DELIVERED | SIGNAL, PROV_SRC_FREE, "W8+0s | "},
    {0, 0, VP_UNIT_WHOLE, 8, 100, DELIVERED | FENCE, 0, "W8+100f r8 | "},
    {0, 0, VP_UNIT_WHOLE, 8, 100, DELIVERED | NOTIFY | SIGNAL, 0, "N8+100 r8s | "},
    {0, 0, VP_UNIT_64, 8, 100, DELIVERED | NOTIFY | SIGNAL, 0, "N8+100 r8s | "},
    {0, 0, VP_UNIT_64, 8, APART, DELIVERED | NOTIFY | SIGNAL, 0, "W8+56 W64+1992 N8+0 r8s | "},
    {1, 0, VP_UNIT_WHOLE, 8, 100, DELIVERED, 0, "R8+100 | "},
    /* packets may overtake each other */
    {0, 1, VP_UNIT_64, 8, PACKET, 0, 0, "W8+1024 | "},
    {0, 0, VP_UNIT_64, 8, PACKET + 1, 0, 0, "W8+56 W64+969 | "},
    {0, 0, VP_UNIT_64, 64, PACKET + 1, 0, 0, "W64+1025 | "},
    {0, 0, VP_UNIT_64, 8, PACKET + 1, FENCE | SIGNAL, 0, "W8+56f W64+969s | "},
    {0, 0, VP_UNIT_64, 8, APART - 1, NOTIFY, 0, "N8+2047 | "},
    {0, 0, VP_UNIT_64, 8, APART, NOTIFY | SIGNAL | PROV_SOLICITED, 0, "W8+56 W64+1992 N8+0so | "},
    {0, 0, VP_UNIT_64, 64, APART, NOTIFY | FENCE, 0, "W64+2048f N64+0 | "},
    {0, 0, VP_UNIT_64, 64, 40, STRONG, 0, "W64+40 | "},
    {0, 1, VP_UNIT_64, 64, 40, STRONG, 0, "r64 W64+40f | "},
    {0, 0, VP_UNIT_64, 64, 0, STRONG, PROV_SRC_FREE, "W64+0 | "},
    {0, 1, VP_UNIT_64, 64, 0, STRONG, PROV_SRC_FREE, "W64+0 | "},
    {0, 0, VP_UNIT_64, 64, 65, STRONG, 0, "W64+64 r64 W128+1f | "},
    {0, 1, VP_UNIT_64, 64, 65, STRONG | SIGNAL, 0, "r64 W64+64f r64 W128+1sf | "},
    {0, 0, VP_UNIT_64, 64, 16, STRONG, PROV_SRC_FREE, "W64+16i | "},
    {0, 1, VP_UNIT_64, 60, 8, STRONG | NOTIFY, PROV_SRC_FREE, "r60 W60+4fi r60 N64+4fi | "},
    {0, 1, VP_UNIT_64, 8, APART, STRONG | NOTIFY, 0, "r8 W8+56f W64+1984 r8 N2048+8f | "},
    {0, 1, VP_UNIT_WORD, 4, 8, STRONG, PROV_SRC_FREE, "r4 W4+4fi r4 W8+4fi | "},
    {0, 1, VP_UNIT_128, 64, 128, STRONG, 0, "r64 W64+64f r64 W128+64f | "},
    {0, 0, VP_UNIT_64, 0, MAX_MSG + 64, STRONG, 0, "W0+4096 r0 W4096+64f | "},
    {0, 0, VP_UNIT_64, 0, MAX_MSG + 65, STRONG, 0, "W0+4096 W4096+64 r0 W4160+1f | "},
    {1, 0, VP_UNIT_WHOLE, 8, 1, 0, 0, "R8+1 | "},
    {1, 0, VP_UNIT_WHOLE, 8, 0, SIGNAL, 0, "R8+0s | "},
    {1, 0, VP_UNIT_WHOLE, 8, 16, SIGNAL, 0, "R8+16s | "},
    {1, 0, VP_UNIT_WHOLE, 8, 16, SOURCE, 0, "R8+16s | "},
    {1, 0, VP_UNIT_WHOLE, 8, 16, FENCE, 0, "R8+16f | "},
    {1, 0, VP_UNIT_WHOLE, 8, MAX_MSG, 0, 0, "R8+4096 | "},
    {1, 0, VP_UNIT_WHOLE, 8, MAX_MSG + 1, SIGNAL, 0, "R8+4096 R4104+1s | "},
    {1, 1, VP_UNIT_64, 8, 40, STRONG, 0, "R8+40 | "},
    {1, 1, VP_UNIT_64, 8, 100, STRONG, 0, "R8+56 R64+44f | "},
    {1, 0, VP_UNIT_64, 64, 2 * PACKET, 0, 0, "R64+2048 | "},
    {1, 0, VP_UNIT_64, 8, 2 * PACKET, FENCE, 0, "R8+56f R64+1992 | "},
};

/* The room that a transfer takes; and only its last request is reported, with its cookie. */
static void check_ring(const struct transfer *t, uint32_t from)
{
    const struct vp_conn *conn = &conns[0];

    CHECK(ep.room == 1000 - (conn->head - from) && conn->head - from == num_wrs);
    for (uint32_t seq = from; seq + 1 != conn->head && seq != conn->head; seq++)
        CHECK(rings[0][seq].tag == VP_TAG_PART);
    if (conn->head != from) {
        CHECK(rings[0][conn->head - 1].cookie == 1000 + t->offset);
        bool bounced = t->rc > 0 && t->length > INLINE;
        CHECK(rings[0][conn->head - 1].tag == (bounced ? 3u << VP_TAG_BOUNCE_SHIFT : 0));
        CHECK(ep.bounce_count == (bounced ? 2 : 3));
        CHECK(conn->unsignalled_from == conn->head);
    }
}

static void transfers_become_requests(bool with_wr_api)
{
    for (size_t i = 0; i < sizeof(transfers) / sizeof(transfers[0]); i++) {
        const struct transfer *t = &transfers[i];
        char what[64];

        reset(with_wr_api);
        set_unit(&conns[0], t->unit);
        if (t->flags & DELIVERED)
            conns[0].slow_flags |= DELIVERED;
        outstanding(&conns[0], t->busy);
        int rc = t->is_read ? read_at(0, t->offset, t->length, t->flags)
                            : write_at(0, t->offset, t->length, t->flags);
        snprintf(what, sizeof(what), "transfer %zu returns %d", i, rc);
        expect(what, t->wanted);
        CHECK(rc == t->rc);
        check_ring(t, t->busy);
    }
}

/* A transfer of which the core posts parts over several connections; and one without a limit. */
static void long_transfers_are_left_to_the_core(bool with_wr_api)
{
    reset(with_wr_api);
    conns[0].split_threshold = 3000;
    conns[0].unsplit_max = 2999;
    conns[0].direct_max = with_wr_api ? 2999 : 0;
    CHECK(write_at(0, 0, 3000, 0) == -EMSGSIZE);
    CHECK(write_at(0, 0, 2999, 0) == 0);
    CHECK(write_at(0, 0, 3000, PROV_NO_SPLIT) == 0);
    CHECK(read_at(0, 0, 3000, 0) == 0);
    expect("a limit", "W0+2999 | W0+3000 | R0+3000 | ");
    ep.notice_apart = 0;
    set_unit(&conns[0], VP_UNIT_64);
    CHECK(write_at(0, 8, 2500, NOTIFY) == 0);
    expect("notices never go apart", "N8+2500 | ");
    ep.notice_apart = 100; /* but a packet stays whole */
    CHECK(write_at(0, 64, PACKET, NOTIFY) == 0 && write_at(0, 64, PACKET + 1, NOTIFY) == 0);
    expect("apart", "N64+1024 | W64+1025 N64+0 | ");
}

/*
 * Room
 */

static void room_is_left(bool with_wr_api)
{
    static const struct {
        uint32_t outstanding, room;
        bool posts_message, posts_write, posts_parts; /* the latter: two requests */
    } cases[] = {{XFERS - 2, 1000, true, true, true},
                 {XFERS - 1, 1000, true, true, false},
                 {XFERS, 1000, true, false, false},
                 {MESSAGES - 1, 1000, true, false, false},
                 {MESSAGES, 1000, false, false, false},
                 {0, ROOM_MSGS + 2, true, true, true},
                 {0, ROOM_MSGS + 1, true, true, false},
                 {0, ROOM_MSGS, true, false, false},
                 {0, 1, true, false, false},
                 {0, 0, false, false, false}};
    struct prov_atomic atomic = {
        .op = PROV_ATOMIC_FADD, .rmt = REMOTE, .result = (uint64_t *)(void *)memory, .rkey = RKEY};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int kind = 0; kind < 9; kind++) {
            reset(with_wr_api);
            outstanding(&conns[0], cases[i].outstanding);
            ep.room = cases[i].room;
            int rc = kind == 0   ? vp_send(base(0), memory, 8, 0, 0)
                     : kind == 1 ? vp_send(base(0), memory, 100, 0, 0)
                     : kind == 2 ? (vp_post_control(&conns[0], VP_CTL_CLOSE) ? 0 : -EAGAIN)
                     : kind == 3 ? write_at(0, 0, 8, 0)
                     : kind == 4 ? write_at(0, 0, 100, 0)
                     : kind == 5 ? read_at(0, 0, 100, 0)
                     : kind == 6 ? vp_atomic(base(0), &atomic)
                     : kind == 7 ? write_at(0, 0, MAX_MSG + 1, 0)
                                 : read_at(0, 0, MAX_MSG + 1, 0);
            bool posts = kind < 3   ? cases[i].posts_message
                         : kind < 7 ? cases[i].posts_write
                                    : cases[i].posts_parts;
            CHECK(posts ? rc >= 0 : rc == -EAGAIN);
            CHECK(num_wrs == (!posts ? 0 : kind < 7 ? 1 : 2));
            bool is_last = kind < 7 && posts;
            CHECK(!is_last || !!strchr(trace, 's') ==
                                  (cases[i].room <= ep.room_signal || kind == 1 || kind == 2));
        }
}

/* A strong read waits without a request of its own, a strong write takes one more. */
static void requests_that_wait_take_room(bool with_wr_api)
{
    reset(with_wr_api);
    set_unit(&conns[0], VP_UNIT_64);
    outstanding(&conns[0], XFERS - 2);
    CHECK(write_at(0, 60, 8, STRONG) == -EAGAIN && read_at(0, 60, 8, STRONG) == 0);
    expect("a read", "R60+4 R64+4f | ");
    outstanding(&conns[0], XFERS - 4);
    CHECK(write_at(0, 60, 8, STRONG) == PROV_SRC_FREE);
    expect("a write", "r60 W60+4fi r60 W64+4fi | ");
}

/* Without room: an open batch is posted, since its requests would never complete. */
static void full_queue_rings_the_doorbell(bool with_wr_api)
{
    reset(with_wr_api);
    CHECK(write_at(0, 0, 8, MORE) == PROV_SRC_FREE);
    expect("a batch", "");
    outstanding(&conns[0], XFERS);
    CHECK(write_at(0, 0, 8, 0) == -EAGAIN);
    expect("no room", "W0+8i | ");
    CHECK(!ep.batch && ep.room_inline == ep.room_signal);
    reset(with_wr_api);
    CHECK(vp_send(base(0), memory, 8, MORE, 0) == PROV_SRC_FREE);
    ep.bounce_count = 0;
    CHECK(vp_send(base(0), memory, 100, 0, 0) == -EAGAIN);
    expect("no buffer", "S0+8i | ");
    CHECK(write_at(0, 0, INLINE + 1, PROV_INLINE) == -EAGAIN && conns[0].head == 1);
}

static void connections_that_are_not_up(bool with_wr_api)
{
    static const struct {
        enum vp_conn_state state;
        bool accepted;
        int rc;
    } cases[] = {{VP_CONN_NEW, true, -EAGAIN},
                 {VP_CONN_NEW, false, -ENOTCONN},
                 {VP_CONN_CLOSING, true, -ENOTCONN},
                 {VP_CONN_DOWN, false, -ENOTCONN}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reset(with_wr_api);
        conns[0].state = (uint8_t)cases[i].state;
        conns[0].hs.accepted = cases[i].accepted;
        conns[0].sq_max = conns[0].sq_xfer_max = 0;
        CHECK(write_at(0, 0, 8, 0) == cases[i].rc && read_at(0, 0, 8, 0) == cases[i].rc);
        CHECK(vp_send(base(0), memory, 8, 0, 0) == cases[i].rc);
        CHECK(!vp_post_control(&conns[0], VP_CTL_SUSPEND));
        CHECK(num_wrs == 0);
    }
}

/* A queue that was full 16 times, each time after as many requests as it holds, gets longer. */
static void queue_that_is_often_full_gets_longer(bool with_wr_api)
{
    reset(with_wr_api);
    for (unsigned int times = 1; times <= 20; times++) {
        conns[0].head += XFERS;
        conns[0].tail = conns[0].head - XFERS;
        for (int again = 0; again < 3; again++)
            CHECK(write_at(0, 0, 8, 0) == -EAGAIN);
        CHECK(num_services == (times >= 16));
        CHECK(conns[0].action == (times >= 16 ? VP_ACTION_LONGER_SQ : VP_ACTION_NONE));
    }
    reset(with_wr_api);
    conns[0].action = VP_ACTION_STALL; /* comes first */
    for (int times = 0; times < 20; times++) {
        conns[0].head += XFERS;
        conns[0].tail = conns[0].head - XFERS;
        CHECK(write_at(0, 0, 8, 0) == -EAGAIN && num_services == 0);
        CHECK(conns[0].action == VP_ACTION_STALL);
    }
    reset(with_wr_api);
    conns[0].sq_depth = ep.sq_depth; /* the longest */
    for (int times = 0; times < 20; times++) {
        conns[0].head += XFERS;
        conns[0].tail = conns[0].head - XFERS;
        CHECK(write_at(0, 0, 8, 0) == -EAGAIN && num_services == 0);
    }
    reset(with_wr_api);
    ep.room = ROOM_MSGS; /* the completion queue is full, not the send queue */
    for (int times = 0; times < 40; times++) {
        conns[0].head += XFERS - 1;
        conns[0].tail = conns[0].head - XFERS + 1;
        CHECK(write_at(0, 0, 8, 0) == -EAGAIN && num_services == 0);
    }
}

/*
 * Signals, solicited requests
 */

static void every_sixteenth_is_signalled(bool with_wr_api)
{
    for (int kind = 0; kind < 4; kind++) {
        reset(with_wr_api);
        for (unsigned int i = 1; i <= 3 * SIGNAL_EVERY; i++) {
            conns[0].tail = conns[0].head;
            vp_update_inline_until(&conns[0]);
            int rc = kind == 0   ? write_at(0, 0, 8, 0)
                     : kind == 1 ? read_at(0, 0, 8, 0)
                     : kind == 2 ? vp_send(base(0), memory, 8, 0, 0)
                                 : vp_write_inline(base(0), memory, REMOTE, RKEY, 8, i);
            CHECK(rc >= 0 && !!strchr(trace, 's') == (i % SIGNAL_EVERY == 0));
            CHECK(conns[0].signalled == i / SIGNAL_EVERY && ep.signalled == conns[0].signalled);
            CHECK(vp_all_signalled(&conns[0]) == (i % SIGNAL_EVERY == 0));
            trace[0] = '\0';
        }
    }
}

static void every_64th_message_is_solicited(bool with_wr_api)
{
    reset(with_wr_api);
    for (unsigned int i = 1; i <= 200; i++) {
        conns[0].tail = conns[0].head;
        int rc = i % 3   ? vp_send(base(0), memory, 8, 0, 0)
                 : i % 2 ? write_at(0, 0, 8, NOTIFY)
                         : vp_send(base(0), memory, 0, 0, 0);
        CHECK(rc >= 0 && !!strchr(trace, 'o') == (i % VP_SOLICIT_EVERY == 0));
        trace[0] = '\0';
        CHECK(write_at(0, 0, 8, 0) >= 0 && !strchr(trace, 'o'));
        trace[0] = '\0';
    }
    CHECK(vp_send(base(0), memory, 8, PROV_SOLICITED, 0) >= 0 && strchr(trace, 'o'));
    CHECK(conns[0].unsolicited == 0);
}

/*
 * Batches
 */

static void batches(bool with_wr_api)
{
    uint8_t copy[8];

    reset(with_wr_api);
    memcpy(copy, memory, 8);
    CHECK(vp_send(base(0), copy, 8, MORE, 0) == PROV_SRC_FREE);
    memset(copy, 0xff, 8); /* it was copied */
    CHECK(write_at(0, 40, 100, MORE) == 0 && write_at(0, 8, 0, MORE) == PROV_SRC_FREE);
    CHECK(ep.needs_slow_poll && ep.room_inline == UINT32_MAX);
    expect("not posted yet", "");
    CHECK(read_at(0, 8, 8, SIGNAL) == 0);
    expect("the last one", "S0+8i W40+100 W8+0 R8+8s | ");
    CHECK(!ep.batch && ep.room_inline == ep.room_signal && ep.room == 996);
    CHECK(write_at(0, 0, 8, MORE) == PROV_SRC_FREE && write_at(1, 8, 8, MORE) == PROV_SRC_FREE);
    expect("another connection", "W0+8i | ");
    vp_ep_flush((struct prov_ep *)(void *)&ep);
    vp_ep_flush((struct prov_ep *)(void *)&ep);
    expect("once", "W8+8i | ");
    CHECK(write_at(0, 0, 8, MORE) == PROV_SRC_FREE && write_at(1, 8, 8, 0) == PROV_SRC_FREE);
    expect("both", "W0+8i | W8+8i | ");
    CHECK(vp_write_inline(base(0), memory, REMOTE, RKEY, 8, 7) == 0);
    expect("short", "W0+8i | ");
    for (int i = 1; i <= VP_BATCH_MAX; i++) {
        CHECK(write_at(1, 0, 8, MORE) == PROV_SRC_FREE);
        CHECK(!!strchr(trace, '|') == (i == VP_BATCH_MAX));
    }
    reset(with_wr_api);
    CHECK(write_at(0, 0, 8, MORE) == PROV_SRC_FREE);
    CHECK(vp_write_inline(base(0), memory + 8, REMOTE + 8, RKEY, 8, 7) == 0);
    expect("in order", "W0+8i W8+8i | ");
    CHECK(write_at(0, 0, 8, MORE) == PROV_SRC_FREE && write_at(0, 0, MAX_MSG + 1, 0) == 0);
    expect("parts have a doorbell of their own", "W0+8i | W0+4096 W4096+1 | ");
}

/*
 * Messages, atomics, and requests of the provider itself
 */

static void messages(bool with_wr_api)
{
    static const struct {
        uint32_t size, flags;
        int rc;
        const char *wanted;
    } cases[] = {{1, 0, PROV_SRC_FREE, "S0+1i | "},
                 {INLINE, SIGNAL, PROV_SRC_FREE, "S0+32si | "},
                 {INLINE, SOURCE, PROV_SRC_FREE, "S0+32si | "},
                 {INLINE, FENCE, PROV_SRC_FREE, "S0+32fi | "},
                 {INLINE + 1, 0, PROV_SRC_FREE, "S0+33s | "},
                 {0, 0, PROV_SRC_FREE, "S0+0 | "},
                 {PROV_MSG_MAX, PROV_SOLICITED, PROV_SRC_FREE, "S0+1024so | "},
                 {PROV_MSG_MAX + 1, 0, -EIO, ""}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reset(with_wr_api);
        CHECK(vp_send(base(0), memory, cases[i].size, cases[i].flags, 5) == cases[i].rc);
        expect("a message", cases[i].wanted);
        bool bounced = cases[i].size > INLINE && cases[i].rc >= 0;
        CHECK(ep.bounce_count == (bounced ? 2 : 3) && conns[0].head == (cases[i].rc >= 0));
        if (cases[i].rc >= 0)
            CHECK(rings[0][0].cookie == 5 && vp_tag_bounce(rings[0][0].tag) == (bounced ? 3 : 0));
    }
}

static void atomics(bool with_wr_api)
{
    uint64_t *result = (uint64_t *)(void *)memory;
    struct prov_atomic atomic = {.op = PROV_ATOMIC_FADD,
                                 .rmt = REMOTE + 8,
                                 .operand = 3,
                                 .compare = 4,
                                 .result = result,
                                 .lkey = LKEY,
                                 .rkey = RKEY,
                                 .flags = SIGNAL,
                                 .cookie = 9};

    reset(with_wr_api);
    CHECK(vp_atomic(base(0), &atomic) == 0 && rings[0][0].cookie == 9);
    atomic.op = PROV_ATOMIC_CSWAP;
    atomic.flags = FENCE;
    CHECK(vp_atomic(base(0), &atomic) == 0);
    expect("two", "F8:3s | X8:4:3f | ");
    for (unsigned int i = 1; i < 8; i++) {
        atomic.rmt = REMOTE + 8 + i;
        CHECK(vp_atomic(base(0), &atomic) == -EACCES);
        atomic.rmt = REMOTE + 8;
        atomic.result = (uint64_t *)(void *)(memory + i);
        CHECK(vp_atomic(base(0), &atomic) == -EPERM);
        atomic.result = result;
    }
    CHECK(conns[0].head == 2);
}

static void own_requests(bool with_wr_api)
{
    reset(with_wr_api);
    vp_post_signalled(&conns[0]);
    CHECK(vp_post_control(&conns[0], VP_CTL_SUSPEND) && rings[0][1].tag == VP_TAG_INTERNAL);
    expect("a sign, a control message", "W0+0s | C72657374so | ");
    CHECK(rings[0][0].tag == VP_TAG_INTERNAL && ep.room == 998);
    outstanding(&conns[0], MESSAGES);
    vp_post_signalled(&conns[0]);
    expect("no room", "");
    outstanding(&conns[0], DEPTH - 2);
    vp_post_signalled(&conns[0]);
    expect("behind all others", "W0+0s | ");
    for (int has_control = 0; has_control < 2; has_control++) {
        reset(with_wr_api);
        outstanding(&conns[0], MESSAGES);
        ep.room = 0; /* the entry was reserved */
        vp_conn_post_last_request(&conns[0], has_control ? VP_CTL_CLOSE : 0);
        vp_conn_post_last_request(&conns[0], has_control ? VP_CTL_CLOSE : 0);
        expect("the last request", has_control ? "C62796521so | " : "W0+0s | ");
        CHECK(ep.credits == 1 && conns[0].head == DEPTH && ep.room == 0);
        CHECK(conns[0].unsignalled_from == DEPTH && vp_all_signalled(&conns[0]));
        CHECK(rings[0][MESSAGES].tag == VP_TAG_INTERNAL && conns[0].last_request == VP_LAST_POSTED);
    }
    reset(with_wr_api);
    CHECK(vp_send(base(0), memory, 8, MORE, 0) == PROV_SRC_FREE);
    vp_conn_post_last_request(&conns[0], 0);
    expect("behind the batch", "S0+8i W0+0s | ");
}

static void writes_without_a_report(bool with_wr_api)
{
    reset(with_wr_api);
    CHECK(vp_write_inline(base(0), memory + 8, REMOTE + 8, RKEY, 16, 77) == 0);
    CHECK(rings[0][0].tag == VP_TAG_UNSIGNALLED && rings[0][0].cookie == 77);
    CHECK(conns[0].unsignalled_from == 0 && ep.room == 999);
    CHECK(write_at(0, 16, 8, PROV_UNSIGNALLED) == PROV_SRC_FREE);
    CHECK(rings[0][1].tag == VP_TAG_UNSIGNALLED && conns[0].unsignalled_from == 0);
    CHECK(write_at(0, 24, 8, 0) == PROV_SRC_FREE && conns[0].unsignalled_from == 3);
    expect("three", "W8+16i | W16+8i | W24+8i | ");
    outstanding(&conns[0], XFERS - 1);
    CHECK(vp_write_inline(base(0), memory, REMOTE, RKEY, 8, 0) == 0);
    CHECK(vp_write_inline(base(0), memory, REMOTE, RKEY, 8, 0) == -EAGAIN);
    conns[0].tail = conns[0].head; /* all complete: one write finds the new limit */
    CHECK(vp_write_inline(base(0), memory, REMOTE, RKEY, 8, 0) == 0);
    CHECK((conns[0].inline_until == conns[0].signal_due - 1) == with_wr_api);
    reset(with_wr_api);
    for (ep.room = 12; ep.room > ROOM_MSGS;) {
        bool signals = ep.room <= ep.room_signal; /* the entry that it takes is counted */
        trace[0] = '\0';
        CHECK(vp_write_inline(base(0), memory, REMOTE, RKEY, 8, 0) == 0);
        CHECK(!!strchr(trace, 's') == signals);
    }
    CHECK(vp_write_inline(base(0), memory, REMOTE, RKEY, 8, 0) == -EAGAIN);
}

/*
 * Requests that the device refuses
 */

/* The n-th of a batch of four is refused: with ibv_wr_start() all of them are. Behind requests
 * whose report may not come, one that is flushed brings it. */
static void refused_requests(bool with_wr_api)
{
    for (unsigned int n = 0; n < 4; n++)
        for (int flushes = 0; flushes < 2; flushes++) {
            reset(with_wr_api);
            conns[0].head = conns[0].tail = 40;
            CHECK(write_at(0, 0, 8, 0) == PROV_SRC_FREE);
            trace[0] = '\0';
            flushes_after_refusal = flushes;
            refused_from = 1 + n;
            for (uint32_t i = 0; i < 4; i++)
                CHECK(write_at(0, 8 * i, 8, i < 3 ? MORE : 0) == PROV_SRC_FREE);
            CHECK(num_refusals == 1 && refused_seq == (with_wr_api ? 41 : 41 + n));
            CHECK(conns[0].end.posted_end == refused_seq);
        }
    for (int kind = 0; kind < 5; kind++) {
        reset(with_wr_api);
        outstanding(&conns[0], 1);
        refused_from = 0;
        CHECK((kind == 0   ? write_at(0, 0, 8, 0)
               : kind == 1 ? write_at(0, 0, 100, 0)
               : kind == 2 ? read_at(0, 0, 8, 0)
               : kind == 3 ? vp_send(base(0), memory, 8, 0, 0)
                           : vp_write_inline(base(0), memory, REMOTE, RKEY, 8, 0)) >= 0);
        CHECK(num_refusals == 1 && refused_seq == 1 && conns[0].head == 2);
    }
}

/* The request behind which a marker comes was the second; the first may have no report. */
static void refused_requests_get_a_marker(bool with_wr_api)
{
    for (int i = 0; i < 8; i++) {
        bool flushes = i & 1, earlier = i & 2, takes_it = i & 4;
        struct vp_conn *conn = &conns[0];
        reset(with_wr_api);
        outstanding(conn, earlier);
        flushes_after_refusal = flushes;
        take_ring_entry(conn, 0, 0);
        refused_from = takes_it ? UINT32_MAX : 0;
        post_failed(conn, earlier, ENOMEM);
        expect("a marker", flushes && earlier && takes_it ? "W0+0s | " : "");
        CHECK(num_wrs == (flushes && earlier));
        CHECK(conn->end.posted_end == (uint32_t)earlier + (flushes && earlier && takes_it));
    }
}

int main(void)
{
    for (size_t i = 0; i < sizeof(memory); i++)
        memory[i] = (uint8_t)(i * 31 + i / 253);
    for (int with_wr_api = 0; with_wr_api < 2; with_wr_api++) {
        transfers_become_requests(with_wr_api);
        long_transfers_are_left_to_the_core(with_wr_api);
        room_is_left(with_wr_api);
        requests_that_wait_take_room(with_wr_api);
        full_queue_rings_the_doorbell(with_wr_api);
        connections_that_are_not_up(with_wr_api);
        queue_that_is_often_full_gets_longer(with_wr_api);
        every_sixteenth_is_signalled(with_wr_api);
        every_64th_message_is_solicited(with_wr_api);
        batches(with_wr_api);
        messages(with_wr_api);
        atomics(with_wr_api);
        own_requests(with_wr_api);
        writes_without_a_report(with_wr_api);
        refused_requests(with_wr_api);
        refused_requests_get_a_marker(with_wr_api);
    }
    return 0;
}
