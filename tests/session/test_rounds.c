/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Session mode round after round: a ring, a tree, the exchange of the PRDMA-SMCQ paper, joins.
 *
 * UT_RING_LAPS (10,000 in the full run), UT_SESSION_ROUNDS (joins: 10,000 in the full run).
 */
#include "relay.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(rounds);

static void run(int n, ut_body_fn *body)
{
    ut_run(&(struct ut_run_opts){.n = n, .timeout_s = 120}, body, NULL);
}

/* Takes all TCQ entries and notices; counts the remote notices, which come in order. */
static void take_all(utofu_vcq_hdl_t vcq, uint64_t *rmt, uint64_t *lcl)
{
    struct utofu_mrq_notice notice;
    void *cbdata;
    int rc;

    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_SUCCESS) {
        uint64_t *count = notice.notice_type == UTOFU_MRQ_TYPE_RMT_PUT ? rmt : lcl;
        CHECK_EQ(notice.edata, *count % 256);
        ++*count;
    }
    CHECK_RC(rc, UTOFU_ERR_NOT_FOUND);
    CHECK_RC(utofu_poll_tcq(vcq, 0, &cbdata), UTOFU_ERR_NOT_FOUND);
}

/* A ring of four: one put goes round, re-armed in batches. */

enum { BATCH = 100 };

static void ring(void *arg)
{
    bool polls = arg == NULL;
    uint64_t laps = ut_env_number("UT_RING_LAPS", polls ? 2000 : 500), posted = 0, rmt = 0, lcl = 0;
    struct ut_end end, start;
    struct ut_peer peers[4];

    relay_open_all(&end, true, 4096, peers);
    ut_end_open(&start, 1, 0, 4096);
    const struct ut_peer *next = &peers[(ut_rank + 1) % ut_size];
    if (ut_rank == 0)
        memset(end.mem, 0xab, 64);
    ut_barrier();
    if (ut_rank == 0) { /* starts the first lap, perhaps before other ranks have posted */
        struct ut_comm first = {.kind = UT_PUT,
                                .vcq = start.vcq,
                                .rmt = end.id,
                                .lcl_stadd = start.stadd,
                                .rmt_stadd = end.stadd + 128,
                                .length = 8,
                                .flags = UT_SPS(1) | UT_LCL};
        struct utofu_mrq_notice notice;
        ut_submit(&first);
        CHECK_OK(ut_await_mrq(start.vcq, &notice));
    }
    while (posted < laps || rmt < laps) {
        for (int i = 0; i < BATCH && posted < laps && posted < rmt + 2 * BATCH; i++) {
            /* the last put does not start another lap */
            bool last = ut_rank == ut_size - 1 && posted == laps - 1;
            struct ut_comm hop = relay_put(&end, next, 0, 64, UT_RMT | UT_SPS(!last));

            hop.edata = posted++ % 256;
            relay_submit(&hop);
        }
        ut_step("%llu posted, %llu seen", (unsigned long long)posted, (unsigned long long)rmt);
        take_all(end.vcq, &rmt, &lcl);
        if (!polls)
            ut_random_delay(2000);
        ut_relax();
    }
    CHECK_EQ(rmt, laps);
    CHECK_EQ(lcl, 0);
    for (int i = 0; i < 64; i++)
        CHECK_EQ(end.mem[i], 0xab);
    ut_barrier();
    ut_expect_nothing(end.vcq);
    ut_barrier();
    ut_end_close(&start);
    ut_end_close(&end);
}

static void lazy_ring(void *arg)
{
    (void)arg;
    ring(&(int){1});
}

Test(rounds, one_put_goes_round_a_ring_of_four)
{
    run(4, ring);
}

Test(rounds, one_put_goes_round_a_ring_of_four_that_mostly_sleeps)
{
    run(4, lazy_ring);
}

/* A broadcast tree of eight: children of r are 2 r + 1 and 2 r + 2. Descriptors are prepared once.
 */

static int children(int rank)
{
    int count = 0;

    for (int child = 2 * rank + 1; child <= 2 * rank + 2; child++)
        count += child < ut_size;
    return count;
}

