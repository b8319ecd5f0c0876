/* SPDX-License-Identifier: Apache-2.0 */
/* The end of session mode: VCQs with waiting descriptors, relays that die. */
#include "relay.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

TestSuite(endings);

/* VCQs freed with waiting descriptors, with and without puts under way. */
static void freed_waiting(void *arg)
{
    struct ut_end sink;
    struct ut_peer to_sink;

    (void)arg;
    ut_end_open(&sink, 0, 0, 4096);
    to_sink = ut_end_peer(&sink);
    for (int round = 0; round < 30; round++) {
        struct ut_end relay;
        struct ut_peer to_relay;
        struct utofu_mrq_notice notice;

        ut_step("round %d", round);
        ut_end_open(&relay, 0, UTOFU_VCQ_FLAG_SESSION_MODE, 4096);
        to_relay = ut_end_peer(&relay);
        for (int i = 0; i < 100; i++) {
            struct ut_comm put = relay_put(&relay, &to_sink, 0, 64, UT_RMT | UT_LCL | UT_TCQ);
            ut_submit(&put);
            CHECK_OK(utofu_nop(relay.vcq, UT_TCQ, NULL));
        }
        uint64_t start = ut_random_below(16);
        if (round % 2) {
            struct ut_comm put = relay_put(&sink, &to_relay, 128, 8, UT_LCL | UT_SPS(start));
            ut_submit(&put);
        } else {
            start = 0;
        }
        if (round % 3 == 0)
            ut_random_delay(1000);
        int told = 0;
        if (round % 2) /* the put has arrived before the VCQ is freed */
            while (told == 0) {
                CHECK_OK(ut_await_mrq(sink.vcq, &notice));
                told = notice.notice_type == UTOFU_MRQ_TYPE_LCL_PUT;
            }
        ut_end_close(&relay);
        /* no waiting descriptor started when the VCQ was freed */
        uint64_t arrived = 0;
        while (utofu_poll_mrq(sink.vcq, 0, &notice) == UTOFU_SUCCESS)
            arrived++;
        CHECK(arrived <= (start + 1) / 2, "%llu of %llu", (unsigned long long)arrived,
              (unsigned long long)start);
    }
    ut_end_close(&sink);
}

Test(endings, vcq_with_descriptors_that_wait_can_be_freed)
{
    ut_run(&(struct ut_run_opts){.n = 1}, freed_waiting, NULL);
}

/* A VCQ that was freed and created again does not have the steps of the old one. */
static void made_anew(void *arg)
{
    struct ut_end origin, relay;
    struct ut_peer to_relay, to_origin;

    (void)arg;
    ut_end_open(&origin, 0, 0, 4096);
    to_origin = ut_end_peer(&origin);
    for (int round = 0; round < 5; round++) {
        ut_end_open(&relay, 0, UTOFU_VCQ_FLAG_SESSION_MODE, 4096);
        to_relay = ut_end_peer(&relay);
        struct ut_comm put = relay_put(&relay, &to_origin, 0, 8, UT_LCL);
        ut_submit(&put);
        for (int i = 0; i < 50; i++)
            ut_expect_nothing(relay.vcq); /* the old VCQ had 15 steps left */
        put = relay_put(&origin, &to_relay, 64, 8, UT_LCL | UT_SPS(15));
        ut_submit(&put);
        relay_expect(origin.vcq, UTOFU_MRQ_TYPE_LCL_PUT, 0);
        relay_expect(relay.vcq, UTOFU_MRQ_TYPE_LCL_PUT, 0);
        ut_end_close(&relay);
    }
    ut_end_close(&origin);
}

Test(endings, vcq_made_anew_starts_without_steps)
{
    ut_run(&(struct ut_run_opts){.n = 1}, made_anew, NULL);
}

