/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that ask no peer for its ids, but calculate them: VCQ ids from the coordinates of the
 * node, the TNI and CQ that Fugaku gives to the local rank, and a component id; STADDs from an STag
 * that they chose. With UTOFU_CQ_MAP=fugaku.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "moving_clock.h"
#include "utofu_ext.h"

enum { CMP = 7, STAG = 1, MOST = 48 };
#define MAP "UTOFU_CQ_MAP=fugaku"

TestSuite(calculated);

/* Where Fugaku puts local rank n, on a node of ppn processes. */
static void find_cq(unsigned int ppn, unsigned int n, utofu_tni_id_t *tni, utofu_cq_id_t *cq)
{
    static const utofu_cq_id_t few[4][4] = {{0}, {0, 6}, {0, 4, 8}, {0, 2, 5, 8}};
    static const utofu_cq_id_t many[5][8] = {{0, 2, 5, 8},
                                             {0, 2, 5, 8, 10},
                                             {0, 2, 5, 8, 9, 10},
                                             {0, 2, 5, 6, 8, 9, 10},
                                             {0, 2, 4, 5, 6, 8, 9, 10}};
    unsigned int tnis = ppn <= 8 ? 2 : ppn <= 12 ? 3 : 6;

    if (ppn <= 4) {
        *tni = (utofu_tni_id_t)n;
        *cq = few[ppn - 1][n];
        return;
    }
    *tni = (utofu_tni_id_t)(n % tnis * (6 / tnis));
    *cq = many[ppn <= 24 ? 0 : (ppn - 25) / 6 + 1][n / tnis];
}

/* The ids that a program calculates for a rank: ranks are on nodes in blocks. */
static void calculate(int rank, utofu_vcq_id_t *vcq, utofu_stadd_t *stadd)
{
    struct utofu_job job;
    uint32_t node, other, local = 0;
    uint8_t coords[6], at[6];
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;

    CHECK_OK(utofu_query_job(&job));
    CHECK_OK(utofu_query_rank_node((uint32_t)rank, &node, coords));
    for (int r = rank - 1; r >= 0; r--, local++) {
        CHECK_OK(utofu_query_rank_node((uint32_t)r, &other, at));
        if (other != node)
            break;
    }
    find_cq(job.max_local_size, local, &tni, &cq);
    CHECK_OK(utofu_construct_vcq_id(coords, tni, cq, CMP, vcq));
    CHECK_OK(utofu_query_stadd(*vcq, STAG, stadd));
}

struct side {
    utofu_vcq_hdl_t vcq[6];
    utofu_tni_id_t primary;
    volatile uint64_t *words;
};

/* The VCQ with component 7 on the primary TNI first, then on the others. */
static void open_side(struct side *side)
{
    struct utofu_job job;
    utofu_vcq_id_t id, made, info_id;
    utofu_stadd_t stadd, registered;
    utofu_tni_id_t tni;
    utofu_cq_id_t cq, found;
    uint8_t coords[6];
    uint16_t extra;

    CHECK_OK(utofu_query_job(&job));
    CHECK_EQ(job.rank, (uint32_t)ut_rank);
    CHECK_EQ(job.size, (uint32_t)ut_size);
    find_cq(job.max_local_size, job.local_rank, &side->primary, &cq);
    for (utofu_tni_id_t i = 0; i < 6; i++) {
        utofu_tni_id_t t = (utofu_tni_id_t)((side->primary + i) % 6);
        CHECK_OK(utofu_create_vcq_with_cmp_id(t, CMP, 0, &side->vcq[t]));
    }
    CHECK_OK(utofu_query_vcq_id(side->vcq[side->primary], &id));
    calculate(ut_rank, &made, &stadd);
    CHECK_EQ(id, made);
    CHECK_OK(utofu_query_vcq_info(id, coords, &tni, &found, &extra));
    CHECK_EQ(tni, side->primary);
    CHECK_EQ(found, cq);
    for (utofu_tni_id_t t = 0; t < 6; t++) {
        CHECK_OK(utofu_query_vcq_id(side->vcq[t], &info_id));
        CHECK_OK(utofu_query_vcq_info(info_id, coords, &tni, &found, &extra));
        CHECK_OK(utofu_construct_vcq_id(coords, t, found, CMP, &made));
        CHECK_EQ(info_id, made);
    }
    side->words = aligned_alloc(65536, 65536);
    memset((void *)side->words, 0, 65536);
    CHECK_OK(utofu_reg_mem_with_stag(side->vcq[side->primary], (void *)side->words, 65536, STAG, 0,
                                     &registered));
    CHECK_EQ(registered, stadd);
}

