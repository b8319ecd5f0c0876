/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order of randomly mixed Put, Get and ARMW, with and without STRONG_ORDER. Sections 2.2.10,
 * 3.7.9.1, 6.1.3.1.
 *
 * Every VCQ has, on every VCQ, words that no other VCQ accesses. In an epoch a communication
 * without STRONG_ORDER uses words that no earlier one used; one with STRONG_ORDER uses any words.
 * So a plain model predicts the values that every get and ARMW reads. All processes make the
 * scripts of all VCQs from the seed, so that targets know their remote notices.
 *
 * UT_ORDER_EPOCHS: epochs of the random mix. UT_ARMW_MODE: cpu or nic.
 */
#include "words.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(order);

enum {
    PROCS = 3,
    PER_PROC = 2,
    NUM_VCQS = PROCS * PER_PROC,
    WORDS = 16,
    MOST_WORDS = 8, /* maximum in one put or get */
    OPS = 60,
    SOURCES = NUM_VCQS * WORDS * 8, /* offsets in a VCQ's memory */
    DESTINATIONS = SOURCES + OPS * MOST_WORDS * 8,
    SIZE = DESTINATIONS + OPS * MOST_WORDS * 8,
};

enum what { PUT, PIGGYBACK, GET, ARMW, NUM_WHATS };

struct op {
    enum what what;
    int target;
    unsigned int word, count;    /* words of 8 bytes */
    unsigned int half;           /* ARMW of 4 bytes: which half */
    struct word_armw armw;       /* its operator, size and operands */
    uint64_t values[MOST_WORDS]; /* a put's data; the values that a get or an ARMW reads */
    unsigned long int flags;
    uint64_t edata;
};

struct script {
    struct op ops[OPS];
    int num_ops;
};

static struct script scripts[NUM_VCQS];
static uint64_t model[NUM_VCQS][NUM_VCQS][WORDS]; /* [origin][target] */
static struct ut_peer peers[NUM_VCQS];
static unsigned long int path_flag[NUM_VCQS][NUM_VCQS];
static bool threaded; /* each VCQ of a process in a thread of its own */

/* A position of `count` words; without STRONG_ORDER only among untouched ones. False: no room. */
static bool choose_words(struct ut_rng *rng, uint32_t *touched, struct op *op, bool strong)
{
    for (int attempt = 0; attempt < 4; attempt++) {
        op->word = (unsigned int)ut_rng_below(rng, WORDS - op->count + 1);
        uint32_t mask = ((1u << op->count) - 1) << op->word;
        if (strong || !(*touched & mask)) {
            *touched |= mask;
            return true;
        }
    }
    return false;
}

static void apply_armw(struct op *op, uint64_t *word)
{
    unsigned int shift = op->half * 32;
    uint64_t before = op->armw.size == 4 ? (uint32_t)(*word >> shift) : *word;

    if (op->armw.op == WORD_CSWAP && op->armw.compare % 2)
        op->armw.compare = before;
    op->values[0] = before;
    uint64_t after = word_after(&op->armw, before);
    if (op->armw.size == 4)
        *word = (*word & ~(0xffffffffull << shift)) | after << shift;
    else
        *word = after;
}

