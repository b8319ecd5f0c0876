/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allowed and refused uses of VBGs and circuits: allocation, settings, BUSY, MISMATCH, setting
 * again, and circuits that are used before all processes have set them.
 */
#include "circuits.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

TestSuite(states);

#define NUM(array) (sizeof(array) / sizeof((array)[0]))

enum { STARTS = 16, RELAYS = 32 };

static void run_in(int n, int nodes, ut_body_fn *body)
{
    ut_run(&(struct ut_run_opts){.n = n, .nodes = nodes}, body, NULL);
}

/* Ids and allocation */

/* With UTOFU_CQ_MAP=fugaku the processes of a node share the gates of each TNI, and ids have no
 * process: a circuit of two processes of one node, whose ids are made of TNI, coordinates and the
 * six bits of a gate. */
static void gates_of_a_node_are_shared(void *arg)
{
    struct {
        uint8_t coords[6], gate[2];
    } mine, all[UT_MAX_PROCS];
    utofu_vbg_id_t ids[2], id[2][2];
    utofu_tni_id_t tni = 1;

    (void)arg;
    CHECK_OK(utofu_query_my_coords(mine.coords));
    CHECK_OK(utofu_alloc_vbg(tni, 2, 0, ids));
    for (int i = 0; i < 2; i++)
        mine.gate[i] = ids[i] & 0x3f;
    ut_allgather(&mine, all, sizeof(mine));
    for (int r = 0; r < 2; r++) {
        const uint8_t *at = all[r].coords;
        for (int i = 0; i < 2; i++)
            id[r][i] = (uint64_t)tni << 61 | (uint64_t)at[5] << 59 | (uint64_t)at[4] << 57 |
                       (uint64_t)at[3] << 56 | (uint64_t)at[2] << 48 | (uint64_t)at[1] << 40 |
                       (uint64_t)at[0] << 32 | all[r].gate[i];
    }
    CHECK(id[0][0] != id[1][0] && id[0][1] != id[1][1]);
    CHECK_EQ(ids[0], id[ut_rank][0]);
    CHECK_EQ(ids[1], id[ut_rank][1]);
    struct utofu_vbg_setting settings[2] = {
        {ids[0], ids[1], UTOFU_VBG_ID_NULL, ids[1], id[!ut_rank][1], {UTOFU_PATH_COORD_NULL}},
        {ids[1], ids[0], id[!ut_rank][0], ids[0], UTOFU_VBG_ID_NULL, {UTOFU_PATH_COORD_NULL}},
    };
    CHECK_OK(utofu_set_vbg(settings, 2));
    for (uint64_t round = 1; round < 20; round++) {
        uint64_t value = round + (uint64_t)ut_rank, sum = 0;
        int rc;
        CHECK_OK(utofu_reduce_uint64(ids[0], UTOFU_REDUCE_OP_SUM, &value, 1, 0));
        while ((rc = utofu_poll_reduce_uint64(ids[0], 0, &sum)) == UTOFU_ERR_NOT_COMPLETED)
            ut_relax();
        CHECK_OK(rc);
        CHECK_EQ(sum, 2 * round + 1);
    }
    /* eight start gates of the sixteen */
    utofu_vbg_id_t others[STARTS];
    for (int i = 1; i < STARTS / 2; i++)
        CHECK_OK(utofu_alloc_vbg(tni, 1, 0, &others[i]));
    CHECK_RC(utofu_alloc_vbg(tni, 1, 0, &others[0]), UTOFU_ERR_FULL);
    settings[0].dst_rmt_vbg_id |= 1 << 8; /* no id has a process */
    CHECK_RC(utofu_set_vbg(settings, 2), UTOFU_ERR_INVALID_VBG_ID);
    ut_barrier();
}

Test(states, gates_of_a_node_are_shared_with_the_map_of_fugaku)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_CQ_MAP=fugaku"}},
           gates_of_a_node_are_shared, NULL);
}

