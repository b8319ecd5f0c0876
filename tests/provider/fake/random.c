/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random communications between three VCQs of one process over the fake provider, which is full,
 * lacks memory or room, reports late, and whose connections break: each notice comes once and in
 * order, each TCQ entry in the order of the calls, and all data are there in the end.
 *
 * usage: random [SEED [STEPS]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <utofu.h>

#include "fake.h"

enum { VCQS = 3, OPS = 4000, SEEDS = 6, LARGE = 3000, CELL = 8, QUEUE = OPS };

struct op {
    int kind; /* UTOFU_MRQ_TYPE_LCL_PUT... */
    int from, to;
    uint32_t length;
    uint64_t value;
    uint8_t edata;
    unsigned long flags;
    int64_t answers; /* the operation whose notice the peer answers with this one; -1: none */
    bool ended;      /* its local notice came */
};
static struct op ops[OPS];
static uint32_t num_ops;

struct queue {
    uint32_t at[QUEUE], first, end;
};
static struct {
    utofu_vcq_hdl_t hdl;
    utofu_vcq_id_t id;
    utofu_stadd_t stadd, counter_stadd;
    uint8_t *memory; /* LARGE bytes for each operation: as source and as target */
    uint64_t counter, added;
    struct queue tcq, local[VCQS], remote[VCQS]; /* local: to whom; remote: from whom */
} vcqs[VCQS];

static uint64_t state;
static int64_t to_answer = -1; /* the operation whose notice came last */
static uint32_t draw(uint32_t limit)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % limit;
}

static void push(struct queue *q, uint32_t op)
{
    q->at[q->end++] = op;
}
static struct op *pop(struct queue *q)
{
    CHECK(q->first < q->end);
    return &ops[q->at[q->first++]];
}

static uint8_t *place_of(int vcq, uint32_t op)
{
    return vcqs[vcq].memory + (size_t)op * LARGE;
}
static utofu_stadd_t stadd_of(int vcq, uint32_t op)
{
    return vcqs[vcq].stadd + (size_t)op * LARGE;
}

static void fill(uint8_t *memory, const struct op *op)
{
    for (uint32_t i = 0; i < op->length; i++)
        memory[i] = (uint8_t)(op->value + i * 7);
}

static bool is_filled(uint32_t n)
{
    const struct op *op = &ops[n];
    const uint8_t *memory = place_of(op->kind == UTOFU_MRQ_TYPE_LCL_GET ? op->from : op->to, n);

    for (uint32_t i = 0; i < op->length; i++)
        if (memory[i] != (uint8_t)(op->value + i * 7))
            return false;
    return true;
}

/*
 * Polling
 */

static int who(utofu_vcq_id_t id)
{
    for (int v = 0; v < VCQS; v++)
        if (vcqs[v].id == id)
            return v;
    CHECK(false);
    return -1;
}

static void take_notice(int v, const struct utofu_mrq_notice *n)
{
    bool is_local = n->notice_type == UTOFU_MRQ_TYPE_LCL_PUT ||
                    n->notice_type == UTOFU_MRQ_TYPE_LCL_GET ||
                    n->notice_type == UTOFU_MRQ_TYPE_LCL_ARMW;
    int peer = who(n->vcq_id);
    struct op *op = pop(is_local ? &vcqs[v].local[peer] : &vcqs[v].remote[peer]);
    int remote = op->kind == UTOFU_MRQ_TYPE_LCL_PUT   ? UTOFU_MRQ_TYPE_RMT_PUT
                 : op->kind == UTOFU_MRQ_TYPE_LCL_GET ? UTOFU_MRQ_TYPE_RMT_GET
                                                      : UTOFU_MRQ_TYPE_RMT_ARMW;

    CHECK(n->notice_type == (is_local ? op->kind : remote));
    CHECK(n->edata == op->edata);
    if (op->kind != UTOFU_MRQ_TYPE_LCL_ARMW && (is_local || op->kind == UTOFU_MRQ_TYPE_LCL_PUT))
        CHECK(is_filled((uint32_t)(op - ops)));
    if (is_local && op->kind == UTOFU_MRQ_TYPE_LCL_ARMW)
        CHECK(n->rmt_value < vcqs[peer].added);
    op->ended |= is_local;
    /* an answer comes behind the local notice of what it answers */
    const struct op *asked = op->answers >= 0 && !is_local ? &ops[op->answers] : NULL;
    if (asked && asked->flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)
        CHECK(asked->ended);
    if (!is_local && op->answers < 0 && op->kind == UTOFU_MRQ_TYPE_LCL_PUT)
        to_answer = op - ops;
}

