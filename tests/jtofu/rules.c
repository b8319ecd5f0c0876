/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jtofu's functions at their limits, in one process without uTofu: maps with one wrong field, the
 * variables that describe a job, every query against a model, keys and values up to the last byte,
 * PMIx without a server, with other processes played by the test. Each call is made without memory
 * for each of its allocations, and while another thread ends the library as soon as it may; after
 * each call the lock is free, and no memory is lost. Time is that of a fake clock.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jtofu.h>
#include <pmix.h>
#include <utofu.h>
#include <utofu_ext.h>

#include "../../layers/common/idle.h"
#include "../../layers/common/log.h"
#include "../../layers/jtofu/local_pmix.h"
#include "../../layers/jtofu/own_map.h"
#include "../harness/check.h"
#include "../harness/fence.h"
#include "../harness/fake_clock.h"

#include "../../layers/jtofu/map.c"
#include "../../layers/jtofu/store.c"

enum { JOB = 255, OTHER = 7, NONE = -1 };

/*
 * What the library uses: memory and locks are counted, and may fail
 */

static int fail_after = NONE; /* allocations until one fails */
static bool failed;
static long blocks;
static int depth;                                 /* of locks */
static void (*at_lock)(void), (*at_unlock)(void); /* what another thread does before and behind */

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *at, size_t size);
void __wrap_free(void *at);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

static bool is_to_fail(void)
{
    if (fail_after != 0) {
        fail_after -= fail_after > 0;
        return false;
    }
    fail_after = NONE;
    failed = true;
    return true;
}

void *__wrap_malloc(size_t size)
{
    void *at = is_to_fail() ? NULL : fence_malloc(size);

    blocks += at != NULL;
    return at;
}

void *__wrap_calloc(size_t count, size_t size)
{
    void *at = is_to_fail() ? NULL : fence_calloc(count, size);

    blocks += at != NULL;
    return at;
}

void *__wrap_realloc(void *at, size_t size)
{
    void *to = is_to_fail() ? NULL : fence_realloc(at, size);

    blocks += to && !at;
    return to;
}

void __wrap_free(void *at)
{
    blocks -= at != NULL;
    fence_free(at);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    void (*call)(void) = at_lock;

    at_lock = NULL;
    if (call)
        call();
    depth++;
    return __real_pthread_mutex_lock(lock);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    void (*call)(void) = at_unlock;
    int rc = __real_pthread_mutex_unlock(lock);

    depth--;
    CHECK(depth >= 0);
    if (depth == 0 && call) {
        at_unlock = NULL;
        call();
    }
    return rc;
}

/* uTofu: a job of `job_size` processes, `job_ppn` on a node, whose nodes have numbers with gaps. */
static uint32_t job_rank, job_size = 1, job_ppn = 1;
static bool has_no_job, has_no_nodes;
static char line[2048]; /* the last one */
static unsigned int lines;

int utofu_compat_job(struct utofu_job *job)
{
    job->rank = job_rank;
    job->size = job_size;
    return has_no_job ? UTOFU_ERR_FATAL : UTOFU_SUCCESS;
}

static bool nodes_run_back; /* the first rank is on the last node */

int utofu_compat_rank_node(uint32_t rank, uint32_t *node, uint8_t coords[])
{
    uint32_t n = rank / job_ppn;

    *node = nodes_run_back ? 1000 - 3 * n : 3 * n + 5;
    jt_map_place(n, 24, 24, coords);
    return has_no_nodes ? UTOFU_ERR_FATAL : UTOFU_SUCCESS;
}

const char *lc_get_last_error(char *text)
{
    return text;
}

void lc_vlog(const char *layer, int rank, const char *format, va_list args)
{
    (void)layer, (void)rank;
    vsnprintf(line, sizeof(line), format, args);
    lines++;
}

void lc_log(const char *layer, int rank, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    lc_vlog(layer, rank, format, args);
    va_end(args);
}

void lc_sleep_ns(long ns)
{
    CHECK(ns > 0 && ns < 1000000000);
    fake_clock_pass_ms(ns > 1000000 ? (uint64_t)ns / 1000000 : 1);
}

int sched_yield(void)
{
    return 0;
}

/*
 * Calls
 */

/* Makes a call as it is, and without memory for each of its allocations. `wanted` with memory,
 * `lack` without. The call gives back what it makes. */
static void try_call(const char *what, int (*call)(void), int wanted, int lack)
{
    for (int i = -1;; i++) {
        long before = blocks;
        fail_after = i;
        failed = false;
        lines = 0;
        int rc = call();
        bool has_failed = failed;
        fail_after = NONE;
        if (rc != (has_failed ? lack : wanted) || blocks != before || depth != 0)
            printf("%s, without allocation %d: %d, %ld blocks more, depth %d\n", what, i, rc,
                   blocks - before, depth);
        CHECK(rc == (has_failed ? lack : wanted) && blocks == before && depth == 0);
        CHECK(rc == 0 || lines > 0 || lack == PMIX_ERR_NOMEM);
        if (i >= 0 && !has_failed)
            return;
    }
}

static void set(const char *name, const char *value)
{
    char whole[64];

    snprintf(whole, sizeof(whole), "JTOFU_MAPINFO_%s", name);
    if (value)
        setenv(whole, value, 1);
    else
        unsetenv(whole);
}

static const char *const names[] = {"NODE",  "PPN",        "PROC",        "RANKMAP",
                                    "REF",   "SHAPE",      "SYSTEM_SIZE", "SYSTEM_TORUS",
                                    "ORDER", "BROKEN_NODE"};

static void unset_all(void)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        set(names[i], NULL);
}

static void *bytes;
static size_t size;
static unsigned int procs;

static int make_map_of_variables(void)
{
    int rc = jtofu_create_mapinfo_by_envvars(&bytes, &size, &procs);

    if (rc == JTOFU_SUCCESS)
        free(bytes);
    return rc;
}

/*
 * The variables
 */

static const struct {
    const char *set[4][2];
    int rc;
    unsigned int procs;
    uint32_t nodes, log[3];
} descriptions[] = {
    {{{"NODE", "1"}}, 0, 1, 1, {1, 1, 1}},
    {{{"NODE", "4x3"}}, 0, 12, 12, {4, 3, 1}},
    {{{"SHAPE", "4x3x2"}}, 0, 24, 24, {4, 3, 2}},
    {{{"NODE", "4x3"}, {"SHAPE", "4x3x1"}}, 0, 12, 12, {4, 3, 1}},
    {{{"NODE", "4x3"}, {"SHAPE", "3x4"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"NODE", "0"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"NODE", "2x"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"NODE", "2x2x2x1"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"NODE", "2,2"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"NODE", "/"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"NODE", ":"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"NODE", "16777217"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"NODE", "16777216x2"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"SHAPE", "16777216x2"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"SHAPE", "16777216x16777216x16777216"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"PPN", "9"}}, 0, 9, 1, {1, 1, 1}},
    {{{"PPN", "0"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"PPN", "9x1"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"PPN", "16777217"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"PPN", "8388609"}, {"NODE", "2"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"PPN", "4"}, {"NODE", "3"}, {"PROC", "12"}}, 0, 12, 3, {3, 1, 1}},
    {{{"PPN", "4"}, {"NODE", "3"}, {"PROC", "9"}}, 0, 9, 3, {3, 1, 1}},
    {{{"PPN", "4"}, {"NODE", "3"}, {"PROC", "13"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"PROC", "0"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"PROC", "1"}}, 0, 1, 1, {1, 1, 1}},
    {{{"RANKMAP", "bynode"}}, 0, 1, 1, {1, 1, 1}},
    {{{"RANKMAP", "bychip"}}, 0, 1, 1, {1, 1, 1}},
    {{{"RANKMAP", "bychips"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"SYSTEM_SIZE", "1x1x1"}, {"NODE", "12"}}, 0, 12, 12, {12, 1, 1}},
    {{{"SYSTEM_SIZE", "1x1x1"}, {"NODE", "13"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"SYSTEM_SIZE", "2x3x4"}, {"NODE", "288"}}, 0, 288, 288, {288, 1, 1}},
    {{{"SYSTEM_SIZE", "2x3x4"}, {"NODE", "289"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"SYSTEM_SIZE", "2x3x4"}, {"NODE", "12"}, {"REF", "1,2,3"}}, 0, 12, 12, {12, 1, 1}},
    {{{"SYSTEM_SIZE", "2x3x4"}, {"NODE", "13"}, {"REF", "1,2,3"}},
     JTOFU_ERR_INVALID_ARG,
     0,
     0,
     {0}},
    {{{"SYSTEM_SIZE", "2x3x4"}, {"REF", "2,2,3"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"SYSTEM_SIZE", "2x3x4"}, {"REF", "1,3,3"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"SYSTEM_SIZE", "2x3x4"}, {"REF", "1,2,4"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"SYSTEM_SIZE", "256x256x256"}, {"REF", "255,255,255"}}, 0, 1, 1, {1, 1, 1}},
    {{{"SYSTEM_SIZE", "257x1x1"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"SYSTEM_SIZE", "0x1x1"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"SYSTEM_SIZE", "1x1"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"SYSTEM_SIZE", "1x1x1x1"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"REF", "0,0,0,0"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"REF", "0,0"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"SYSTEM_TORUS", "1x1x1x0x1x0x1"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"NODE", "3073"}}, 0, 3073, 3073, {3073, 1, 1}}, /* without a size, of 256 groups a line */
    {{{"REF", "0,0,256"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"REF", "255,255,255"}}, 0, 1, 1, {1, 1, 1}},
    {{{"SYSTEM_TORUS", "0x1x0x1x0x1"}}, 0, 1, 1, {1, 1, 1}},
    {{{"SYSTEM_TORUS", "0x1x0x1x0"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"SYSTEM_TORUS", "0x1x0x1x0x2"}}, JTOFU_ERR_INVALID_ARG, 0, 0, {0}},
    {{{"ORDER", "x"}}, JTOFU_ERR_NOT_IMPLEMENTED, 0, 0, {0}},
    {{{"BROKEN_NODE", "x"}, {"NODE", "2"}}, JTOFU_ERR_NOT_IMPLEMENTED, 0, 0, {0}},
};

