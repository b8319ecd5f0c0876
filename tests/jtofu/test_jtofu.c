/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every function of jtofu.h in one process, with maps of jtofu_create_mapinfo_by_envvars(), and
 * every way to use it wrongly.
 */
#include <criterion/criterion.h>

#include <jtofu.h>
#include <pmix_fjext.h>

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { JOB = 255, OTHER = 7, MOST = 48 };

static void *map;
static size_t size;
static unsigned int procs;

/* Lines of what is refused are of no interest here. */
static void silence(void)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    cr_assert(null >= 0 && dup2(null, STDERR_FILENO) >= 0);
    close(null);
}

static void set(const char *name, const char *value)
{
    char whole[64];

    snprintf(whole, sizeof(whole), "JTOFU_MAPINFO_%s", name);
    cr_assert((value ? setenv(whole, value, 1) : unsetenv(whole)) == 0);
}

static void describe(const char *node, const char *ppn, const char *proc)
{
    set("NODE", node);
    set("PPN", ppn);
    set("PROC", proc);
}

static void make(void)
{
    cr_assert(jtofu_create_mapinfo_by_envvars(&map, &size, &procs) == JTOFU_SUCCESS);
}

/* As process `rank` of a job of 3 x 2 nodes with 4 processes each, but the last node 2. */
static void begin(jtofu_rank_t rank)
{
    describe("3x2", "4", "22");
    make();
    cr_assert(procs == 22);
    cr_assert(jtofu_initialize(JOB, rank, map) == JTOFU_SUCCESS);
    free(map);
}

static union jtofu_phys_coords place(uint8_t x, uint8_t y, uint8_t z, uint8_t a, uint8_t b,
                                     uint8_t c)
{
    return (union jtofu_phys_coords){.a = {x, y, z, a, b, c}};
}

static bool is_at(const union jtofu_phys_coords *at, uint8_t x, uint8_t y, uint8_t z, uint8_t a,
                  uint8_t b, uint8_t c)
{
    union jtofu_phys_coords wanted = place(x, y, z, a, b, c);

    return memcmp(at, &wanted, sizeof(wanted)) == 0;
}

Test(jtofu, layouts_and_numbers_are_those_of_fugaku)
{
    int major = 9, minor = 9;

    cr_assert(sizeof(union jtofu_phys_coords) == 6 && sizeof(union jtofu_log_coords) == 12 &&
              sizeof(union jtofu_path_coords) == 3 && sizeof(jtofu_rank_t) == 4);
    cr_assert(JTOFU_ERR_NOT_IMPLEMENTED == -2 && JTOFU_ERR_OUT_OF_MEMORY == -6 &&
              JTOFU_ERR_INTERNAL == -100);
    cr_assert(strcmp(FJPMIX_RANKMAP, "fjpmix.rankmap") == 0);
    jtofu_query_jtofu_version(&major, &minor);
    cr_assert(major == 0 && minor == 0);
    jtofu_query_jtofu_version(NULL, NULL);
}

static void query_all(int wanted)
{
    union jtofu_phys_coords phys = {.a = {0}};
    union jtofu_log_coords log = {.a = {0}};
    union jtofu_path_coords path;
    jtofu_rank_t rank;
    size_t n;

    cr_assert(jtofu_query_sys_size(&phys) == wanted);
    cr_assert(jtofu_query_sys_torus(&phys) == wanted);
    cr_assert(jtofu_query_ref_coords(&phys) == wanted);
    cr_assert(jtofu_query_phys_size(&phys) == wanted);
    cr_assert(jtofu_query_log_size(&log) == wanted);
    cr_assert(jtofu_query_phys_coords(JOB, 0, &phys) == wanted);
    cr_assert(jtofu_query_log_coords(JOB, 0, &log) == wanted);
    cr_assert(jtofu_query_ranks_from_phys_coords(JOB, &phys, 1, &rank, &n) == wanted);
    cr_assert(jtofu_query_ranks_from_log_coords(JOB, &log, 1, &rank, &n) == wanted);
    cr_assert(jtofu_query_onesided_paths(&phys, 1, &path, &n) == wanted);
    cr_assert(jtofu_query_barrier_paths(&phys, 1, &path, &n) == wanted);
    cr_assert(jtofu_query_onesided_hops(&phys, &n) == wanted);
    cr_assert(jtofu_query_barrier_hops(&phys, &n) == wanted);
}