static void add_op(struct ut_rng *rng, int origin, struct script *script, uint32_t touched[])
{
    struct op *op = &script->ops[script->num_ops];
    bool strong = ut_rng_below(rng, 2);

    memset(op, 0, sizeof(*op));
    op->what = (enum what)ut_rng_below(rng, NUM_WHATS);
    op->target = (int)ut_rng_below(rng, NUM_VCQS);
    op->count = op->what == ARMW        ? 1
                : op->what == PIGGYBACK ? 1 + (unsigned int)ut_rng_below(rng, 4)
                                        : 1 + (unsigned int)ut_rng_below(rng, MOST_WORDS);
    if (!choose_words(rng, &touched[op->target], op, strong))
        return;
    op->flags = (strong ? UT_STRONG : 0) | (ut_rng_below(rng, 2) ? UT_TCQ : 0) |
                (ut_rng_below(rng, 2) ? UT_LCL : 0) | (ut_rng_below(rng, 2) ? UT_RMT : 0) |
                (ut_rng_below(rng, 8) ? 0 : UTOFU_ONESIDED_FLAG_DELAY_START);
    op->edata = ut_rng_below(rng, 256);
    op->armw.prepared = ut_rng_below(rng, 3) == 0;
    uint64_t *words = &model[origin][op->target][op->word];
    if (op->what == GET) {
        op->flags |= UT_LCL;
        memcpy(op->values, words, op->count * 8);
    } else if (op->what == ARMW) {
        op->flags |= UT_LCL;
        op->armw.op = (enum word_op)(1 + ut_rng_below(rng, WORD_CSWAP));
        op->armw.size = ut_rng_below(rng, 2) ? 4 : 8;
        op->half = op->armw.size == 4 ? (unsigned int)ut_rng_below(rng, 2) : 0;
        op->armw.operand = ut_rng_next(rng);
        op->armw.compare = ut_rng_next(rng);
        apply_armw(op, words);
    } else {
        for (unsigned int i = 0; i < op->count; i++)
            words[i] = op->values[i] = ut_rng_next(rng);
    }
    script->num_ops++;
}

static void make_scripts(uint64_t epoch)
{
    for (int origin = 0; origin < NUM_VCQS; origin++) {
        struct ut_rng rng = ut_rng_start(ut_seed() * 77 + epoch * NUM_VCQS + (uint64_t)origin);
        uint32_t touched[NUM_VCQS] = {0};

        scripts[origin].num_ops = 0;
        for (int i = 0; i < OPS; i++)
            add_op(&rng, origin, &scripts[origin], touched);
    }
}

static utofu_stadd_t word_stadd(int origin, const struct op *op)
{
    return peers[op->target].stadd + ((size_t)origin * WORDS + op->word) * 8 + op->half * 4;
}

/* False: the TOQ is full. */
static bool accepted(int rc)
{
    CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_BUSY, "%s", ut_rc_name(rc));
    return rc == UTOFU_SUCCESS;
}

static bool submit(const struct ut_end *end, int origin, int number)
{
    const struct op *op = &scripts[origin].ops[number];
    size_t slot = (size_t)number * MOST_WORDS * 8;
    void *cbdata = (void *)(uintptr_t)(number + 1);
    unsigned long int flags = op->flags | path_flag[origin][op->target];

    if (op->what == ARMW) {
        struct word_armw armw = op->armw;

        armw.vcq = end->vcq;
        armw.rmt = peers[op->target].id;
        armw.rmt_stadd = word_stadd(origin, op);
        armw.edata = op->edata;
        armw.flags = flags;
        armw.cbdata = cbdata;
        return accepted(word_start(&armw));
    }
    static const enum ut_kind kinds[] = {UT_PUT, UT_PIGGYBACK, UT_GET};
    uint8_t *source = end->mem + SOURCES + slot;
    struct ut_comm comm = {.kind = kinds[op->what],
                           .prepared = op->armw.prepared && !threaded,
                           .vcq = end->vcq,
                           .rmt = peers[op->target].id,
                           .lcl_stadd = end->stadd + SOURCES + slot,
                           .data = source,
                           .rmt_stadd = word_stadd(origin, op),
                           .length = op->count * 8,
                           .edata = op->edata,
                           .flags = flags,
                           .cbdata = cbdata};
    if (op->what == GET)
        comm.lcl_stadd += DESTINATIONS - SOURCES;
    else
        memcpy(source, op->values, comm.length);
    return accepted(ut_start(&comm));
}

/* A VCQ of this process, and its next notices. */
struct own {
    struct ut_end end;
    struct ut_rng rng;
    int number, submitted, tcq;
    int lcl[NUM_VCQS], rmt[NUM_VCQS]; /* per target, per origin */
};

/* The next operation from `at` on with this flag, towards `target`. */
static int next_with(int origin, int at, unsigned long int flag, int target)
{
    const struct script *s = &scripts[origin];

    while (at < s->num_ops &&
           !((s->ops[at].flags & flag) && (target < 0 || s->ops[at].target == target)))
        at++;
    return at;
}