static void ids_follow_the_layout(void *arg)
{
    (void)arg;
    for (utofu_tni_id_t tni = 0; tni < UT_TNIS; tni++) {
        utofu_vbg_id_t ids[4];
        uint8_t my[6], at[6];
        utofu_tni_id_t t;
        utofu_bg_id_t bg;
        uint16_t extra;
        CHECK_OK(utofu_alloc_vbg(tni, 4, 0, ids));
        CHECK_OK(utofu_query_my_coords(my));
        for (size_t i = 0; i < 4; i++) {
            uint64_t gate = i == 0 ? 0 : STARTS + i - 1;
            uint64_t want = (uint64_t)tni << 61 | (uint64_t)my[5] << 59 | (uint64_t)my[4] << 57 |
                            (uint64_t)my[3] << 56 | (uint64_t)my[2] << 48 | (uint64_t)my[1] << 40 |
                            (uint64_t)my[0] << 32 | gate;
            /* if there are several processes on a node, only the process number differs */
            CHECK_EQ(ids[i] & 0xffffffff000000ffull, want);
            if (ut_rank * ut_nodes % ut_size == 0)
                CHECK_EQ(ids[i], want);
            CHECK_OK(utofu_query_vbg_info(ids[i], at, &t, &bg, &extra));
            CHECK(memcmp(at, my, sizeof(at)) == 0);
            CHECK_EQ(t, tni);
            CHECK_EQ(bg, gate);
            CHECK_RC(utofu_query_vbg_info(ids[i], NULL, &t, &bg, &extra),
                     UTOFU_ERR_INVALID_POINTER);
            CHECK_RC(utofu_query_vbg_info(ids[i], at, NULL, &bg, &extra),
                     UTOFU_ERR_INVALID_POINTER);
            CHECK_RC(utofu_query_vbg_info(ids[i], at, &t, NULL, &extra), UTOFU_ERR_INVALID_POINTER);
            CHECK_RC(utofu_query_vbg_info(ids[i], at, &t, &bg, NULL), UTOFU_ERR_INVALID_POINTER);
        }
        utofu_vbg_id_t all[UT_MAX_PROCS][4];
        ut_allgather(ids, all, sizeof(ids));
        for (int rank = 0; rank < ut_size; rank++) {
            CHECK_OK(utofu_query_vbg_info(all[rank][1], at, &t, &bg, &extra));
            for (int other = 0; other < rank; other++)
                CHECK(all[rank][1] != all[other][1]);
        }
    }
}

Test(states, ids_follow_the_layout)
{
    run_in(4, 4, ids_follow_the_layout);
    run_in(4, 2, ids_follow_the_layout);
}

static void sixteen_and_thirty_two(void *arg)
{
    utofu_vbg_id_t ids[STARTS][3], big[1 + RELAYS];

    (void)arg;
    for (utofu_tni_id_t tni = 0; tni < UT_TNIS; tni++) {
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < STARTS; i++)
                CHECK_OK(utofu_alloc_vbg(tni, 3, 0, ids[i]));
            CHECK_RC(utofu_alloc_vbg(tni, 1, 0, big), UTOFU_ERR_FULL);
            for (int i = 0; i < STARTS; i++)
                CHECK_OK(utofu_free_vbg(ids[i], 3));
        }
        CHECK_RC(utofu_alloc_vbg(tni, 2 + RELAYS, 0, big), UTOFU_ERR_FULL);
        CHECK_RC(utofu_alloc_vbg(tni, SIZE_MAX, 0, big), UTOFU_ERR_FULL);
        CHECK_OK(utofu_alloc_vbg(tni, 1 + RELAYS, UTOFU_VBG_FLAG_THREAD_SAFE, big));
        CHECK_RC(utofu_alloc_vbg(tni, 2, 0, ids[0]), UTOFU_ERR_FULL); /* no relay gate */
        for (int i = 1; i < STARTS; i++)
            CHECK_OK(utofu_alloc_vbg(tni, 1, 0, ids[i]));
        CHECK_RC(utofu_alloc_vbg(tni, 1, 0, ids[0]), UTOFU_ERR_FULL); /* no start gate */
        for (int i = 1; i < STARTS; i++)
            CHECK_OK(utofu_free_vbg(ids[i], 1));
        CHECK_OK(utofu_free_vbg(big, 1 + RELAYS));
    }
}

Test(states, sixteen_start_and_thirty_two_relay_gates_per_tni)
{
    run_in(2, 1, sixteen_and_thirty_two);
}

/* Bad arguments */