/* A process without a job is one of its own. */
Test(jtofu, own_job_is_known_before_initialize_and_after_finalize, .init = silence)
{
    for (int i = 0; i < 2; i++) {
        query_all(JTOFU_SUCCESS);
        cr_assert(jtofu_query_max_proc_per_node() == 1);
        cr_assert(jtofu_add_job(OTHER, "") == JTOFU_ERR_NOT_INITIALIZED);
        cr_assert(jtofu_delete_job(OTHER) == JTOFU_ERR_NOT_INITIALIZED);
        cr_assert(jtofu_finalize() == JTOFU_ERR_EXCESS_FINALIZE);
        begin(0);
        query_all(JTOFU_SUCCESS);
        cr_assert(jtofu_query_max_proc_per_node() == 4);
        cr_assert(jtofu_finalize() == JTOFU_SUCCESS);
    }
}

/* Nor is there a default map where uTofu finds no job. */
Test(jtofu, nothing_is_known_without_a_job, .init = silence)
{
    setenv("UTOFU_RANK", "3", 1);
    setenv("UTOFU_SIZE", "2", 1);
    query_all(JTOFU_ERR_NOT_INITIALIZED);
    cr_assert(jtofu_query_max_proc_per_node() == JTOFU_ERR_NOT_INITIALIZED);
}

/* MPI calls the own job 0, others of the same process otherwise. */
Test(jtofu, own_job_is_also_number_0, .init = silence)
{
    union jtofu_phys_coords phys;

    describe("3x2", "4", "22");
    make();
    cr_assert(jtofu_initialize(0, 5, map) == JTOFU_SUCCESS);
    cr_assert(jtofu_query_phys_coords(0, 5, &phys) == JTOFU_SUCCESS);
    cr_assert(jtofu_query_phys_coords(JOB, 5, &phys) == JTOFU_ERR_INVALID_ARG);
    cr_assert(jtofu_initialize(JOB, 5, map) == JTOFU_SUCCESS);
    cr_assert(jtofu_query_phys_coords(0, 5, &phys) == JTOFU_SUCCESS);
    cr_assert(jtofu_query_phys_coords(JOB, 5, &phys) == JTOFU_SUCCESS);
    cr_assert(jtofu_query_phys_coords(OTHER, 5, &phys) == JTOFU_ERR_INVALID_ARG);
    cr_assert(jtofu_initialize(OTHER, 5, map) == JTOFU_ERR_INVALID_ARG);
    cr_assert(jtofu_initialize(0, 5, map) == JTOFU_SUCCESS);
    for (int i = 0; i < 3; i++)
        cr_assert(jtofu_finalize() == JTOFU_SUCCESS);
    free(map);
}

Test(jtofu, pointers_that_are_null_are_refused, .init = silence)
{
    union jtofu_phys_coords phys = {.a = {0}};
    union jtofu_log_coords log = {.a = {0}};
    union jtofu_path_coords path;
    jtofu_rank_t rank;
    size_t n = 9;

    cr_assert(jtofu_initialize(JOB, 0, NULL) == JTOFU_ERR_INVALID_POINTER);
    begin(0);
    const int results[] = {
        jtofu_add_job(OTHER, NULL),
        jtofu_query_sys_size(NULL),
        jtofu_query_sys_torus(NULL),
        jtofu_query_ref_coords(NULL),
        jtofu_query_phys_size(NULL),
        jtofu_query_log_size(NULL),
        jtofu_query_phys_coords(JOB, 0, NULL),
        jtofu_query_log_coords(JOB, 0, NULL),
        jtofu_query_ranks_from_phys_coords(JOB, NULL, 1, &rank, &n),
        jtofu_query_ranks_from_phys_coords(JOB, &phys, 1, NULL, &n),
        jtofu_query_ranks_from_phys_coords(JOB, &phys, 1, &rank, NULL),
        jtofu_query_ranks_from_log_coords(JOB, NULL, 1, &rank, &n),
        jtofu_query_ranks_from_log_coords(JOB, &log, 1, NULL, &n),
        jtofu_query_ranks_from_log_coords(JOB, &log, 1, &rank, NULL),
        jtofu_query_onesided_paths(NULL, 1, &path, &n),
        jtofu_query_onesided_paths(&phys, 1, NULL, &n),
        jtofu_query_onesided_paths(&phys, 1, &path, NULL),
        jtofu_query_barrier_paths(NULL, 1, &path, &n),
        jtofu_query_barrier_paths(&phys, 1, NULL, &n),
        jtofu_query_barrier_paths(&phys, 1, &path, NULL),
        jtofu_query_onesided_hops(NULL, &n),
        jtofu_query_onesided_hops(&phys, NULL),
        jtofu_query_barrier_hops(NULL, &n),
        jtofu_query_barrier_hops(&phys, NULL),
        jtofu_create_mapinfo_by_envvars(NULL, &size, &procs),
        jtofu_create_mapinfo_by_envvars(&map, NULL, &procs),
        jtofu_create_mapinfo_by_envvars(&map, &size, NULL),
    };
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        cr_assert(results[i] == JTOFU_ERR_INVALID_POINTER, "call %zu: %d", i, results[i]);
    cr_assert(n == 9);
    cr_assert(jtofu_query_ranks_from_phys_coords(JOB, &phys, 0, NULL, &n) == JTOFU_SUCCESS);
    cr_assert(n == 0);
}