static void variables_describe_a_job(void)
{
    for (size_t i = 0; i < sizeof(descriptions) / sizeof(descriptions[0]); i++) {
        struct jt_map *map;
        const char *why;

        unset_all();
        for (int k = 0; k < 4 && descriptions[i].set[k][0]; k++)
            set(descriptions[i].set[k][0], descriptions[i].set[k][1]);
        try_call(descriptions[i].set[0][1], make_map_of_variables, descriptions[i].rc,
                 JTOFU_ERR_OUT_OF_MEMORY);
        if (descriptions[i].rc != JTOFU_SUCCESS)
            continue;
        CHECK(jtofu_create_mapinfo_by_envvars(&bytes, &size, &procs) == JTOFU_SUCCESS);
        CHECK(procs == descriptions[i].procs && size % 8 == 0);
        CHECK(jt_map_read(bytes, &map, &why) == JTOFU_SUCCESS);
        CHECK(map->layout.nodes == descriptions[i].nodes && map->layout.procs == procs);
        CHECK(memcmp(map->layout.log, descriptions[i].log, sizeof(map->layout.log)) == 0);
        jt_map_free(map);
        free(bytes);
    }
    unset_all();
}

/* Where the nodes are, and which ranks they have. */
static void descriptions_place_nodes_and_ranks(void)
{
    for (int cyclic = 0; cyclic < 2; cyclic++) {
        struct jt_map *map;
        const char *why;

        unset_all();
        set("NODE", "40");
        set("PPN", "3");
        set("PROC", "118");
        set("SYSTEM_SIZE", "4x5x6");
        set("REF", "2,3,1");
        set("SYSTEM_TORUS", "0x1x0x1x0x1");
        set("RANKMAP", cyclic ? "bynode" : NULL);
        CHECK(jtofu_create_mapinfo_by_envvars(&bytes, &size, &procs) == JTOFU_SUCCESS);
        CHECK(jt_map_read(bytes, &map, &why) == JTOFU_SUCCESS && procs == 118);
        CHECK(memcmp(map->layout.last, "\3\4\5\1\2\1", 6) == 0);
        CHECK(memcmp(map->layout.torus, "\0\1\0\1\0\1", 6) == 0);
        CHECK(memcmp(map->layout.ref, "\2\3\1\0\0\0", 6) == 0);
        for (uint32_t n = 0; n < 40; n++) {
            const uint8_t *at = map->layout.phys[n];
            CHECK(at[0] == 2 + n / 12 % 2 && at[1] == 3 + n / 24 % 2 && at[2] == 1 + n / 48);
            CHECK(at[3] == n % 2 && at[4] == n / 2 % 3 && at[5] == n / 6 % 2);
            CHECK(jt_map_node_at(map, at) == n);
        }
        for (uint32_t r = 0; r < 118; r++)
            CHECK(map->layout.node_of[r] == (cyclic ? r % 40 : r / 3));
        CHECK(map->max_ppn == 3);
        jt_map_free(map);
        free(bytes);
    }
    unset_all();
}

static void pointers_are_wanted(void)
{
    CHECK(jtofu_create_mapinfo_by_envvars(NULL, &size, &procs) == JTOFU_ERR_INVALID_POINTER);
    CHECK(strstr(line, "mapinfo is NULL"));
    CHECK(jtofu_create_mapinfo_by_envvars(&bytes, NULL, &procs) == JTOFU_ERR_INVALID_POINTER);
    CHECK(strstr(line, "mapinfo_size is NULL"));
    CHECK(jtofu_create_mapinfo_by_envvars(&bytes, &size, NULL) == JTOFU_ERR_INVALID_POINTER);
    CHECK(strstr(line, "num_proc is NULL"));
}

static void shapes_and_products(void)
{
    static const struct {
        const char *text;
        int most;
        bool good;
        uint32_t numbers[3];
    } cases[] = {{"5", 3, true, {5, 1, 1}},         {"5x6", 2, true, {5, 6, 1}},
                 {"5x6x7", 3, true, {5, 6, 7}},     {"5x6x7", 2, false, {5, 6, 1}},
                 {"5x", 3, false, {5, 1, 1}},       {"x5", 3, false, {1, 1, 1}},
                 {"0", 1, false, {1, 1, 1}},        {"16777216", 1, true, {16777216, 1, 1}},
                 {"16777217", 1, false, {1, 1, 1}}, {"9", 1, true, {9, 1, 1}},
                 {" 5", 1, false, {1, 1, 1}},       {"+5", 1, false, {1, 1, 1}},
                 {"/", 1, false, {1, 1, 1}},        {":", 1, false, {1, 1, 1}}};
    uint32_t numbers[3];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int k = 0; k < 3; k++)
            numbers[k] = k < cases[i].most ? 77 : 1;
        CHECK(jt_shape_parse(cases[i].text, cases[i].most, numbers) == cases[i].good);
        CHECK(memcmp(numbers, cases[i].numbers, sizeof(numbers)) == 0);
    }
    CHECK(jt_shape_product((uint32_t[3]){2, 3, 5}) == 30);
    CHECK(jt_shape_product((uint32_t[3]){1u << 24, 1u << 24, 1u << 15}) == 1ull << 63);
    CHECK(jt_shape_product((uint32_t[3]){1u << 24, 1u << 24, 1u << 16}) == UINT64_MAX);
}

/*
 * Maps with one wrong field
 */

static void check_head(const char *what, struct head *head, bool good, const char *text)
{
    struct jt_map *map = NULL;
    const char *why;
    char *copy = calloc(1, 4096);

    head->head_sum = sum_head(head);
    memcpy(copy, head, sizeof(*head));
    int rc = jt_map_read(copy, &map, &why);
    if ((rc == JTOFU_SUCCESS) != good || (why && !strstr(why, text)))
        printf("%s: %d, %s\n", what, rc, why ? why : "");
    CHECK((rc == JTOFU_SUCCESS) == good && (good ? !why : strstr(why, text) != NULL));
    if (good)
        jt_map_free(map);
    free(copy);
}

