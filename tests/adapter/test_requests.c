/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of each uTofu call on an RDMA adapter, counted by the software adapter: kinds,
 * flags, doorbells and completions. With UT_REQUESTS_TABLE=1 the test prints them.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ends.h"
#include "harness.h"
#include "proto.h"

enum { CALLS = 64, SIZE = 1 << 18, LONG = 1 << 16, ARMW = UT_NUM_KINDS };

/* A call, and the requests for one of it; `opcodes` as IBV_WR_... */
struct call {
    const char *name;
    unsigned int kind; /* enum ut_kind, or ARMW */
    size_t length, blocks;
    unsigned long int flags;
    bool nic;                              /* UTOFU_ARMW=nic */
    enum { BOTH, IN_ORDER, ANY_ORDER } on; /* adapters that keep the order of data, or do not */
    struct {
        unsigned int write, write_imm, read, send, add, inlined, fenced, doorbells;
    } takes;
    unsigned int notices; /* in the MRQ of the origin */
    unsigned int alone;   /* READs saved by the first call, when nothing is outstanding */
};

static const struct call calls[] = {
    {"put of 8 bytes", UT_PUT, 8, 1, UT_TCQ, .takes = {.write = 1, .inlined = 1, .doorbells = 1}},
    {"put of 8 bytes, local notice", UT_PUT, 8, 1, UT_LCL, .notices = 1,
     .takes = {.write = 1, .inlined = 1, .doorbells = 1}},
    {"put of 8 bytes, remote notice", UT_PUT, 8, 1, UT_TCQ | UT_RMT,
     .takes = {.write_imm = 1, .inlined = 1, .doorbells = 1}},
    {"put of 8 bytes, STRONG_ORDER", UT_PUT, 8, 1, UT_TCQ | UT_STRONG, .on = IN_ORDER,
     .takes = {.write = 1, .inlined = 1, .doorbells = 1}},
    {"put of 8 bytes, STRONG_ORDER", UT_PUT, 8, 1, UT_TCQ | UT_STRONG, .on = ANY_ORDER, .alone = 1,
     .takes = {.write = 1, .read = 1, .inlined = 1, .fenced = 1, .doorbells = 1}},
    {"put of 64 KiB, STRONG_ORDER", UT_PUT, LONG, 1, UT_TCQ | UT_STRONG, .on = ANY_ORDER,
     .takes = {.write = 2, .read = 1, .fenced = 1, .doorbells = 1}},
    {"put of 64 KiB, STRONG_ORDER and remote notice", UT_PUT, LONG, 1, UT_TCQ | UT_RMT | UT_STRONG,
     .on = ANY_ORDER,
     .takes = {.write = 1, .write_imm = 1, .read = 1, .fenced = 1, .doorbells = 1}},
    {"put of 64 KiB, STRONG_ORDER and remote notice", UT_PUT, LONG, 1, UT_TCQ | UT_RMT | UT_STRONG,
     .on = IN_ORDER, .takes = {.write_imm = 1, .doorbells = 1}},
    {"put of 64 KiB", UT_PUT, LONG, 1, UT_TCQ, .takes = {.write = 1, .doorbells = 1}},
    {"put of 64 KiB, remote notice", UT_PUT, LONG, 1, UT_TCQ | UT_RMT, .on = IN_ORDER,
     .takes = {.write_imm = 1, .doorbells = 1}},
    {"put of 64 KiB, remote notice", UT_PUT, LONG, 1, UT_TCQ | UT_RMT, .on = ANY_ORDER,
     .takes = {.write = 1, .write_imm = 1, .doorbells = 1}},
    {"piggyback of 8 bytes, remote notice", UT_PIGGYBACK8, 8, 1, UT_TCQ | UT_RMT,
     .takes = {.write_imm = 1, .inlined = 1, .doorbells = 1}},
    {"put of 4 blocks of 8 bytes", UT_PUT_STRIDE, 8, 4, UT_TCQ,
     .takes = {.write = 4, .inlined = 4, .doorbells = 1}},
    {"get of 8 bytes", UT_GET, 8, 1, UT_LCL, .notices = 1, .takes = {.read = 1, .doorbells = 1}},
    {"get of 64 KiB", UT_GET, LONG, 1, UT_LCL, .notices = 1, .takes = {.read = 1, .doorbells = 1}},
    {"get of 8 bytes, remote notice", UT_GET, 8, 1, UT_LCL | UT_RMT, .notices = 1,
     .takes = {.read = 1, .send = 1, .inlined = 1, .fenced = 1, .doorbells = 2}},
    {"ARMW by the CPU", ARMW, 8, 1, UT_LCL, .notices = 1,
     .takes = {.send = 1, .inlined = 1, .doorbells = 1}},
    {"ARMW by the adapter", ARMW, 8, 1, UT_LCL, .nic = true, .notices = 1,
     .takes = {.add = 1, .doorbells = 1}},
};

static struct ut_end end;
static struct ut_peer peers[2];

static struct ad_counts now(void)
{
    void (*get)(struct ad_counts *) =
        (void (*)(struct ad_counts *))dlsym(RTLD_DEFAULT, "adapter_counts");
    struct ad_counts c;

    CHECK(get, "no adapter_counts()");
    get(&c);
    return c;
}

