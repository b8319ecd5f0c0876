/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs for UTOFU_CHECK in which the destination of a put under way is written: by a CPU, or by
 * a communication that is not held itself. Each in two versions: the wrong one must be reported as
 * remote-written, and as nothing else, its correct twin not at all. Rank ORIGIN puts.
 *
 * A wrong one may run again, at most MOST_RUNS times: on a loaded machine the other process may
 * come too late. UT_CHECK_RUNS, UT_CHECK_ROUNDS, UT_CHECK_ONLY, UT_CHECK_ENV: as in test_origins.c.
 */
#include "ends.h"
#include "reported.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(target);

enum {
    SIZE = 64 * 1024,
    SRC = 32 * 1024, /* the sources of puts lie from here on */
    LINE = 256,
    LONG = 16384,
    MANY = 600,
    LATER_US = 1000, /* the first communications of a place are held for longer */
    ROUNDS = 4,
    MOST_RUNS = 200,
    ORIGIN = 0,
    TARGET,
    THIRD,
    PROCS,
};

struct program {
    const char *name;
    void (*body)(const struct program *p, bool right, int round);
    enum ut_kind kind;
    size_t length;
    const char *or_id; /* or this finding of the other communication */
};

static struct ut_end end;
static struct ut_peer peers[PROCS];

static void put_to(int rank, const struct program *p, size_t to, int round)
{
    struct ut_comm comm = {.kind = p->kind,
                           .vcq = end.vcq,
                           .rmt = peers[rank].id,
                           .lcl_stadd = end.stadd + SRC,
                           .rmt_stadd = peers[rank].stadd + to,
                           .data = end.mem + SRC,
                           .length = p->length,
                           .flags = UT_LCL};

    memset(end.mem + SRC, 1 + round, p->length);
    ut_start_busy(&comm);
}

static void mrq(void)
{
    struct utofu_mrq_notice notice;

    CHECK_OK(ut_await_mrq(end.vcq, &notice));
}

static void put(const struct program *p, int round)
{
    put_to(TARGET, p, 0, round);
    mrq();
}

/* By the CPU, a while later; another value in each round. */
static void store(size_t at, size_t length, int round)
{
    ut_random_delay(LATER_US);
    for (size_t i = 0; i < length; i++)
        __atomic_store_n(end.mem + at + i, (uint8_t)(0x80 + round), __ATOMIC_RELAXED);
}

/*
 * The programs
 */

/* The target announces that its memory may be written, and clears it afterwards. */
static void cleared_late(const struct program *p, bool right, int round)
{
    if (ut_rank == TARGET && right)
        store(0, p->length, round);
    ut_barrier();
    if (ut_rank == ORIGIN)
        put(p, round);
    if (ut_rank == TARGET && !right)
        store(0, p->length, round);
    ut_barrier();
}

/* A word that the target writes is within the destination. */
static void word_within(const struct program *p, bool right, int round)
{
    ut_barrier();
    if (ut_rank == ORIGIN)
        put(p, round);
    if (ut_rank == TARGET)
        store(right ? p->length : p->length - 8, 8, round);
    ut_barrier();
}

/* The target writes the same data as the put, so the order does not matter. */
static void same_bytes(const struct program *p, bool right, int round)
{
    ut_barrier();
    if (ut_rank == ORIGIN)
        put(p, round);
    if (ut_rank == TARGET)
        ut_random_delay(LATER_US);
    if (ut_rank == TARGET)
        for (size_t i = 0; i < p->length; i++)
            __atomic_store_n(end.mem + i, (uint8_t)(1 + round + (right || i != 5 ? 0 : 64)),
                             __ATOMIC_RELAXED);
    ut_barrier();
}

/* The next put comes before the target has announced that it has used the last data. */
static void used_late(const struct program *p, bool right, int round)
{
    if (ut_rank == ORIGIN) {
        if (right)
            while (atomic_load(ut_cell(0)) < (uint64_t)round)
                ut_relax();
        put(p, round);
        atomic_fetch_add(ut_cell(1), 1);
    }
    if (ut_rank != TARGET)
        return;
    while (atomic_load(ut_cell(1)) <= (uint64_t)round)
        ut_relax();
    store(0, p->length, round); /* used */
    atomic_fetch_add(ut_cell(0), 1);
}