static void close_side(struct side *side)
{
    ut_barrier();
    for (int t = 0; t < 6; t++)
        CHECK_OK(utofu_free_vcq(side->vcq[t]));
    free((void *)side->words);
}

static void start_put(struct side *side, utofu_vcq_id_t id, utofu_stadd_t stadd, uint64_t value)
{
    CHECK_OK(utofu_set_vcq_id_path(&id, NULL));
    CHECK_OK(utofu_put_piggyback8(
        side->vcq[side->primary], id, value, stadd + 8 * (utofu_stadd_t)ut_rank, 8, 0,
        UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
}

static int await_put(struct side *side)
{
    void *cbdata;
    int rc;

    do {
        rc = utofu_poll_tcq(side->vcq[side->primary], 0, &cbdata);
        ut_relax();
    } while (rc == UTOFU_ERR_NOT_FOUND);
    CHECK_OK(rc);
    struct utofu_mrq_notice notice;
    do {
        rc = utofu_poll_mrq(side->vcq[side->primary], 0, &notice);
        ut_relax();
    } while (rc == UTOFU_ERR_NOT_FOUND);
    return rc;
}

static int put_to(struct side *side, int rank, uint64_t value)
{
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;

    calculate(rank, &id, &stadd);
    start_put(side, id, stadd, value);
    return await_put(side);
}

/* Each process puts a word to as many others as *arg says, the next ones in order of rank. */
static void put_to_calculated(void *arg)
{
    int to = *(const int *)arg < ut_size ? *(const int *)arg : ut_size - 1;
    struct side side;
    char most[16];

    /* by hand no process knows the nodes of the others, and not all nodes have as many */
    snprintf(most, sizeof(most), "%d", (ut_size + ut_nodes - 1) / ut_nodes);
    setenv("UTOFU_LOCAL_SIZE", most, 1);
    ut_random_delay(2000);
    open_side(&side);
    ut_barrier();
    for (int i = 1; i <= to; i++)
        CHECK_OK(put_to(&side, (ut_rank + i) % ut_size, (uint64_t)ut_rank + 1));
    for (int i = 1; i <= to; i++) {
        int from = (ut_rank - i + ut_size) % ut_size;
        while (side.words[from] == 0)
            ut_relax();
        CHECK_EQ(side.words[from], (uint64_t)from + 1);
    }
    close_side(&side);
}

/* One node for each row of Fugaku's table, with the fewest and the most processes. */
Test(calculated, every_row_of_the_table_on_one_node)
{
    static const int ppn[] = {1, 2, 3, 4, 5, 8, 9, 12, 13, 24, 25, 30, 31, 36, 37, 42, 43, MOST};
    int few = 3;

    for (size_t i = 0; i < sizeof(ppn) / sizeof(ppn[0]); i++)
        ut_run(&(struct ut_run_opts){.n = ppn[i], .env = {MAP}}, put_to_calculated, &few);
}

Test(calculated, nodes_that_are_not_full)
{
    static const struct {
        int n, nodes;
    } jobs[] = {{4, 4}, {5, 2}, {7, 3}, {14, 3}, {11, 5}, {26, 3}};
    int all = MOST;

    for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
        ut_run(&(struct ut_run_opts){.n = jobs[i].n, .nodes = jobs[i].nodes, .env = {MAP}},
               put_to_calculated, &all);
}

static void comes_late(void *arg)
{
    struct side side;

    (void)arg;
    if (ut_rank == 1)
        while (*ut_cell(0) == 0)
            ut_relax();
    open_side(&side);
    if (ut_rank == 0) {
        uint32_t node;
        uint8_t at[6];
        int rc;

        /* by hand, only the peer itself knows its node */
        *ut_cell(0) = 1;
        CHECK_OK(utofu_query_rank_node(1, &node, at));
        CHECK_EQ(node, ut_nodes == 2 ? 1 : 0);
        do
            rc = put_to(&side, 1, 77); /* until its memory is registered, too */
        while (rc == UTOFU_ERR_MRQ_RMT_STADD);
        CHECK_OK(rc);
    } else {
        while (side.words[0] == 0)
            ut_relax();
        CHECK_EQ(side.words[0], 77);
    }
    close_side(&side);
}

Test(calculated, a_put_waits_for_a_peer_that_creates_its_vcq_later)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {MAP}}, comes_late, NULL);
    ut_run(&(struct ut_run_opts){.n = 2, .nodes = 2, .env = {MAP}}, comes_late, NULL);
}

