/* SPDX-License-Identifier: Apache-2.0 */
/* The manual's examples (figures 2.11 to 2.15); the relays compute and never call the library. */
#include "relay.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(examples);

static void run(int n, int nodes, ut_body_fn *body)
{
    ut_run(&(struct ut_run_opts){.n = n, .nodes = nodes}, body, NULL);
}

/* In all examples, cell 2 r says that round r is over at its end. */
enum { ROUNDS = 5, SIZE = 4096, NOTICES = UT_TCQ | UT_LCL | UT_RMT };

/* Behind a round a relay finds the entries of its descriptors as in free mode: one TCQ entry each,
 * and a local notice of each put. The remote notices of incoming puts are between them. */
static void expect_relayed(const struct ut_end *end, int tcqs, int lcls, int rmts)
{
    struct utofu_mrq_notice notice;

    for (int i = 0; i < tcqs; i++)
        ut_expect_tcq(end->vcq, UTOFU_SUCCESS, NULL);
    while (lcls + rmts > 0) {
        CHECK_OK(ut_await_mrq(end->vcq, &notice));
        CHECK(notice.notice_type == UTOFU_MRQ_TYPE_LCL_PUT ||
              notice.notice_type == UTOFU_MRQ_TYPE_RMT_PUT);
        int *left = notice.notice_type == UTOFU_MRQ_TYPE_LCL_PUT ? &lcls : &rmts;
        CHECK(--*left >= 0);
    }
    ut_expect_nothing(end->vcq);
}

/* 2.11: A, B, C, D in a row */

static void chain(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[4];
    bool relay = ut_rank == 1 || ut_rank == 2;

    (void)arg;
    relay_open_all(&end, relay, SIZE, peers);
    for (int round = 0; round < ROUNDS; round++) {
        if (relay) {
            struct ut_comm next =
                relay_put(&end, &peers[ut_rank + 1], 0, SIZE, NOTICES | UT_SPS(ut_rank == 1));
            next.edata = (uint64_t)ut_rank;
            ut_submit(&next);
        }
        ut_barrier();
        if (ut_rank == 0) {
            struct ut_comm first = relay_put(&end, &peers[1], 0, SIZE, NOTICES | UT_SPS(1));

            relay_fill(end.mem, SIZE, (uint64_t)round);
            ut_submit(&first);
            expect_relayed(&end, 1, 1, 0);
        } else if (relay) {
            relay_compute_until(round);
            expect_relayed(&end, 1, 1, 1);
            relay_check(end.mem, SIZE, (uint64_t)round);
        } else {
            relay_expect(end.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 2);
            relay_check(end.mem, SIZE, (uint64_t)round);
            *ut_cell(round) = 1;
        }
        ut_barrier();
    }
    ut_close_all(&end);
}

Test(examples, f2_11_chain_of_four)
{
    run(4, 1, chain);
    run(4, 4, chain);
}

/* 2.12: five descriptors at A; B's put starts three of them, C's the other two. D is their target
 */

static void steps(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[4];

    (void)arg;
    relay_open_all(&end, ut_rank == 0, SIZE, peers);
    if (ut_rank == 0) {
        for (size_t i = 0; i < 5; i++) {
            struct ut_comm put = relay_put(&end, &peers[3], i * 8, 8, NOTICES);
            put.edata = i;
            end.mem[i * 8] = (uint8_t)(i + 1);
            ut_submit(&put);
        }
    }
    ut_barrier();
    if (ut_rank == 1 || ut_rank == 2) {
        struct ut_comm put =
            relay_put(&end, &peers[0], 64, 8, UT_LCL | UT_SPS(ut_rank == 1 ? 3 : 2));
        while (ut_rank == 2 && *ut_cell(0) == 0)
            ut_relax();
        ut_submit(&put);
        relay_expect(end.vcq, UTOFU_MRQ_TYPE_LCL_PUT, 0);
    } else if (ut_rank == 0) {
        relay_compute_until(1);
        expect_relayed(&end, 5, 5, 0);
    } else {
        for (uint64_t i = 0; i < 3; i++)
            relay_expect(end.vcq, UTOFU_MRQ_TYPE_RMT_PUT, i);
        for (int i = 0; i < 200; i++) { /* no others start */
            ut_expect_nothing(end.vcq);
            ut_random_delay(200);
        }
        CHECK_EQ(end.mem[24], 0);
        *ut_cell(0) = 1;
        for (uint64_t i = 3; i < 5; i++)
            relay_expect(end.vcq, UTOFU_MRQ_TYPE_RMT_PUT, i);
        for (size_t i = 0; i < 5; i++)
            CHECK_EQ(end.mem[i * 8], i + 1);
        *ut_cell(1) = 1;
    }
    ut_close_all(&end);
}