Test(jtofu, jobs_ranks_and_coordinates_that_there_are_not_are_refused, .init = silence)
{
    union jtofu_phys_coords phys, outside = place(0, 0, 0, 2, 0, 0);
    union jtofu_log_coords log, beside = {.a = {0, 2, 0}};
    union jtofu_path_coords path;
    jtofu_rank_t rank;
    size_t n;

    begin(0);
    phys = place(0, 0, 0, 0, 0, 0);
    log = (union jtofu_log_coords){.a = {0}};
    const int results[] = {
        jtofu_query_phys_coords(OTHER, 0, &phys),
        jtofu_query_phys_coords(JOB, 22, &phys),
        jtofu_query_log_coords(OTHER, 0, &log),
        jtofu_query_log_coords(JOB, UINT32_MAX, &log),
        jtofu_query_ranks_from_phys_coords(OTHER, &phys, 1, &rank, &n),
        jtofu_query_ranks_from_phys_coords(JOB, &outside, 1, &rank, &n),
        jtofu_query_ranks_from_log_coords(OTHER, &log, 1, &rank, &n),
        jtofu_query_ranks_from_log_coords(JOB, &beside, 1, &rank, &n),
        jtofu_query_onesided_paths(&outside, 1, &path, &n),
        jtofu_query_barrier_paths(&outside, 1, &path, &n),
        jtofu_query_onesided_hops(&outside, &n),
        jtofu_query_barrier_hops(&outside, &n),
    };
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        cr_assert(results[i] == JTOFU_ERR_INVALID_ARG, "call %zu: %d", i, results[i]);
    /* a node of the system, but not of the job */
    phys = place(0, 0, 0, 1, 2, 1);
    cr_assert(jtofu_query_ranks_from_phys_coords(JOB, &phys, 1, &rank, &n) == JTOFU_SUCCESS);
    cr_assert(n == 0);
}

Test(jtofu, initialize_counts_and_wants_the_same_again, .init = silence)
{
    void *other;

    describe("3x2", "4", "22");
    make();
    other = map;
    describe("3x2", "4", "21");
    make();
    cr_assert(jtofu_initialize(JOB, 21, map) == JTOFU_ERR_INVALID_ARG);
    cr_assert(jtofu_initialize(JOB, 20, map) == JTOFU_SUCCESS);
    cr_assert(jtofu_initialize(JOB, 20, map) == JTOFU_SUCCESS);
    cr_assert(jtofu_initialize(OTHER, 20, map) == JTOFU_ERR_INVALID_ARG);
    cr_assert(jtofu_initialize(JOB, 19, map) == JTOFU_ERR_INVALID_ARG);
    cr_assert(jtofu_initialize(JOB, 20, other) == JTOFU_ERR_INVALID_ARG);
    cr_assert(jtofu_finalize() == JTOFU_SUCCESS && jtofu_query_max_proc_per_node() == 4);
    cr_assert(jtofu_finalize() == JTOFU_SUCCESS);
    cr_assert(jtofu_query_max_proc_per_node() == 1); /* the default map */
    cr_assert(jtofu_initialize(OTHER, 1, other) == JTOFU_SUCCESS);
    free(map);
    free(other);
}