/* How often threads of this process have gone to sleep. */
static unsigned long count_sleeps(void)
{
    char path[64], line[128];
    unsigned long sleeps = 0, n;
    DIR *tasks = opendir("/proc/self/task");

    CHECK(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        snprintf(path, sizeof(path), "/proc/self/task/%.20s/status", task->d_name);
        FILE *status = fopen(path, "r");
        while (status && fgets(line, sizeof(line), status))
            sleeps += sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1 ? n : 0;
        if (status)
            fclose(status);
    }
    closedir(tasks);
    return sleeps;
}

/* To rank 1 on the node of this process, without a question where that is. */
static void start_put_to_neighbour(struct side *side)
{
    uint8_t coords[6];
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;

    CHECK_OK(utofu_query_my_coords(coords));
    find_cq(2, 1, &tni, &cq);
    CHECK_OK(utofu_construct_vcq_id(coords, tni, cq, CMP, &id));
    CHECK_OK(utofu_query_stadd(id, STAG, &stadd));
    start_put(side, id, stadd, 77);
}

static void sleeps_meanwhile(void *arg)
{
    struct timespec begin, now, nap = {0, 10000000};
    unsigned long before, ms;
    struct side side;

    (void)arg;
    setenv("UTOFU_LOCAL_SIZE", "2", 1);
    if (ut_rank == 1)
        while (*ut_cell(0) == 0)
            ut_relax();
    open_side(&side);
    if (ut_rank == 0) {
        start_put_to_neighbour(&side);
        before = count_sleeps();
        clock_gettime(CLOCK_MONOTONIC, &begin);
        do {
            nanosleep(&nap, NULL);
            clock_gettime(CLOCK_MONOTONIC, &now);
            ms = (unsigned long)((now.tv_sec - begin.tv_sec) * 1000 +
                                 (now.tv_nsec - begin.tv_nsec) / 1000000);
        } while (ms < 500);
        /* this thread slept 50 times, the library's looks at the link after 1 to 16 ms */
        CHECK(count_sleeps() - before < ms / 2);
        *ut_cell(0) = 1;
        int rc = await_put(&side);
        while (rc == UTOFU_ERR_MRQ_RMT_STADD)
            rc = put_to(&side, 1, 77);
        CHECK_OK(rc);
    }
    while (ut_rank == 1 && side.words[0] == 0)
        ut_relax();
    close_side(&side);
}

Test(calculated, the_library_sleeps_while_a_peer_has_yet_to_come)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {MAP}}, sleeps_meanwhile, NULL);
}

static void never_comes(void *arg)
{
    struct utofu_mrq_notice notice;
    struct side side;
    utofu_vcq_hdl_t other;
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;
    uint64_t passed_ms;

    (void)arg;
    if (ut_rank == 0) {
        open_side(&side);
        calculate(1, &id, &stadd);
        start_put(&side, id, stadd, 77);
        CHECK_EQ(ut_await_mrq_moving(side.vcq[side.primary], &notice, &passed_ms),
                 UTOFU_ERR_MRQ_PEER);
        CHECK(passed_ms + 20 >= 2000, "%llu ms", (unsigned long long)passed_ms);
        ut_barrier();
        close_side(&side);
    } else {
        CHECK_OK(
            utofu_create_vcq(0, 0, &other)); /* the library is there, component 7 of TNI 1 not */
        ut_barrier();
        CHECK_OK(utofu_free_vcq(other));
        ut_barrier();
    }
}

Test(calculated, a_put_fails_to_a_peer_that_never_creates_its_vcq)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {MAP, "UTOFU_PEER_TIMEOUT=2"}}, never_comes, NULL);
}

/* Programs without a launcher's help: one process a node, UTOFU_NODE alone. */
static void on_a_node_of_its_own(void *arg)
{
    struct utofu_job job;
    struct side side;

    (void)arg;
    unsetenv("UTOFU_LOCAL_RANK");
    unsetenv("UTOFU_LOCAL_SIZE");
    char node[16];
    snprintf(node, sizeof(node), "%d", 2 * ut_rank);
    setenv("UTOFU_NODE", node, 1);
    CHECK_OK(utofu_query_job(&job));
    CHECK_EQ(job.node, 2u * (uint32_t)ut_rank);
    CHECK_EQ(job.local_rank, 0);
    CHECK_EQ(job.local_size, 1);
    CHECK_EQ(job.max_local_size, 1);
    open_side(&side);
    CHECK_EQ(side.primary, 0);
    ut_barrier();
    CHECK_OK(put_to(&side, (ut_rank + 1) % ut_size, 5));
    while (side.words[(ut_rank + ut_size - 1) % ut_size] == 0)
        ut_relax();
    close_side(&side);
}

