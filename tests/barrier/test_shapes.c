/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Butterfly, tree and ring for 1 to 16 processes: no process leaves a barrier before the last one
 * has entered it, and reductions give the model's result, equal in all processes. Random delays.
 */
#include "circuits.h"

#include <criterion/criterion.h>
#include <stdatomic.h>

TestSuite(shapes);

struct params {
    int shape, rounds, delay_every;
};

/* Each process counts itself before it starts; when it leaves, all must be counted. */
static void enter(void)
{
    atomic_fetch_add(ut_cell(0), 1);
}

static void check_entered(int round)
{
    uint64_t entered = atomic_load(ut_cell(0));

    CHECK(entered >= (uint64_t)(round + 1) * (uint64_t)ut_size,
          "left barrier %d when %llu of %d had entered it", round,
          (unsigned long long)(entered % (uint64_t)ut_size), ut_size);
}

static void dawdle(const struct params *p, int round)
{
    if (p->delay_every && ut_random_below((uint64_t)p->delay_every) == 0)
        ut_random_delay(round % 50 == 0 ? 5000 : 200);
}

static void rounds(void *arg)
{
    const struct params *p = arg;
    struct ut_circuit circuit;
    struct ut_contribution all[UT_MAX_PROCS], got, want;
    uint64_t once[UT_MAX_PROCS];
    struct ut_rng rng = ut_rng_start(ut_seed());

    for (int i = 0; i < ut_size; i++)
        once[i] = 1;
    ut_circuit_open(&circuit, (enum circuit_shape)p->shape, (utofu_tni_id_t)(ut_rank % UT_TNIS), 0);
    for (int round = 0; round < p->rounds; round++) {
        ut_step("round %d of %s", round, (const char *[]){"butterfly", "tree", "ring"}[p->shape]);
        ut_contribution_shape(&all[0], &rng);
        for (int i = 0; i < ut_size; i++) {
            all[i].op = all[0].op;
            all[i].count = all[0].count;
            ut_contribution_fill(&all[i], &rng);
        }
        dawdle(p, round);
        got = all[ut_rank];
        enter();
        CHECK_OK(ut_contribution_start(circuit.mine[0], &got));
        CHECK_RC(ut_contribution_start(circuit.mine[0], &got), UTOFU_ERR_BUSY);
        dawdle(p, round);
        CHECK_OK(ut_contribution_await(circuit.mine[0], &got));
        check_entered(round);
        ut_contribution_model(&want, all, once, ut_size);
        ut_contribution_check(&got, &want);
    }
    ut_circuit_close(&circuit);
}

static void run_shape(int shape, int nodes)
{
    int per_run = (int)ut_env_number("UT_BARRIER_ROUNDS", 100);

    for (int n = 1; n <= 16; n++) {
        struct params p = {shape, n <= 4 ? per_run * 2 : per_run, 8};
        ut_run(&(struct ut_run_opts){.n = n, .nodes = nodes < n ? nodes : n, .timeout_s = 120},
               rounds, &p);
    }
}

Test(shapes, butterfly_for_1_to_16_processes)
{
    run_shape(CIRCUIT_BUTTERFLY, 1);
}

Test(shapes, tree_for_1_to_16_processes)
{
    run_shape(CIRCUIT_TREE, 3);
}

Test(shapes, ring_for_1_to_16_processes)
{
    run_shape(CIRCUIT_RING, 2);
}

Test(shapes, without_delays_for_many_rounds)
{
    int per_run = (int)ut_env_number("UT_BARRIER_ROUNDS", 100);

    for (int shape = 0; shape < CIRCUIT_NUM_SHAPES; shape++) {
        struct params p = {shape, per_run * 25, 0};
        ut_run(&(struct ut_run_opts){.n = 3, .timeout_s = 120}, rounds, &p);
    }
}

/* No process computes here, so each forwards in its poll function. */
Test(shapes, without_a_background_thread)
{
    for (int shape = 0; shape < CIRCUIT_NUM_SHAPES; shape++) {
        struct params p = {shape, (int)ut_env_number("UT_BARRIER_ROUNDS", 200), 8};
        ut_run(&(struct ut_run_opts){.n = 6, .env = {"UTOFU_PROGRESS_THREAD=0"}}, rounds, &p);
    }
}