static void maps_are_checked(void)
{
    const uint8_t phys[2][JT_AXES] = {{0}, {1, 2, 3, 1, 2, 1}};
    const uint32_t node_of[3] = {0, 1, 1};
    struct jt_layout layout = {.procs = 3,
                               .nodes = 2,
                               .log = {2, 1, 1},
                               .last = {1, 2, 3, 1, 2, 1},
                               .phys = (uint8_t(*)[JT_AXES])(uintptr_t)phys,
                               .node_of = (uint32_t *)(uintptr_t)node_of};
    struct head good, head;
    struct jt_map *map;
    const char *why;
    char *written;

    CHECK(jt_map_write(&layout, (void **)&written, &size) == JTOFU_SUCCESS);
    CHECK(size == sizeof(struct head) + 2 * 8 + 2 * 8);
    memcpy(&good, written, sizeof(good));
#define TRY(change, good_now, text)                                                                \
    do {                                                                                           \
        head = good;                                                                               \
        change;                                                                                    \
        check_head(#change, &head, good_now, text);                                                \
    } while (0)
    /* the body of these heads is all zero, so at best it is damaged */
    TRY(head.magic++, false, "does not begin");
    TRY(head.version++, false, "another version");
    TRY(head.procs = 0, false, "so many");
    TRY(head.procs = JT_MAX_PROCS + 1, false, "so many");
    TRY(head.procs = JT_MAX_PROCS, false, "its length");
    TRY(head.nodes = 0, false, "so many");
    TRY(head.nodes = JT_MAX_PROCS + 1, false, "so many");
    TRY(head.nodes = JT_MAX_PROCS, false, "its length");
    TRY(head.words++, false, "its length");
    TRY(head.words--, false, "its length");
    TRY(head.procs = 4, false, "damaged or cut off");
    TRY(head.procs = 5, false, "its length");
    TRY(head.log[0] = 0, false, "logical grid");
    TRY(head.log[0] = 1, false, "logical grid");
    TRY(head.log[1] = 0, false, "logical grid");
    TRY(head.log[1] = 2, false, "logical grid");
    TRY(head.log[2] = 0, false, "logical grid");
    TRY(head.log[2] = 2, false, "logical grid");
    TRY(head.log[2] = 3, false, "logical grid");
    TRY(head.log[0] = UINT32_MAX, false, "logical grid");
    TRY(head.log[2] = UINT32_MAX, false, "logical grid");
    TRY((head.log[0] = head.log[1] = head.log[2] = UINT32_MAX), false, "logical grid");
    TRY((head.log[0] = head.log[1] = 1u << 31, head.log[2] = 4), false, "logical grid");
    TRY((head.log[0] = 1, head.log[1] = 2), false, "damaged or cut off");
    TRY(head.body_sum++, false, "damaged or cut off");
#undef TRY
    written[offsetof(struct head, head_sum)] ^= 1;
    CHECK(jt_map_read(written, &map, &why) == JTOFU_ERR_INVALID_ARG && strstr(why, "its head"));
    free(written);
    CHECK(jt_map_read((void *)8, &map, &why) == JTOFU_ERR_INVALID_ARG && strstr(why, "not there"));
}

static int read_layout(const struct jt_layout *layout, const char **why)
{
    struct jt_map *map;
    void *written;

    if (jt_map_write(layout, &written, &size) != JTOFU_SUCCESS)
        return JTOFU_ERR_OUT_OF_MEMORY;
    int rc = jt_map_read(written, &map, why);
    free(written);
    if (rc == JTOFU_SUCCESS)
        jt_map_free(map);
    return rc;
}

static void bodies_of_maps_are_checked(void)
{
    uint8_t phys[2][JT_AXES] = {{0}, {1, 2, 3, 1, 2, 1}};
    uint32_t node_of[3] = {0, 1, 1};
    struct jt_layout layout = {.procs = 3,
                               .nodes = 2,
                               .log = {2, 1, 1},
                               .last = {1, 2, 3, 1, 2, 1},
                               .phys = phys,
                               .node_of = node_of};
    const char *why;

    for (int i = 0; i < JT_AXES; i++) { /* each coordinate may be the last one */
        CHECK(read_layout(&layout, &why) == JTOFU_SUCCESS);
        phys[1][i]++;
        CHECK(read_layout(&layout, &why) == JTOFU_ERR_INVALID_ARG && strstr(why, "outside"));
        phys[1][i]--;
    }
    node_of[2] = 2;
    CHECK(read_layout(&layout, &why) == JTOFU_ERR_INVALID_ARG && strstr(why, "that there is not"));
    node_of[2] = 1;
    memset(phys[1], 0, sizeof(phys[1]));
    CHECK(read_layout(&layout, &why) == JTOFU_ERR_INVALID_ARG && strstr(why, "same coordinates"));
    phys[1][5] = 1;
    CHECK(read_layout(&layout, &why) == JTOFU_SUCCESS);
}

static int read_good_layout(void)
{
    uint8_t phys[2][JT_AXES] = {{0}, {1, 2, 3, 1, 2, 1}};
    uint32_t node_of[3] = {0, 1, 1};
    const struct jt_layout layout = {.procs = 3,
                                     .nodes = 2,
                                     .log = {2, 1, 1},
                                     .last = {1, 2, 3, 1, 2, 1},
                                     .phys = phys,
                                     .node_of = node_of};
    const char *why;

    lines = 1;
    return read_layout(&layout, &why);
}

/*
 * Queries, against a model
 */

static void begin(const char *node, const char *ppn, const char *proc, jtofu_rank_t rank)
{
    unset_all();
    set("NODE", node);
    set("PPN", ppn);
    set("PROC", proc);
    CHECK(jtofu_create_mapinfo_by_envvars(&bytes, &size, &procs) == JTOFU_SUCCESS);
    CHECK(jtofu_initialize(JOB, rank, bytes) == JTOFU_SUCCESS);
    free(bytes);
}

static uint32_t hops_on_axis(uint32_t from, uint32_t to, uint32_t extent, bool is_ring)
{
    uint32_t up = (to + extent - from) % extent, straight = from < to ? to - from : from - to;

    return !is_ring || straight < extent - straight ? straight
           : up < extent - up                       ? up
                                                    : extent - up;
}

/* All nodes and ranks of a job of 5 x 4 x 3 nodes, with 2 processes each, from one of them. */
static void queries_of_all_ranks(jtofu_rank_t own)
{
    static const uint8_t rings[6] = {1, 1, 1, 0, 1, 0};
    union jtofu_phys_coords mine, at, extents;
    union jtofu_log_coords log;
    jtofu_rank_t ranks[3];
    size_t n;

    begin("5x4x3", "2", "119", own);
    CHECK(jtofu_query_sys_size(&extents) == 0 && memcmp(extents.a, "\5\1\1\2\3\2", 6) == 0);
    CHECK(jtofu_query_phys_size(&at) == 0 && memcmp(at.a, "\5\1\1\2\3\2", 6) == 0);
    CHECK(jtofu_query_sys_torus(&at) == 0 && memcmp(at.a, rings, 6) == 0);
    CHECK(jtofu_query_log_size(&log) == 0 && log.a[0] == 5 && log.a[1] == 4 && log.a[2] == 3);
    CHECK(jtofu_query_phys_coords(JOB, own, &mine) == 0);
    for (uint32_t r = 0; r < 119; r++) {
        uint32_t node = r / 2, hops = 0;
        CHECK(jtofu_query_phys_coords(JOB, r, &at) == 0);
        CHECK(jtofu_query_log_coords(JOB, r, &log) == 0);
        CHECK(log.a[0] == node % 5 && log.a[1] == node / 5 % 4 && log.a[2] == node / 20);
        for (size_t max = 0; max <= 3; max++) {
            size_t there = node == 59 ? 1 : 2, wanted = there < max ? there : max;
            ranks[0] = ranks[1] = ranks[2] = 999;
            CHECK(jtofu_query_ranks_from_phys_coords(JOB, &at, max, ranks, &n) == 0 && n == wanted);
            CHECK(ranks[0] == (n > 0 ? 2 * node : 999) && ranks[1] == (n > 1 ? 2 * node + 1 : 999));
            CHECK(jtofu_query_ranks_from_log_coords(JOB, &log, max, ranks, &n) == 0 && n == wanted);
            CHECK(ranks[0] == (n > 0 ? 2 * node : 999) && ranks[2] == 999);
        }
        for (int i = 0; i < 6; i++)
            hops += hops_on_axis(mine.a[i], at.a[i], extents.a[i], rings[i]);
        CHECK(jtofu_query_onesided_hops(&at, &n) == 0 && n == hops);
        CHECK(jtofu_query_barrier_hops(&at, &n) == 0 && n == hops);
    }
    CHECK(jtofu_query_phys_coords(JOB, 119, &at) == JTOFU_ERR_INVALID_ARG);
    CHECK(jtofu_query_log_coords(JOB, 119, &log) == JTOFU_ERR_INVALID_ARG);
    for (int i = 0; i < 6; i++) { /* behind the system, on each axis */
        at = mine;
        at.a[i] = extents.a[i];
        CHECK(jtofu_query_ranks_from_phys_coords(JOB, &at, 3, ranks, &n) == JTOFU_ERR_INVALID_ARG);
        CHECK(jtofu_query_onesided_hops(&at, &n) == JTOFU_ERR_INVALID_ARG);
    }
    for (int i = 0; i < 3; i++) {
        log = (union jtofu_log_coords){.a = {0}};
        log.a[i] = (uint32_t)(5 - i);
        CHECK(jtofu_query_ranks_from_log_coords(JOB, &log, 3, ranks, &n) == JTOFU_ERR_INVALID_ARG);
        log.a[i]--;
        CHECK(jtofu_query_ranks_from_log_coords(JOB, &log, 3, ranks, &n) == 0 && n == 2);
    }
    CHECK(jtofu_finalize() == JTOFU_SUCCESS);
}

/* Paths to every node of a group: all twelve, once each, those with few hops first. */
static void paths_to_all_nodes(void)
{
    begin("24", "1", NULL, 7);
    const uint8_t extents[3] = {2, 3, 2}, rings[3] = {0, 1, 0};
    union jtofu_phys_coords mine;

    CHECK(jtofu_query_phys_coords(JOB, 7, &mine) == 0);
    for (uint32_t r = 0; r < 24; r++) {
        union jtofu_phys_coords to;
        union jtofu_path_coords paths[14], again[14];
        uint32_t last_hops = 0, last_number = 0;
        size_t n;

        CHECK(jtofu_query_phys_coords(JOB, r, &to) == 0);
        CHECK(jtofu_query_onesided_paths(&to, 14, paths, &n) == 0 && n == 12);
        for (size_t i = 0; i < n; i++) {
            uint32_t hops = 0, number = 0;
            for (int k = 0; k < 3; k++) {
                CHECK(paths[i].a[k] < extents[k]);
                hops += hops_on_axis(mine.a[3 + k], paths[i].a[k], extents[k], rings[k]) +
                        hops_on_axis(paths[i].a[k], to.a[3 + k], extents[k], rings[k]);
                number = number * extents[k] + paths[i].a[k];
            }
            CHECK(i == 0 || hops > last_hops || (hops == last_hops && number > last_number));
            last_hops = hops;
            last_number = number;
        }
        for (size_t max = 0; max <= 12; max++) {
            CHECK(jtofu_query_barrier_paths(&to, max, again, &n) == 0 && n == max);
            CHECK(memcmp(again, paths, max * sizeof(paths[0])) == 0);
        }
    }
    CHECK(jtofu_finalize() == JTOFU_SUCCESS);
}

/*
 * Another thread ends the library as soon as the lock is free
 */

static void end_library(void)
{
    CHECK(jtofu_finalize() == JTOFU_SUCCESS);
}

static union jtofu_phys_coords some_phys;
static union jtofu_log_coords some_log;
static union jtofu_path_coords some_path;
static jtofu_rank_t some_rank;
static size_t some_number;

static int ask_max_ppn(void)
{
    return jtofu_query_max_proc_per_node() == 4 ? 0 : 1;
}

static int ask_sys_size(void)
{
    return jtofu_query_sys_size(&some_phys) || some_phys.a[3] != 2;
}

static int ask_sys_torus(void)
{
    return jtofu_query_sys_torus(&some_phys) || some_phys.a[4] != 1;
}

static int ask_ref(void)
{
    return jtofu_query_ref_coords(&some_phys) || some_phys.a[0] != 0;
}

static int ask_phys_size(void)
{
    return jtofu_query_phys_size(&some_phys) || some_phys.a[3] != 2;
}

static int ask_log_size(void)
{
    return jtofu_query_log_size(&some_log) || some_log.a[0] != 3;
}

static int ask_phys(void)
{
    return jtofu_query_phys_coords(JOB, 21, &some_phys) || some_phys.a[4] != 2;
}

static int ask_log(void)
{
    return jtofu_query_log_coords(JOB, 21, &some_log) || some_log.a[0] != 2;
}

static int ask_ranks_of_phys(void)
{
    some_phys = (union jtofu_phys_coords){.a = {0, 0, 0, 1, 0, 0}};
    return jtofu_query_ranks_from_phys_coords(JOB, &some_phys, 1, &some_rank, &some_number) ||
           some_rank != 4 || some_number != 1;
}

static int ask_ranks_of_log(void)
{
    some_log = (union jtofu_log_coords){.a = {1, 0, 0}};
    return jtofu_query_ranks_from_log_coords(JOB, &some_log, 1, &some_rank, &some_number) ||
           some_rank != 4 || some_number != 1;
}

static int ask_paths(void)
{
    return jtofu_query_onesided_paths(&some_phys, 1, &some_path, &some_number) || some_number != 1;
}

static void end_local_pmix(void)
{
    CHECK(jt_local_pmix_finalize() == PMIX_SUCCESS);
}

static void pmix_is_asked_under_its_lock(void)
{
    pmix_proc_t proc;

    begin("3x2", "4", "22", 0);
    CHECK(!jt_local_pmix_initialized());
    CHECK(jt_local_pmix_init(&proc) == PMIX_SUCCESS && jt_local_pmix_initialized());
    at_lock = end_local_pmix;
    CHECK(!jt_local_pmix_initialized() && at_lock == NULL && depth == 0);
    end_library();
}

static int ask_hops(void)
{
    return jtofu_query_onesided_hops(&some_phys, &some_number) || some_number != 1;
}

static int (*const questions[])(void) = {
    ask_max_ppn, ask_sys_size, ask_sys_torus,     ask_ref,          ask_phys_size, ask_log_size,
    ask_phys,    ask_log,      ask_ranks_of_phys, ask_ranks_of_log, ask_paths,     ask_hops,
};

static void queries_are_done_before_the_lock_is_free(void)
{
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
        begin("3x2", "4", "22", 0);
        some_phys = (union jtofu_phys_coords){.a = {0, 0, 0, 1, 0, 0}};
        at_unlock = end_library;
        CHECK(questions[i]() == 0 && depth == 0);
        CHECK(jtofu_finalize() == JTOFU_ERR_EXCESS_FINALIZE);
    }
}