static void poll_vcq(int v)
{
    struct utofu_mrq_notice notice;
    void *cbdata;
    int rc = utofu_poll_mrq(vcqs[v].hdl, 0, &notice);

    CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_NOT_FOUND);
    if (rc == UTOFU_SUCCESS)
        take_notice(v, &notice);
    rc = utofu_poll_tcq(vcqs[v].hdl, 0, &cbdata);
    CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_NOT_FOUND);
    if (rc == UTOFU_SUCCESS)
        CHECK(pop(&vcqs[v].tcq) == cbdata);
}

static bool is_idle(int v)
{
    bool idle = vcqs[v].tcq.first == vcqs[v].tcq.end;

    for (int w = 0; w < VCQS; w++)
        idle &= vcqs[v].local[w].first == vcqs[v].local[w].end &&
                vcqs[v].remote[w].first == vcqs[v].remote[w].end;
    return idle;
}

static void poll_all(void)
{
    for (int v = 0; v < VCQS; v++)
        poll_vcq(v);
}

/*
 * Posting
 */

static int start(struct op *op, uint32_t n)
{
    utofu_vcq_hdl_t hdl = vcqs[op->from].hdl;
    utofu_vcq_id_t id = vcqs[op->to].id;
    utofu_stadd_t lcl = stadd_of(op->from, n), rmt = stadd_of(op->to, n);

    if (op->kind == UTOFU_MRQ_TYPE_LCL_ARMW)
        return utofu_armw8(hdl, id, UTOFU_ARMW_OP_ADD, 1, vcqs[op->to].counter_stadd, op->edata,
                           op->flags, op);
    if (op->kind == UTOFU_MRQ_TYPE_LCL_GET) {
        fill(place_of(op->to, n), op);
        return utofu_get(hdl, id, lcl, rmt, op->length, op->edata, op->flags, op);
    }
    fill(place_of(op->from, n), op);
    if (op->length <= 8 && op->value % 2)
        return utofu_put_piggyback(hdl, id, place_of(op->from, n), rmt, op->length, op->edata,
                                   op->flags, op);
    return utofu_put(hdl, id, lcl, rmt, op->length, op->edata, op->flags, op);
}

static void post(bool breaks)
{
    static const int kinds[] = {UTOFU_MRQ_TYPE_LCL_PUT, UTOFU_MRQ_TYPE_LCL_PUT,
                                UTOFU_MRQ_TYPE_LCL_PUT, UTOFU_MRQ_TYPE_LCL_GET,
                                UTOFU_MRQ_TYPE_LCL_ARMW};
    uint32_t n = num_ops++;
    struct op *op = &ops[n];
    int rc;

    *op = (struct op){.kind = kinds[draw(breaks ? 4 : 5)],
                      .from = (int)draw(VCQS),
                      .length = draw(2) ? 8 : 1 + draw(LARGE),
                      .value = draw(1000000),
                      .edata = (uint8_t)draw(256)};
    op->to = (op->from + 1 + (int)draw(VCQS - 1)) % VCQS;
    op->answers = to_answer;
    to_answer = -1;
    if (op->answers >= 0) {
        op->kind = UTOFU_MRQ_TYPE_LCL_PUT;
        op->from = ops[op->answers].to;
        op->to = ops[op->answers].from;
    }
    op->flags = draw(2) ? UTOFU_ONESIDED_FLAG_TCQ_NOTICE : 0;
    op->flags |= draw(2) ? UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE : 0;
    op->flags |= draw(2) || op->answers >= 0 ? UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE : 0;
    op->flags |= draw(4) ? 0 : UTOFU_ONESIDED_FLAG_STRONG_ORDER;
    if (op->kind == UTOFU_MRQ_TYPE_LCL_ARMW)
        vcqs[op->to].added++;
    if (op->flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE)
        push(&vcqs[op->from].tcq, n);
    if (op->flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)
        push(&vcqs[op->from].local[op->to], n);
    if (op->flags & UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE)
        push(&vcqs[op->to].remote[op->from], n);
    POLL_UNTIL((rc = start(op, n)) != UTOFU_ERR_BUSY, poll_all());
    CHECK(rc == UTOFU_SUCCESS);
}