static void tree(void *arg)
{
    enum { LENGTH = 3000, ROUNDS = 100 };
    struct ut_end end;
    struct ut_peer peers[8];
    uint64_t desc[2 * UT_DESC / 8];
    size_t size = 0;

    (void)arg;
    relay_open_all(&end, ut_rank > 0, 4096, peers);
    for (int child = 2 * ut_rank + 1; child <= 2 * ut_rank + 2 && child < ut_size; child++) {
        struct ut_comm put =
            relay_put(&end, &peers[child], 0, LENGTH, UT_TCQ | UT_RMT | UT_SPS(children(child)));
        size_t one;

        put.edata = (uint64_t)ut_rank;
        CHECK_OK(ut_prepare(&put, (uint8_t *)desc + size, &one));
        size += one;
    }
    for (uint64_t round = 0; round < ROUNDS; round++) {
        ut_step("round %llu", (unsigned long long)round);
        if (ut_rank == 0)
            relay_fill(end.mem, LENGTH, round);
        if (ut_rank > 0 && ut_random_below(2)) /* before or after the data arrive */
            ut_random_delay(300);
        CHECK_OK(utofu_post_toq(end.vcq, desc, size, &end));
        if (ut_rank > 0) {
            relay_expect(end.vcq, UTOFU_MRQ_TYPE_RMT_PUT, (uint64_t)(ut_rank - 1) / 2);
            relay_check(end.mem, LENGTH, round);
        }
        for (int i = 0; i < children(ut_rank); i++)
            ut_expect_tcq(end.vcq, UTOFU_SUCCESS, &end);
        ut_barrier();
        ut_expect_nothing(end.vcq);
        ut_barrier();
    }
    ut_close_all(&end);
}

Test(rounds, broadcast_down_a_tree_of_eight)
{
    run(8, tree);
}

/*
 * The paper's exchange (its sections 4.3 and 4.4): both directions at once. The TOQ of a round
 * holds READY-TO-RECEIVE, the data, END-OF-DATA. The schedule pointer starts one ahead, so that
 * READY-TO-RECEIVE goes when it is posted; it carries an SPS for the peer's data, END-OF-DATA and
 * next READY-TO-RECEIVE.
 */

static void exchange(void *arg)
{
    enum { LENGTH = 16384, RTR_AT = 2 * LENGTH, ROUNDS = 300 };
    struct ut_end end, helper;
    struct ut_peer peers[2];
    const struct ut_peer *peer = &peers[!ut_rank];
    uint64_t desc[3 * UT_DESC / 8];
    size_t size = 0, one;

    (void)arg;
    relay_open_all(&end, true, 3 * LENGTH, peers);
    struct ut_comm rtr = relay_put(&end, peer, RTR_AT, 8, UT_TCQ | UT_SPS(3));
    struct ut_comm data = relay_put(&end, peer, 0, LENGTH, UT_TCQ);
    data.rmt_stadd += LENGTH;
    struct ut_comm eod = relay_put(&end, peer, RTR_AT + 8, 8, UT_TCQ | UT_RMT | UT_STRONG);
    const struct ut_comm *all[] = {&rtr, &data, &eod};
    for (int i = 0; i < 3; i++) {
        CHECK_OK(ut_prepare(all[i], (uint8_t *)desc + size, &one));
        size += one;
    }
    /* one ahead: a put with SPS 1 from another VCQ to this process's own */
    ut_end_open(&helper, 0, 0, 4096);
    struct ut_comm ahead = {.kind = UT_PUT,
                            .vcq = helper.vcq,
                            .rmt = end.id,
                            .lcl_stadd = helper.stadd,
                            .rmt_stadd = end.stadd + RTR_AT + 64,
                            .length = 8,
                            .flags = UT_LCL | UT_SPS(1)};
    ut_submit(&ahead);
    relay_expect(helper.vcq, UTOFU_MRQ_TYPE_LCL_PUT, 0);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        ut_step("round %llu", (unsigned long long)round);
        relay_fill(end.mem, LENGTH, round * 2 + (uint64_t)ut_rank);
        if (round % 3 == 0)
            ut_random_delay(500);
        CHECK_OK(utofu_post_toq(end.vcq, desc, size, NULL));
        if (round % 5 == 0)
            ut_random_delay(2000); /* computes */
        relay_expect(end.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 0);
        relay_check(end.mem + LENGTH, LENGTH, round * 2 + (uint64_t)!ut_rank);
        for (int i = 0; i < 3; i++) /* after these the buffer may be written again */
            ut_expect_tcq(end.vcq, UTOFU_SUCCESS, NULL);
        ut_expect_nothing(end.vcq);
    }
    ut_barrier();
    ut_end_close(&helper);
    ut_close_all(&end);
}