/* Errors leave the lock free, too. */
static void errors_leave_the_lock_free(void)
{
    begin("3x2", "4", "22", 0);
    some_phys = (union jtofu_phys_coords){.a = {9, 9, 9, 9, 9, 9}};
    const int results[] = {
        jtofu_query_sys_size(NULL),
        jtofu_query_sys_torus(NULL),
        jtofu_query_ref_coords(NULL),
        jtofu_query_phys_size(NULL),
        jtofu_query_log_size(NULL),
        jtofu_query_phys_coords(JOB, 0, NULL),
        jtofu_query_log_coords(JOB, 0, NULL),
        jtofu_query_ranks_from_phys_coords(JOB, NULL, 0, NULL, &some_number),
        jtofu_query_ranks_from_log_coords(JOB, NULL, 0, NULL, &some_number),
        jtofu_query_ranks_from_phys_coords(JOB, &some_phys, 1, &some_rank, &some_number),
        jtofu_query_onesided_paths(&some_phys, 1, &some_path, &some_number),
        jtofu_query_onesided_hops(&some_phys, &some_number),
        jtofu_add_job(JOB, ""),
        jtofu_add_job(OTHER, NULL),
        jtofu_delete_job(OTHER),
        jtofu_delete_job(JOB),
        jtofu_initialize(OTHER, 0, NULL),
    };
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        CHECK(results[i] < 0);
    CHECK(depth == 0 && jtofu_finalize() == JTOFU_SUCCESS);
    CHECK(jtofu_finalize() == JTOFU_ERR_EXCESS_FINALIZE && depth == 0);
    CHECK(jtofu_add_job(OTHER, "") == JTOFU_ERR_NOT_INITIALIZED && depth == 0);
    CHECK(jtofu_delete_job(OTHER) == JTOFU_ERR_NOT_INITIALIZED && depth == 0);
}

/*
 * Jobs, with and without memory
 */

static void *one_map, *other_map;

static int add_and_delete(void)
{
    int rc = jtofu_add_job(OTHER, other_map);

    if (rc == JTOFU_SUCCESS)
        CHECK(jtofu_delete_job(OTHER) == JTOFU_SUCCESS);
    return rc;
}

static int initialize_and_finalize(void)
{
    int rc = jtofu_initialize(JOB, 1, one_map);

    if (rc == JTOFU_SUCCESS)
        CHECK(jtofu_finalize() == JTOFU_SUCCESS);
    return rc;
}

static int initialize_with_rank_2(void)
{
    return jtofu_initialize(JOB, 2, one_map);
}

static int initialize_with_other_map(void)
{
    return jtofu_initialize(JOB, 1, other_map);
}

static void make_map_of(const char *node, void **to)
{
    unset_all();
    set("NODE", node);
    CHECK(jtofu_create_mapinfo_by_envvars(to, &size, &procs) == JTOFU_SUCCESS);
    unset_all();
}

