/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request that the device refuses, after others that have completed and are not reported, as they
 * are unsignalled: the connection ends without waiting for their reports. The communication of the
 * request fails with UTOFU_ERR_MRQ_OTHER, earlier ones succeed, and later ones use a new
 * connection.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "ends.h"
#include "harness.h"
#include "fault.h"

enum { WORDS = 64, ROUNDS = 3, SIZE = WORDS * 8, LONG = 16384 };

static struct ut_end end;
static struct ut_peer peers[2];

struct posts {
    uint32_t before;  /* puts that are complete, and unsignalled */
    uint32_t at_once; /* puts with one doorbell, */
    uint32_t fails;   /* of which this one, counted from 1, is refused */
    bool in_parts;    /* the last of them is a long STRONG_ORDER put, which flushes earlier ones */
};

static volatile uint64_t *words(void)
{
    return (volatile uint64_t *)(void *)end.mem;
}

static void put(uint32_t word, unsigned long int flags)
{
    CHECK_OK(utofu_put_piggyback8(end.vcq, peers[1].id, word + 1, peers[1].stadd + word * 8, 8,
                                  word, flags | UT_TCQ, NULL));
}

static void await_tcq(uint32_t n)
{
    void *cbdata;

    while (n-- > 0)
        CHECK_OK(ut_await_tcq(end.vcq, &cbdata));
}

static void put_and_wait(uint32_t word)
{
    struct utofu_mrq_notice notice;

    put(word, UT_LCL);
    await_tcq(1);
    CHECK_OK(ut_await_mrq(end.vcq, &notice));
}

/* Over a connection without other communications. */
static void put_unsignalled(uint32_t n)
{
    put_and_wait(WORDS - 2);
    for (uint32_t i = 0; i < n; i++) {
        put(i, 0);
        await_tcq(1);
    }
}

static void put_in_parts(uint32_t word)
{
    CHECK_OK(utofu_put(end.vcq, peers[1].id, end.stadd + SIZE, peers[1].stadd + SIZE + 8, LONG,
                       word, UT_TCQ | UT_LCL | UTOFU_ONESIDED_FLAG_STRONG_ORDER, NULL));
}

static void put_at_once(const struct posts *p)
{
    uint32_t short_ones = p->at_once - p->in_parts;

    for (uint32_t i = 0; i < short_ones; i++)
        put(p->before + i, UT_LCL | (i + 1 < p->at_once ? UTOFU_ONESIDED_FLAG_DELAY_START : 0));
    if (p->in_parts)
        put_in_parts(p->before + short_ones);
}

/* One has failed, perhaps an earlier one, if a device accepts a list completely or not at all. Or
 * none, if an earlier one was in flight and is flushed: then both are repeated. */
static void await_failure(const struct posts *p)
{
    struct utofu_mrq_notice notice;
    unsigned int failed = 0;

    await_tcq(p->at_once);
    for (uint32_t i = 0; i < p->at_once; i++) {
        int rc = ut_await_mrq(end.vcq, &notice);
        CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_MRQ_OTHER, "%d", rc);
        CHECK(rc == UTOFU_SUCCESS || notice.edata < p->before + p->fails);
        failed += rc != UTOFU_SUCCESS;
    }
    CHECK(failed == 1 || (failed == 0 && p->before > 0), "%u", failed);
}

static void post_round(const struct posts *p)
{
    if (ut_rank == 0)
        put_unsignalled(p->before);
    for (uint32_t i = 0; ut_rank == 1 && i < p->before; i++)
        while (words()[i] != i + 1)
            ut_relax();
    ut_barrier();
    if (ut_rank == 0) {
        CHECK(adapter_fault_set(AD_FAULT_POST, p->fails));
        put_at_once(p);
        await_failure(p);
        CHECK(adapter_fault_set(AD_FAULT_POST, 0));
        put_and_wait(WORDS - 1);
    }
    while (ut_rank == 1 && words()[WORDS - 1] != WORDS)
        ut_relax();
    ut_barrier();
    memset(end.mem, 0, SIZE);
    ut_barrier();
}

static void check_posts(void *arg)
{
    ut_open_all(&end, SIZE + 8 + LONG, peers);
    memset(end.mem, 0, SIZE);
    ut_barrier();
    for (int round = 0; round < ROUNDS; round++) {
        ut_step("round %d", round);
        post_round(arg);
    }
    ut_close_all(&end);
}

static void run(struct posts posts)
{
    static struct ut_outcome out[2];
    static char report[8192];

    if (!getenv("UT_ADAPTER_SOCKET"))
        cr_skip_test("not over the software adapter");
    bool good = ut_run_collect(
        &(struct ut_run_opts){.n = 2, .timeout_s = 30, .env = {"UTOFU_PROVIDER=verbs"}},
        check_posts, &posts, out, report, sizeof(report));
    cr_assert(good, "%s", report);
    cr_assert(strstr(out[0].output, "posting to queue pair"), "%s", out[0].output);
    cr_assert(!strstr(out[0].output, "did not report"), "%s", out[0].output);
}

Test(posts, the_first_one)
{
    run((struct posts){.before = 0, .at_once = 1, .fails = 1});
}

Test(posts, behind_unsignalled_ones)
{
    run((struct posts){.before = 20, .at_once = 1, .fails = 1});
}

Test(posts, among_several_at_once)
{
    run((struct posts){.before = 20, .at_once = 4, .fails = 3});
}

/* Parts of a put are not posted after a failed one. */
Test(posts, before_one_in_parts)
{
    run((struct posts){.before = 20, .at_once = 3, .fails = 1, .in_parts = true});
}