static void call_once(const struct call *c)
{
    struct ut_comm comm = {.kind = (enum ut_kind)c->kind,
                           .vcq = end.vcq,
                           .rmt = peers[1].id,
                           .lcl_stadd = end.stadd,
                           .rmt_stadd = peers[1].stadd,
                           .data = end.mem,
                           .length = c->length,
                           .stride = 2 * c->length,
                           .blocks = c->blocks,
                           .flags = c->flags};
    struct utofu_mrq_notice notice;
    void *cbdata;

    if (c->kind == ARMW)
        CHECK_OK(utofu_armw8(end.vcq, peers[1].id, UTOFU_ARMW_OP_ADD, 1, peers[1].stadd, 0,
                             c->flags, NULL));
    else
        ut_submit(&comm);
    for (size_t i = 0; c->flags & UT_TCQ && i < c->blocks; i++)
        CHECK_OK(ut_await_tcq(end.vcq, &cbdata));
    for (unsigned int i = 0; i < c->notices; i++)
        CHECK_OK(ut_await_mrq(end.vcq, &notice));
}

/* Takes the target's notices continuously, as its MRQ would overflow. */
static void be_target(const _Atomic uint64_t *over)
{
    struct utofu_mrq_notice notice;
    int rc;

    while (!*over) {
        rc = utofu_poll_mrq(end.vcq, 0, &notice);
        CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_NOT_FOUND, "%d", rc);
        ut_relax();
    }
}

static void print(const struct call *c, const struct ad_counts *d)
{
    printf("| %s | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f |\n",
           c->name, (double)d->opcodes[IBV_WR_RDMA_WRITE] / CALLS,
           (double)d->opcodes[IBV_WR_RDMA_WRITE_WITH_IMM] / CALLS,
           (double)d->opcodes[IBV_WR_RDMA_READ] / CALLS, (double)d->opcodes[IBV_WR_SEND] / CALLS,
           (double)d->opcodes[IBV_WR_ATOMIC_FETCH_AND_ADD] / CALLS, (double)d->inlined / CALLS,
           (double)d->fenced / CALLS, (double)d->signalled / CALLS, (double)d->doorbells / CALLS,
           (double)d->completions / CALLS);
}

static void check_call(const struct call *c)
{
    struct ad_counts before, d;

    for (int i = 0; i < 2; i++) /* connected, and with announced STADDs of the target */
        call_once(c);
    ut_flush(&end, &peers[1]);
    before = now();
    for (int i = 0; i < CALLS; i++)
        call_once(c);
    d = now();
    for (size_t i = 0; i < sizeof(d) / sizeof(uint64_t); i++)
        ((uint64_t *)&d)[i] -= ((const uint64_t *)&before)[i];
    if (getenv("UT_REQUESTS_TABLE"))
        print(c, &d);
    CHECK_EQ(d.opcodes[IBV_WR_RDMA_WRITE], CALLS * c->takes.write);
    CHECK_EQ(d.opcodes[IBV_WR_RDMA_WRITE_WITH_IMM], CALLS * c->takes.write_imm);
    CHECK_EQ(d.opcodes[IBV_WR_RDMA_READ], CALLS * c->takes.read - c->alone);
    CHECK_EQ(d.opcodes[IBV_WR_SEND], CALLS * c->takes.send);
    CHECK_EQ(d.opcodes[IBV_WR_ATOMIC_FETCH_AND_ADD], CALLS * c->takes.add);
    CHECK_EQ(d.inlined, CALLS * c->takes.inlined);
    CHECK_EQ(d.fenced, CALLS * c->takes.fenced - c->alone);
    if (c->blocks == 1)
        CHECK_EQ(d.doorbells, CALLS * c->takes.doorbells);
    CHECK(d.doorbells < 2 * CALLS * c->takes.doorbells, "%llu", (unsigned long long)d.doorbells);
    CHECK(d.completions <= d.signalled + CALLS, "%llu of %llu", (unsigned long long)d.completions,
          (unsigned long long)d.signalled);
}

static void check_calls(void *arg)
{
    const struct call *c = arg;

    ut_open_all(&end, SIZE, peers);
    ut_barrier();
    if (ut_rank == 0) {
        ut_step("%s", c->name);
        check_call(c);
        *ut_cell(0) = 1;
    } else {
        be_target(ut_cell(0));
    }
    ut_close_all(&end);
}

static bool is_profile(const char *name)
{
    const char *profile = getenv("UT_ADAPTER_PROFILE");

    return profile && strcmp(profile, name) == 0;
}

Test(requests, each_call_takes_these)
{
    if (!is_profile("rxe") && !is_profile("adaptive-routing"))
        cr_skip_test("not over the software adapter, or one without a table");
    for (size_t i = 0; i < NUM(calls); i++) {
        struct call c = calls[i];
        if (c.on == (is_profile("adaptive-routing") ? IN_ORDER : ANY_ORDER))
            continue;
        ut_run(&(struct ut_run_opts){.n = 2,
                                     .env = {"UTOFU_PROVIDER=verbs",
                                             c.nic ? "UTOFU_ARMW=nic" : "UTOFU_ARMW=cpu"}},
               check_calls, &c);
    }
}