Test(rounds, ready_to_receive_then_data_both_ways_at_once)
{
    run(2, exchange);
}

/* 16 puts with SPS 1 from four processes, in any order and delay, start the put behind 15 NOPs. */

static void many_joins(void *arg)
{
    enum { EACH = 4, ORIGINS = 4, RELAY = ORIGINS };
    uint64_t rounds = ut_env_number("UT_SESSION_ROUNDS", 300), rmt = 0, lcl = 0;
    struct ut_end end, last;
    struct ut_peer peers[ORIGINS + 1], target;
    uint64_t desc[EACH * ORIGINS * UT_DESC / 8];
    size_t size = 0, one;

    (void)arg;
    relay_open_all(&end, ut_rank == RELAY, 4096, peers);
    if (ut_rank == RELAY) {
        ut_end_open(&last, 1, 0, 4096);
        target = ut_end_peer(&last);
        for (int i = 0; i < EACH * ORIGINS - 1; i++) {
            CHECK_OK(utofu_prepare_nop(end.vcq, 0, (uint8_t *)desc + size, &one));
            size += one;
        }
        struct ut_comm put = relay_put(&end, &target, 0, EACH * ORIGINS * 8, UT_RMT);
        CHECK_OK(ut_prepare(&put, (uint8_t *)desc + size, &one));
        size += one;
    }
    for (uint64_t round = 1; round <= rounds; round++) {
        ut_step("round %llu", (unsigned long long)round);
        if (ut_rank < RELAY) {
            for (size_t i = 0; i < EACH; i++) {
                size_t at = ((size_t)ut_rank * EACH + i) * 8;
                struct ut_comm put = relay_put(&end, &peers[RELAY], at, 8, UT_SPS(1) | UT_TCQ);
                memcpy(end.mem + at, &round, 8);
                if (ut_random_below(4) == 0)
                    ut_random_delay(100);
                relay_submit(&put);
            }
            for (size_t i = 0; i < EACH; i++) { /* before the sources are written again */
                void *cbdata;
                CHECK_OK(ut_await_tcq(end.vcq, &cbdata));
            }
        } else {
            if (ut_random_below(2))
                ut_random_delay(200);
            int rc;
            while ((rc = utofu_post_toq(end.vcq, desc, size, NULL)) == UTOFU_ERR_BUSY)
                take_all(end.vcq, &rmt, &lcl);
            CHECK_RC(rc, UTOFU_SUCCESS);
            bool polls_relay = ut_random_below(2);
            while (rmt < round) {
                struct utofu_mrq_notice notice;
                if (utofu_poll_mrq(last.vcq, 0, &notice) == UTOFU_SUCCESS)
                    rmt++;
                if (polls_relay)
                    ut_expect_nothing(end.vcq);
                ut_relax();
            }
            for (size_t i = 0; i < EACH * ORIGINS; i++)
                CHECK_EQ(((uint64_t *)(void *)last.mem)[i], round); /* all 16 had arrived */
        }
        ut_barrier();
        if (ut_rank == RELAY)
            ut_expect_nothing(last.vcq); /* the put is sent once */
        ut_barrier();
    }
    if (ut_rank == RELAY)
        ut_end_close(&last);
    else
        ut_flush(&end, &peers[RELAY]);
    ut_close_all(&end);
}

Test(rounds, sixteen_puts_of_four_processes_start_the_put_behind_15_nops_once)
{
    run(5, many_joins);
}
