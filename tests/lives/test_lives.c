/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lives of what a process of uTofu can have, with a peer: see lives.h. The kinds ending in _error
 * have an error in each life, which breaks a connection.
 */
#include "ends.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>

#include "lives.h"
#include "utofu_ext.h"

TestSuite(lives);

enum { SIZE = 65536, PUTS = 20, PUT = 4096, STAG = 9, OUTSIDE = 1 << 30 };

static struct ut_end end;       /* of the kinds in which one lives through all lives */
static struct ut_peer peers[2]; /* of the current ends */

static const struct ut_peer *other(void)
{
    return &peers[!ut_rank];
}

/* Puts to the peer, and waits for their ends. */
static void put(const struct ut_end *from, utofu_vcq_id_t to, utofu_stadd_t stadd, int n)
{
    for (int i = 0; i < n; i++) {
        struct ut_comm comm = {.kind = UT_PUT,
                               .vcq = from->vcq,
                               .rmt = to,
                               .lcl_stadd = from->stadd,
                               .rmt_stadd = stadd,
                               .length = PUT,
                               .flags = UT_TCQ};
        ut_submit(&comm);
    }
    for (int i = 0; i < n; i++)
        ut_expect_tcq(from->vcq, UTOFU_SUCCESS, NULL);
}

/* A put whose end is reported by a notice, which may be an error. Returns its code. */
static int put_any(const struct ut_end *from, utofu_vcq_id_t to, utofu_stadd_t stadd)
{
    struct utofu_mrq_notice notice;
    struct ut_comm comm = {.kind = UT_PUT,
                           .vcq = from->vcq,
                           .rmt = to,
                           .lcl_stadd = from->stadd,
                           .rmt_stadd = stadd,
                           .length = PUT,
                           .flags = UT_LCL};

    ut_submit(&comm);
    return ut_await_mrq(from->vcq, &notice);
}

static void put_wrong(const struct ut_end *from, utofu_vcq_id_t to, utofu_stadd_t stadd, int rc)
{
    CHECK_RC(put_any(from, to, stadd), rc);
}

/*
 * VCQs and connections
 */

/* Both processes' VCQs live once. */
static void vcq(bool with_error)
{
    struct ut_end own;

    ut_open_all(&own, SIZE, peers);
    put(&own, other()->id, other()->stadd, PUTS);
    if (with_error && ut_rank == 0)
        put_wrong(&own, other()->id, other()->stadd + OUTSIDE, UTOFU_ERR_MRQ_RMT_STADD);
    ut_close_all(&own);
}

/* A VCQ in session mode, which is freed with puts that no schedule pointer lets start. */
static void vcq_session(bool with_error)
{
    struct ut_end own;

    (void)with_error;
    ut_end_open(&own, 0, UTOFU_VCQ_FLAG_SESSION_MODE, SIZE);
    for (int i = 0; i < 3; i++) {
        struct ut_comm comm = {.kind = UT_PUT,
                               .vcq = own.vcq,
                               .rmt = own.id,
                               .lcl_stadd = own.stadd,
                               .rmt_stadd = own.stadd + SIZE / 2,
                               .length = PUT,
                               .flags = UT_TCQ};
        ut_submit(&comm);
    }
    ut_end_close(&own);
}

/* A VCQ of one process lives once, and that of the other through all lives. */
static void connection(bool with_error)
{
    struct ut_end own = end;

    if (ut_rank == 1)
        ut_end_open(&own, 0, 0, SIZE);
    ut_end_gather(&own, peers);
    put(&own, other()->id, other()->stadd, 1);
    if (with_error && ut_rank == 0)
        put_wrong(&own, other()->id, other()->stadd + OUTSIDE, UTOFU_ERR_MRQ_RMT_STADD);
    ut_barrier();
    if (ut_rank == 1)
        ut_end_close(&own);
}

/* Both VCQs live through all lives, and each connection ends with an error. */
static void connection_breaks(bool with_error)
{
    (void)with_error;
    ut_end_gather(&end, peers);
    put(&end, other()->id, other()->stadd, 1);
    put_wrong(&end, other()->id, other()->stadd + OUTSIDE, UTOFU_ERR_MRQ_RMT_STADD);
    ut_barrier();
}