static void bad_allocation(void *arg)
{
    utofu_vbg_id_t ids[3], other[3], mixed[3];

    (void)arg;
    /* before set-up */
    CHECK_RC(utofu_barrier(0, 0), UTOFU_ERR_INVALID_VBG_ID);
    CHECK_RC(utofu_free_vbg(&(utofu_vbg_id_t){0}, 1), UTOFU_ERR_INVALID_VBG_ID);
    CHECK_RC(utofu_poll_barrier(16, 0), UTOFU_ERR_INVALID_VBG_ID);

    CHECK_RC(utofu_alloc_vbg(0, 1, 0, NULL), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_alloc_vbg(6, 1, 0, ids), UTOFU_ERR_INVALID_TNI_ID);
    CHECK_RC(utofu_alloc_vbg(0, 0, 0, ids), UTOFU_ERR_INVALID_NUMBER);
    CHECK_RC(utofu_alloc_vbg(0, 1, 2, ids), UTOFU_ERR_INVALID_FLAGS);
    CHECK_RC(utofu_free_vbg(NULL, 1), UTOFU_ERR_INVALID_POINTER);
    CHECK_OK(utofu_alloc_vbg(0, 3, 0, ids));
    CHECK_OK(utofu_alloc_vbg(0, 3, 0, other));
    CHECK_RC(utofu_free_vbg(ids, 0), UTOFU_ERR_INVALID_NUMBER);
    CHECK_RC(utofu_free_vbg(ids, 2), UTOFU_ERR_INVALID_NUMBER);
    CHECK_RC(utofu_free_vbg(ids, SIZE_MAX), UTOFU_ERR_INVALID_NUMBER);
    CHECK_RC(utofu_free_vbg(ids + 1, 2), UTOFU_ERR_INVALID_VBG_ID);
    memcpy(mixed, ids, sizeof(mixed));
    mixed[2] = other[2];
    CHECK_RC(utofu_free_vbg(mixed, 3), UTOFU_ERR_INVALID_VBG_ID);
    mixed[1] = ids[2];
    mixed[2] = ids[1];
    CHECK_RC(utofu_free_vbg(mixed, 3), UTOFU_ERR_INVALID_VBG_ID);
    CHECK_OK(utofu_free_vbg(ids, 3));
    CHECK_RC(utofu_free_vbg(ids, 3), UTOFU_ERR_INVALID_VBG_ID);
    CHECK_OK(utofu_free_vbg(other, 3));
}

Test(states, bad_allocations_are_refused)
{
    run_in(1, 1, bad_allocation);
}

static struct utofu_vbg_setting unwired(utofu_vbg_id_t id)
{
    return (struct utofu_vbg_setting){id,
                                      UTOFU_VBG_ID_NULL,
                                      UTOFU_VBG_ID_NULL,
                                      UTOFU_VBG_ID_NULL,
                                      UTOFU_VBG_ID_NULL,
                                      {UTOFU_PATH_COORD_NULL}};
}

/* One wrong id in one of the four places. */
static void check_bad_id(struct utofu_vbg_setting good[3], utofu_vbg_id_t bad, bool local)
{
    struct utofu_vbg_setting s[3];

    for (int field = local ? 0 : 2; field < (local ? 2 : 4); field++) {
        memcpy(s, good, sizeof(s));
        utofu_vbg_id_t *at[] = {&s[1].src_lcl_vbg_id, &s[2].dst_lcl_vbg_id, &s[1].src_rmt_vbg_id,
                                &s[2].dst_rmt_vbg_id};
        *at[field] = bad;
        CHECK_RC(utofu_set_vbg(s, 3), UTOFU_ERR_INVALID_VBG_ID);
    }
}

