/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random legal circuits, one after the other in the same processes: several participants per
 * process and TNI, relays that double a value, outputs without a receiver, participants whom nobody
 * waits for. All operators, sometimes a mismatch, delays. UT_BARRIER_CIRCUITS: number of circuits.
 * With MANY_PROCESSES each of 256 processes has at least one participant.
 */
#include "random_circuit.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <string.h>

TestSuite(random_circuits);

enum { ROUNDS = 8 };

static struct random_circuit circuit;
static utofu_vbg_id_t ids[MAX_PARTS * MAX_PART_GATES];

static bool is_mine(int part)
{
    return circuit.part[part].rank == ut_rank;
}

static void set_up(struct ut_rng *rng)
{
    utofu_vbg_id_t mine[MAX_PARTS_OF_PROC * MAX_PART_GATES] = {0};
    utofu_vbg_id_t all[UT_MAX_PROCS][MAX_PARTS_OF_PROC * MAX_PART_GATES];
    struct utofu_vbg_setting settings[MAX_PART_GATES];
    int seen[UT_MAX_PROCS] = {0};

    for (int part = 0, n = 0; part < circuit.num_parts; part++) {
        if (is_mine(part))
            CHECK_OK(utofu_alloc_vbg(circuit.part[part].tni,
                                     (size_t)circuit.part[part].num_relays + 1, 0,
                                     &mine[n++ * MAX_PART_GATES]));
    }
    ut_allgather(mine, all, sizeof(mine));
    for (int part = 0; part < circuit.num_parts; part++) {
        int rank = circuit.part[part].rank;
        memcpy(&ids[part * MAX_PART_GATES], &all[rank][seen[rank]++ * MAX_PART_GATES],
               MAX_PART_GATES * sizeof(ids[0]));
    }
    for (int part = 0; part < circuit.num_parts; part++) {
        if (is_mine(part)) {
            size_t count = random_part_wire(&circuit, part, ids, settings, rng);
            CHECK_OK(utofu_set_vbg(settings, count));
            if (ut_rng_below(rng, 4) == 0) /* set again in the same way */
                CHECK_OK(utofu_set_vbg(settings, count));
        }
    }
    ut_barrier();
}

static void tear_down(void)
{
    ut_barrier();
    for (int part = 0; part < circuit.num_parts; part++) {
        if (is_mine(part))
            CHECK_OK(utofu_free_vbg(&ids[part * MAX_PART_GATES],
                                    (size_t)circuit.part[part].num_relays + 1));
    }
}

/* The expected result of a participant. */
static int expect(int part, const struct ut_contribution *all, struct ut_contribution *want)
{
    const uint64_t *times = circuit.part[part].result;

    *want = all[part];
    if (!random_part_waits(&circuit, part))
        return UTOFU_SUCCESS; /* its own value */
    for (int i = 0; i < circuit.num_parts; i++) {
        if (times[i] && (all[i].op != all[part].op || all[i].count != all[part].count))
            return UTOFU_ERR_BARRIER_MISMATCH;
    }
    /* participants that do not count may have another operator */
    struct ut_contribution same[MAX_PARTS];
    for (int i = 0; i < circuit.num_parts; i++)
        same[i] = times[i] ? all[i] : all[part];
    ut_contribution_model(want, same, times, circuit.num_parts);
    return UTOFU_SUCCESS;
}

/* The values of a round, known to all processes. */
static void draw_values(struct ut_contribution *all, struct ut_rng *rng)
{
    struct ut_contribution shape;
    int odd = ut_rng_below(rng, 5) == 0 ? (int)ut_rng_below(rng, (uint64_t)circuit.num_parts) : -1;

    ut_contribution_shape(&shape, rng);
    for (int part = 0; part < circuit.num_parts; part++) {
        all[part] = shape;
        if (part == odd)
            ut_contribution_shape(&all[part], rng);
        ut_contribution_fill(&all[part], rng);
    }
}

/* All participants whose values are in the result have started: cell `part` counts. */
static void check_started(int part, uint64_t round)
{
    for (int i = 0; i < circuit.num_parts; i++) {
        if (random_part_waits(&circuit, part) && circuit.part[part].result[i])
            CHECK(atomic_load(ut_cell(i)) > round, "participant %d is done before %d has started",
                  part, i);
    }
}

static void one_round(uint64_t round, struct ut_rng *rng)
{
    struct ut_contribution all[MAX_PARTS], got[MAX_PARTS], want;
    int pending = 0;
    bool done[MAX_PARTS] = {false};

    draw_values(all, rng);
    for (int part = 0; part < circuit.num_parts; part++) {
        if (!is_mine(part))
            continue;
        if (ut_random_below(8) == 0)
            ut_random_delay(300);
        got[part] = all[part];
        atomic_fetch_add(ut_cell(part), 1);
        CHECK_OK(ut_contribution_start(ids[part * MAX_PART_GATES], &got[part]));
        pending++;
    }
    for (unsigned int polls = 1; pending > 0; polls++) {
        if (polls % 256 == 0)
            ut_relax();
        for (int part = 0; part < circuit.num_parts; part++) {
            if (!is_mine(part) || done[part])
                continue;
            int rc = ut_contribution_poll(ids[part * MAX_PART_GATES], &got[part]);
            if (rc == UTOFU_ERR_NOT_COMPLETED)
                continue;
            done[part] = true;
            pending--;
            check_started(part, round);
            int want_rc = expect(part, all, &want);
            CHECK_RC(rc, want_rc);
            if (rc == UTOFU_SUCCESS)
                ut_contribution_check(&got[part], &want);
        }
    }
}

static void many(void *arg)
{
    int circuits = *(int *)arg;
    uint64_t round = 0;

    for (int i = 0; i < circuits; i++) {
        struct ut_rng rng = ut_rng_start(ut_seed() + (uint64_t)i);
        random_circuit_draw(&circuit, ut_size, &rng);
        ut_step("circuit %d of seed %llu", i, (unsigned long long)ut_seed());
        set_up(&rng);
        /* the generator must give the same numbers in all processes, independent of set_up()'s */
        rng = ut_rng_start(ut_seed() + (uint64_t)i + (1ull << 32));
        round = 0;
        for (int part = 0; part < MAX_PARTS; part++)
            atomic_store(ut_cell(part), 0);
        ut_barrier();
        while (round < ROUNDS)
            one_round(round++, &rng);
        tear_down();
    }
}

static void run_circuits(int processes, int nodes, int share)
{
    int circuits = (int)ut_env_number("UT_BARRIER_CIRCUITS", 100) * share / 100;

    ut_run(&(struct ut_run_opts){.n = processes, .nodes = nodes, .timeout_s = 60 + circuits}, many,
           &circuits);
}

#ifdef MANY_PROCESSES
Test(random_circuits, in_many_processes)
{
    run_circuits(UT_MAX_PROCS, 1, 100);
}

Test(random_circuits, on_many_nodes)
{
    run_circuits(UT_MAX_PROCS, 64, 100);
}
#else
Test(random_circuits, in_one_process)
{
    run_circuits(1, 1, 10);
}

Test(random_circuits, in_two_processes)
{
    run_circuits(2, 2, 30);
}

Test(random_circuits, in_five_processes)
{
    run_circuits(5, 1, 40);
}

Test(random_circuits, on_two_nodes)
{
    run_circuits(4, 2, 20);
}
#endif