/* A process puts to its own memory, and writes it before the notice. */
static void own_memory(const struct program *p, bool right, int round)
{
    if (ut_rank != ORIGIN)
        return;
    put_to(ORIGIN, p, 0, round);
    if (right)
        mrq();
    store(0, p->length, round);
    if (!right)
        mrq();
}

/* A get of the target has the same destination. */
static void got_there(const struct program *p, bool right, int round)
{
    struct ut_comm get = {.kind = UT_GET,
                          .vcq = end.vcq,
                          .rmt = peers[THIRD].id,
                          .lcl_stadd = end.stadd + (right ? p->length : 0),
                          .rmt_stadd = peers[THIRD].stadd,
                          .length = p->length,
                          .flags = UT_LCL};

    if (ut_rank == THIRD)
        store(0, p->length, round);
    ut_barrier();
    if (ut_rank == ORIGIN)
        put(p, round);
    if (ut_rank == TARGET) {
        ut_start_busy(&get);
        mrq();
    }
    ut_barrier();
}

/* So has a put of a third process, from a place that is reached so often that it is seldom held. */
static void third_lands(const struct program *p, bool right, int round)
{
    for (int i = 0; ut_rank == THIRD && round == 0 && i < MANY; i++) {
        put_to(TARGET, p, 2 * p->length, 100);
        mrq();
    }
    ut_barrier();
    if (ut_rank == ORIGIN)
        put(p, round);
    if (ut_rank == THIRD) {
        put_to(TARGET, p, right ? p->length : 0, 100 + round);
        mrq();
    }
    ut_barrier();
}

/* The put is one of a session-mode VCQ, started by another put. */
static void relayed(const struct program *p, bool right, int round)
{
    struct utofu_mrq_notice notice;
    struct ut_end relay;

    if (ut_rank == ORIGIN) {
        ut_end_open(&relay, 1, UTOFU_VCQ_FLAG_SESSION_MODE, SIZE);
        CHECK_OK(utofu_put(end.vcq, relay.id, end.stadd, relay.stadd, 8, 0,
                           UT_LCL | UT_RMT | UTOFU_ONESIDED_FLAG_SPS(1ul), NULL));
        CHECK_OK(ut_await_mrq(relay.vcq, &notice));
        mrq();
        /* so that the STADD is known: of a word that no other process uses */
        CHECK_OK(utofu_put(relay.vcq, peers[TARGET].id, relay.stadd + SRC,
                           peers[TARGET].stadd + SIZE - 8, 8, 0, UT_LCL, NULL));
        CHECK_OK(ut_await_mrq(relay.vcq, &notice));
        CHECK_OK(utofu_put(end.vcq, relay.id, end.stadd, relay.stadd, 8, 0,
                           UT_LCL | UT_RMT | UTOFU_ONESIDED_FLAG_SPS(1ul), NULL));
        CHECK_OK(ut_await_mrq(relay.vcq, &notice));
        mrq();
        memset(relay.mem + SRC, 1 + round, p->length);
    }
    ut_barrier();
    if (ut_rank == ORIGIN) {
        CHECK_OK(utofu_put(relay.vcq, peers[TARGET].id, relay.stadd + SRC, peers[TARGET].stadd,
                           p->length, 0, UT_LCL, NULL));
        CHECK_OK(ut_await_mrq(relay.vcq, &notice));
        ut_end_close(&relay);
    }
    if (ut_rank == TARGET)
        store(right ? p->length : 0, p->length, round);
    ut_barrier();
}