Test(examples, f2_12_sps_3_and_then_2)
{
    run(4, 1, steps);
}

/* 2.13: A to B, and from there to C and to D */

static void branch(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[4];

    (void)arg;
    relay_open_all(&end, ut_rank == 1, SIZE, peers);
    for (int round = 0; round < ROUNDS; round++) {
        if (ut_rank == 1) {
            for (int to = 2; to < 4; to++) {
                struct ut_comm put = relay_put(&end, &peers[to], 0, 512, NOTICES);
                put.edata = (uint64_t)to;
                ut_submit(&put);
            }
        }
        ut_barrier();
        if (ut_rank == 0) {
            struct ut_comm put = relay_put(&end, &peers[1], 0, 512, UT_SPS(2));

            relay_fill(end.mem, 512, (uint64_t)round);
            ut_submit(&put);
            ut_flush(&end, &peers[1]);
        } else if (ut_rank == 1) {
            relay_compute_until(2 * round);
            relay_compute_until(2 * round + 1);
            expect_relayed(&end, 2, 2, 0);
        } else {
            relay_expect(end.vcq, UTOFU_MRQ_TYPE_RMT_PUT, (uint64_t)ut_rank);
            relay_check(end.mem, 512, (uint64_t)round);
            *ut_cell(2 * round + ut_rank - 2) = 1;
        }
        ut_barrier();
        ut_expect_nothing(end.vcq);
        ut_barrier();
    }
    ut_close_all(&end);
}

Test(examples, f2_13_branch)
{
    run(4, 1, branch);
}

/* 2.14: A, B and C, in any order, to D; from there to E */

static void join(void *arg)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    struct ut_end end;
    struct ut_peer peers[5];

    (void)arg;
    relay_open_all(&end, ut_rank == 3, SIZE, peers);
    for (int round = 0; round < 6; round++) {
        if (ut_rank == 3) {
            struct ut_comm put = relay_put(&end, &peers[4], 0, 3 * 64, NOTICES);

            CHECK_OK(utofu_nop(end.vcq, UT_TCQ, NULL));
            CHECK_OK(utofu_nop(end.vcq, UT_TCQ, NULL));
            ut_submit(&put);
        }
        ut_barrier();
        if (ut_rank < 3) {
            size_t at = (size_t)ut_rank * 64;
            struct ut_comm put = relay_put(&end, &peers[3], at, 64, UT_LCL | UT_SPS(1));

            relay_fill(end.mem + at, 64, (uint64_t)(round + ut_rank));
            while (*ut_cell(10 + round) < 3 && orders[round][*ut_cell(10 + round)] != ut_rank)
                ut_relax();
            ut_submit(&put);
            relay_expect(end.vcq, UTOFU_MRQ_TYPE_LCL_PUT, 0);
            ++*ut_cell(10 + round);
        } else if (ut_rank == 3) {
            relay_compute_until(round);
            expect_relayed(&end, 3, 1, 0);
        } else {
            relay_expect(end.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 0);
            for (int from = 0; from < 3; from++) /* all three have arrived */
                relay_check(end.mem + 64 * from, 64, (uint64_t)(round + from));
            *ut_cell(round) = 1;
        }
        ut_barrier();
        ut_expect_nothing(end.vcq);
        ut_barrier();
    }
    ut_close_all(&end);
}