static void bad_settings(void *arg)
{
    utofu_vbg_id_t ids[3], other[2], third[2];
    struct utofu_vbg_setting good[3], s[4];
    uint8_t at[6];
    utofu_tni_id_t t;
    utofu_bg_id_t bg;
    uint16_t extra;

    (void)arg;
    CHECK_OK(utofu_alloc_vbg(1, 3, 0, ids));
    CHECK_OK(utofu_alloc_vbg(1, 2, 0, other));
    CHECK_OK(utofu_alloc_vbg(2, 2, 0, third));
    for (int i = 0; i < 3; i++)
        good[i] = unwired(ids[i]);
    CHECK_RC(utofu_set_vbg(NULL, 1), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_set_vbg(good, 0), UTOFU_ERR_INVALID_NUMBER);
    memcpy(s, good, sizeof(good));
    s[3] = unwired(other[1]);
    CHECK_RC(utofu_set_vbg(s, 4), UTOFU_ERR_INVALID_NUMBER);
    CHECK_RC(utofu_set_vbg(good + 1, 2), UTOFU_ERR_INVALID_VBG_ID); /* not the start gate first */
    s[2] = unwired(other[1]);
    CHECK_RC(utofu_set_vbg(s, 3), UTOFU_ERR_INVALID_VBG_ID); /* of another allocation */
    s[2] = good[1];
    CHECK_RC(utofu_set_vbg(s, 3), UTOFU_ERR_INVALID_DATA); /* twice */
    s[2] = good[0];
    CHECK_RC(utofu_set_vbg(s, 3), UTOFU_ERR_INVALID_DATA);
    CHECK_RC(utofu_barrier(ids[0], 0), UTOFU_ERR_INVALID_VBG_ID); /* none of the gates was set */
    CHECK_RC(utofu_poll_barrier(ids[0], 0), UTOFU_ERR_INVALID_VBG_ID);

    check_bad_id(good, third[1], true);     /* another TNI */
    check_bad_id(good, ids[1] + 100, true); /* not a gate */
    check_bad_id(good, ids[1] + 20, true);  /* not allocated */
    check_bad_id(good, ids[1] + 20, false);
    check_bad_id(good, 1ull << 60, false); /* not a VBG id */
    check_bad_id(good, 6ull << 61, false);
    check_bad_id(good, ids[1] ^ 1ull << 40, false);  /* a node that is not there */
    check_bad_id(good, ids[1] ^ 200ull << 8, false); /* a process that is not there */
    CHECK_RC(utofu_query_vbg_info(UTOFU_VBG_ID_NULL, at, &t, &bg, &extra),
             UTOFU_ERR_INVALID_VBG_ID);
    CHECK_RC(utofu_query_vbg_info(48, at, &t, &bg, &extra), UTOFU_ERR_INVALID_VBG_ID);

    memcpy(s, good, sizeof(good));
    s[2].dst_rmt_vbg_id = ids[1];
    for (int coord = 0; coord < 3; coord++) {
        memcpy(s[2].dst_path_coords, (uint8_t[]){1, 2, 1}, 3);
        s[2].dst_path_coords[coord] = (uint8_t[]){2, 3, 2}[coord];
        CHECK_RC(utofu_set_vbg(s, 3), UTOFU_ERR_INVALID_PATH);
    }
    memcpy(s[2].dst_path_coords, (uint8_t[]){UTOFU_PATH_COORD_NULL, 77, 78}, 3);
    CHECK_OK(utofu_set_vbg(s, 3));
    memcpy(s[2].dst_path_coords, (uint8_t[]){1, 2, 1}, 3);
    CHECK_OK(utofu_set_vbg(s, 3));
    CHECK_RC(utofu_barrier(ids[1], 0), UTOFU_ERR_INVALID_VBG_ID); /* a relay gate */
    CHECK_OK(utofu_barrier(ids[0], 0));
    CHECK_OK(ut_barrier_await(ids[0]));
}

Test(states, bad_settings_are_refused)
{
    run_in(1, 1, bad_settings);
}

/* Garbage, and nearly valid ids: only error codes, and the circuit still works. */
static void random_ids(void *arg)
{
    struct ut_circuit circuit;
    uint64_t u[6] = {0};
    double f[3] = {0};

    (void)arg;
    ut_circuit_open(&circuit, CIRCUIT_TREE, 3, 0);
    for (int i = 0; i < 20000; i++) {
        utofu_vbg_id_t id = ut_random();
        if (i % 2)
            id = circuit.mine[0] ^ 1ull << ut_random_below(64);
        if (id == circuit.mine[0])
            continue;
        CHECK_RC(utofu_barrier(id, 0), UTOFU_ERR_INVALID_VBG_ID);
        CHECK_RC(utofu_reduce_uint64(id, UTOFU_REDUCE_OP_SUM, u, 1, 0), UTOFU_ERR_INVALID_VBG_ID);
        CHECK_RC(utofu_reduce_double(id, UTOFU_REDUCE_OP_BFPSUM, f, 1, 0),
                 UTOFU_ERR_INVALID_VBG_ID);
        CHECK_RC(utofu_poll_barrier(id, 0), UTOFU_ERR_INVALID_VBG_ID);
        CHECK_RC(utofu_poll_reduce_uint64(id, 0, u), UTOFU_ERR_INVALID_VBG_ID);
        CHECK_RC(utofu_poll_reduce_double(id, 0, f), UTOFU_ERR_INVALID_VBG_ID);
        CHECK_RC(utofu_free_vbg(&id, 1), UTOFU_ERR_INVALID_VBG_ID);
        struct utofu_vbg_setting s = circuit.settings[0];
        s.vbg_id = id;
        CHECK_RC(utofu_set_vbg(&s, 1), UTOFU_ERR_INVALID_VBG_ID);
        if (i % 1000 == 0) {
            CHECK_OK(utofu_barrier(circuit.mine[0], 0));
            CHECK_OK(ut_barrier_await(circuit.mine[0]));
        }
    }
    ut_circuit_close(&circuit);
}

Test(states, random_ids_are_refused)
{
    run_in(3, 1, random_ids);
}