/*
 * Memory
 */

static utofu_stadd_t register_memory(void *memory, size_t size, bool with_stag)
{
    utofu_stadd_t stadd;

    if (with_stag)
        CHECK_OK(utofu_reg_mem_with_stag(end.vcq, memory, size, STAG, 0, &stadd));
    else
        CHECK_OK(utofu_reg_mem(end.vcq, memory, size, 0, &stadd));
    return stadd;
}

/* Memory that stays is registered, written by the peer, and deregistered. */
static void registration(bool with_stag, bool with_error)
{
    static uint8_t memory[SIZE] __attribute__((aligned(256)));
    utofu_stadd_t mine = register_memory(memory, sizeof(memory), with_stag), all[2];

    ut_allgather(&mine, all, sizeof(mine));
    put(&end, other()->id, all[!ut_rank], 1);
    ut_barrier();
    CHECK_OK(utofu_dereg_mem(end.vcq, mine, 0));
    ut_barrier();
    if (with_error)
        put_wrong(&end, other()->id, all[!ut_rank], UTOFU_ERR_MRQ_RMT_STADD);
    ut_barrier();
}

static void reg(bool with_error)
{
    registration(false, with_error);
}

static void reg_stag(bool with_error)
{
    registration(true, with_error);
}

/* Memory of the program that comes and goes, as source and as target. */
static void region(bool with_error)
{
    uint8_t *memory = ut_pages(SIZE);
    struct ut_end own = {.vcq = end.vcq, .stadd = register_memory(memory, SIZE, false)};
    utofu_stadd_t all[2];

    ut_allgather(&own.stadd, all, sizeof(own.stadd));
    put(&own, other()->id, all[!ut_rank], 2);
    ut_barrier();
    if (with_error) { /* the memory goes before its registration; shm and verbs still have its pages
                       */
        munmap(memory, SIZE);
        ut_barrier();
        if (ut_rank == 0 && put_any(&end, other()->id, all[1]) != UTOFU_SUCCESS)
            put_wrong(&end, other()->id, all[1], UTOFU_ERR_MRQ_RMT_MEMORY);
        ut_barrier();
    }
    CHECK_OK(utofu_dereg_mem(end.vcq, own.stadd, 0));
    if (!with_error)
        munmap(memory, SIZE);
    ut_barrier();
}

/* STADDs of a peer that are worked out, also of STags that it does not have. */
static void stadd_query(bool with_error)
{
    static unsigned int life;
    utofu_stadd_t stadd;
    uint8_t coords[6];
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;

    (void)with_error;
    CHECK_OK(utofu_query_stadd(other()->id, life++ % 256, &stadd));
    CHECK_OK(utofu_query_vcq_info(other()->id, coords, &tni, &cq, &extra));
}

/*
 * Barrier gates, and waiting
 */

/* A gate of each process, and a barrier of the two. */
static void vbg(bool with_error)
{
    utofu_vbg_id_t mine, all[2];
    int rc;

    (void)with_error;
    CHECK_OK(utofu_alloc_vbg(0, 1, 0, &mine));
    ut_allgather(&mine, all, sizeof(mine));
    struct utofu_vbg_setting setting = {.vbg_id = mine,
                                        .src_lcl_vbg_id = UTOFU_VBG_ID_NULL,
                                        .src_rmt_vbg_id = all[!ut_rank],
                                        .dst_lcl_vbg_id = UTOFU_VBG_ID_NULL,
                                        .dst_rmt_vbg_id = all[!ut_rank],
                                        .dst_path_coords = {UTOFU_PATH_COORD_NULL, 0, 0}};
    CHECK_OK(utofu_set_vbg(&setting, 1));
    ut_barrier();
    CHECK_OK(utofu_barrier(mine, 0));
    while ((rc = utofu_poll_barrier(mine, 0)) == UTOFU_ERR_NOT_COMPLETED)
        ut_relax();
    CHECK_OK(rc);
    ut_barrier();
    CHECK_OK(utofu_free_vbg(&mine, 1));
}