static bool take_tcq(struct own *own)
{
    void *cbdata;
    int rc = utofu_poll_tcq(own->end.vcq, 0, &cbdata);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return false;
    own->tcq = next_with(own->number, own->tcq, UT_TCQ, -1);
    CHECK(rc == UTOFU_SUCCESS && (uintptr_t)cbdata == (uintptr_t)own->tcq + 1,
          "VCQ %d: TCQ entry %s of %zu, not of %d", own->number, ut_rc_name(rc),
          (uintptr_t)cbdata - 1, own->tcq);
    own->tcq++;
    return true;
}

static int vcq_of(utofu_vcq_id_t id)
{
    for (int v = 0; v < NUM_VCQS; v++)
        if (peers[v].id == id)
            return v;
    CHECK(false, "notice of an unknown VCQ");
    return -1;
}

static void check_local(struct own *own, const struct utofu_mrq_notice *got, int target)
{
    int n = own->lcl[target] = next_with(own->number, own->lcl[target], UT_LCL, target);
    CHECK(n < own->submitted, "VCQ %d: one local notice too many", own->number);
    const struct op *op = &scripts[own->number].ops[n];
    static const uint8_t types[] = {UTOFU_MRQ_TYPE_LCL_PUT, UTOFU_MRQ_TYPE_LCL_PUT,
                                    UTOFU_MRQ_TYPE_LCL_GET, UTOFU_MRQ_TYPE_LCL_ARMW};

    own->lcl[target]++;
    CHECK_EQ(got->notice_type, types[op->what]);
    CHECK_EQ(got->edata, op->edata);
    if (op->what == ARMW) {
        CHECK(got->rmt_value == op->values[0], "VCQ %d, operation %d: %s found 0x%llx, not 0x%llx",
              own->number, n, word_op_name(op->armw.op), (unsigned long long)got->rmt_value,
              (unsigned long long)op->values[0]);
    } else if (op->what == GET) {
        const uint8_t *at = own->end.mem + DESTINATIONS + (size_t)n * MOST_WORDS * 8;
        CHECK(memcmp(at, op->values, op->count * 8) == 0, "VCQ %d, get %d has other data",
              own->number, n);
    }
}

static void check_remote(struct own *own, const struct utofu_mrq_notice *got, int origin)
{
    int n = own->rmt[origin] = next_with(origin, own->rmt[origin], UT_RMT, own->number);
    CHECK(n < scripts[origin].num_ops, "VCQ %d: one remote notice too many", own->number);
    const struct op *op = &scripts[origin].ops[n];
    static const uint8_t types[] = {UTOFU_MRQ_TYPE_RMT_PUT, UTOFU_MRQ_TYPE_RMT_PUT,
                                    UTOFU_MRQ_TYPE_RMT_GET, UTOFU_MRQ_TYPE_RMT_ARMW};

    own->rmt[origin]++;
    CHECK_EQ(got->notice_type, types[op->what]);
    CHECK_EQ(got->edata, op->edata);
    CHECK_EQ(got->rmt_stadd, word_stadd(origin, op) + (op->what == ARMW ? 0 : op->count * 8));
}

static bool take_mrq(struct own *own)
{
    struct utofu_mrq_notice got;
    int rc = utofu_poll_mrq(own->end.vcq, 0, &got);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return false;
    CHECK_RC(rc, UTOFU_SUCCESS);
    if (got.notice_type % 2 == 0)
        check_local(own, &got, vcq_of(got.vcq_id));
    else
        check_remote(own, &got, vcq_of(got.vcq_id));
    return true;
}

static bool all_told(const struct own *own)
{
    int n = scripts[own->number].num_ops;

    if (own->submitted < n || next_with(own->number, own->tcq, UT_TCQ, -1) < n)
        return false;
    for (int v = 0; v < NUM_VCQS; v++)
        if (next_with(own->number, own->lcl[v], UT_LCL, v) < n ||
            next_with(v, own->rmt[v], UT_RMT, own->number) < scripts[v].num_ops)
            return false;
    return true;
}