static void jobs_without_memory(void)
{
    make_map_of("2", &one_map);
    make_map_of("5", &other_map);
    try_call("initialize", initialize_and_finalize, 0, JTOFU_ERR_OUT_OF_MEMORY);
    try_call("rank 2 of 2", initialize_with_rank_2, JTOFU_ERR_INVALID_ARG, JTOFU_ERR_OUT_OF_MEMORY);
    try_call("read", read_good_layout, 0, JTOFU_ERR_OUT_OF_MEMORY);
    CHECK(jtofu_initialize(JOB, 1, one_map) == JTOFU_SUCCESS);
    CHECK(jtofu_add_job(9, other_map) == JTOFU_SUCCESS);
    CHECK(jtofu_add_job(10, other_map) == JTOFU_SUCCESS);
    try_call("add", add_and_delete, 0, JTOFU_ERR_OUT_OF_MEMORY);
    try_call("again", initialize_and_finalize, 0, JTOFU_ERR_OUT_OF_MEMORY);
    try_call("another map", initialize_with_other_map, JTOFU_ERR_INVALID_ARG,
             JTOFU_ERR_OUT_OF_MEMORY);
    CHECK(jtofu_delete_job(9) == JTOFU_SUCCESS && jtofu_delete_job(9) == JTOFU_ERR_INVALID_ARG);
    CHECK(jtofu_query_log_coords(10, 4, &some_log) == JTOFU_SUCCESS);
    CHECK(jtofu_query_log_coords(9, 4, &some_log) == JTOFU_ERR_INVALID_ARG);
    CHECK(jtofu_finalize() == JTOFU_SUCCESS);
    free(one_map);
    free(other_map);
}

/* A job without a number gets the first one that fits, and no other call gives it one. */
static void jobs_get_their_numbers(void)
{
    make_map_of("2", &one_map);
    make_map_of("5", &other_map);
    CHECK(jtofu_initialize(0, 1, one_map) == JTOFU_SUCCESS);
    CHECK(jtofu_initialize(9, 0, one_map) == JTOFU_ERR_INVALID_ARG);
    CHECK(jtofu_query_log_coords(9, 0, &some_log) == JTOFU_ERR_INVALID_ARG);
    CHECK(jtofu_initialize(7, 1, one_map) == JTOFU_SUCCESS);
    CHECK(jtofu_query_log_coords(7, 0, &some_log) == JTOFU_SUCCESS);
    CHECK(jtofu_query_log_coords(0, 0, &some_log) == JTOFU_SUCCESS);
    CHECK(jtofu_initialize(8, 1, one_map) == JTOFU_ERR_INVALID_ARG);
    CHECK(jtofu_add_job(7, other_map) == JTOFU_ERR_INVALID_ARG);
    CHECK(jtofu_delete_job(7) == JTOFU_ERR_INVALID_ARG && strstr(line, "jtofu_finalize forgets"));
    CHECK(jtofu_delete_job(8) == JTOFU_ERR_INVALID_ARG && strstr(line, "was not given"));
    CHECK(jtofu_finalize() == JTOFU_SUCCESS && jtofu_finalize() == JTOFU_SUCCESS);
    free(one_map);
    free(other_map);
}

/*
 * The map of this process
 */

static int copy_of_own_map(void)
{
    lines = 1;
    return make_map_of_variables();
}

static const struct {
    const char *shape;
    uint32_t rank, log[3];
    unsigned int lines;
} own_cases[] = {
    {NULL, 13, {5, 1, 1}, 0},  {"", 0, {5, 1, 1}, 0},       {"5", 0, {5, 1, 1}, 0},
    {"1x5", 0, {1, 5, 1}, 0},  {"1x1x5", 13, {1, 1, 5}, 0}, {"2x3", 0, {5, 1, 1}, 1},
    {"2x3", 13, {5, 1, 1}, 0}, {"4x1x1", 0, {5, 1, 1}, 1},  {"5x1x1x1", 0, {5, 1, 1}, 1}};

static void own_map_with_shape(size_t i)
{
    union jtofu_phys_coords torus, extents;
    struct jt_map *map;
    const char *why;

    job_size = 14;
    job_ppn = 3;
    job_rank = own_cases[i].rank;
    if (own_cases[i].shape)
        setenv("UTOFU_SHAPE", own_cases[i].shape, 1);
    CHECK(jtofu_create_mapinfo_by_envvars(&bytes, &size, &procs) == JTOFU_SUCCESS);
    CHECK(lines == own_cases[i].lines && (lines == 0 || strstr(line, "UTOFU_SHAPE=")));
    CHECK(procs == 14 && size == sizeof(struct head) + 5 * 8 + 7 * 8);
    CHECK(jt_map_read(bytes, &map, &why) == JTOFU_SUCCESS && map->layout.nodes == 5);
    CHECK(memcmp(map->layout.log, own_cases[i].log, sizeof(map->layout.log)) == 0);
    jt_map_free(map);
    free(bytes);
    CHECK(jtofu_query_sys_torus(&torus) == 0 && memcmp(torus.a, "\1\1\1\0\1\0", 6) == 0);
    CHECK(jtofu_query_sys_size(&extents) == 0 && memcmp(extents.a, "\1\1\1\2\3\2", 6) == 0);
}

/* Nodes have the order of their numbers in uTofu. */
static void own_map_with_nodes_backwards(void)
{
    job_size = 14;
    job_ppn = 3;
    job_rank = 13;
    nodes_run_back = true;
    for (uint32_t r = 0; r < 14; r++)
        CHECK(jtofu_query_log_coords(4711, r, &some_log) == JTOFU_SUCCESS &&
              some_log.a[0] == 4 - r / 3);
}

static void own_maps(void)
{
    job_size = 14;
    job_ppn = 3;
    has_no_job = true;
    CHECK(make_map_of_variables() == JTOFU_ERR_INTERNAL && depth == 0);
    CHECK(jtofu_query_max_proc_per_node() == JTOFU_ERR_NOT_INITIALIZED && depth == 0);
    has_no_job = false;
    has_no_nodes = true;
    long before = blocks;
    CHECK(make_map_of_variables() == JTOFU_ERR_INTERNAL && depth == 0 && blocks == before);
    CHECK(strstr(line, "the node of rank 0 of 14"));
    has_no_nodes = false;
    for (int i = 0; i < 4; i++) { /* without memory for its parts */
        fail_after = i;
        CHECK(make_map_of_variables() == JTOFU_ERR_OUT_OF_MEMORY && blocks == before);
        CHECK(depth == 0 && strstr(line, "no memory for the map of 14"));
    }
    CHECK(make_map_of_variables() == JTOFU_SUCCESS && procs == 14 && blocks == before + 1);
    try_call("the own map", copy_of_own_map, 0, JTOFU_ERR_OUT_OF_MEMORY);
    job_rank = 13;
    CHECK(jtofu_query_max_proc_per_node() == 3); /* the default map */
    for (uint32_t r = 0; r < 14; r++) {
        CHECK(jtofu_query_log_coords(4711, r, &some_log) == JTOFU_SUCCESS); /* of any job */
        CHECK(some_log.a[0] == r / 3 && some_log.a[1] == 0);
    }
    CHECK(jtofu_query_log_size(&some_log) == 0 && some_log.a[0] == 5);
    before = blocks; /* it is taken once */
    for (int i = 0; i < 5; i++)
        CHECK(jtofu_query_max_proc_per_node() == 3 && blocks == before);
    int major = 99, minor = 99;
    jtofu_query_jtofu_version(&major, &minor);
    CHECK(major == JTOFU_VERSION_MAJOR && minor == JTOFU_VERSION_MINOR);
    job_rank = 0;
    job_size = job_ppn = 1;
}

/*
 * Keys and values
 */

static void values_of_all_types(void)
{
    static const struct {
        pmix_data_type_t type;
        size_t bytes;
    } types[] = {{PMIX_BOOL, sizeof(bool)},
                 {PMIX_BYTE, 1},
                 {PMIX_SIZE, sizeof(size_t)},
                 {PMIX_PID, sizeof(pid_t)},
                 {PMIX_INT, 4},
                 {PMIX_INT8, 1},
                 {PMIX_INT16, 2},
                 {PMIX_INT32, 4},
                 {PMIX_INT64, 8},
                 {PMIX_UINT, 4},
                 {PMIX_UINT8, 1},
                 {PMIX_UINT16, 2},
                 {PMIX_UINT32, 4},
                 {PMIX_UINT64, 8},
                 {PMIX_FLOAT, 4},
                 {PMIX_DOUBLE, 8},
                 {PMIX_STATUS, 4},
                 {PMIX_PROC_RANK, 4}};
    static struct jt_store store;

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        pmix_value_t value = {.type = types[i].type}, *got;
        long before = blocks;

        memset(&store, 0, sizeof(store));
        memset(&value.data, 0x77, sizeof(value.data));
        CHECK(jt_store_put(&store, PMIX_LOCAL, "key", &value) == PMIX_SUCCESS);
        CHECK(store.bytes == sizeof(struct entry) + 4 + types[i].bytes);
        CHECK(jt_store_get(&store, "key", JT_ALL_SCOPES, &got) == PMIX_SUCCESS);
        CHECK(got->type == types[i].type && memcmp(&got->data, &value.data, types[i].bytes) == 0);
        for (size_t k = types[i].bytes; k < sizeof(got->data); k++)
            CHECK(((uint8_t *)&got->data)[k] == 0);
        jt_store_free(got);
        CHECK(blocks == before);
    }
    jt_store_free(NULL);
}

