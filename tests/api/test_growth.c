/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data that a process has on a peer is small at first and grows with use: the announced STADDs,
 * in both directions, and the entries read from the peer's STag table. Random sequences, which both
 * ends know.
 */
#include "ends.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(growth);

enum { BATCH = 40, WORD = 8, MOST = 1500 };

/* Where origin and target are. In the first two each process is both, to the other. */
enum layout { TWO_NODES, ONE_NODE, SELF, TWO_VCQS, NUM_LAYOUTS };

/* This process's part of a layout. */
struct way {
    struct ut_end *origin, *target;
    struct ut_peer from; /* the origin of puts to this process */
    struct ut_peer to;   /* the target of its puts */
    uint64_t out, in;    /* numbers of the sequences in these directions */
};

static struct ut_end ends[2];

static struct way open_way(enum layout layout, size_t size)
{
    struct way way = {.origin = &ends[0], .target = &ends[0]};
    struct ut_peer peers[2];

    ut_end_open(&ends[0], 0, 0, size);
    way.from = way.to = ut_end_peer(&ends[0]);
    if (layout == TWO_VCQS) {
        ut_end_open(&ends[1], 4, UTOFU_VCQ_FLAG_THREAD_SAFE, size);
        way.target = &ends[1];
        way.to = ut_end_peer(&ends[1]);
    } else if (layout != SELF) {
        ut_end_gather(&ends[0], peers);
        way.from = way.to = peers[!ut_rank];
        way.out = (uint64_t)ut_rank;
        way.in = (uint64_t)!ut_rank;
    }
    return way;
}

static void close_way(void)
{
    ut_barrier();
    for (int i = 0; i < 2; i++)
        if (ends[i].mem)
            ut_end_close(&ends[i]);
}

static void run_layouts(ut_body_fn *body)
{
    for (int layout = 0; layout < NUM_LAYOUTS; layout++)
        ut_run(&(struct ut_run_opts){.n = layout <= ONE_NODE ? 2 : 1,
                                     .nodes = layout == TWO_NODES ? 2 : 1},
               body, &layout);
}

/*
 * STADDs
 */

/* The STADD of put number i, of n: each once, each again, and then random ones. */
static size_t choose(struct ut_rng *rng, size_t i, size_t n)
{
    return i < 2 * n ? i % n : (size_t)ut_rng_below(rng, n);
}

static struct ut_comm put_of(struct way *way, struct ut_rng *rng, size_t i, size_t n, bool out)
{
    size_t at = WORD * choose(rng, i, n);

    return (struct ut_comm){.kind = i % 3 == 0 ? UT_PIGGYBACK8 : UT_PUT,
                            .vcq = way->origin->vcq,
                            .rmt = way->to.id,
                            .lcl_stadd = way->origin->stadd,
                            .data = way->origin->mem,
                            .rmt_stadd = (out ? way->to.stadd : way->target->stadd) + at,
                            .length = WORD,
                            .edata = i % 256,
                            .flags = UT_RMT};
}

static void repeat_stadds(struct way *way, size_t n)
{
    struct ut_rng out = ut_rng_start(way->out + n), in = ut_rng_start(way->in + n);
    size_t puts = 4 * n + BATCH;

    ut_step("%zu STADDs", n);
    for (size_t first = 0; first < puts; first += BATCH) {
        size_t end = first + BATCH < puts ? first + BATCH : puts;
        for (size_t i = first; i < end; i++) {
            struct ut_comm comm = put_of(way, &out, i, n, true);
            ut_submit(&comm);
        }
        for (size_t i = first; i < end; i++) {
            struct ut_comm comm = put_of(way, &in, i, n, false);
            struct utofu_mrq_notice want = ut_rmt_notice(&comm, 0, way->from.id);
            ut_expect_notice(way->target->vcq, &want);
        }
    }
}

static void stadds_of_any_number(void *arg)
{
    static const size_t numbers[] = {1, 8, 63, 64, 65, 128, 129, 256, 257, 512, 513, MOST};
    struct way way = open_way(*(enum layout *)arg, WORD * MOST);

    for (size_t i = 0; i < NUM(numbers); i++)
        repeat_stadds(&way, numbers[i]);
    for (size_t i = NUM(numbers); i-- > 0;)
        repeat_stadds(&way, numbers[i]);
    close_way();
}

