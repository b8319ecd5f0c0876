/* SPDX-License-Identifier: Apache-2.0 */
/* The harness itself: its guarantees, and that it detects violations. */
#include "harness.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(harness);

static struct ut_outcome out[UT_MAX_PROCS];
static char report[65536];

static bool run(const struct ut_run_opts *opts, ut_body_fn *body)
{
    memset(report, 0, sizeof(report));
    bool good = ut_run_collect(opts, body, NULL, out, report, sizeof(report));
    cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "a process is left");
    cr_assert_eq(errno, ECHILD);
    return good;
}

static void gather(void *arg)
{
    int all[UT_MAX_PROCS];

    (void)arg;
    for (int round = 0; round < 50; round++) {
        int mine = ut_rank * 1000 + round;

        ut_random_delay(100);
        ut_allgather(&mine, all, sizeof(mine));
        for (int rank = 0; rank < ut_size; rank++)
            CHECK_EQ(all[rank], rank * 1000 + round);
    }
    atomic_fetch_add(ut_cell(3), 1);
    ut_barrier();
    CHECK_EQ(atomic_load(ut_cell(3)), ut_size);
}

Test(harness, processes_gather_and_meet)
{
    cr_assert(run(&(struct ut_run_opts){.n = 5}, gather), "%s", report);
}

static void look_at_job(void *arg)
{
    static const int node[] = {0, 0, 0, 1, 1, 1, 2, 2}, local_rank[] = {0, 1, 2, 0, 1, 2, 0, 1};
    static const int local_size[] = {3, 3, 3, 3, 3, 3, 2, 2};

    (void)arg;
    CHECK_EQ(atoi(getenv("UTOFU_RANK")), ut_rank);
    CHECK_EQ(atoi(getenv("UTOFU_SIZE")), 8);
    CHECK_EQ(atoi(getenv("UTOFU_NODE")), node[ut_rank]);
    CHECK_EQ(ut_node, node[ut_rank]);
    CHECK_EQ(atoi(getenv("UTOFU_LOCAL_RANK")), local_rank[ut_rank]);
    CHECK_EQ(atoi(getenv("UTOFU_LOCAL_SIZE")), local_size[ut_rank]);
    CHECK(access(getenv("UTOFU_ROOT"), W_OK) == 0);
    CHECK(strcmp(getenv("UT_X"), "y") == 0);
}

Test(harness, processes_get_their_place_and_environment)
{
    cr_assert(run(&(struct ut_run_opts){.n = 8, .nodes = 3, .env = {"UT_X=y"}}, look_at_job), "%s",
              report);
}

static void one_fails(void *arg)
{
    (void)arg;
    ut_step("about to fail");
    printf("rank %d was here\n", ut_rank);
    CHECK(ut_rank != 1, "because of %d", 42);
    ut_barrier();
}

Test(harness, failure_names_place_and_ends_all)
{
    cr_assert_not(run(&(struct ut_run_opts){.n = 3}, one_fails));
    cr_assert_not_null(strstr(report, "rank 1: test_harness.c:"), "%s", report);
    cr_assert_not_null(strstr(report, "because of 42 [at: about to fail]"), "%s", report);
    cr_assert_not_null(strstr(report, "rank 0 was here"), "%s", report);
    cr_assert(out[0].cut_short && out[2].cut_short);
}

static void one_dies(void *arg)
{
    (void)arg;
    if (ut_rank == 0)
        raise(SIGALRM);
    for (;;)
        pause(); /* ignores the failure of the other process */
}

Test(harness, signal_is_named_and_deaf_processes_are_killed)
{
    cr_assert_not(run(&(struct ut_run_opts){.n = 3}, one_dies));
    cr_assert_not_null(strstr(report, "rank 0: ended by SIGALRM"), "%s", report);
    cr_assert(WIFSIGNALED(out[1].status) && WTERMSIG(out[1].status) == SIGKILL);
}

static void one_hangs(void *arg)
{
    (void)arg;
    ut_step("before round %d", 7);
    while (ut_rank == 1)
        pause();
}

Test(harness, deadline_kills_and_says_where)
{
    cr_assert_not(run(&(struct ut_run_opts){.n = 2, .timeout_s = 1}, one_hangs));
    cr_assert_not_null(strstr(report, "rank 1: did not finish in time [at: before round 7]"), "%s",
                       report);
    cr_assert(out[1].timed_out && !out[0].timed_out);
}

static void kill_one(void *arg)
{
    (void)arg;
    ut_barrier();
    if (ut_rank == 0) {
        ut_mark_dead(1);
        kill(ut_pid_of(1), SIGKILL);
    }
    while (ut_rank == 1)
        pause();
    ut_barrier();
}

Test(harness, expected_death_is_no_failure)
{
    cr_assert(run(&(struct ut_run_opts){.n = 3, .may_die = 1u << 1}, kill_one), "%s", report);
    cr_assert(WIFSIGNALED(out[1].status));
    cr_assert_not(run(&(struct ut_run_opts){.n = 3}, kill_one));
}

static void exits_early(void *arg)
{
    (void)arg;
    exit(ut_rank == 0 ? 3 : 0);
}

Test(harness, exit_status_counts)
{
    cr_assert_not(run(&(struct ut_run_opts){.n = 2}, exits_early));
    cr_assert_not_null(strstr(report, "rank 0: exit status 3"), "%s", report);
}

static void draw(void *arg)
{
    struct ut_rng rng = ut_rng_start(ut_seed());
    uint64_t mine[2] = {ut_rng_next(&rng), ut_random()}, all[4];

    (void)arg;
    CHECK_EQ(ut_seed(), 12345);
    ut_allgather(mine, all, sizeof(mine));
    CHECK_EQ(all[0], all[2]);
    CHECK(all[1] != all[3]);
}

Test(harness, seed_can_be_given)
{
    setenv("UT_TEST_SEED", "12345", 1);
    cr_assert(run(&(struct ut_run_opts){.n = 2}, draw), "%s", report);
    cr_assert_not_null(strstr(report, "seed 12345"));
}