static struct jt_store full;
static pmix_value_t *got_value;

static int get_key_a(void)
{
    got_value = NULL;
    int rc = jt_store_get(&full, "a", JT_ALL_SCOPES, &got_value);

    CHECK((rc == PMIX_SUCCESS) == (got_value != NULL));
    jt_store_free(got_value);
    return rc;
}

static void strings_and_objects(void)
{
    char text[] = "text", object[] = {1, 0, 2};
    pmix_value_t value = {.type = PMIX_STRING, .data.string = text};

    memset(&full, 0, sizeof(full));
    CHECK(jt_store_put(&full, PMIX_LOCAL, "a", &value) == PMIX_SUCCESS);
    CHECK(jt_store_get(&full, "a", JT_ALL_SCOPES, &got_value) == PMIX_SUCCESS);
    CHECK(got_value->type == PMIX_STRING && strcmp(got_value->data.string, "text") == 0);
    jt_store_free(got_value);
    try_call("a string", get_key_a, PMIX_SUCCESS, PMIX_ERR_NOMEM);
    value.data.string = NULL;
    CHECK(jt_store_put(&full, PMIX_LOCAL, "a", &value) == PMIX_ERR_NOT_SUPPORTED);
    value = (pmix_value_t){.type = PMIX_BYTE_OBJECT, .data.bo = {object, 3}};
    CHECK(jt_store_put(&full, PMIX_LOCAL, "a", &value) == PMIX_SUCCESS);
    CHECK(full.bytes == sizeof(struct entry) + 2 + 3); /* replaced */
    CHECK(jt_store_get(&full, "a", JT_ALL_SCOPES, &got_value) == PMIX_SUCCESS);
    CHECK(got_value->data.bo.size == 3 && memcmp(got_value->data.bo.bytes, object, 3) == 0);
    jt_store_free(got_value);
    try_call("an object", get_key_a, PMIX_SUCCESS, PMIX_ERR_NOMEM);
    value.data.bo = (pmix_byte_object_t){NULL, 0};
    CHECK(jt_store_put(&full, PMIX_LOCAL, "a", &value) == PMIX_SUCCESS);
    CHECK(jt_store_get(&full, "a", JT_ALL_SCOPES, &got_value) == PMIX_SUCCESS);
    CHECK(got_value->data.bo.size == 0);
    jt_store_free(got_value);
    value.data.bo.size = 1;
    CHECK(jt_store_put(&full, PMIX_LOCAL, "a", &value) == PMIX_ERR_NOT_SUPPORTED);
    value.type = PMIX_TIME;
    CHECK(jt_store_put(&full, PMIX_LOCAL, "a", &value) == PMIX_ERR_NOT_SUPPORTED);
    value = (pmix_value_t){.type = PMIX_UINT32, .data.uint32 = 5};
    CHECK(jt_store_put(&full, PMIX_LOCAL, "a", &value) == PMIX_SUCCESS);
    try_call("a number", get_key_a, PMIX_SUCCESS, PMIX_ERR_NOMEM);
}

/* Up to the last byte; a value may be replaced where there is no room for both. */
static void stores_may_be_full(void)
{
    static char bytes_of_value[JT_STORE_ROOM + 8], key[300];
    const size_t room = JT_STORE_ROOM - sizeof(struct entry) - 2;
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT, .data.bo = {bytes_of_value, room + 1}};

    memset(&full, 0, sizeof(full));
    CHECK(jt_store_put(&full, PMIX_LOCAL, "a", &value) == PMIX_ERR_OUT_OF_RESOURCE);
    value.data.bo.size = JT_STORE_ROOM + 1;
    CHECK(jt_store_put(&full, PMIX_LOCAL, "a", &value) == PMIX_ERR_OUT_OF_RESOURCE);
    value.data.bo.size = room;
    for (int i = 0; i < 2; i++)
        CHECK(jt_store_put(&full, PMIX_LOCAL, "a", &value) == PMIX_SUCCESS);
    CHECK(full.bytes == JT_STORE_ROOM);
    CHECK(jt_store_get(&full, "a", JT_ALL_SCOPES, &got_value) == PMIX_SUCCESS);
    CHECK(got_value->data.bo.size == room);
    jt_store_free(got_value);
    value.data.bo.size = 0;
    CHECK(jt_store_put(&full, PMIX_LOCAL, "b", &value) == PMIX_ERR_OUT_OF_RESOURCE);
    CHECK(jt_store_set_checksum(&full) == offsetof(struct jt_store, text) + JT_STORE_ROOM);
    CHECK(jt_store_is_consistent(&full));
    full.text[JT_STORE_ROOM - 1] ^= 1;
    CHECK(!jt_store_is_consistent(&full));
    full.text[JT_STORE_ROOM - 1] ^= 1;
    full.bytes++;
    CHECK(!jt_store_is_consistent(&full));
    memset(&full, 0, sizeof(full));
    for (size_t length = 253; length <= 255; length++) { /* and its null byte */
        memset(key, 'k', length);
        key[length] = '\0';
        CHECK(jt_store_put(&full, PMIX_LOCAL, key, &value) ==
              (length <= 254 ? PMIX_SUCCESS : PMIX_ERR_OUT_OF_RESOURCE));
    }
}

/* Several keys; the middle one is replaced, and the others stay. */
static void keys_are_replaced(void)
{
    static const char *const keys[] = {"a", "ab", "b", "abc"};
    pmix_value_t value = {.type = PMIX_UINT64};

    memset(&full, 0, sizeof(full));
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < 4; i++) {
            value.type = (i + (uint64_t)round) % 2 ? PMIX_UINT64 : PMIX_UINT8;
            value.data.uint64 = 10 * (uint64_t)round + i;
            CHECK(jt_store_put(&full, PMIX_GLOBAL, keys[i], &value) == PMIX_SUCCESS);
        }
        for (uint64_t i = 0; i < 4; i++) {
            CHECK(jt_store_get(&full, keys[i], JT_ALL_SCOPES, &got_value) == PMIX_SUCCESS);
            CHECK(got_value->data.uint64 == 10 * (uint64_t)round + i);
            jt_store_free(got_value);
        }
        CHECK(full.bytes == 4 * sizeof(struct entry) + 2 + 3 + 2 + 4 + 2 * 8 + 2 * 1);
    }
    CHECK(jt_store_get(&full, "c", JT_ALL_SCOPES, &got_value) == PMIX_ERR_NOT_FOUND);
    for (uint32_t n = 0; n < 16; n++) { /* whole words are summed */
        full.bytes = 40 + n;
        CHECK(jt_store_set_checksum(&full) ==
              offsetof(struct jt_store, text) + (40 + n + 7) / 8 * 8);
        CHECK(jt_store_is_consistent(&full));
        full.text[39 + n] ^= 4;
        CHECK(!jt_store_is_consistent(&full));
    }
}