/* A process can exit with waiting descriptors. */
static void exit_waiting(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    relay_open_all(&end, true, 4096, peers);
    struct ut_comm put = relay_put(&end, &peers[!ut_rank], 0, 64, UT_TCQ | UT_LCL | UT_SPS(1));
    for (int i = 0; i < 10; i++)
        ut_submit(&put);
}

Test(endings, exit_with_descriptors_that_wait)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_PEER_TIMEOUT=1"}}, exit_waiting, NULL);
}

/* A chain of four whose second relay dies: puts to it fail, the others still work. */
static void relay_dies(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[4];
    bool relay = ut_rank == 1 || ut_rank == 2;
    bool before = arg == NULL; /* the rest of the chain was used before */

    relay_open_all(&end, relay, 4096, peers);
    for (int round = 0; round < 2; round++) {
        if (relay && !(round == 1 && ut_rank == 2)) {
            struct ut_comm next =
                relay_put(&end, &peers[ut_rank + 1], 0, 64, UT_LCL | UT_RMT | UT_SPS(ut_rank == 1));
            next.edata = (uint64_t)round;
            ut_submit(&next);
        }
        ut_barrier();
        if (round == 1 && ut_rank == 2)
            raise(SIGKILL);
        while (round == 1 && ut_rank == 0 && kill(ut_pid_of(2), 0) == 0)
            ut_relax(); /* until the dead process is reaped */
        if (ut_rank == 0 && (round == 1 || before)) {
            struct ut_comm first = relay_put(&end, &peers[1], 0, 64, UT_LCL | UT_SPS(1));
            ut_submit(&first);
            relay_expect(end.vcq, UTOFU_MRQ_TYPE_LCL_PUT, 0);
        }
        if (round == 0 && before) {
            if (ut_rank == 3)
                relay_expect(end.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 0);
            else if (relay)
                for (int i = 0; i < 1 + (ut_rank == 2); i++) {
                    struct utofu_mrq_notice notice;
                    CHECK_OK(ut_await_mrq(end.vcq, &notice));
                }
        }
        if (round == 0)
            ut_barrier();
    }
    if (ut_rank == 1) { /* rank 0's put starts this relay's descriptor, whose put fails */
        struct utofu_mrq_notice notice;
        int rc = ut_await_mrq(end.vcq, &notice);

        CHECK(rc == UTOFU_ERR_MRQ_PEER || rc == UTOFU_ERR_MRQ_RMT_MEMORY, "%s", ut_rc_name(rc));
        *ut_cell(5) = 1;
    } else if (ut_rank == 3) {
        while (*ut_cell(5) == 0) {
            ut_expect_nothing(end.vcq);
            ut_relax();
        }
    } else {
        while (*ut_cell(5) == 0)
            ut_relax();
    }
    /* the rest of the chain still works */
    ut_barrier();
    if (ut_rank == 0) {
        struct ut_comm put = relay_put(&end, &peers[3], 0, 64, UT_LCL);
        ut_submit(&put);
        relay_expect(end.vcq, UTOFU_MRQ_TYPE_LCL_PUT, 0);
    }
    ut_barrier();
    ut_end_close(&end);
}

static void fresh_relay_dies(void *arg)
{
    (void)arg;
    relay_dies(&(int){1});
}

Test(endings, death_of_a_relay_is_an_error_for_who_puts_to_it)
{
    ut_run(&(struct ut_run_opts){.n = 4, .may_die = 1 << 2, .env = {"UTOFU_PEER_TIMEOUT=1"}},
           relay_dies, NULL);
}

Test(endings, death_of_a_relay_before_it_was_ever_put_to_is_an_error)
{
    /* in a job set up by hand the others do not know whether the dead one called the library */
    ut_run(&(struct ut_run_opts){.n = 4,
                                 .may_die = 1 << 2,
                                 .env = {"UTOFU_PEER_TIMEOUT=1", "UTOFU_JOB_TIMEOUT=4"}},
           fresh_relay_dies, NULL);
}