Test(growth, notices_name_their_stadds_however_many_there_are)
{
    run_layouts(stadds_of_any_number);
}

static void many_at_once(void *arg)
{
    struct way way = open_way(*(enum layout *)arg, WORD * MOST);

    repeat_stadds(&way, MOST);
    close_way();
}

Test(growth, notices_name_their_stadds_where_many_are_used_from_the_first_on)
{
    run_layouts(many_at_once);
}

/* The same STADDs of a new VCQ with the id of the one to which they were announced. */
static void made_anew(void *arg)
{
    enum { STAG = 7, MANY = 200 };
    static uint8_t memory[WORD * MANY + 256] __attribute__((aligned(4096)));
    struct way way = open_way(*(enum layout *)arg, 4096);
    size_t size = sizeof(memory) / 256 * 256;

    for (int round = 0; round < 2; round++) {
        struct ut_end target = ends[0];
        CHECK_OK(utofu_reg_mem_with_stag(target.vcq, memory, size, STAG, 0, &target.stadd));
        way.target = &target;
        CHECK_OK(utofu_query_stadd(way.to.id, STAG, &way.to.stadd));
        ut_barrier();
        repeat_stadds(&way, MANY);
        if (round == 0) /* communication to a freed VCQ may reach the next one */
            ut_flush(way.origin, &way.to);
        ut_barrier();
        CHECK_OK(utofu_dereg_mem(target.vcq, target.stadd, 0));
        if (ut_rank == 1 && round == 0) {
            ut_end_close(&ends[0]);
            ut_end_open(&ends[0], 0, 0, 4096);
            CHECK_EQ(ends[0].id, target.id);
        }
        ut_barrier();
    }
    close_way();
}

Test(growth, stadds_are_announced_to_a_vcq_that_was_made_anew)
{
    for (enum layout layout = TWO_NODES; layout <= ONE_NODE; layout++)
        ut_run(&(struct ut_run_opts){.n = 2, .nodes = layout == TWO_NODES ? 2 : 1}, made_anew,
               &layout);
}

/*
 * STags
 */

enum { REGION = 256, DYNAMIC = 600, RESERVED = 9, STAGS = DYNAMIC + RESERVED, STEPS = 2500 };

/* First and last ones of chunks, and their neighbours, among them. */
static const uint32_t reserved[RESERVED] = {0, 1, 15, 16, 17, 128, 239, 240, 255};

/* Of each STag the first word is used. */
static size_t word_of(size_t s)
{
    return REGION * s;
}

static utofu_stadd_t mine[STAGS], theirs[STAGS];

static void register_stag(const struct ut_end *end, size_t s)
{
    uint8_t *word = end->mem + word_of(s);

    if (s < RESERVED)
        CHECK_OK(utofu_reg_mem_with_stag(end->vcq, word, REGION, reserved[s], 0, &mine[s]));
    else
        CHECK_OK(utofu_reg_mem(end->vcq, word, REGION, 0, &mine[s]));
}

static void exchange(enum layout layout)
{
    enum { AT_ONCE = UT_ADDRESS_RECORD_MAX / sizeof(utofu_stadd_t) };
    utofu_stadd_t all[2 * AT_ONCE];

    memcpy(theirs, mine, sizeof(theirs));
    for (size_t s = 0; layout <= ONE_NODE && s < STAGS; s += AT_ONCE) {
        size_t n = STAGS - s < AT_ONCE ? STAGS - s : AT_ONCE;
        ut_allgather(&mine[s], all, n * sizeof(*all));
        memcpy(&theirs[s], &all[(size_t)!ut_rank * n], n * sizeof(*all));
    }
}