/* What another process has written is no value, or no entry. */
static void damaged_entries_are_not_found(void)
{
    static const struct {
        uint16_t type;
        uint8_t scope, key;
        uint32_t value, bytes;
        uint8_t last;
        pmix_status_t status;
    } cases[] = {
        {PMIX_UINT32, PMIX_LOCAL, 2, 4, 14, 0, PMIX_SUCCESS},
        {PMIX_UINT32, PMIX_LOCAL, 2, 4, 13, 0, PMIX_ERR_NOT_FOUND}, /* cut off */
        {PMIX_UINT32, PMIX_LOCAL, 2, 3, 13, 0, PMIX_ERR_NOT_FOUND}, /* too short */
        {PMIX_UINT32, PMIX_LOCAL, 2, 5, 15, 0, PMIX_ERR_NOT_FOUND}, /* too long */
        {PMIX_UINT32, PMIX_LOCAL, 0, 4, 14, 0, PMIX_ERR_NOT_FOUND}, /* without a key */
        {PMIX_UINT32, PMIX_LOCAL, 1, 4, 14, 0, PMIX_ERR_NOT_FOUND}, /* without its null byte */
        {PMIX_UINT32, PMIX_LOCAL, 2, UINT32_MAX, 14, 0, PMIX_ERR_NOT_FOUND},
        {PMIX_UINT32, PMIX_INTERNAL, 2, 4, 14, 0, PMIX_SUCCESS},
        {PMIX_UINT32, PMIX_INTERNAL + 1, 2, 4, 14, 0, PMIX_ERR_NOT_FOUND},
        {PMIX_STRING, PMIX_LOCAL, 2, 4, 14, 0, PMIX_SUCCESS},
        {PMIX_STRING, PMIX_LOCAL, 2, 4, 14, 'x', PMIX_ERR_NOT_FOUND}, /* without its end */
        {PMIX_STRING, PMIX_LOCAL, 2, 0, 10, 0, PMIX_ERR_NOT_FOUND},
        {PMIX_TIME, PMIX_LOCAL, 2, 8, 18, 0, PMIX_ERR_NOT_FOUND},
        {PMIX_BYTE_OBJECT, PMIX_LOCAL, 2, 7, 17, 'x', PMIX_SUCCESS},
        {PMIX_UINT32, PMIX_LOCAL, 2, 4, UINT32_MAX, 0, PMIX_SUCCESS}, /* bytes beyond the slot */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct entry e = {cases[i].type, cases[i].scope, cases[i].key, cases[i].value};

        memset(&full, 0, sizeof(full));
        memcpy(full.text, &e, sizeof(e));
        full.text[sizeof(e)] = 'a';
        full.text[sizeof(e) + 2 + (cases[i].value < 20 ? cases[i].value : 1) - 1] |= cases[i].last;
        full.bytes = cases[i].bytes;
        pmix_status_t status = jt_store_get(&full, "a", JT_ALL_SCOPES, &got_value);
        if (status != cases[i].status)
            printf("entry %zu: %d\n", i, status);
        CHECK(status == cases[i].status);
        if (status == PMIX_SUCCESS)
            jt_store_free(got_value);
    }
}

/*
 * PMIx without a server: the test is the memory of rank 0, and the other processes
 */

static struct jt_store slots[4];
static uint64_t counters[JT_NUM_COUNTERS], arrive_after;
static bool kvs_fails, kvs_is_open;
static unsigned int reads, torn_reads;

bool jt_kvs_open(const struct lc_job *job, uint64_t *name)
{
    CHECK(!kvs_is_open && job->procs == job_size);
    *name = 0x1234;
    kvs_is_open = !kvs_fails;
    return kvs_is_open;
}

void jt_kvs_close(void)
{
    CHECK(kvs_is_open);
    kvs_is_open = false;
}

bool jt_kvs_write(const void *text, size_t n)
{
    memcpy(&slots[job_rank], text, n);
    return !kvs_fails;
}

bool jt_kvs_read(uint32_t rank, void *text)
{
    reads++;
    memcpy(text, &slots[rank], sizeof(slots[rank]));
    if (torn_reads > 0) {
        torn_reads--;
        ((struct jt_store *)text)->sum++;
    }
    return !kvs_fails;
}

bool jt_kvs_increment(enum jt_counter counter)
{
    counters[counter]++;
    return !kvs_fails;
}

bool jt_kvs_read_counter(enum jt_counter counter, uint64_t *value)
{
    if (arrive_after && fake_clock_ms() >= arrive_after)
        counters[counter] = job_size;
    *value = counters[counter];
    return !kvs_fails;
}

static int init_and_finalize(void)
{
    pmix_proc_t proc;
    int rc = jt_local_pmix_init(&proc);

    CHECK(jt_local_pmix_initialized() == (rc == PMIX_SUCCESS) &&
          kvs_is_open == (rc == PMIX_SUCCESS));
    if (rc == PMIX_SUCCESS) {
        counters[JT_LEAVERS] = job_size;
        CHECK(strcmp(proc.nspace, "utofu-0000000000001234") == 0 && proc.rank == job_rank);
        CHECK(jt_local_pmix_finalize() == PMIX_SUCCESS && !kvs_is_open);
    }
    lines = 1;
    return rc;
}

static void pmix_is_opened_and_closed(void)
{
    try_call("init", init_and_finalize, PMIX_SUCCESS, PMIX_ERR_INIT);
    kvs_fails = true;
    try_call("init without the KVS", init_and_finalize, PMIX_ERR_INIT, PMIX_ERR_INIT);
    kvs_fails = false;
    has_no_job = true;
    try_call("init without a job", init_and_finalize, PMIX_ERR_INIT, PMIX_ERR_INIT);
    has_no_job = false;
    CHECK(jt_local_pmix_finalize() == PMIX_ERR_INIT && depth == 0);
    CHECK(jt_local_pmix_init(NULL) == PMIX_SUCCESS && jt_local_pmix_init(NULL) == PMIX_SUCCESS);
    CHECK(jt_local_pmix_finalize() == PMIX_SUCCESS && kvs_is_open);
    counters[JT_LEAVERS] = job_size;
    CHECK(jt_local_pmix_finalize() == PMIX_SUCCESS && !kvs_is_open);
}

/* Rank 0 waits for the others, but not for ever; the others do not. */
static void rank_0_waits_for_the_others(void)
{
    for (int how = 0; how < 3; how++) {
        job_rank = how == 2;
        counters[JT_LEAVERS] = 0;
        CHECK(jt_local_pmix_init(NULL) == PMIX_SUCCESS);
        uint64_t begin_ms = fake_clock_ms();
        arrive_after = how == 0 ? begin_ms + 20000 : 0;
        lines = 0;
        CHECK(jt_local_pmix_finalize() == PMIX_SUCCESS && !kvs_is_open);
        uint64_t ms = fake_clock_ms() - begin_ms;
        CHECK(how == 2   ? ms < 1000
              : how == 0 ? ms >= 20000 && ms < 20100
                         : ms >= 32000 && ms < 32100);
        CHECK((strstr(line, "not all of the") != NULL) == (how == 1) || how != 1);
        CHECK(how != 0 || (lines >= 2 && strstr(line, "has waited")));
        CHECK(how != 2 || lines == 0);
    }
    job_rank = 0;
    arrive_after = 0;
}

static pmix_value_t *number_value;

static bool get_number(const pmix_proc_t *proc, const char *key, uint32_t *number)
{
    if (jt_local_pmix_get(proc, key, &number_value) != PMIX_SUCCESS)
        return false;
    *number =
        number_value->type == PMIX_UINT16 ? number_value->data.uint16 : number_value->data.uint32;
    jt_store_free(number_value);
    return true;
}

static int get_local_peers(void)
{
    pmix_proc_t proc = {.nspace = "utofu-0000000000001234", .rank = 1};
    pmix_value_t *value;
    int rc = jt_local_pmix_get(&proc, PMIX_LOCAL_PEERS, &value);

    if (rc == PMIX_SUCCESS)
        jt_store_free(value);
    return rc;
}

static int get_job_size(void)
{
    pmix_value_t *value;
    int rc = jt_local_pmix_get(NULL, PMIX_JOB_SIZE, &value);

    if (rc == PMIX_SUCCESS)
        jt_store_free(value);
    return rc;
}

/* Four processes on two nodes, of which this one is rank 1. */
static void values_follow_from_the_map(void)
{
    static const char *const peers[] = {"0,1,2", "3"};
    pmix_proc_t proc = {.nspace = "utofu-0000000000001234"};
    uint32_t n;

    CHECK(jt_local_pmix_get(NULL, PMIX_JOB_SIZE, &number_value) == PMIX_ERR_INIT);
    CHECK(jt_local_pmix_init(NULL) == PMIX_SUCCESS);
    CHECK(get_number(NULL, PMIX_JOB_SIZE, &n) && n == 4);
    CHECK(get_number(NULL, PMIX_UNIV_SIZE, &n) && n == 4);
    CHECK(get_number(NULL, PMIX_NUM_NODES, &n) && n == 2);
    CHECK(get_number(NULL, PMIX_LOCAL_SIZE, &n) && n == 3);
    CHECK(!get_number(NULL, PMIX_NODEID, &n) && !get_number(NULL, PMIX_LOCAL_RANK, &n));
    for (uint32_t r = 0; r < 4; r++) {
        proc.rank = r;
        CHECK(get_number(&proc, PMIX_LOCAL_SIZE, &n) && n == (r < 3 ? 3 : 1));
        CHECK(get_number(&proc, PMIX_NODEID, &n) && n == r / 3);
        CHECK(get_number(&proc, PMIX_LOCAL_RANK, &n) && n == r % 3);
        CHECK(number_value);
        CHECK(jt_local_pmix_get(&proc, PMIX_LOCAL_PEERS, &number_value) == PMIX_SUCCESS);
        CHECK(strcmp(number_value->data.string, peers[r / 3]) == 0);
        jt_store_free(number_value);
    }
    proc.rank = 4;
    CHECK(!get_number(&proc, PMIX_NODEID, &n) && get_number(&proc, PMIX_LOCAL_SIZE, &n) && n == 3);
    proc.nspace[0] = 'x';
    CHECK(!get_number(&proc, PMIX_JOB_SIZE, &n));
    CHECK(jt_local_pmix_get(NULL, NULL, &number_value) == PMIX_ERR_BAD_PARAM);
    CHECK(jt_local_pmix_get(NULL, "a", NULL) == PMIX_ERR_BAD_PARAM && depth == 0);
    try_call("peers", get_local_peers, PMIX_SUCCESS, PMIX_ERR_NOMEM);
    try_call("a number", get_job_size, PMIX_SUCCESS, PMIX_ERR_NOMEM);
}