static void bad_reductions(void *arg)
{
    struct ut_circuit circuit;
    uint64_t u[7] = {1, 2, 3, 4, 5, 6, 7};
    double f[4] = {1, 2, 3, 4};

    (void)arg;
    ut_circuit_open(&circuit, CIRCUIT_BUTTERFLY, 0, 0);
    utofu_vbg_id_t id = circuit.mine[0];
    CHECK_RC(utofu_barrier(id, 1), UTOFU_ERR_INVALID_FLAGS);
    CHECK_RC(utofu_reduce_uint64(id, UTOFU_REDUCE_OP_SUM, u, 1, 1), UTOFU_ERR_INVALID_FLAGS);
    CHECK_RC(utofu_reduce_double(id, UTOFU_REDUCE_OP_BFPSUM, f, 1, 1), UTOFU_ERR_INVALID_FLAGS);
    CHECK_RC(utofu_reduce_uint64(id, UTOFU_REDUCE_OP_SUM, NULL, 1, 0), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_reduce_double(id, UTOFU_REDUCE_OP_BFPSUM, NULL, 1, 0),
             UTOFU_ERR_INVALID_POINTER);
    static const int not_uint64[] = {0, 1, 8, 9, -1, 1000};
    for (size_t i = 0; i < NUM(not_uint64); i++)
        CHECK_RC(utofu_reduce_uint64(id, (enum utofu_reduce_op)not_uint64[i], u, 1, 0),
                 UTOFU_ERR_INVALID_OP);
    static const int not_double[] = {0, 1, 2, 7, 9, -1};
    for (size_t i = 0; i < NUM(not_double); i++)
        CHECK_RC(utofu_reduce_double(id, (enum utofu_reduce_op)not_double[i], f, 1, 0),
                 UTOFU_ERR_INVALID_OP);
    CHECK_RC(utofu_reduce_uint64(id, UTOFU_REDUCE_OP_SUM, u, 0, 0), UTOFU_ERR_INVALID_NUMBER);
    CHECK_RC(utofu_reduce_uint64(id, UTOFU_REDUCE_OP_SUM, u, 7, 0), UTOFU_ERR_INVALID_NUMBER);
    CHECK_RC(utofu_reduce_uint64(id, UTOFU_REDUCE_OP_MAXLOC, u, 3, 0), UTOFU_ERR_INVALID_NUMBER);
    CHECK_RC(utofu_reduce_double(id, UTOFU_REDUCE_OP_BFPSUM, f, 0, 0), UTOFU_ERR_INVALID_NUMBER);
    CHECK_RC(utofu_reduce_double(id, UTOFU_REDUCE_OP_BFPSUM, f, 4, 0), UTOFU_ERR_INVALID_NUMBER);

    /* nothing was started; polls before a start, after it, and of the wrong kind */
    CHECK_RC(utofu_poll_barrier(id, 0), UTOFU_ERR_BUSY);
    CHECK_RC(utofu_poll_reduce_uint64(id, 0, u), UTOFU_ERR_BUSY);
    CHECK_RC(utofu_poll_reduce_double(id, 0, f), UTOFU_ERR_BUSY);
    CHECK_OK(utofu_reduce_uint64(id, UTOFU_REDUCE_OP_SUM, u, 6, 0));
    CHECK_RC(utofu_barrier(id, 0), UTOFU_ERR_BUSY);
    CHECK_RC(utofu_reduce_uint64(id, UTOFU_REDUCE_OP_SUM, u, 6, 0), UTOFU_ERR_BUSY);
    CHECK_RC(utofu_reduce_double(id, UTOFU_REDUCE_OP_BFPSUM, f, 1, 0), UTOFU_ERR_BUSY);
    CHECK_RC(utofu_poll_barrier(id, 0), UTOFU_ERR_BUSY);
    CHECK_RC(utofu_poll_reduce_double(id, 0, f), UTOFU_ERR_BUSY);
    CHECK_RC(utofu_poll_reduce_uint64(id, 1, u), UTOFU_ERR_INVALID_FLAGS);
    CHECK_RC(utofu_poll_reduce_uint64(id, 0, NULL), UTOFU_ERR_INVALID_POINTER);
    memset(u, 0xee, 6 * sizeof(u[0])); /* the values were taken at the start */
    struct ut_contribution c = {.op = UTOFU_REDUCE_OP_SUM, .count = 6};
    c.u[0] = 12345;
    CHECK_OK(ut_contribution_await(id, &c));
    for (uint64_t i = 0; i < 6; i++)
        CHECK_EQ(c.u[i], (i + 1) * (uint64_t)ut_size);
    CHECK_EQ(u[6], 7);
    CHECK_RC(utofu_poll_reduce_uint64(id, 0, u), UTOFU_ERR_BUSY);
    ut_circuit_close(&circuit);
}