/* A call that sleeps until a put of the peer, and one that ends without. */
static void wait_call(bool with_error)
{
    struct utofu_mrq_notice notice;
    struct ut_comm comm = {.kind = UT_PUT,
                           .vcq = end.vcq,
                           .rmt = other()->id,
                           .lcl_stadd = end.stadd,
                           .rmt_stadd = other()->stadd,
                           .length = PUT,
                           .flags = UT_RMT};

    (void)with_error;
    CHECK_RC(utofu_wait_vcqs(&end.vcq, 1, 1), UTOFU_ERR_NOT_FOUND);
    ut_barrier();
    if (ut_rank == 0) {
        ut_submit(&comm);
    } else {
        while (utofu_poll_mrq(end.vcq, 0, &notice) == UTOFU_ERR_NOT_FOUND)
            CHECK_OK(utofu_wait_vcqs(&end.vcq, 1, -1));
    }
    ut_barrier();
}

/*
 * The table
 */

enum ends { NONE, OF_RANK_0, BOTH };

static const struct kind {
    const char *name;
    void (*live)(bool with_error);
    bool with_error;
    enum ends ends; /* which VCQs live through all lives */
} kinds[] = {
    {"vcq", vcq, false, NONE},
    {"vcq_error", vcq, true, NONE},
    {"vcq_session", vcq_session, false, NONE},
    {"connection", connection, false, OF_RANK_0},
    {"connection_error", connection, true, OF_RANK_0},
    {"connection_breaks", connection_breaks, true, BOTH},
    {"reg", reg, false, BOTH},
    {"reg_error", reg, true, BOTH},
    {"reg_stag", reg_stag, false, BOTH},
    {"reg_stag_error", reg_stag, true, BOTH},
    {"region", region, false, BOTH},
    {"region_error", region, true, BOTH},
    {"stadd_query", stadd_query, false, BOTH},
    {"vbg", vbg, false, NONE},
    {"wait_call", wait_call, false, BOTH},
};

static void run_kind(void *arg)
{
    const struct kind *kind = arg;
    struct lives lives = lives_begin(kind->name, ut_rank);

    if (kind->ends == OF_RANK_0 && ut_rank == 0)
        ut_end_open(&end, 0, 0, SIZE);
    if (kind->ends == BOTH)
        ut_open_all(&end, SIZE, peers);
    ut_barrier();
    do {
        ut_step("life %ld", lives.done);
        kind->live(kind->with_error);
    } while (lives_next(&lives));
    ut_barrier();
    if (end.mem)
        ut_end_close(&end);
    CHECK(lives_end(&lives), "%s has grown, or the twin has not", kind->name);
}

static void run(const char *name)
{
    int timeout_s = 60 + (int)(lives_total() / 20);

    for (size_t i = 0; i < NUM(kinds); i++)
        if (strcmp(kinds[i].name, name) == 0)
            ut_run(&(struct ut_run_opts){.n = 2, .timeout_s = timeout_s}, run_kind,
                   (void *)(uintptr_t)&kinds[i]);
}

Test(lives, vcq)
{
    run("vcq");
}

Test(lives, vcq_error)
{
    run("vcq_error");
}

Test(lives, vcq_session)
{
    run("vcq_session");
}

Test(lives, connection)
{
    run("connection");
}

Test(lives, connection_error)
{
    run("connection_error");
}

Test(lives, connection_breaks)
{
    run("connection_breaks");
}

Test(lives, reg)
{
    run("reg");
}

Test(lives, reg_error)
{
    run("reg_error");
}

Test(lives, reg_stag)
{
    run("reg_stag");
}

Test(lives, reg_stag_error)
{
    run("reg_stag_error");
}

Test(lives, region)
{
    run("region");
}

Test(lives, region_error)
{
    run("region_error");
}

Test(lives, stadd_query)
{
    run("stadd_query");
}

Test(lives, vbg)
{
    run("vbg");
}

Test(lives, wait_call)
{
    run("wait_call");
}