/* What each process sees of what another one has put, with each scope. */
static void scopes_are_respected(void)
{
    static const struct {
        pmix_scope_t scope;
        bool near, far;
    } cases[] = {{PMIX_LOCAL, true, false},
                 {PMIX_REMOTE, false, true},
                 {PMIX_GLOBAL, true, true},
                 {PMIX_INTERNAL, false, false}};
    pmix_proc_t proc = {.nspace = "utofu-0000000000001234"};
    pmix_value_t value = {.type = PMIX_UINT32, .data.uint32 = 77};
    uint32_t n;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (uint32_t r = 0; r < 4; r++) {
            memset(&slots[r], 0, sizeof(slots[r]));
            CHECK(jt_store_put(&slots[r], cases[i].scope, "k", &value) == PMIX_SUCCESS);
            jt_store_set_checksum(&slots[r]);
            proc.rank = r;
            if (r != 1)
                CHECK(get_number(&proc, "k", &n) == (r < 3 ? cases[i].near : cases[i].far));
        }
        CHECK(jt_local_pmix_put(cases[i].scope, "own", &value) == PMIX_SUCCESS);
        proc.rank = 1;
        CHECK(get_number(&proc, "own", &n) && n == 77); /* before it is committed */
        CHECK(!get_number(&proc, "k", &n));
    }
    proc.rank = 0;
    CHECK(!get_number(NULL, "k", &n) && !get_number(&proc, "other", &n));
    /* a slot that is being written is read again */
    reads = 0;
    torn_reads = 999;
    CHECK(!get_number(&proc, "k", &n) && reads == 1000); /* of scope internal now */
    reads = 0;
    torn_reads = 1000;
    CHECK(jt_local_pmix_get(&proc, "k", &number_value) == PMIX_ERR_UNREACH && reads == 1000);
    CHECK(strstr(line, "are damaged"));
    torn_reads = 0;
    kvs_fails = true;
    reads = 0;
    CHECK(jt_local_pmix_get(&proc, "k", &number_value) == PMIX_ERR_UNREACH && reads == 1);
    CHECK(jt_local_pmix_commit() == PMIX_ERR_UNREACH && depth == 0);
    kvs_fails = false;
}

static void puts_are_checked(void)
{
    static char large[JT_STORE_ROOM];
    pmix_value_t value = {.type = PMIX_UINT32, .data.uint32 = 5};

    CHECK(jt_local_pmix_put(PMIX_SCOPE_UNDEF, "a", &value) == PMIX_ERR_BAD_PARAM);
    CHECK(jt_local_pmix_put(PMIX_INTERNAL + 1, "a", &value) == PMIX_ERR_BAD_PARAM);
    CHECK(jt_local_pmix_put(PMIX_LOCAL, NULL, &value) == PMIX_ERR_BAD_PARAM);
    CHECK(jt_local_pmix_put(PMIX_LOCAL, "a", NULL) == PMIX_ERR_BAD_PARAM && depth == 0);
    CHECK(jt_local_pmix_put(PMIX_INTERNAL, "a", &value) == PMIX_SUCCESS);
    CHECK(jt_local_pmix_put(PMIX_LOCAL, "a", &value) == PMIX_SUCCESS);
    CHECK(jt_local_pmix_commit() == PMIX_SUCCESS && jt_store_is_consistent(&slots[1]));
    CHECK(jt_store_get(&slots[1], "a", JT_ALL_SCOPES, &number_value) == PMIX_SUCCESS);
    jt_store_free(number_value);
    value.type = PMIX_TIME;
    lines = 0;
    CHECK(jt_local_pmix_put(PMIX_LOCAL, "a", &value) == PMIX_ERR_NOT_SUPPORTED && lines == 1);
    value = (pmix_value_t){.type = PMIX_BYTE_OBJECT, .data.bo = {large, sizeof(large)}};
    CHECK(jt_local_pmix_put(PMIX_LOCAL, "a", &value) == PMIX_ERR_OUT_OF_RESOURCE && lines == 2);
}

static void fences_take_all(void)
{
    static const struct {
        size_t num;
        pmix_rank_t ranks[5];
        bool all;
    } cases[] = {{4, {0, 1, 2, 3}, true},
                 {4, {3, 1, 0, 2}, true},
                 {4, {0, 1, 2, 2}, false},
                 {4, {0, 1, 2, 4}, false},
                 {3, {0, 1, 2}, false},
                 {5, {0, 1, 2, 3, 3}, false},
                 {1, {PMIX_RANK_WILDCARD}, true},
                 {1, {1}, false},
                 {2, {PMIX_RANK_WILDCARD, 1}, false},
                 {0, {0}, true}};
    pmix_proc_t who[5];
    uint64_t fences = 0;

    counters[JT_FENCES] = 0;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        memset(who, 0, sizeof(who));
        for (size_t k = 0; k < 5; k++)
            who[k].rank = cases[i].ranks[k];
        if (cases[i].all)
            counters[JT_FENCES] = 4 * ++fences - 1; /* the others */
        uint64_t before = counters[JT_FENCES];
        CHECK(jt_local_pmix_fence(who, cases[i].num) ==
              (cases[i].all ? PMIX_SUCCESS : PMIX_ERR_NOT_SUPPORTED));
        CHECK(counters[JT_FENCES] == before + cases[i].all && depth == 0);
    }
    counters[JT_FENCES] = 4 * ++fences - 1;
    CHECK(jt_local_pmix_fence(NULL, 7) == PMIX_SUCCESS);
    kvs_fails = true;
    CHECK(jt_local_pmix_fence(NULL, 0) == PMIX_ERR_UNREACH);
    kvs_fails = false;
    counters[JT_LEAVERS] = job_size;
    CHECK(jt_local_pmix_finalize() == PMIX_SUCCESS);
    CHECK(jt_local_pmix_fence(NULL, 0) == PMIX_ERR_INIT && depth == 0);
    CHECK(jt_local_pmix_commit() == PMIX_ERR_INIT && depth == 0);
    CHECK(jt_local_pmix_put(PMIX_LOCAL, "a", &(pmix_value_t){.type = PMIX_UINT8}) == PMIX_ERR_INIT);
}

int main(int argc, char **argv)
{
    const size_t cases = sizeof(own_cases) / sizeof(own_cases[0]);

    (void)argc, (void)argv;
    for (size_t i = 0; i <= cases + 1; i++) { /* a process makes the map of its job once */
        pid_t child = fork();
        int status = 1;
        if (child == 0) {
            if (i < cases)
                own_map_with_shape(i);
            else if (i == cases)
                own_maps();
            else
                own_map_with_nodes_backwards();
            exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    variables_describe_a_job();
    descriptions_place_nodes_and_ranks();
    pointers_are_wanted();
    shapes_and_products();
    maps_are_checked();
    bodies_of_maps_are_checked();
    queries_of_all_ranks(0);
    queries_of_all_ranks(77);
    paths_to_all_nodes();
    queries_are_done_before_the_lock_is_free();
    errors_leave_the_lock_free();
    jobs_without_memory();
    jobs_get_their_numbers();
    values_of_all_types();
    strings_and_objects();
    stores_may_be_full();
    keys_are_replaced();
    damaged_entries_are_not_found();
    job_size = 4;
    job_ppn = 3;
    job_rank = 1;
    const void *own; /* made once, and never freed */
    uint32_t own_procs;
    CHECK(jt_own_map(&own, &size, &own_procs) == JTOFU_SUCCESS && own_procs == 4);
    pmix_is_opened_and_closed();
    rank_0_waits_for_the_others();
    job_rank = 1;
    values_follow_from_the_map();
    scopes_are_respected();
    puts_are_checked();
    fences_take_all();
    pmix_is_asked_under_its_lock();
    return 0;
}
