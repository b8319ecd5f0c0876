/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ARMWs of many VCQs, TNIs and processes, and the target's own atomic instructions, on the same
 * words: no update is lost. Section 2.2.5.
 *
 * UT_ARMW_OPS: ARMWs per process (20,000; 100,000 in the full run). UT_ARMW_MODE: cpu or nic; in
 * nic mode the target's CPU does not access the words.
 */
#include "words.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

TestSuite(atomicity);

enum { PROCS = 4, VCQS = 3, WORDS = 4, PENDING = 64 };

static bool nic_mode(void)
{
    const char *mode = getenv("UT_ARMW_MODE");

    return mode && strcmp(mode, "nic") == 0;
}

static void run(int n, ut_body_fn *body, int timeout_s)
{
    ut_run(&(struct ut_run_opts){.n = n,
                                 .timeout_s = timeout_s,
                                 .env = {nic_mode() ? "UTOFU_ARMW=nic" : "UTOFU_ARMW=cpu"}},
           body, NULL);
}

/* The words: the sums of all added values modulo the word size; words 2 and 3 count by
 * compare-and-swap that may fail, and by XOR of single bits. */
struct words {
    _Atomic uint64_t sum8;
    _Atomic uint32_t sum4[2]; /* both halves of one aligned word */
    _Atomic uint64_t won;
    _Atomic uint64_t bits;
};

/* One process's VCQs for one target, and its changes of the words. */
struct worker {
    struct ut_end end[VCQS];
    struct ut_peer target[VCQS]; /* the same memory, registered on each of the target's VCQs */
    unsigned int out[VCQS];
    struct {
        uint64_t sum8, sum4[2], won, bits;
    } mine;
    uint64_t guess;
};

static void take_notices(struct worker *w, int v, unsigned int leave)
{
    while (w->out[v] > leave) {
        struct utofu_mrq_notice notice;

        CHECK_OK(ut_await_mrq(w->end[v].vcq, &notice));
        CHECK_EQ(notice.notice_type, UTOFU_MRQ_TYPE_LCL_ARMW);
        w->out[v]--;
        if (notice.edata == 4) {
            /* the swap was successful if the word had the compared value */
            w->mine.won += notice.rmt_value == w->guess;
            w->guess = notice.rmt_value + (notice.rmt_value == w->guess);
        }
    }
}

static void one_armw(struct worker *w)
{
    int v = (int)ut_random_below(VCQS);
    unsigned int what = (unsigned int)ut_random_below(5);
    uint64_t amount = ut_random() >> 40;
    struct word_armw armw = {.op = WORD_ADD,
                             .size = 8,
                             .vcq = w->end[v].vcq,
                             .rmt = w->target[v].id,
                             .rmt_stadd = w->target[v].stadd,
                             .operand = amount,
                             .edata = what,
                             .flags = UT_LCL,
                             .prepared = ut_random_below(4) == 0};

    switch (what) {
    case 0:
        w->mine.sum8 += amount;
        break;
    case 1:
    case 2:
        armw.size = 4;
        armw.rmt_stadd += offsetof(struct words, sum4) + (what - 1) * 4;
        w->mine.sum4[what - 1] += amount;
        break;
    case 3:
        armw.op = WORD_XOR;
        armw.operand = 1ull << ut_random_below(64);
        armw.rmt_stadd += offsetof(struct words, bits);
        w->mine.bits ^= armw.operand;
        break;
    default: /* one guess at a time */
        take_notices(w, 0, 0);
        take_notices(w, 1, 0);
        take_notices(w, 2, 0);
        armw.op = WORD_CSWAP;
        armw.compare = w->guess;
        armw.operand = w->guess + 1;
        armw.rmt_stadd += offsetof(struct words, won);
    }
    word_submit(&armw);
    w->out[v]++;
    take_notices(w, v, what == 4 ? 0 : PENDING - 1);
}

/* The target's CPU, meanwhile. */
static void *add_by_cpu(void *arg)
{
    struct words *words = arg;
    uint64_t n = 0;

    while (*ut_cell(0) < PROCS) {
        uint64_t won = atomic_load(&words->won);

        atomic_fetch_add(&words->sum8, 1);
        atomic_fetch_add(&words->sum4[0], 1);
        atomic_fetch_add(&words->sum4[1], 1);
        if (n % 1000 == 0 && atomic_compare_exchange_strong(&words->won, &won, won + 1))
            atomic_fetch_add(ut_cell(5), 1);
        n++;
    }
    atomic_fetch_add(ut_cell(1), n);
    atomic_fetch_add(ut_cell(2), n);
    atomic_fetch_add(ut_cell(3), n);
    return NULL;
}