Test(states, bad_reductions_are_refused)
{
    run_in(2, 1, bad_reductions);
}

/* Mismatch */

static const struct ut_contribution shapes_of_start[] = {
    {.op = UTOFU_REDUCE_OP_BARRIER},
    {.op = UTOFU_REDUCE_OP_SUM, .count = 1},
    {.op = UTOFU_REDUCE_OP_SUM, .count = 2},
    {.op = UTOFU_REDUCE_OP_MAX, .count = 2},
    {.op = UTOFU_REDUCE_OP_MAXLOC, .count = 2},
    {.op = UTOFU_REDUCE_OP_BFPSUM, .count = 1},
    {.op = UTOFU_REDUCE_OP_BFPSUM, .count = 2},
};

static void mismatches(void *arg)
{
    static struct ut_circuit circuit;

    (void)arg;
    for (int shape = 0; shape < CIRCUIT_NUM_SHAPES; shape++) {
        ut_circuit_open(&circuit, (enum circuit_shape)shape, (utofu_tni_id_t)shape, 0);
        utofu_vbg_id_t id = circuit.mine[0];
        for (size_t a = 0; a < NUM(shapes_of_start); a++) {
            for (size_t b = 0; b < NUM(shapes_of_start); b++) {
                struct ut_contribution mine = shapes_of_start[a], untouched;
                if ((a + b) % (size_t)ut_size == (size_t)ut_rank)
                    mine = shapes_of_start[b];
                memset(mine.u, 0x11, sizeof(mine.u));
                untouched = mine;
                CHECK_OK(ut_contribution_start(id, &mine));
                CHECK_RC(ut_contribution_await(id, &mine),
                         a == b ? UTOFU_SUCCESS : UTOFU_ERR_BARRIER_MISMATCH);
                if (a != b)
                    CHECK(memcmp(mine.u, untouched.u, sizeof(mine.u)) == 0);
            }
        }
        ut_circuit_close(&circuit);
    }
}

Test(states, mismatches_are_reported_everywhere_and_pass)
{
    run_in(5, 1, mismatches);
}

/* Setting */

/* One allocation that is wired into several circuits in turn. */
static void wired_anew(void *arg)
{
    utofu_vbg_id_t ids[CIRCUIT_MAX_GATES] = {0}, all[UT_MAX_PROCS * CIRCUIT_MAX_GATES];
    struct utofu_vbg_setting s[CIRCUIT_MAX_GATES];

    (void)arg;
    CHECK_OK(utofu_alloc_vbg((utofu_tni_id_t)(ut_rank % UT_TNIS), 12, 0, ids));
    ut_allgather(ids, all, sizeof(ids));
    for (int i = 0; i < 60; i++) {
        enum circuit_shape shape = (enum circuit_shape)(i % CIRCUIT_NUM_SHAPES);
        if (ut_random_below(2)) { /* an overridden setting */
            enum circuit_shape wrong = (enum circuit_shape)((i + 1) % CIRCUIT_NUM_SHAPES);
            circuit_wire(wrong, ut_size, ut_rank, all, s);
            CHECK_OK(utofu_set_vbg(s, circuit_gates(wrong, ut_size, ut_rank)));
        }
        circuit_wire(shape, ut_size, ut_rank, all, s);
        for (uint64_t times = 1 + ut_random_below(2); times > 0; times--)
            CHECK_OK(utofu_set_vbg(s, circuit_gates(shape, ut_size, ut_rank)));
        ut_barrier();
        for (uint64_t round = 0; round < 20; round++) {
            uint64_t value = round << ut_rank, want = (round << ut_size) - round;
            CHECK_OK(utofu_reduce_uint64(ids[0], UTOFU_REDUCE_OP_SUM, &value, 1, 0));
            struct ut_contribution c = {.op = UTOFU_REDUCE_OP_SUM, .count = 1};
            CHECK_OK(ut_contribution_await(ids[0], &c));
            CHECK_EQ(c.u[0], want);
        }
        ut_barrier();
    }
    CHECK_OK(utofu_free_vbg(ids, 12));
}

Test(states, the_last_setting_counts)
{
    run_in(6, 1, wired_anew);
}

/* The same gates, allocated, used and freed repeatedly. */
static void again_and_again(void *arg)
{
    static struct ut_circuit circuit;

    (void)arg;
    for (int i = 0; i < 150; i++) {
        ut_circuit_open(&circuit, (enum circuit_shape)(i % CIRCUIT_NUM_SHAPES), 0, 0);
        for (int round = 0; round < 3; round++) {
            CHECK_OK(utofu_barrier(circuit.mine[0], 0));
            CHECK_OK(ut_barrier_await(circuit.mine[0]));
        }
        ut_circuit_close(&circuit);
    }
}