/* What the provider lacks next. */
static void disturb(bool breaks)
{
    switch (draw(12)) {
    case 0:
        fake_is_full = draw(4);
        break;
    case 1:
        fake_has_no_room = draw(3);
        break;
    case 2:
        fake_lacks_memory = draw(3);
        break;
    case 3:
        fake_saves_reports = draw(2);
        break;
    case 4:
        fake_breaks = breaks && draw(4) == 0;
        break;
    case 5:
        fake_loses = breaks && draw(4) == 0;
        break;
    default:
        break;
    }
}

static void open_vcq(int v)
{
    memset(&vcqs[v], 0, sizeof(vcqs[v]));
    vcqs[v].memory = calloc(OPS, LARGE);
    CHECK(utofu_create_vcq((utofu_tni_id_t)v, 0, &vcqs[v].hdl) == UTOFU_SUCCESS);
    CHECK(utofu_query_vcq_id(vcqs[v].hdl, &vcqs[v].id) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(vcqs[v].hdl, vcqs[v].memory, (size_t)OPS * LARGE, 0, &vcqs[v].stadd) ==
          UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(vcqs[v].hdl, &vcqs[v].counter, sizeof(vcqs[v].counter), 0,
                        &vcqs[v].counter_stadd) == UTOFU_SUCCESS);
}

static void close_vcq(int v)
{
    CHECK(utofu_dereg_mem(vcqs[v].hdl, vcqs[v].stadd, 0) == UTOFU_SUCCESS);
    CHECK(utofu_dereg_mem(vcqs[v].hdl, vcqs[v].counter_stadd, 0) == UTOFU_SUCCESS);
    CHECK(utofu_free_vcq(vcqs[v].hdl) == UTOFU_SUCCESS);
    free(vcqs[v].memory);
}

/* Waits for the last operation of each pair, which has all notices: those before are complete. */
static void flush(void)
{
    for (int v = 0; v < VCQS; v++) {
        for (int w = 0; w < VCQS; w++) {
            if (v == w)
                continue;
            uint32_t n = num_ops++;
            ops[n] = (struct op){.kind = UTOFU_MRQ_TYPE_LCL_PUT, .from = v, .to = w, .length = 8};
            ops[n].answers = -1;
            ops[n].flags = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER;
            push(&vcqs[v].local[w], n);
            int rc;
            POLL_UNTIL((rc = start(&ops[n], n)) != UTOFU_ERR_BUSY, poll_all());
            CHECK(rc == UTOFU_SUCCESS);
        }
    }
    POLL_UNTIL(is_idle(0) && is_idle(1) && is_idle(2), poll_all());
}

static bool good, handles_exit;

/* A failed check does not wait for communications at exit: runs before the library's handler. */
static void end_now(void)
{
    if (!good)
        _exit(EXIT_FAILURE);
}

static void run(uint64_t seed, uint32_t steps)
{
    bool breaks = seed % 2;

    state = seed;
    num_ops = 0;
    to_answer = -1;
    for (int v = 0; v < VCQS; v++)
        open_vcq(v);
    if (!handles_exit)
        atexit(end_now);
    handles_exit = true;
    while (num_ops < steps) {
        post(breaks);
        disturb(breaks);
        for (uint32_t polls = draw(4); polls > 0; polls--)
            poll_vcq((int)draw(VCQS));
    }
    fake_saves_reports = fake_breaks = fake_loses = false;
    fake_is_full = fake_has_no_room = fake_lacks_memory = 0;
    flush();
    for (uint32_t n = 0; n < num_ops; n++)
        CHECK(ops[n].kind == UTOFU_MRQ_TYPE_LCL_ARMW || is_filled(n));
    for (int v = 0; v < VCQS; v++)
        CHECK(vcqs[v].counter == vcqs[v].added);
    for (int v = 0; v < VCQS; v++)
        close_vcq(v);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    uint32_t steps = argc > 2 ? (uint32_t)atoi(argv[2]) : OPS / 2;

    setenv("UTOFU_PROVIDER", "fake", 1);
    setenv("UTOFU_PROGRESS_THREAD", "0", 1);
    fake_peer_lives = true; /* a connection that breaks is no end of the process */
    CHECK(steps + VCQS * VCQS < OPS);
    for (uint64_t s = seed; s < seed + (argc > 1 ? 1 : SEEDS); s++) {
        fprintf(stderr, "seed %llu\n", (unsigned long long)s);
        run(s, steps);
    }
    good = true;
    printf("ok\n");
    return 0;
}