/* Puts values to random STags, and gets them: no other process puts there. */
static void use_stags(struct way *way, uint64_t seed)
{
    struct ut_rng rng = ut_rng_start(seed + way->out);
    static uint64_t model[STAGS];
    uint64_t *scratch = (uint64_t *)(void *)(way->origin->mem + word_of(STAGS));
    struct ut_comm comm = {.vcq = way->origin->vcq,
                           .rmt = way->to.id,
                           .lcl_stadd = way->origin->stadd + word_of(STAGS),
                           .data = scratch,
                           .length = WORD,
                           .flags = UT_LCL};

    memset(model, 0, sizeof(model));
    for (uint64_t i = 0; i < STEPS; i++) {
        size_t s = (size_t)ut_rng_below(&rng, i % 4 == 0 ? RESERVED : STAGS);
        bool get = ut_rng_below(&rng, 2) != 0;
        comm.kind = get ? UT_GET : UT_PUT;
        comm.rmt_stadd = theirs[s];
        *scratch = get ? ~0ull : i + 1;
        ut_submit(&comm);
        struct utofu_mrq_notice want = ut_lcl_notice(&comm, 0);
        ut_expect_notice(comm.vcq, &want);
        if (get)
            CHECK_EQ(*scratch, model[s]);
        else
            model[s] = i + 1;
    }
}

static void check_stags(const struct way *way, uint64_t seed)
{
    struct ut_rng rng = ut_rng_start(seed + way->in);
    static uint64_t model[STAGS];

    memset(model, 0, sizeof(model));
    for (uint64_t i = 0; i < STEPS; i++) {
        size_t s = (size_t)ut_rng_below(&rng, i % 4 == 0 ? RESERVED : STAGS);
        if (ut_rng_below(&rng, 2) == 0)
            model[s] = i + 1;
    }
    for (size_t s = 0; s < STAGS; s++)
        CHECK(memcmp(way->target->mem + word_of(s), &model[s], WORD) == 0, "STag %zu", s);
}

/* STags that were registered again have other memory, and entries read before are outdated. */
static void many_stags(void *arg)
{
    enum layout layout = *(enum layout *)arg;
    struct way way = open_way(layout, word_of(STAGS) + WORD);

    for (size_t s = 0; s < STAGS; s++)
        register_stag(way.target, s);
    for (uint64_t seed = 0; seed < 6; seed += 2) {
        exchange(layout);
        ut_step("STags, round %llu", (unsigned long long)seed / 2);
        use_stags(&way, seed);
        ut_barrier();
        check_stags(&way, seed);
        for (size_t s = 0; s < STAGS; s += 1 + seed) {
            CHECK_OK(utofu_dereg_mem(way.target->vcq, mine[s], 0));
            register_stag(way.target, s);
        }
        memset(way.target->mem, 0, word_of(STAGS));
        ut_barrier();
    }
    for (size_t s = 0; s < STAGS; s++)
        CHECK_OK(utofu_dereg_mem(way.target->vcq, mine[s], 0));
    close_way();
}

Test(growth, stags_of_a_peer_are_found_however_many_there_are)
{
    run_layouts(many_stags);
}

/* STags without registration, in all parts of the table: an error, and no other one. */
static void missing_stags(void *arg)
{
    static const uint32_t missing[] = {3, 15, 16, 254, 255};
    struct way way = open_way(*(enum layout *)arg, 4096);
    utofu_stadd_t first;

    CHECK_OK(utofu_reg_mem_with_stag(way.target->vcq, way.target->mem, REGION, 2, 0, &first));
    ut_barrier();
    CHECK_OK(utofu_query_stadd(way.to.id, 2, &first));
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < NUM(missing); i++) {
            struct ut_comm comm = {.kind = UT_PUT,
                                   .vcq = way.origin->vcq,
                                   .rmt = way.to.id,
                                   .lcl_stadd = way.origin->stadd,
                                   .length = WORD,
                                   .edata = i,
                                   .flags = UT_LCL};
            CHECK_OK(utofu_query_stadd(way.to.id, missing[i], &comm.rmt_stadd));
            ut_submit(&comm);
            ut_expect_error(comm.vcq, UTOFU_ERR_MRQ_RMT_STADD, UTOFU_MRQ_TYPE_LCL_PUT, way.to.id,
                            i);
            comm.rmt_stadd = first;
            ut_submit(&comm);
            struct utofu_mrq_notice want = ut_lcl_notice(&comm, 0);
            ut_expect_notice(comm.vcq, &want);
        }
    }
    ut_barrier();
    CHECK_OK(utofu_query_stadd(way.target->id, 2, &first));
    CHECK_OK(utofu_dereg_mem(way.target->vcq, first, 0));
    close_way();
}

Test(growth, stags_that_nobody_has_registered_are_errors)
{
    run_layouts(missing_stags);
}
