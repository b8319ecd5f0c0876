/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several threads: eight circuits in flight at once, used by four threads of each process; and one
 * circuit that is polled by all of them. Meant for ThreadSanitizer.
 */
#include "circuits.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

TestSuite(barrier_threads);

enum { CIRCUITS = 8, THREADS = 4 };

static struct ut_circuit circuits[CIRCUITS];
static int rounds;

static void one(int circuit, uint64_t round)
{
    struct ut_contribution all[UT_MAX_PROCS], want;
    uint64_t once[UT_MAX_PROCS];
    struct ut_rng rng = ut_rng_start(ut_seed() + round * CIRCUITS + (uint64_t)circuit);

    ut_contribution_shape(&all[0], &rng);
    for (int i = 0; i < ut_size; i++) {
        all[i].op = all[0].op;
        all[i].count = all[0].count;
        ut_contribution_fill(&all[i], &rng);
        once[i] = 1;
    }
    struct ut_contribution got = all[ut_rank];
    CHECK_OK(ut_contribution_start(circuits[circuit].mine[0], &got));
    CHECK_OK(ut_contribution_await(circuits[circuit].mine[0], &got));
    ut_contribution_model(&want, all, once, ut_size);
    ut_contribution_check(&got, &want);
}

static void *drive(void *arg)
{
    int thread = *(int *)arg;

    for (uint64_t round = 0; round < (uint64_t)rounds; round++) {
        for (int i = thread; i < CIRCUITS; i += THREADS)
            one(i, round);
    }
    return NULL;
}

static void with_threads(void *(*body)(void *))
{
    pthread_t threads[THREADS];
    int numbers[THREADS];

    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, body, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void eight_at_once(void *arg)
{
    rounds = *(int *)arg;
    for (int i = 0; i < CIRCUITS; i++)
        ut_circuit_open(&circuits[i], (enum circuit_shape)(i % CIRCUIT_NUM_SHAPES),
                        (utofu_tni_id_t)((i + ut_rank) % 3), UTOFU_VBG_FLAG_THREAD_SAFE);
    with_threads(drive);
    for (int i = 0; i < CIRCUITS; i++)
        ut_circuit_close(&circuits[i]);
}

Test(barrier_threads, eight_circuits_from_four_threads)
{
    int n = (int)ut_env_number("UT_BARRIER_ROUNDS", 200);

    ut_run(&(struct ut_run_opts){.n = 4, .timeout_s = 120}, eight_at_once, &n);
}

/* All threads of a process try to start and to poll the same barrier: each time exactly one
 * succeeds, and the others get UTOFU_ERR_BUSY. */
static _Atomic uint64_t started, finished;

static void *contend(void *arg)
{
    utofu_vbg_id_t id = circuits[0].mine[0];

    (void)arg;
    while (atomic_load(&finished) < (uint64_t)rounds) {
        if (atomic_load(&started) == atomic_load(&finished) &&
            atomic_load(&started) < (uint64_t)rounds) {
            int rc = utofu_barrier(id, 0);
            CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_BUSY);
            if (rc == UTOFU_SUCCESS && atomic_fetch_add(&started, 1) >= (uint64_t)rounds) {
                /* one more than planned, in all processes */
                break;
            }
        }
        int rc = utofu_poll_barrier(id, 0);
        CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_NOT_COMPLETED || rc == UTOFU_ERR_BUSY, "%s",
              ut_rc_name(rc));
        if (rc == UTOFU_SUCCESS)
            atomic_fetch_add(&finished, 1);
        if (rc == UTOFU_ERR_BUSY)
            sched_yield();
    }
    return NULL;
}

static void one_circuit(void *arg)
{
    rounds = *(int *)arg;
    ut_circuit_open(&circuits[0], CIRCUIT_BUTTERFLY, 0, UTOFU_VBG_FLAG_THREAD_SAFE);
    with_threads(contend);
    ut_circuit_close(&circuits[0]);
}

Test(barrier_threads, one_circuit_for_all_threads)
{
    int n = (int)ut_env_number("UT_BARRIER_ROUNDS", 200);

    ut_run(&(struct ut_run_opts){.n = 2, .timeout_s = 120}, one_circuit, &n);
}

/* Circuits are opened and closed while others are in use. */
static void *come_and_go(void *arg)
{
    int thread = *(int *)arg;
    utofu_vbg_id_t ids[3];

    for (int round = 0; round < rounds; round++) {
        if (thread < 2) {
            one(thread, (uint64_t)round);
            continue;
        }
        CHECK_OK(utofu_alloc_vbg((utofu_tni_id_t)(round % 3), 3, UTOFU_VBG_FLAG_THREAD_SAFE, ids));
        struct utofu_vbg_setting s[3];
        for (int i = 0; i < 3; i++)
            s[i] =
                (struct utofu_vbg_setting){ids[i],           ids[(i + 2) % 3],  UTOFU_VBG_ID_NULL,
                                           ids[(i + 1) % 3], UTOFU_VBG_ID_NULL, {255}};
        CHECK_OK(utofu_set_vbg(s, 3));
        CHECK_OK(utofu_barrier(ids[0], 0));
        CHECK_OK(ut_barrier_await(ids[0]));
        CHECK_OK(utofu_free_vbg(ids, 3));
    }
    return NULL;
}

static void coming_and_going(void *arg)
{
    rounds = *(int *)arg;
    for (int i = 0; i < 2; i++)
        ut_circuit_open(&circuits[i], CIRCUIT_BUTTERFLY, (utofu_tni_id_t)i, 0);
    with_threads(come_and_go);
    for (int i = 0; i < 2; i++)
        ut_circuit_close(&circuits[i]);
}

Test(barrier_threads, circuits_come_and_go_beside_others)
{
    int n = (int)ut_env_number("UT_BARRIER_ROUNDS", 200);

    ut_run(&(struct ut_run_opts){.n = 3, .timeout_s = 120}, coming_and_going, &n);
}