Test(states, gates_are_used_again)
{
    run_in(4, 1, again_and_again);
}

/* The manual requires waiting until all processes have set their gates; here it is optional. */
static void set_late(void *arg)
{
    static struct ut_circuit circuit;

    (void)arg;
    for (int turn = 0; turn < ut_size; turn++) {
        ut_circuit_alloc(&circuit, CIRCUIT_BUTTERFLY, 0, 0);
        for (int rank = 0; rank < ut_size; rank++) {
            if ((rank + turn) % ut_size == ut_rank) {
                usleep(20000); /* the others' packets have arrived */
                ut_circuit_set(&circuit);
                CHECK_OK(utofu_barrier(circuit.mine[0], 0));
                for (int i = 0; i < 300; i++) {
                    int rc = utofu_poll_barrier(circuit.mine[0], 0);
                    if (rank < ut_size - 1)
                        CHECK_RC(rc, UTOFU_ERR_NOT_COMPLETED);
                    else if (rc == UTOFU_SUCCESS)
                        goto out;
                }
            }
            ut_barrier();
        }
        CHECK_OK(ut_barrier_await(circuit.mine[0]));
        if (0) {
        out:
            ut_barrier();
        }
        CHECK_OK(utofu_barrier(circuit.mine[0], 0));
        CHECK_OK(ut_barrier_await(circuit.mine[0]));
        ut_circuit_close(&circuit);
    }
}

Test(states, packets_wait_for_a_gate_that_is_set_late)
{
    run_in(4, 1, set_late);
}

/* A process that knows the layout needs no exchange of ids, so that the first one starts before the
 * others have allocated any gates. */
static void ids_by_hand(void *arg)
{
    utofu_vbg_id_t ids[CIRCUIT_MAX_GATES], all[UT_MAX_PROCS * CIRCUIT_MAX_GATES];
    struct utofu_vbg_setting s[CIRCUIT_MAX_GATES];
    utofu_vcq_hdl_t vcq;

    (void)arg;
    CHECK_OK(utofu_create_vcq(0, 0, &vcq)); /* all processes have started */
    ut_barrier();
    for (int rank = 0; rank < ut_size; rank++) {
        for (uint64_t i = 0; i < CIRCUIT_MAX_GATES; i++)
            all[rank * CIRCUIT_MAX_GATES + (int)i] =
                5ull << 61 | (uint64_t)rank << 8 | (i == 0 ? 0 : STARTS + i - 1);
    }
    size_t count = circuit_gates(CIRCUIT_TREE, ut_size, ut_rank);
    circuit_wire(CIRCUIT_TREE, ut_size, ut_rank, all, s);
    for (int rank = 0; rank < ut_size; rank++) {
        if (rank == ut_rank) {
            CHECK_OK(utofu_alloc_vbg(5, count, 0, ids));
            CHECK_EQ(ids[0], all[rank * CIRCUIT_MAX_GATES]);
            CHECK_OK(utofu_set_vbg(s, count));
            CHECK_OK(utofu_barrier(ids[0], 0));
        }
        ut_barrier();
    }
    CHECK_OK(ut_barrier_await(ids[0]));
    ut_barrier();
    CHECK_OK(utofu_free_vbg(ids, count));
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(states, ids_made_by_hand_work)
{
    run_in(4, 1, ids_by_hand);
}

/* Relaying while computing */

static void compute(void *arg)
{
    struct ut_circuit circuit;
    enum { ROUNDS = 30 };

    (void)arg;
    ut_circuit_open(&circuit, CIRCUIT_RING, (utofu_tni_id_t)(ut_rank % 3), 0);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        CHECK_OK(utofu_barrier(circuit.mine[0], 0));
        if (round % (uint64_t)ut_size == (uint64_t)ut_rank) {
            /* the other processes complete while this one calls no function of the library */
            while (atomic_load(ut_cell(0)) < (round + 1) * (uint64_t)(ut_size - 1))
                ut_relax();
            CHECK_OK(ut_barrier_await(circuit.mine[0]));
        } else {
            CHECK_OK(ut_barrier_await(circuit.mine[0]));
            atomic_fetch_add(ut_cell(0), 1);
        }
    }
    ut_circuit_close(&circuit);
}

Test(states, a_process_that_computes_forwards)
{
    run_in(5, 1, compute);
}

/* The only gate of a process: without a signal to itself its own value is not in its result */