static void run_vcqs(struct own own[], int count)
{
    bool all = false;

    while (!all) {
        bool progress = false;

        all = true;
        for (int i = 0; i < count; i++) {
            int n = scripts[own[i].number].num_ops;
            for (uint64_t burst = ut_rng_below(&own[i].rng, 12);
                 burst > 0 && own[i].submitted < n &&
                 submit(&own[i].end, own[i].number, own[i].submitted);
                 burst--)
                own[i].submitted++;
            if (own[i].submitted == n) /* starts communications delayed by DELAY_START */
                CHECK_OK(utofu_post_toq(own[i].end.vcq, NULL, 0, NULL));
            while (take_tcq(&own[i]) || take_mrq(&own[i]))
                progress = true;
            all = all && all_told(&own[i]);
        }
        if (!progress)
            ut_relax();
    }
    for (int i = 0; i < count; i++)
        for (int v = 0; v < NUM_VCQS; v++)
            ut_flush(&own[i].end, &peers[v]);
}

static void *run_vcq(void *arg)
{
    run_vcqs(arg, 1);
    return NULL;
}

static void run_epoch(struct own own[PER_PROC])
{
    pthread_t thread[PER_PROC];

    for (int i = 0; i < PER_PROC; i++) {
        own[i].submitted = own[i].tcq = 0;
        memset(own[i].lcl, 0, sizeof(own[i].lcl));
        memset(own[i].rmt, 0, sizeof(own[i].rmt));
    }
    ut_barrier();
    if (!threaded) {
        run_vcqs(own, PER_PROC);
        return;
    }
    for (int i = 0; i < PER_PROC; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, run_vcq, &own[i]), 0);
    for (int i = 0; i < PER_PROC; i++)
        CHECK_EQ(pthread_join(thread[i], NULL), 0);
}

static void check_words(const struct own *own)
{
    for (int origin = 0; origin < NUM_VCQS; origin++)
        for (size_t w = 0; w < WORDS; w++) {
            uint64_t got = word_load(own->end.mem + ((size_t)origin * WORDS + w) * 8, 8);
            CHECK(got == model[origin][own->number][w],
                  "VCQ %d, word %zu of VCQ %d: 0x%llx, not 0x%llx", own->number, w, origin,
                  (unsigned long long)got, (unsigned long long)model[origin][own->number][w]);
        }
}

static void choose_paths(void)
{
    struct ut_rng rng = ut_rng_start(ut_seed() + (uint64_t)ut_rank);

    for (int i = 0; i < PER_PROC; i++)
        for (int v = 0; v < NUM_VCQS; v++) {
            uint8_t path[3] = {(uint8_t)ut_rng_below(&rng, 2), (uint8_t)ut_rng_below(&rng, 3), 0};
            utofu_path_id_t id;

            CHECK_OK(utofu_get_path_id(peers[v].id, path, &id));
            path_flag[ut_rank * PER_PROC + i][v] = UTOFU_ONESIDED_FLAG_PATH(id);
        }
}

static void mix(void *arg)
{
    uint64_t epochs = ut_env_number("UT_ORDER_EPOCHS", 60);
    struct own own[PER_PROC];
    struct ut_peer mine[PER_PROC];

    (void)arg;
    memset(own, 0, sizeof(own));
    for (int i = 0; i < PER_PROC; i++) {
        own[i].number = ut_rank * PER_PROC + i;
        own[i].rng = ut_rng_start(ut_random());
        ut_end_open(&own[i].end, (utofu_tni_id_t)i, i ? UTOFU_VCQ_FLAG_THREAD_SAFE : 0, SIZE);
        mine[i] = ut_end_peer(&own[i].end);
    }
    ut_allgather(mine, peers, sizeof(mine));
    choose_paths();
    for (uint64_t epoch = 0; epoch < epochs; epoch++) {
        ut_step("epoch %llu", (unsigned long long)epoch);
        make_scripts(epoch);
        run_epoch(own);
        ut_barrier();
        for (int i = 0; i < PER_PROC; i++)
            check_words(&own[i]);
        ut_barrier();
    }
    ut_barrier();
    for (int i = 0; i < PER_PROC; i++)
        ut_end_close(&own[i].end);
}