Test(jtofu, jobs_are_added_and_deleted, .init = silence)
{
    union jtofu_log_coords log;

    begin(0);
    describe("5", "1", NULL);
    make();
    cr_assert(jtofu_add_job(OTHER, map) == JTOFU_SUCCESS);
    cr_assert(jtofu_add_job(OTHER, map) == JTOFU_ERR_INVALID_ARG);
    cr_assert(jtofu_add_job(JOB, map) == JTOFU_ERR_INVALID_ARG);
    cr_assert(jtofu_add_job(8, map) == JTOFU_SUCCESS);
    cr_assert(jtofu_query_log_coords(OTHER, 4, &log) == JTOFU_SUCCESS && log.s.x == 4);
    cr_assert(jtofu_query_log_coords(JOB, 21, &log) == JTOFU_SUCCESS && log.s.x == 2);
    cr_assert(jtofu_query_max_proc_per_node() == 4);
    cr_assert(jtofu_delete_job(OTHER) == JTOFU_SUCCESS);
    cr_assert(jtofu_delete_job(OTHER) == JTOFU_ERR_INVALID_ARG);
    cr_assert(jtofu_delete_job(JOB) == JTOFU_ERR_INVALID_ARG);
    cr_assert(jtofu_query_log_coords(OTHER, 4, &log) == JTOFU_ERR_INVALID_ARG);
    cr_assert(jtofu_query_log_coords(8, 4, &log) == JTOFU_SUCCESS);
    free(map);
}

/* In memory with nothing behind its first n bytes. */
static void *cut_off(size_t n)
{
    static char *pages;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (size + page) / page * page;

    if (!pages) {
        pages = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        cr_assert(pages != MAP_FAILED && mprotect(pages + room, page, PROT_NONE) == 0);
    }
    return memcpy(pages + room - n, map, n);
}

Test(jtofu, maps_that_are_cut_off_are_refused, .init = silence)
{
    begin(0);
    describe("3x2", "2", "11");
    make();
    for (size_t n = 0; n < size; n++)
        cr_assert(jtofu_add_job(OTHER, cut_off(n)) == JTOFU_ERR_INVALID_ARG, "%zu bytes", n);
    cr_assert(jtofu_add_job(OTHER, cut_off(size)) == JTOFU_SUCCESS);
    free(map);
}