/* A put of rank 0 that moves its own session's schedule pointer: one more put goes round. */
static void set_going(const struct ut_end *start, const struct ut_end *end)
{
    struct ut_comm first = {.kind = UT_PUT,
                            .vcq = start->vcq,
                            .rmt = end->id,
                            .lcl_stadd = start->stadd,
                            .rmt_stadd = end->stadd + 128,
                            .length = 8,
                            .flags = UT_SPS(1) | UT_LCL};

    ut_submit(&first);
    relay_expect(start->vcq, UTOFU_MRQ_TYPE_LCL_PUT, 0);
}

/*
 * A put goes round a ring for ever, until one process dies: all others end. The put is lost if the
 * dead process had it; so once rank 2 has announced its death rank 0 starts another one now and
 * then, until one of them meets the gap.
 */
static void ring_dies(void *arg)
{
    struct ut_end end, start;
    struct ut_peer peers[4];
    bool over = false;

    (void)arg;
    relay_open_all(&end, true, 4096, peers);
    ut_end_open(&start, 1, 0, 4096);
    ut_barrier();
    if (ut_rank == 0)
        set_going(&start, &end);
    for (uint64_t seen = 0; !over && *ut_cell(0) == 0;) {
        struct ut_comm hop = relay_put(&end, &peers[(ut_rank + 1) % 4], 0, 64, UT_RMT | UT_SPS(1));
        struct utofu_mrq_notice notice;
        void *cbdata;
        int rc = ut_start(&hop);

        CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_BUSY, "%s", ut_rc_name(rc));
        (void)utofu_poll_tcq(end.vcq, 0, &cbdata);
        while ((rc = utofu_poll_mrq(end.vcq, 0, &notice)) == UTOFU_SUCCESS)
            seen++;
        if (rc != UTOFU_ERR_NOT_FOUND) { /* the origin notifies the others */
            CHECK(ut_rank == 1, "%s", ut_rc_name(rc));
            CHECK(rc == UTOFU_ERR_MRQ_PEER || rc == UTOFU_ERR_MRQ_RMT_MEMORY, "%s", ut_rc_name(rc));
            *ut_cell(0) = 1;
            over = true;
        }
        if (ut_rank == 2 && seen >= 200) {
            *ut_cell(1) = 1;
            raise(SIGKILL);
        }
        if (ut_rank == 0 && *ut_cell(1) == 1) {
            usleep(10000);
            set_going(&start, &end);
        }
        if (rc == UTOFU_ERR_NOT_FOUND)
            ut_relax();
    }
    ut_barrier();
    ut_end_close(&start);
    ut_end_close(&end);
}

Test(endings, death_in_a_ring_ends_it_for_all)
{
    ut_run(&(struct ut_run_opts){.n = 4, .may_die = 1 << 2, .env = {"UTOFU_PEER_TIMEOUT=1"}},
           ring_dies, NULL);
}

/*
 * Each round has a new session-mode VCQ, with the id of the one before: each process puts to all
 * others from it, as soon as these have sent it a step from a VCQ that stays. The session-mode VCQ
 * is freed when all of its own puts are complete and those of the others have arrived.
 */