static void run(int n, int nodes, ut_body_fn *body)
{
    static char env[64];
    const char *mode = getenv("UT_ARMW_MODE");

    snprintf(env, sizeof(env), "UTOFU_ARMW=%s", mode ? mode : "cpu");
    ut_run(&(struct ut_run_opts){.n = n, .nodes = nodes, .env = {env}}, body, NULL);
}

Test(order, random_mixes_of_put_get_and_armw_follow_the_model_and_tell_in_order)
{
    run(PROCS, 1, mix);
    run(PROCS, 3, mix);
}

static void threaded_mix(void *arg)
{
    threaded = true;
    mix(arg);
}

Test(order, random_mixes_from_a_thread_for_each_vcq_follow_the_model_too)
{
    run(PROCS, 1, threaded_mix);
}

/* STRONG_ORDER after an ARMW, with polling as the only progress */

static void strong_behind_armw(void *arg)
{
    struct ut_end end;
    struct ut_peer all[2];

    (void)arg;
    ut_open_all(&end, 4096, all);
    for (uint64_t round = 0; round < 200; round++) {
        const struct ut_peer *to = &all[!ut_rank];
        struct word_armw armw = {.op = WORD_ADD,
                                 .size = 8,
                                 .vcq = end.vcq,
                                 .rmt = to->id,
                                 .rmt_stadd = to->stadd,
                                 .operand = 5,
                                 .flags = UT_LCL};
        struct ut_comm put = {.kind = round % 2 ? UT_PUT : UT_PIGGYBACK8,
                              .vcq = end.vcq,
                              .rmt = to->id,
                              .lcl_stadd = end.stadd + 64,
                              .data = &round,
                              .rmt_stadd = to->stadd,
                              .length = 8,
                              .flags = UT_LCL | UT_STRONG};
        struct utofu_mrq_notice notice;

        memcpy(end.mem + 64, &round, 8);
        word_submit(&armw);
        ut_submit(&put);
        CHECK_EQ(word_await(&armw), round ? round - 1 : 0);
        CHECK_OK(ut_await_mrq(end.vcq, &notice));
        CHECK_EQ(notice.notice_type, UTOFU_MRQ_TYPE_LCL_PUT);
    }
    ut_barrier();
    CHECK_EQ(word_load(end.mem, 8), 199); /* the put was executed last */
    ut_close_all(&end);
}

Test(order, strong_put_comes_after_the_armw_before_it)
{
    run(2, 1, strong_behind_armw);
}

/* 6.1.3.1: the last byte of a put or a get with STRONG_ORDER is written last */

static void last_byte(void *arg)
{
    enum { ROOM = 1 << 18, ROUNDS = 300 };
    struct ut_end end;
    struct ut_peer all[2];
    bool get = arg != NULL;

    ut_open_all(&end, 2 * ROOM, all);
    for (int round = 1; round <= ROUNDS; round++) {
        struct ut_rng rng = ut_rng_start(ut_seed() * 31 + (uint64_t)round);
        size_t length = 1 + ut_rng_below(&rng, round % 2 ? ROOM / 2 : 1000);
        size_t src = ut_rng_below(&rng, ROOM - length + 1);
        size_t dst = ROOM + ut_rng_below(&rng, ROOM - length + 1);
        uint8_t value = (uint8_t)(1 + round % 255);
        bool reader = ut_rank == round % 2;

        ut_step("round %d: %zu bytes from %zu to %zu", round, length, src, dst);
        memset(end.mem + (reader ? dst : src), reader ? 0 : value, length);
        ut_barrier();
        if (reader == get) {
            const struct ut_peer *to = &all[!ut_rank];
            struct ut_comm comm = {.kind = get ? UT_GET : UT_PUT,
                                   .vcq = end.vcq,
                                   .rmt = to->id,
                                   .lcl_stadd = end.stadd + (get ? dst : src),
                                   .rmt_stadd = to->stadd + (get ? src : dst),
                                   .length = length,
                                   .flags = UT_STRONG};
            ut_submit(&comm);
        }
        if (reader) {
            ut_await_byte(end.mem + dst + length - 1, value);
            for (size_t i = 0; i < length; i++)
                CHECK(end.mem[dst + i] == value, "byte %zu of %zu", i, length);
        }
        ut_barrier();
    }
    for (int i = 0; i < 2; i++)
        ut_flush(&end, &all[i]);
    ut_close_all(&end);
}