static void only_gates(void *arg)
{
    utofu_vbg_id_t mine, ids[2];
    uint64_t result, value = ut_rank ? 30 : 4;

    (void)arg;
    CHECK_OK(utofu_alloc_vbg(2, 1, 0, &mine));
    ut_allgather(&mine, ids, sizeof(mine));
    for (int signals = 0; signals < 2; signals++) {
        struct utofu_vbg_setting s = unwired(mine);

        s.src_rmt_vbg_id = s.dst_rmt_vbg_id = ids[!ut_rank];
        if (signals)
            s.src_lcl_vbg_id = s.dst_lcl_vbg_id = mine;
        CHECK_OK(utofu_set_vbg(&s, 1));
        ut_barrier();
        CHECK_OK(utofu_reduce_uint64(mine, UTOFU_REDUCE_OP_SUM, &value, 1, 0));
        int rc;
        while ((rc = utofu_poll_reduce_uint64(mine, 0, &result)) == UTOFU_ERR_NOT_COMPLETED)
            ut_relax();
        CHECK_OK(rc);
        CHECK_EQ(result, signals ? 34 : 34 - value);
        ut_barrier();
    }
    CHECK_OK(utofu_free_vbg(&mine, 1));
}

Test(states, the_only_gate_of_a_process_signals_itself)
{
    run_in(2, 1, only_gates);
}

/* A gate without inputs and outputs, and one that waits for itself */

static void loops(void *arg)
{
    utofu_vbg_id_t ids[2];
    struct utofu_vbg_setting s[2];
    uint64_t value, result;

    (void)arg;
    for (int kind = 0; kind < 8; kind++) {
        CHECK_OK(utofu_alloc_vbg(4, 2, 0, ids));
        s[0] = unwired(ids[0]);
        s[1] = unwired(ids[1]);
        bool signal = kind & 1, packet = kind & 2, relay = kind & 4;
        if (signal) {
            s[0].dst_lcl_vbg_id = ids[relay];
            s[relay].src_lcl_vbg_id = ids[0];
            s[relay].dst_lcl_vbg_id = ids[0];
            s[0].src_lcl_vbg_id = ids[relay];
        }
        if (packet) {
            s[0].dst_rmt_vbg_id = ids[relay];
            s[relay].src_rmt_vbg_id = ids[0];
            s[relay].dst_rmt_vbg_id = ids[0];
            s[0].src_rmt_vbg_id = ids[relay];
        }
        CHECK_OK(utofu_set_vbg(s, 2));
        uint64_t times = !signal || !packet ? 1 : relay ? 4 : 2;
        for (uint64_t round = 0; round < 100; round++) {
            value = round;
            CHECK_OK(utofu_reduce_uint64(ids[0], UTOFU_REDUCE_OP_SUM, &value, 1, 0));
            CHECK_OK(utofu_poll_reduce_uint64(ids[0], 0, &result)); /* alone: at once */
            CHECK_EQ(result, times * round);
        }
        CHECK_OK(utofu_free_vbg(ids, 2));
    }
}

Test(states, gates_that_send_to_themselves)
{
    run_in(1, 1, loops);
}

/* Freed in use */

static void freed_in_use(void *arg)
{
    static struct ut_circuit circuit;

    (void)arg;
    for (int turn = 0; turn < 6; turn++) {
        ut_circuit_open(&circuit, (enum circuit_shape)(turn % CIRCUIT_NUM_SHAPES), 0, 0);
        if (turn % ut_size == ut_rank) {
            CHECK_OK(utofu_free_vbg(circuit.mine, circuit.count)); /* has not started */
            CHECK_RC(utofu_poll_barrier(circuit.mine[0], 0), UTOFU_ERR_INVALID_VBG_ID);
        } else {
            CHECK_OK(utofu_barrier(circuit.mine[0], 0));
            CHECK_RC(ut_barrier_await(circuit.mine[0]), UTOFU_ERR_BARRIER_OTHER);
            CHECK_OK(utofu_barrier(circuit.mine[0], 0)); /* the circuit stays broken */
            CHECK_RC(ut_barrier_await(circuit.mine[0]), UTOFU_ERR_BARRIER_OTHER);
            CHECK_OK(utofu_barrier(circuit.mine[0], 0));
            CHECK_OK(utofu_free_vbg(circuit.mine, circuit.count)); /* under way */
        }
        ut_barrier();
    }
    /* and new circuits of the same gates work */
    again_and_again(NULL);
}

Test(states, freeing_in_use_ends_the_barriers_of_the_others)
{
    run_in(4, 1, freed_in_use);
}