Test(jtofu, maps_with_one_wrong_bit_are_refused, .init = silence)
{
    describe("3x2", "2", "11");
    make();
    for (size_t bit = 0; bit < 8 * size; bit++) {
        ((unsigned char *)map)[bit / 8] ^= (unsigned char)(1 << bit % 8);
        cr_assert(jtofu_initialize(JOB, 0, map) == JTOFU_ERR_INVALID_ARG, "bit %zu", bit);
        ((unsigned char *)map)[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    cr_assert(jtofu_initialize(JOB, 0, map) == JTOFU_SUCCESS);
    free(map);
}

Test(jtofu, every_place_of_the_grid_is_a_node_with_its_ranks_in_order)
{
    union jtofu_log_coords log, extents, again;
    union jtofu_phys_coords phys;
    jtofu_rank_t ranks[MOST], same[MOST];
    size_t n, m;

    begin(5);
    cr_assert(jtofu_query_log_size(&extents) == JTOFU_SUCCESS);
    cr_assert(extents.s.x == 3 && extents.s.y == 2 && extents.s.z == 1);
    for (uint32_t node = 0; node < 6; node++) {
        log = (union jtofu_log_coords){.s = {node % 3, node / 3, 0}};
        cr_assert(jtofu_query_ranks_from_log_coords(JOB, &log, MOST, ranks, &n) == JTOFU_SUCCESS);
        cr_assert(n == (node < 5 ? 4 : 2));
        for (uint32_t i = 0; i < n; i++) {
            cr_assert(ranks[i] == 4 * node + i);
            cr_assert(jtofu_query_log_coords(JOB, ranks[i], &again) == JTOFU_SUCCESS);
            cr_assert(memcmp(&again, &log, sizeof(log)) == 0);
            cr_assert(jtofu_query_phys_coords(JOB, ranks[i], &phys) == JTOFU_SUCCESS);
            cr_assert(is_at(&phys, 0, 0, 0, (uint8_t)(node % 2), (uint8_t)(node / 2), 0));
        }
        cr_assert(jtofu_query_ranks_from_phys_coords(JOB, &phys, 2, same, &m) == JTOFU_SUCCESS);
        cr_assert(m == 2 && same[0] == ranks[0] && same[1] == ranks[1]);
    }
    cr_assert(jtofu_query_max_proc_per_node() == 4);
    cr_assert(jtofu_query_phys_size(&phys) == JTOFU_SUCCESS && is_at(&phys, 1, 1, 1, 2, 3, 1));
    cr_assert(jtofu_query_sys_size(&phys) == JTOFU_SUCCESS && is_at(&phys, 1, 1, 1, 2, 3, 2));
    cr_assert(jtofu_query_sys_torus(&phys) == JTOFU_SUCCESS && is_at(&phys, 1, 1, 1, 0, 1, 0));
    cr_assert(jtofu_query_ref_coords(&phys) == JTOFU_SUCCESS && is_at(&phys, 0, 0, 0, 0, 0, 0));
}

/* Node 12 * g + i is in group g. */
static size_t hops_to(union jtofu_phys_coords to)
{
    size_t hops, again;

    cr_assert(jtofu_query_onesided_hops(&to, &hops) == JTOFU_SUCCESS);
    cr_assert(jtofu_query_barrier_hops(&to, &again) == JTOFU_SUCCESS && again == hops);
    return hops;
}

Test(jtofu, hops_go_the_shorter_way_round)
{
    describe("60", "1", NULL);
    make();
    cr_assert(jtofu_initialize(JOB, 0, map) == JTOFU_SUCCESS);
    cr_assert(hops_to(place(0, 0, 0, 0, 0, 0)) == 0);
    cr_assert(hops_to(place(2, 0, 0, 0, 0, 0)) == 2);
    cr_assert(hops_to(place(4, 0, 0, 0, 0, 0)) == 1);
    cr_assert(hops_to(place(4, 0, 0, 1, 2, 1)) == 4);
    cr_assert(jtofu_finalize() == JTOFU_SUCCESS);
    free(map);
    set("SYSTEM_TORUS", "0x1x1x0x0x0");
    make();
    cr_assert(jtofu_initialize(JOB, 0, map) == JTOFU_SUCCESS);
    cr_assert(hops_to(place(4, 0, 0, 1, 2, 1)) == 8);
    free(map);
}

Test(jtofu, the_best_paths_come_first_and_none_twice)
{
    static const uint8_t first[][3] = {{0, 0, 0}, {0, 0, 1}, {1, 0, 0}, {1, 0, 1}};
    union jtofu_path_coords paths[13], few[5], barrier[13];
    union jtofu_phys_coords to;
    size_t n, m;

    describe("60", "1", NULL);
    make();
    cr_assert(jtofu_initialize(JOB, 0, map) == JTOFU_SUCCESS);
    to = place(3, 0, 0, 1, 0, 1);
    cr_assert(jtofu_query_onesided_paths(&to, 13, paths, &n) == JTOFU_SUCCESS && n == 12);
    cr_assert(jtofu_query_onesided_paths(&to, 5, few, &m) == JTOFU_SUCCESS && m == 5);
    cr_assert(memcmp(few, paths, sizeof(few)) == 0);
    cr_assert(memcmp(first, paths, sizeof(first)) == 0);
    cr_assert(jtofu_query_barrier_paths(&to, 13, barrier, &m) == JTOFU_SUCCESS && m == n);
    cr_assert(memcmp(barrier, paths, n * sizeof(paths[0])) == 0);
    for (size_t i = 0; i < n; i++) {
        cr_assert(paths[i].s.pa < 2 && paths[i].s.pb < 3 && paths[i].s.pc < 2);
        for (size_t j = 0; j < i; j++)
            cr_assert(memcmp(&paths[i], &paths[j], sizeof(paths[i])) != 0);
    }
    free(map);
}

Test(jtofu, processes_may_be_dealt_to_the_nodes_in_turn)
{
    union jtofu_log_coords log = {.a = {1, 0, 0}};
    jtofu_rank_t ranks[MOST];
    size_t n;

    describe("3", "3", "8");
    set("RANKMAP", "bynode");
    make();
    cr_assert(jtofu_initialize(JOB, 0, map) == JTOFU_SUCCESS);
    cr_assert(jtofu_query_ranks_from_log_coords(JOB, &log, MOST, ranks, &n) == JTOFU_SUCCESS);
    cr_assert(n == 3 && ranks[0] == 1 && ranks[1] == 4 && ranks[2] == 7);
    free(map);
}

Test(jtofu, nodes_begin_at_the_reference_coordinates)
{
    union jtofu_phys_coords phys;

    set("SHAPE", "2x12");
    set("SYSTEM_SIZE", "6x9x2");
    set("REF", "5,7,1");
    set("RANKMAP", "bychip");
    set("SYSTEM_TORUS", "1x1x1x0x1x0");
    make();
    cr_assert(procs == 24 && jtofu_initialize(JOB, 0, map) == JTOFU_SUCCESS);
    cr_assert(jtofu_query_phys_coords(JOB, 13, &phys) == JTOFU_SUCCESS);
    cr_assert(is_at(&phys, 5, 8, 1, 1, 0, 0));
    cr_assert(jtofu_query_ref_coords(&phys) == JTOFU_SUCCESS && is_at(&phys, 5, 7, 1, 0, 0, 0));
    cr_assert(jtofu_query_sys_size(&phys) == JTOFU_SUCCESS && is_at(&phys, 6, 9, 2, 2, 3, 2));
    free(map);
}

static void expect_refusal(const char *name, const char *value, int wanted)
{
    set(name, value);
    map = NULL;
    cr_assert(jtofu_create_mapinfo_by_envvars(&map, &size, &procs) == wanted, "%s=%s", name, value);
    cr_assert(map == NULL);
    set(name, NULL);
}

Test(jtofu, variables_without_sense_are_refused, .init = silence)
{
    static const char *const bad[][2] = {
        {"NODE", ""},
        {"NODE", "0"},
        {"NODE", "2x"},
        {"NODE", "1x2x3x4"},
        {"NODE", "-1"},
        {"NODE", "5000x5000"},
        {"NODE", "99999999999999999999"},
        {"PPN", "0"},
        {"PPN", "2x2"},
        {"PPN", "four"},
        {"PROC", "0"},
        {"PROC", "2"},
        {"PROC", "1 "},
        {"SHAPE", "1x"},
        {"SYSTEM_SIZE", "1x1"},
        {"SYSTEM_SIZE", "1x1x257"},
        {"SYSTEM_TORUS", "1"},
        {"SYSTEM_TORUS", "1x1x1x0x2x0"},
        {"REF", "0,0"},
        {"REF", "0,0,256"},
        {"REF", "1x1x1"},
        {"RANKMAP", "any"},
    };
    static const char *const unknown[] = {"BROKEN_NODE", "COORDS", "LOGICAL_X", "LOGICAL_Y",
                                          "LOGICAL_Z",   "ORDER",  "SIZE"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_refusal(bad[i][0], bad[i][1], JTOFU_ERR_INVALID_ARG);
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        expect_refusal(unknown[i], "1", JTOFU_ERR_NOT_IMPLEMENTED);
    set("NODE", "2x2");
    expect_refusal("SHAPE", "4", JTOFU_ERR_INVALID_ARG);
    expect_refusal("PPN", "16777216", JTOFU_ERR_INVALID_ARG);
    set("NODE", "13");
    expect_refusal("SYSTEM_SIZE", "1x1x1", JTOFU_ERR_INVALID_ARG);
    set("SYSTEM_SIZE", "2x1x1");
    expect_refusal("REF", "1,0,0", JTOFU_ERR_INVALID_ARG);
    expect_refusal("REF", "2,0,0", JTOFU_ERR_INVALID_ARG);
    make();
    free(map);
}

Test(jtofu, systems_may_be_as_large_as_a_byte_can_say)
{
    union jtofu_phys_coords phys;

    set("SYSTEM_SIZE", "256x255x1");
    make();
    cr_assert(jtofu_initialize(JOB, 0, map) == JTOFU_SUCCESS);
    cr_assert(jtofu_query_sys_size(&phys) == JTOFU_SUCCESS);
    cr_assert(is_at(&phys, 255, 255, 1, 2, 3, 2));
    cr_assert(hops_to(place(255, 254, 0, 0, 0, 0)) == 2);
    free(map);
}