Test(calculated, utofu_node_alone_is_a_node_of_ones_own)
{
    ut_run(&(struct ut_run_opts){.n = 3, .env = {MAP}}, on_a_node_of_its_own, NULL);
    ut_run(&(struct ut_run_opts){.n = 3}, on_a_node_of_its_own, NULL);
}

/* All of them say node 4, local rank 0. */
static void on_the_same_node(void *arg)
{
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    struct utofu_mrq_notice notice;
    char text[1024];
    uint8_t coords[6];
    uint32_t node;
    int rc;

    (void)arg;
    unsetenv("UTOFU_LOCAL_RANK");
    unsetenv("UTOFU_LOCAL_SIZE");
    setenv("UTOFU_NODE", "4", 1);
    CHECK_OK(utofu_create_vcq_with_cmp_id(0, CMP, 0, &vcq));
    ut_barrier();
    rc = utofu_query_rank_node((uint32_t)!ut_rank, &node, coords);
    CHECK_OK(utofu_query_my_coords(coords));
    CHECK_OK(utofu_construct_vcq_id(coords, 0, 1, CMP, &id)); /* the CQ of no process */
    CHECK_OK(utofu_put_piggyback8(vcq, id, 1, 0, 8, 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
    do {
        rc = utofu_poll_mrq(vcq, 0, &notice);
        ut_relax();
    } while (rc == UTOFU_ERR_NOT_FOUND);
    CHECK_EQ(rc, UTOFU_ERR_MRQ_PEER);
    utofu_get_last_error(text);
    ut_barrier();
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(calculated, two_processes_in_one_place_are_told)
{
    static struct ut_outcome out[2];
    char report[4096];

    if (!ut_run_collect(&(struct ut_run_opts){.n = 2, .env = {MAP, "UTOFU_PEER_TIMEOUT=1"}},
                        on_the_same_node, NULL, out, report, sizeof(report)))
        cr_assert_fail("%s", report);
    cr_assert(strstr(out[0].output, "rank 1 has local rank 0 on node 4, like this process") ||
                  strstr(out[1].output, "rank 0 has local rank 0 on node 4, like this process"),
              "%s%s", out[0].output, out[1].output);
}

/* Rank 1 creates component 7 on its first CQ of TNI 1, rank 0 calculates as for Fugaku. */
static void calculates_without_the_map(void *arg)
{
    struct side side = {.primary = 0};
    utofu_vcq_id_t id;
    char text[1024];
    uint8_t coords[6];

    (void)arg;
    CHECK_OK(utofu_create_vcq_with_cmp_id((utofu_tni_id_t)ut_rank, CMP, 0, &side.vcq[0]));
    ut_barrier();
    if (ut_rank == 0) {
        CHECK_OK(utofu_query_my_coords(coords));
        CHECK_OK(utofu_construct_vcq_id(coords, 1, 6, CMP, &id));
        start_put(&side, id, 0, 77);
        int rc = await_put(&side);
        utofu_get_last_error(text);
        fprintf(stderr, "%d: %s\n", rc, text);
    }
    ut_barrier();
    CHECK_OK(utofu_free_vcq(side.vcq[0]));
}

/* The line while the put waits, and the text of the error. */
static bool map_is_named(const char *map)
{
    static struct ut_outcome out[2];
    char report[4096], number[32];
    struct ut_run_opts opts = {.n = 2, .env = {"UTOFU_PEER_TIMEOUT=1", map}};

    if (!ut_run_collect(&opts, calculates_without_the_map, NULL, out, report, sizeof(report)))
        cr_assert_fail("%s", report);
    const char *warned = strstr(out[0].output, "(TNI 1, CQ 6, component 7) does not exist: by UT");
    snprintf(number, sizeof(number), "%d: ", UTOFU_ERR_MRQ_PEER);
    const char *failed = strstr(out[0].output, number);
    if (failed)
        failed = strstr(failed, "UTOFU_CQ_MAP=auto CQ 6 of TNI 1 is not the first one of rank 1, "
                                "which is CQ 4 ");
    cr_assert((warned != NULL) == (failed != NULL), "%s", out[0].output);
    return warned != NULL;
}

Test(calculated, ids_for_another_map_are_told_apart_from_late_ones)
{
    cr_assert(map_is_named("UTOFU_CQ_MAP=auto"));
    cr_assert(!map_is_named(MAP)); /* the put arrives in no memory */
    cr_assert(!map_is_named("UTOFU_CQ_MAP=0,1,2/6,7,8"));
}