static void sums(void *arg)
{
    uint64_t ops = ut_env_number("UT_ARMW_OPS", 20000);
    struct words *words = ut_pages(4096);
    struct ut_end end[VCQS];
    struct ut_peer mine[VCQS], all[PROCS * VCQS];
    struct worker w = {0};
    pthread_t cpu;

    (void)arg;
    for (int v = 0; v < VCQS; v++) {
        struct ut_end *e = &end[v];

        ut_end_open(e, (utofu_tni_id_t)(v % 2), v == 2 ? UTOFU_VCQ_FLAG_THREAD_SAFE : 0, 4096);
        mine[v] = ut_end_peer(e);
        CHECK_OK(utofu_reg_mem(e->vcq, words, 4096, 0, &mine[v].stadd));
    }
    ut_allgather(mine, all, sizeof(mine));
    memcpy(w.end, end, sizeof(end));
    memcpy(w.target, all, sizeof(w.target)); /* rank 0 also executes its own ARMWs */
    if (ut_rank == 0 && !nic_mode())
        CHECK_EQ(pthread_create(&cpu, NULL, add_by_cpu, words), 0);
    for (uint64_t i = 0; i < ops; i++) {
        if (i % 1000 == 0)
            ut_step("ARMW %llu", (unsigned long long)i);
        one_armw(&w);
    }
    for (int v = 0; v < VCQS; v++)
        take_notices(&w, v, 0);
    atomic_fetch_add(ut_cell(1), w.mine.sum8);
    atomic_fetch_add(ut_cell(2), w.mine.sum4[0]);
    atomic_fetch_add(ut_cell(3), w.mine.sum4[1]);
    atomic_fetch_xor(ut_cell(4), w.mine.bits);
    atomic_fetch_add(ut_cell(5), w.mine.won);
    atomic_fetch_add(ut_cell(0), 1);
    if (ut_rank == 0 && !nic_mode())
        pthread_join(cpu, NULL);
    ut_barrier();
    if (ut_rank == 0) {
        CHECK_EQ(atomic_load(&words->sum8), *ut_cell(1));
        CHECK_EQ(atomic_load(&words->sum4[0]), (uint32_t)*ut_cell(2));
        CHECK_EQ(atomic_load(&words->sum4[1]), (uint32_t)*ut_cell(3));
        CHECK_EQ(atomic_load(&words->bits), *ut_cell(4));
        CHECK_EQ(atomic_load(&words->won), *ut_cell(5));
        CHECK(*ut_cell(5) > 0);
    }
    ut_barrier();
    for (int v = 0; v < VCQS; v++)
        ut_end_close(&end[v]);
}

Test(atomicity, mixed_armws_and_the_targets_own_atomics_lose_nothing)
{
    run(PROCS, sums, 120);
}

/* A lock of 8 bytes at rank 0 protects a counter there, which get and put access. */

struct locked {
    uint64_t lock, counter;
};

static uint64_t armw_and_wait(const struct word_armw *armw)
{
    word_submit(armw);
    return word_await(armw);
}

static void transfer(const struct ut_end *end, const struct ut_peer *peer, enum ut_kind kind,
                     size_t at)
{
    struct utofu_mrq_notice notice;
    struct ut_comm comm = {.kind = kind,
                           .vcq = end->vcq,
                           .rmt = peer->id,
                           .length = 8,
                           .lcl_stadd = end->stadd + 1024,
                           .rmt_stadd = peer->stadd + at,
                           .flags = UT_LCL};

    ut_submit(&comm);
    CHECK_OK(ut_await_mrq(end->vcq, &notice));
}