static void made_anew_each_round(void *arg)
{
    enum { N = 4 };
    uint64_t rounds = ut_env_number("UT_SESSION_ROUNDS", 100);
    struct ut_end steps, end;
    struct ut_peer peers[N];
    struct utofu_mrq_notice notice;
    void *cbdata;

    (void)arg;
    ut_end_open(&steps, 0, 0, 4096);
    for (uint64_t round = 0; round < rounds; round++) {
        ut_step("round %llu", (unsigned long long)round);
        ut_end_open(&end, 0, UTOFU_VCQ_FLAG_SESSION_MODE, 4096);
        ut_end_gather(&end, peers);
        if (ut_random_below(3) == 0)
            ut_random_delay(200);
        for (int to = 0; to < N; to++) {
            if (to == ut_rank)
                continue;
            struct ut_comm step = relay_put(&steps, &peers[to], 8 * (size_t)ut_rank, 8, UT_SPS(1));
            struct ut_comm put = relay_put(&end, &peers[to], 64, 64, UT_RMT | UT_STRONG | UT_TCQ);
            relay_submit(&step);
            ut_submit(&put);
        }
        for (int i = 1; i < N; i++) {
            CHECK_OK(ut_await_mrq(end.vcq, &notice));
            CHECK_EQ(notice.notice_type, UTOFU_MRQ_TYPE_RMT_PUT);
        }
        for (int i = 1; i < N; i++)
            CHECK_OK(ut_await_tcq(end.vcq, &cbdata));
        while (utofu_poll_tcq(steps.vcq, 0, &cbdata) == UTOFU_SUCCESS)
            ;
        ut_end_close(&end);
    }
    ut_barrier();
    ut_end_close(&steps);
}

Test(endings, vcq_made_anew_each_round_loses_no_step)
{
    ut_run(&(struct ut_run_opts){.n = 4}, made_anew_each_round, NULL);
    ut_run(&(struct ut_run_opts){.n = 4, .env = {"UTOFU_SHM_MAP=0"}}, made_anew_each_round, NULL);
}

/*
 * The same with memory that another VCQ has registered as well, so that it stays reachable when the
 * session-mode VCQ is freed, and the STADD is the same each time. Process 0 does not poll the VCQ
 * of its steps before the next one, so it does not see that the connected VCQ was freed.
 */
static void made_anew_same_memory(void *arg)
{
    struct ut_end steps, end = {0};
    struct ut_peer peers[2];
    struct utofu_mrq_notice notice;
    utofu_stadd_t kept;
    void *cbdata;

    (void)arg;
    ut_end_open(&steps, 0, 0, 4096);
    end.mem = ut_pages(4096);
    CHECK_OK(utofu_reg_mem(steps.vcq, end.mem, 4096, 0, &kept));
    for (int round = 0; round < 50; round++) {
        ut_step("round %d", round);
        CHECK_OK(utofu_create_vcq(0, UTOFU_VCQ_FLAG_SESSION_MODE, &end.vcq));
        CHECK_OK(utofu_query_vcq_id(end.vcq, &end.id));
        CHECK_OK(utofu_reg_mem(end.vcq, end.mem, 4096, 0, &end.stadd));
        ut_end_gather(&end, peers);
        if (ut_rank == 0) {
            struct ut_comm step = relay_put(&steps, &peers[1], 8, 8, UT_SPS(1));
            ut_submit(&step);
            do
                (void)utofu_poll_tcq(steps.vcq, 0, &cbdata);
            while (utofu_poll_mrq(end.vcq, 0, &notice) == UTOFU_ERR_NOT_FOUND);
        } else {
            struct ut_comm put = relay_put(&end, &peers[0], 64, 64, UT_RMT | UT_TCQ);
            ut_submit(&put);
            CHECK_OK(ut_await_tcq(end.vcq, &cbdata));
        }
        ut_barrier(); /* the put has arrived, and its sender has the notice */
        CHECK_OK(utofu_dereg_mem(end.vcq, end.stadd, 0));
        CHECK_OK(utofu_free_vcq(end.vcq));
    }
    CHECK_OK(utofu_dereg_mem(steps.vcq, kept, 0));
    ut_end_close(&steps);
    munmap(end.mem, 4096);
}

Test(endings, step_to_a_vcq_made_anew_does_not_go_to_the_old_one)
{
    ut_run(&(struct ut_run_opts){.n = 2}, made_anew_same_memory, NULL);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_PROGRESS_THREAD=0"}}, made_anew_same_memory,
           NULL);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_SHM_MAP=0"}}, made_anew_same_memory, NULL);
}