static void last_byte_of_get(void *arg)
{
    (void)arg;
    last_byte(&(int){1});
}

/* ThreadSanitizer reports polling of memory as a data race. */
#if !defined(__SANITIZE_THREAD__)
enum { CAN_POLL_MEMORY = 1 };
#else
enum { CAN_POLL_MEMORY = 0 };
#endif

Test(order, last_byte_of_a_strong_put_is_written_last)
{
    if (CAN_POLL_MEMORY)
        run(2, 1, last_byte);
}

Test(order, last_byte_of_a_strong_get_is_written_last)
{
    if (CAN_POLL_MEMORY)
        run(2, 1, last_byte_of_get);
}

/*
 * An ARMW is executed once, and has one notice, although the connection breaks directly after it: a
 * put uses an STag that was registered again, which verbs only detects when the access is refused.
 */
enum { BREAK_ROUNDS = 25, BREAK_STAG = 7 };

static void break_behind(void *arg)
{
    struct ut_end end;
    struct ut_peer ends[2];
    uint8_t *two[2] = {ut_pages(4096), ut_pages(4096)};
    utofu_stadd_t stadd, far;

    (void)arg;
    ut_open_all(&end, 4096, ends);
    CHECK_OK(utofu_reg_mem_with_stag(end.vcq, two[0], 4096, BREAK_STAG, 0, &stadd));
    CHECK_OK(utofu_query_stadd(ends[1].id, BREAK_STAG, &far));
    for (uint64_t round = 1; round <= BREAK_ROUNDS; round++) {
        ut_step("round %llu", (unsigned long long)round);
        struct word_armw add = {.op = WORD_ADD,
                                .size = round % 4 ? 8 : 4,
                                .vcq = end.vcq,
                                .rmt = ends[1].id,
                                .operand = 1,
                                .rmt_stadd = ends[1].stadd,
                                .edata = round,
                                .flags = UT_LCL | UT_RMT};
        struct ut_comm put = {.kind = UT_PUT,
                              .vcq = end.vcq,
                              .rmt = ends[1].id,
                              .lcl_stadd = end.stadd,
                              .rmt_stadd = far,
                              .length = 512,
                              .edata = 100,
                              .flags = UT_LCL};
        ut_barrier();
        if (ut_rank == 0) {
            memset(end.mem, (int)round, 512);
            word_submit(&add);
            ut_submit(&put);
            CHECK_EQ(word_await(&add), round - 1);
            struct utofu_mrq_notice told = ut_lcl_notice(&put, 0);
            ut_expect_notice(end.vcq, &told);
        } else {
            word_expect_remote(end.vcq, &add, ends[0].id);
        }
        ut_barrier();
        ut_expect_nothing(end.vcq);
        if (ut_rank == 1) {
            uint8_t *now = two[~round % 2], *next = two[round % 2];
            CHECK_EQ(word_load(end.mem, 8), round);
            CHECK(now[0] == round && now[511] == round, "the put of round %llu is elsewhere",
                  (unsigned long long)round);
            CHECK_OK(utofu_dereg_mem(end.vcq, stadd, 0));
            CHECK_OK(utofu_reg_mem_with_stag(end.vcq, next, 4096, BREAK_STAG, 0, &stadd));
        }
    }
    ut_barrier();
    CHECK_OK(utofu_dereg_mem(end.vcq, stadd, 0));
    ut_close_all(&end);
}

Test(order, an_armw_before_a_broken_connection_is_executed_and_told_once)
{
    run(2, 2, break_behind);
}