static void lock_body(void *arg)
{
    uint64_t rounds = ut_env_number("UT_ARMW_LOCK_ROUNDS", 300);
    struct ut_end end;
    struct ut_peer peers[PROCS];
    uint64_t *here;
    uint64_t waited = 0;

    (void)arg;
    ut_open_all(&end, 4096, peers);
    here = (uint64_t *)(void *)(end.mem + 1024);
    struct word_armw take = {.op = WORD_CSWAP,
                             .size = 8,
                             .vcq = end.vcq,
                             .rmt = peers[0].id,
                             .rmt_stadd = peers[0].stadd,
                             .compare = 0,
                             .operand = (uint64_t)ut_rank + 1,
                             .flags = UT_LCL};
    struct word_armw give = take;
    give.compare = take.operand;
    give.operand = 0;
    give.flags |= UT_STRONG; /* after the put of the counter */
    for (uint64_t i = 0; i < rounds; i++) {
        ut_step("round %llu", (unsigned long long)i);
        while (armw_and_wait(&take) != 0) {
            waited++;
            ut_relax();
        }
        transfer(&end, &peers[0], UT_GET, offsetof(struct locked, counter));
        uint64_t value = *here;
        *here = value + 1;
        transfer(&end, &peers[0], UT_PUT, offsetof(struct locked, counter));
        CHECK_EQ(armw_and_wait(&give), take.operand);
    }
    printf("waited %llu times\n", (unsigned long long)waited);
    ut_barrier();
    if (ut_rank == 0) {
        CHECK_EQ(word_load(end.mem + offsetof(struct locked, lock), 8), 0);
        CHECK_EQ(word_load(end.mem + offsetof(struct locked, counter), 8), rounds * PROCS);
    }
    ut_close_all(&end);
}

Test(atomicity, lock_made_of_cswap8_protects_a_counter)
{
    run(PROCS, lock_body, 120);
}

/* A small version of the manual's 5.1.3: of all simultaneous swaps exactly one wins. */

static void one_winner(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[8];

    (void)arg;
    ut_open_all(&end, 4096, peers);
    for (uint64_t round = 0; round < 100; round++) {
        struct word_armw claim = {.op = WORD_CSWAP,
                                  .size = 4,
                                  .vcq = end.vcq,
                                  .rmt = peers[0].id,
                                  .rmt_stadd = peers[0].stadd + 4 * round,
                                  .compare = 0,
                                  .operand = (uint64_t)ut_rank + 1,
                                  .flags = UT_LCL};
        ut_barrier();
        uint64_t old = armw_and_wait(&claim);
        if (old == 0) {
            atomic_fetch_add(ut_cell(0), 1);
            atomic_store(ut_cell(1), claim.operand);
        }
        ut_barrier();
        CHECK_EQ(*ut_cell(0), round + 1);
        CHECK_EQ(old == 0 ? claim.operand : old, *ut_cell(1)); /* the losers see the winner */
        if (ut_rank == 0)
            CHECK_EQ(word_load(end.mem + 4 * round, 4), *ut_cell(1));
    }
    ut_close_all(&end);
}

Test(atomicity, exactly_one_of_eight_wins)
{
    run(8, one_winner, 60);
}

/* A target that does not call the library */

static double seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void asleep(void *arg)
{
    enum { ROUNDS = 50 };
    struct ut_end end;
    struct ut_peer peers[2];
    bool compute = arg != NULL;

    ut_open_all(&end, 4096, peers);
    if (ut_rank == 1) {
        if (compute) {
            volatile uint64_t x = 1;
            while (*ut_cell(0) == 0)
                x = x * 3 + 1;
        } else {
            do {
                struct timespec left = {.tv_sec = 2};
                /* the library sends the program no signal */
                CHECK(nanosleep(&left, &left) == 0, "a signal came");
            } while (*ut_cell(0) == 0);
        }
        CHECK_EQ(word_load(end.mem, 8), ROUNDS);
    } else {
        double worst = 0, start = seconds();
        for (uint64_t i = 0; i < ROUNDS; i++) {
            struct word_armw armw = {.op = WORD_ADD,
                                     .size = 8,
                                     .vcq = end.vcq,
                                     .rmt = peers[1].id,
                                     .rmt_stadd = peers[1].stadd,
                                     .operand = 1,
                                     .flags = UT_LCL};
            double before = seconds();
            CHECK_EQ(armw_and_wait(&armw), i);
            worst = seconds() - before > worst ? seconds() - before : worst;
            ut_random_delay(10000);
        }
        *ut_cell(0) = 1;
        printf("ARMW at a %s target: worst %.0f us, all %.3f s\n",
               compute ? "computing" : "sleeping", worst * 1e6, seconds() - start);
    }
    ut_close_all(&end);
}

Test(atomicity, target_asleep_in_nanosleep_answers)
{
    run(2, asleep, 60);
}

static void computing(void *arg)
{
    (void)arg;
    asleep(&(int){1});
}

Test(atomicity, target_that_computes_answers)
{
    run(2, computing, 60);
}
