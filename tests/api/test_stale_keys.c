/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process registers other memory under an STag whose entry its peer has cached: the peer's keys
 * are invalid. Each put still has one notice, which comes when the data are in place.
 */
#include "ends.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <string.h>

TestSuite(stale_keys);

enum { STAG = 1, BUFFERS = 3, SIZE = 1 << 18, MAX_PUTS = 3 };

/* A round of the first test, known to both processes. */
struct round {
    size_t puts, size[MAX_PUTS];
};

static struct round round_of(struct ut_rng *rng)
{
    struct round round = {.puts = 1 + ut_rng_below(rng, MAX_PUTS)};

    /* most below 64 KiB, with different lengths and ends */
    for (size_t i = 0; i < MAX_PUTS; i++)
        round.size[i] = 1 + ut_rng_below(rng, (size_t)64 << ut_rng_below(rng, 13));
    return round;
}

static void put(const struct ut_end *end, utofu_vcq_id_t target, utofu_stadd_t to, size_t size,
                uint64_t edata)
{
    struct ut_comm comm = {.kind = UT_PUT,
                           .vcq = end->vcq,
                           .rmt = target,
                           .lcl_stadd = end->stadd,
                           .rmt_stadd = to,
                           .length = size,
                           .edata = edata,
                           .flags = UT_LCL | UT_RMT};

    ut_submit(&comm);
}

static void take_notice(const struct ut_end *end, uint8_t type, uint64_t edata)
{
    struct utofu_mrq_notice notice;

    CHECK_OK(ut_await_mrq(end->vcq, &notice));
    CHECK_EQ(notice.notice_type, type);
    CHECK_EQ(notice.edata, edata);
}

static void origin(const struct ut_end *end, utofu_vcq_id_t target, const struct round *round,
                   uint64_t number)
{
    utofu_stadd_t to = atomic_load(ut_cell(0));

    memset(end->mem, (int)number, SIZE);
    for (size_t i = 0; i < round->puts; i++)
        put(end, target, to, round->size[i], i);
    for (size_t i = 0; i < round->puts; i++)
        take_notice(end, UTOFU_MRQ_TYPE_LCL_PUT, i);
}

static void target(const struct ut_end *end, const uint8_t *bytes, const struct round *round,
                   uint64_t number)
{
    for (size_t i = 0; i < round->puts; i++) {
        take_notice(end, UTOFU_MRQ_TYPE_RMT_PUT, i);
        for (size_t k = 0; k < round->size[i]; k++)
            CHECK(bytes[k] == (uint8_t)number, "round %lu, notice %zu: byte %zu of %zu",
                  (unsigned long)number, i, k, round->size[i]);
    }
}

/* Two puts to one place, the second one by an STADD whose key stays valid: its bytes stay, as it
 * has STRONG_ORDER. */
static void overwrite(const struct ut_end *end, utofu_vcq_id_t target, const struct round *round,
                      uint64_t number)
{
    struct ut_comm comm = {.kind = UT_PUT,
                           .vcq = end->vcq,
                           .rmt = target,
                           .lcl_stadd = end->stadd,
                           .rmt_stadd = atomic_load(ut_cell(0)),
                           .length = round->size[0],
                           .flags = UT_LCL};
    struct utofu_mrq_notice notice;

    memset(end->mem, (int)~number, SIZE);
    memset(end->mem + SIZE, (int)number, SIZE);
    if (number % 4 != 3) { /* else the STag is the one used last when the next round begins */
        ut_submit(&comm);
        comm.rmt_stadd = atomic_load(ut_cell(1)) + number % BUFFERS * SIZE;
        comm.flags |= UT_STRONG;
    }
    comm.lcl_stadd += SIZE;
    ut_submit(&comm);
    for (int left = number % 4 != 3 ? 2 : 1; left > 0; left--)
        CHECK_OK(ut_await_mrq(end->vcq, &notice));
}

static void expect_overwritten(const uint8_t *bytes, const struct round *round, uint64_t number)
{
    for (size_t k = 0; k < round->size[0]; k++)
        CHECK(bytes[k] == (uint8_t)number, "round %lu: byte %zu of %zu is of the first put",
              (unsigned long)number, k, round->size[0]);
}

/* The rounds of a test. `arg`: not NULL for that of two puts to one place. */
static void body(void *arg)
{
    struct ut_rng rng = ut_rng_start(7);
    uint64_t rounds = ut_env_number("UT_STALE_ROUNDS", 300);
    struct ut_end end;
    struct ut_peer peers[2];
    uint8_t *buffers = ut_pages(BUFFERS * SIZE);
    utofu_stadd_t all;

    ut_open_all(&end, 2 * SIZE, peers);
    CHECK_OK(utofu_reg_mem(end.vcq, buffers, BUFFERS * SIZE, 0, &all));
    if (ut_rank == 1)
        atomic_store(ut_cell(1), all);
    for (uint64_t n = 1; n <= rounds; n++) {
        struct round round = round_of(&rng);
        uint8_t *bytes = buffers + n % BUFFERS * SIZE;
        utofu_stadd_t stadd = 0;

        ut_step("round %lu", (unsigned long)n);
        if (ut_rank == 1) {
            memset(bytes, 0, SIZE);
            CHECK_OK(utofu_reg_mem_with_stag(end.vcq, bytes, SIZE, STAG, 0, &stadd));
            atomic_store(ut_cell(0), stadd);
        }
        ut_barrier();
        if (ut_rank == 0)
            (arg ? overwrite : origin)(&end, peers[1].id, &round, n);
        else if (!arg)
            target(&end, bytes, &round, n);
        ut_barrier();
        if (ut_rank == 1 && arg)
            expect_overwritten(bytes, &round, n);
        if (ut_rank == 1)
            CHECK_OK(utofu_dereg_mem(end.vcq, stadd, 0));
    }
    /* from earlier rounds, too */
    ut_barrier();
    for (int i = 0; i < 1000; i++)
        ut_expect_nothing(end.vcq);
    ut_close_all(&end);
}

Test(stale_keys, each_put_has_one_notice_behind_its_data)
{
    const struct ut_run_opts opts = {.n = 2};

    ut_run(&opts, body, NULL);
}

Test(stale_keys, a_put_with_strong_order_stays_behind_the_one_before)
{
    const struct ut_run_opts opts = {.n = 2};

    ut_run(&opts, body, (void *)(uintptr_t)&opts);
}