Test(examples, f2_14_join_of_three_in_any_order)
{
    run(5, 1, join);
}

/* 2.15: three puts from A to B, each relayed to C on arrival; and one step more, to D */

static void pipeline(void *arg)
{
    size_t piece = *(size_t *)arg, length = 3 * piece;
    struct ut_end end;
    struct ut_peer peers[4];
    bool relay = ut_rank > 0 && ut_rank < ut_size - 1;

    relay_open_all(&end, relay, length, peers);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; relay && i < 3; i++) {
            struct ut_comm put = relay_put(&end, &peers[ut_rank + 1], i * piece, piece,
                                           NOTICES | UT_SPS(ut_rank < ut_size - 2));
            put.edata = i;
            ut_submit(&put);
        }
        ut_barrier();
        if (ut_rank == 0) {
            struct ut_comm put = relay_put(&end, &peers[1], 0, piece, UT_SPS(1));

            relay_fill(end.mem, length, (uint64_t)round);
            if (round == 1) { /* SPS holds for each block of a stride */
                put.kind = UT_PUT_STRIDE;
                put.stride = piece;
                put.blocks = 3;
                ut_submit(&put);
            } else {
                for (size_t i = 0; i < 3; i++) {
                    put.lcl_stadd = end.stadd + i * piece;
                    put.rmt_stadd = peers[1].stadd + i * piece;
                    ut_submit(&put);
                }
            }
            ut_flush(&end, &peers[1]);
        } else if (relay) {
            relay_compute_until(round);
            expect_relayed(&end, 3, 3, ut_rank > 1 ? 3 : 0);
        } else {
            for (size_t i = 0; i < 3; i++) {
                relay_expect(end.vcq, UTOFU_MRQ_TYPE_RMT_PUT, i);
                if (i == 0)
                    relay_check(end.mem, piece, (uint64_t)round);
            }
            relay_check(end.mem, length, (uint64_t)round);
            *ut_cell(round) = 1;
        }
        ut_barrier();
    }
    ut_close_all(&end);
}

static void run_pipeline(int n, size_t piece)
{
    ut_run(&(struct ut_run_opts){.n = n}, pipeline, &piece);
}

Test(examples, f2_15_pipeline_of_30_bytes)
{
    run_pipeline(3, 10);
    run_pipeline(4, 10);
}

Test(examples, f2_15_pipeline_of_3_mib)
{
    run_pipeline(3, 1 << 20);
    run_pipeline(4, 1 << 20);
}

/* The relay is blocked in a system call, and polls something else, instead of computing. */

static void blocked_relay(void *arg)
{
    struct ut_end end, other;
    struct ut_peer peers[3];

    (void)arg;
    relay_open_all(&end, ut_rank == 1, SIZE, peers);
    ut_end_open(&other, 0, 0, SIZE);
    for (int round = 0; round < 6; round++) {
        if (ut_rank == 1) {
            struct ut_comm put = relay_put(&end, &peers[2], 0, 64, UT_RMT);
            ut_submit(&put);
        }
        ut_barrier();
        if (ut_rank == 0) {
            struct ut_comm put = relay_put(&end, &peers[1], 0, 64, UT_SPS(1));
            relay_fill(end.mem, 64, (uint64_t)round);
            ut_submit(&put);
            ut_flush(&end, &peers[1]);
        } else if (ut_rank == 1) {
            while (*ut_cell(round) == 0) {
                if (round % 2)
                    ut_random_delay(50000);
                else
                    ut_expect_nothing(other.vcq);
            }
        } else {
            relay_expect(end.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 0);
            relay_check(end.mem, 64, (uint64_t)round);
            *ut_cell(round) = 1;
        }
        ut_barrier();
    }
    ut_end_close(&other);
    ut_close_all(&end);
}

Test(examples, relay_that_sleeps_or_polls_something_else_relays)
{
    run(3, 1, blocked_relay);
}