static const struct program programs[] = {
    {"cleared_late", cleared_late, UT_PUT, 1024, NULL},
    {"cleared_late_long", cleared_late, UT_PUT, LONG, NULL},
    {"cleared_late_piggyback", cleared_late, UT_PIGGYBACK, 8, NULL},
    {"word_within", word_within, UT_PUT, 4 * LINE, NULL},
    {"word_within_long", word_within, UT_PUT, LONG, NULL},
    {"same_bytes", same_bytes, UT_PUT, 64, NULL},
    {"used_late", used_late, UT_PUT, 512, NULL},
    {"own_memory", own_memory, UT_PUT, 64, NULL},
    {"own_memory_piggyback", own_memory, UT_PIGGYBACK, 32, NULL},
    {"got_there", got_there, UT_PUT, 512, "target-written"},
    {"third_lands", third_lands, UT_PUT, 512, "origins"},
    {"relayed", relayed, UT_PUT, 512, NULL},
};

/*
 * Running
 */

struct how {
    const struct program *program;
    bool right;
};

static void run_body(void *arg)
{
    const struct how *how = arg;

    ut_open_all(&end, SIZE, peers);
    /* in words that no other process uses, so that the STADDs are known */
    for (int rank = 0; rank < PROCS; rank++) {
        struct ut_comm first = {.kind = UT_PIGGYBACK8,
                                .vcq = end.vcq,
                                .rmt = peers[rank].id,
                                .data = end.mem + SRC,
                                .rmt_stadd = peers[rank].stadd + SIZE - 64 + 8 * (size_t)ut_rank,
                                .length = 8,
                                .flags = UT_LCL};
        ut_start_busy(&first);
        mrq();
    }
    for (int i = 0; i < ROUNDS; i++)
        how->program->body(how->program, how->right, i);
    ut_barrier();
    ut_close_all(&end);
}

static bool run(const struct how *how, struct ut_outcome out[PROCS], char *report, size_t size)
{
    const struct ut_run_opts opts = {
        .n = PROCS,
        .timeout_s = 60,
        .env = {"UTOFU_CHECK=1", "UTOFU_LOG_LEVEL=error", getenv("UT_CHECK_ENV")}};

    return ut_run_collect(&opts, run_body, (void *)how, out, report, size);
}

Test(target, wrong_programs_are_reported, .timeout = 0)
{
    uint64_t runs = ut_env_number("UT_CHECK_RUNS", 0);
    struct ut_outcome out[PROCS];
    char report[4096];

    for (size_t i = 0; i < NUM(programs); i++) {
        const struct program *p = &programs[i];
        const struct how how = {.program = p};
        uint64_t done = 0, hits = 0;
        while (is_chosen(p->name) &&
               (done < runs || (runs == 0 && hits == 0 && done < MOST_RUNS))) {
            cr_assert(run(&how, out, report, sizeof(report)), "%s: %s", p->name, report);
            int n = num_findings(out, PROCS, "remote-written", NULL),
                others = num_findings(out, PROCS, NULL, NULL) - n,
                or = p->or_id ? num_findings(out, PROCS, p->or_id, NULL) : 0;
            cr_expect(others == or, "%s has other findings than remote-written: %s%s", p->name,
                      out[ORIGIN].output, out[THIRD].output);
            hits += n + or > 0;
            done++;
        }
        if (done == 0)
            continue;
        cr_expect(hits > 0, "%s is not reported", p->name);
        fprintf(stderr, "%-26s %llu of %llu runs\n", p->name, (unsigned long long)hits,
                (unsigned long long)done);
    }
}

Test(target, right_programs_are_not, .timeout = 0)
{
    uint64_t rounds = ut_env_number("UT_CHECK_ROUNDS", 1);
    struct ut_outcome out[PROCS];
    char report[4096];

    for (size_t i = 0; i < NUM(programs); i++) {
        const struct how how = {.program = &programs[i], .right = true};
        for (uint64_t r = 0; r < rounds && is_chosen(programs[i].name); r++) {
            cr_assert(run(&how, out, report, sizeof(report)), "%s: %s", programs[i].name, report);
            cr_expect(num_findings(out, PROCS, NULL, NULL) == 0, "%s is right, but: %s%s%s",
                      programs[i].name, out[ORIGIN].output, out[TARGET].output, out[THIRD].output);
        }
    }
}
