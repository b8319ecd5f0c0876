/* SPDX-License-Identifier: Apache-2.0 */
/* High load, and processes that die: slow tests. */
#include "ends.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

TestSuite(stress);

/* All to all */

static void all_to_all(void *arg)
{
    enum { BLOCK = 4096, ROUNDS = 100 };
    struct ut_end end;
    struct ut_peer peers[8];

    (void)arg;
    ut_open_all(&end, (size_t)BLOCK * 9, peers); /* one block to send, one from each */
    for (int round = 1; round <= ROUNDS; round++) {
        ut_step("round %d", round);
        memset(end.mem, ut_rank * 29 + round, BLOCK);
        for (int k = 0; k < ut_size; k++) {
            const struct ut_peer *to = &peers[(ut_rank + k) % ut_size];
            struct ut_comm comm = {.kind = UT_PUT,
                                   .vcq = end.vcq,
                                   .rmt = to->id,
                                   .lcl_stadd = end.stadd,
                                   .rmt_stadd = to->stadd + BLOCK * (1 + (size_t)ut_rank),
                                   .length = BLOCK,
                                   .edata = (uint64_t)ut_rank,
                                   .flags = UT_LCL | UT_RMT};

            ut_start_busy(&comm);
        }
        for (int due = 2 * ut_size; due > 0; due--) {
            struct utofu_mrq_notice notice;

            CHECK_OK(ut_await_mrq(end.vcq, &notice));
            if (notice.notice_type == UTOFU_MRQ_TYPE_RMT_PUT)
                CHECK_EQ(peers[notice.edata].id, notice.vcq_id);
        }
        for (int from = 0; from < ut_size; from++)
            for (size_t i = 0; i < BLOCK; i += 97)
                CHECK_EQ(end.mem[BLOCK * (1 + (size_t)from) + i], (from * 29 + round) & 0xff);
        ut_barrier();
    }
    ut_close_all(&end);
}

Test(stress, eight_processes_exchange_all_to_all)
{
    ut_run(&(struct ut_run_opts){.n = 8, .nodes = 4, .timeout_s = 120}, all_to_all, NULL);
    ut_run(&(struct ut_run_opts){.n = 8, .nodes = 1, .timeout_s = 120}, all_to_all, NULL);
}

/* A million puts */

static void million(void *arg)
{
    enum { COUNT = 1000000, WORDS = 512 };
    struct ut_end end;
    struct ut_peer peers[2];
    size_t told = 0, due = 0;

    (void)arg;
    ut_open_all(&end, 8 * (WORDS + 1), peers);
    for (uint64_t i = 1; ut_rank == 0 && i <= COUNT; i++) {
        struct ut_comm comm = {.kind = i % 2 ? UT_PIGGYBACK8 : UT_PUT,
                               .vcq = end.vcq,
                               .rmt = peers[1].id,
                               .data = &i,
                               .lcl_stadd = end.stadd,
                               .rmt_stadd = peers[1].stadd + 8 * (i % WORDS),
                               .length = 8,
                               .flags = i % 100 == 0 ? UT_TCQ : 0};

        if (i > COUNT - 2 * WORDS) /* so that a word keeps its last value */
            comm.flags |= UT_STRONG;
        if (i == COUNT) { /* the last one comes after all others */
            comm.kind = UT_PIGGYBACK8;
            comm.rmt_stadd = peers[1].stadd + 8 * WORDS;
        }
        due += comm.flags & UT_TCQ ? 1 : 0;
        told += ut_start_busy(&comm);
    }
    for (; told < due; told++)
        ut_expect_tcq(end.vcq, UTOFU_SUCCESS, NULL);
    if (ut_rank == 1) {
        const uint64_t *words = (const uint64_t *)(const void *)end.mem;

        ut_await_word(&words[WORDS], COUNT);
        for (uint64_t i = COUNT - WORDS / 2; i < COUNT; i++)
            if (i % 2)
                CHECK_EQ(words[i % WORDS], i);
    }
    ut_close_all(&end);
}

Test(stress, million_puts_to_one_peer)
{
    ut_run(&(struct ut_run_opts){.n = 2, .nodes = 2, .timeout_s = 120}, million, NULL);
}

/* The longest transfers, both ways at once */

static void longest_both_ways(void *arg)
{
    enum { HALF = 1 << 24 };
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, (size_t)3 * HALF, peers);
    uint32_t *words = (uint32_t *)(void *)end.mem;

    for (uint32_t round = 0; round < 4; round++) {
        const struct ut_peer *to = &peers[!ut_rank];
        struct ut_comm put = {.kind = UT_PUT,
                              .vcq = end.vcq,
                              .rmt = to->id,
                              .lcl_stadd = end.stadd,
                              .rmt_stadd = to->stadd + HALF,
                              .length = UT_MAX_PUTGET,
                              .flags = UT_LCL | UT_RMT};
        struct ut_comm get = put;

        get.kind = UT_GET;
        get.lcl_stadd = end.stadd + 2 * (size_t)HALF;
        get.rmt_stadd = to->stadd;
        for (uint32_t i = 0; i < HALF / 4; i++)
            words[i] = i * 2654435761u + round * 7 + (uint32_t)ut_rank;
        ut_barrier();
        ut_submit(&put);
        ut_submit(&get);
        for (int i = 0; i < 4; i++) {
            struct utofu_mrq_notice notice;

            CHECK_OK(ut_await_mrq(end.vcq, &notice));
        }
        for (uint32_t i = 0; i < HALF / 4 - 1; i++) {
            uint32_t want = i * 2654435761u + round * 7 + (uint32_t)!ut_rank;

            CHECK(words[HALF / 4 + i] == want && words[HALF / 2 + i] == want,
                  "word %u of round %u is wrong", i, round);
        }
        ut_barrier();
    }
    ut_close_all(&end);
}

Test(stress, longest_puts_and_gets_both_ways_at_once)
{
    ut_run(&(struct ut_run_opts){.n = 2, .nodes = 2, .timeout_s = 120}, longest_both_ways, NULL);
}

/* Many VCQs */

static void many_vcqs(void *arg)
{
    enum { VCQS = 64 };
    static struct ut_end ends[VCQS];
    static struct ut_peer mine[VCQS], all[2 * VCQS];
    static int seen[VCQS][VCQS];

    (void)arg;
    for (int i = 0; i < VCQS; i++) {
        ut_end_open(&ends[i], (utofu_tni_id_t)(i % UT_TNIS), 0, 8 * VCQS);
        mine[i] = ut_end_peer(&ends[i]);
    }
    ut_allgather(mine, all, sizeof(mine));
    const struct ut_peer *theirs = &all[!ut_rank * VCQS];
    for (uint64_t i = 0; i < VCQS; i++) {
        for (uint64_t k = 0; k < VCQS; k++) {
            uint64_t value = i << 32 | k;
            struct ut_comm comm = {.kind = UT_PIGGYBACK8,
                                   .vcq = ends[i].vcq,
                                   .rmt = theirs[k].id,
                                   .data = &value,
                                   .rmt_stadd = theirs[k].stadd + 8 * i,
                                   .length = 8,
                                   .edata = i,
                                   .flags = UT_RMT};

            ut_start_busy(&comm);
        }
    }
    for (size_t k = 0; k < VCQS; k++) {
        ut_step("notices of VCQ %zu", k);
        for (size_t due = 0; due < VCQS; due++) {
            struct utofu_mrq_notice notice;

            CHECK_OK(ut_await_mrq(ends[k].vcq, &notice));
            CHECK(notice.edata < VCQS);
            CHECK_EQ(notice.vcq_id, theirs[notice.edata].id);
            CHECK_EQ(notice.rmt_stadd, ends[k].stadd + 8 * notice.edata + 8);
            CHECK_EQ(++seen[k][notice.edata], 1);
            CHECK_EQ(((uint64_t *)(void *)ends[k].mem)[notice.edata], notice.edata << 32 | k);
        }
    }
    ut_barrier();
    for (int i = 0; i < VCQS; i++) {
        ut_expect_nothing(ends[i].vcq);
        ut_end_close(&ends[i]);
    }
}

Test(stress, sixty_four_vcqs_each_exchange_with_all_of_another_process)
{
    ut_run(&(struct ut_run_opts){.n = 2, .nodes = 2, .timeout_s = 120}, many_vcqs, NULL);
    /* two processes share the nine CQs of each TNI, so none can be kept for session mode */
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_NUM_SESSION_MODE_CQS=0"}}, many_vcqs, NULL);
}

/* A process dies. Rank 3 is the victim; 0 to 2 communicate with it and with each other. Rank 2
 * communicates with it for the first time when it is dead. */

enum { VICTIM = 3, WINDOW = 64 };

static struct ut_comm to_victim(const struct ut_end *end, const struct ut_peer *victim, uint64_t i)
{
    static const enum ut_kind kinds[] = {UT_PUT, UT_GET, UT_PIGGYBACK8, UT_PUT_STRIDE};
    struct ut_comm comm = {.kind = kinds[i % 4],
                           .vcq = end->vcq,
                           .rmt = victim->id,
                           .data = end->mem,
                           .lcl_stadd = end->stadd + (i % 4 == 1 ? 32768 : 0),
                           .rmt_stadd = victim->stadd + 8 * (size_t)ut_rank,
                           .length = i % 8 == 0 ? 16384 : 8,
                           .stride = 64,
                           .blocks = 1,
                           .edata = i % 256,
                           .flags = UT_LCL};

    if (i % 16 == 0)
        comm.flags |= UT_RMT;
    return comm;
}

/* The next local notice is that of communication i. Returns its code. */
static int result_of(const struct ut_end *end, const struct ut_peer *victim, uint64_t i)
{
    struct utofu_mrq_notice notice;
    struct ut_comm comm = to_victim(end, victim, i);
    int rc = ut_await_mrq(end->vcq, &notice);

    CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_MRQ_PEER, "communication %llu gave %s",
          (unsigned long long)i, ut_rc_name(rc));
    CHECK_EQ(notice.vcq_id, victim->id);
    CHECK_EQ(notice.edata, comm.edata);
    CHECK_EQ(notice.notice_type,
             comm.kind == UT_GET ? UTOFU_MRQ_TYPE_LCL_GET : UTOFU_MRQ_TYPE_LCL_PUT);
    return rc;
}

/* Keeps a window of communications to the victim under way until one fails; then the remaining ones
 * have failed, too. Returns the number of successful ones. */
static uint64_t talk_until_dead(const struct ut_end *end, const struct ut_peer *victim)
{
    uint64_t started = 0, done = 0, good = 0;
    bool dead = false;

    while (!dead || done < started) {
        while (!dead && started - done < WINDOW) {
            struct ut_comm comm = to_victim(end, victim, started++);

            ut_start_busy(&comm);
        }
        ut_step("talking: %llu of %llu done", (unsigned long long)done,
                (unsigned long long)started);
        int rc = result_of(end, victim, done++);
        CHECK(!dead || rc != UTOFU_SUCCESS, "a success after the death");
        dead = rc != UTOFU_SUCCESS;
        good += rc == UTOFU_SUCCESS;
        if (good == 2000) /* in the middle of the traffic */
            atomic_fetch_add(ut_cell(0), 1);
    }
    return good;
}

static void one_is_killed(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[4];
    uint64_t good = 0;

    (void)arg;
    ut_open_all(&end, 65536, peers);
    if (ut_rank == VICTIM) {
        while (atomic_load(ut_cell(0)) < 2)
            ut_relax();
        ut_mark_dead(VICTIM);
        raise(SIGKILL);
    }
    if (ut_rank < 2)
        good = talk_until_dead(&end, &peers[VICTIM]);
    CHECK(ut_rank == 2 || good >= 2000);
    while (ut_rank == 2 && atomic_load(ut_cell(0)) < 2)
        ut_relax();
    ut_barrier();
    for (uint64_t i = 0; i < 20; i++) { /* new communications */
        struct ut_comm comm = to_victim(&end, &peers[VICTIM], i);

        ut_step("communication %llu with the dead process", (unsigned long long)i);
        ut_start_busy(&comm);
        CHECK_RC(result_of(&end, &peers[VICTIM], i), UTOFU_ERR_MRQ_PEER);
    }
    ut_step("talking to the living");
    for (int to = 0; to < VICTIM; to++)
        for (int i = 0; i < 50; i++)
            ut_flush(&end, &peers[to]);
    ut_close_all(&end);
}

Test(stress, survivors_of_a_killed_process_get_mrq_peer_and_go_on)
{
    for (int nodes = 1; nodes <= 4; nodes += 3)
        ut_run(
            &(struct ut_run_opts){
                .n = 4, .nodes = nodes, .may_die = 1u << VICTIM, .fresh_root_socket = true},
            one_is_killed, NULL);
}

/* The MRQ overflows */

struct pile {
    size_t count;
    bool computes; /* the target does not call the library meanwhile */
    bool overflows;
};

static void pile_up(void *arg)
{
    const struct pile *pile = arg;
    const size_t count = pile->count;
    struct ut_end end;
    struct ut_peer peers[2];
    void *cbdata;

    ut_open_all(&end, 4096, peers);
    for (size_t i = 0; ut_rank == 1 && i < count; i++) {
        struct ut_comm comm = {.kind = UT_PIGGYBACK8,
                               .vcq = end.vcq,
                               .rmt = peers[0].id,
                               .data = &i,
                               .rmt_stadd = peers[0].stadd,
                               .length = 8,
                               .edata = i % 256,
                               .flags = UT_RMT};

        ut_start_busy(&comm);
    }
    if (ut_rank == 1) {
        struct ut_comm last = {.kind = UT_PIGGYBACK8,
                               .vcq = end.vcq,
                               .rmt = peers[0].id,
                               .data = &(uint64_t){1},
                               .rmt_stadd = peers[0].stadd + 8,
                               .length = 8,
                               .flags = UT_STRONG};

        ut_start_busy(&last);
        ut_barrier();
    } else {
        const uint64_t *last = (const uint64_t *)(const void *)(end.mem + 8);

        /* calls the library, but never takes a notice */
        while (__atomic_load_n(last, __ATOMIC_ACQUIRE) != 1 || pile->overflows) {
            if (!pile->computes)
                CHECK_RC(utofu_poll_tcq(end.vcq, 0, &cbdata), UTOFU_ERR_NOT_FOUND);
            ut_relax();
        }
        for (size_t i = 0; i < count; i++) {
            struct utofu_mrq_notice notice;

            CHECK_OK(ut_await_mrq(end.vcq, &notice));
            CHECK_EQ(notice.edata, i % 256);
        }
        ut_barrier();
    }
    ut_close_all(&end);
}

Test(stress, mrq_takes_as_many_notices_as_it_has_entries)
{
    struct pile pile = {.count = 2048};

    ut_run(&(struct ut_run_opts){.n = 2, .nodes = 2, .env = {"UTOFU_NUM_MRQ_ENTRIES=2048"}},
           pile_up, &pile);
}

Test(stress, million_notices_for_a_process_that_computes)
{
    struct pile pile = {.count = ut_env_number("UT_STRESS_NOTICES", 1000000), .computes = true};

    ut_run(
        &(struct ut_run_opts){
            .n = 2, .nodes = 2, .timeout_s = 120, .env = {"UTOFU_NUM_MRQ_ENTRIES=2Mi"}},
        pile_up, &pile);
}

static void check_overflow_message(const struct ut_outcome *out, const char *report)
{
    const char *line = strstr(out->output, "utofu: asynchronous error: MRQ Overflow on TNI ");
    int tni = -1, cq = -1;

    cr_assert_not_null(line, "no message: %s", report);
    cr_assert_eq(sscanf(line, "utofu: asynchronous error: MRQ Overflow on TNI %d CQ %d", &tni, &cq),
                 2);
    cr_assert_eq(tni, 0);
    cr_assert(cq >= 0 && cq < UT_CQS);
    cr_assert(WIFSIGNALED(out->status) || WEXITSTATUS(out->status) != 0,
              "the program ended as if all were well");
}

Test(stress, mrq_overflow_is_told_and_ends_the_program)
{
    static struct ut_outcome out[2];
    static char report[65536];
    struct pile pile = {.count = 2100, .overflows = true};

    ut_run_collect(
        &(struct ut_run_opts){
            .n = 2, .nodes = 2, .env = {"UTOFU_NUM_MRQ_ENTRIES=2048"}, .may_die = 1u << 0},
        pile_up, &pile, out, report, sizeof(report));
    cr_assert_not(out[0].timed_out, "%s", report);
    check_overflow_message(&out[0], report);
}

static void own_pile(void *arg)
{
    struct ut_end end;
    struct ut_peer self;

    (void)arg;
    ut_end_open(&end, 0, 0, 4096);
    self = ut_end_peer(&end);
    for (;;) {
        struct ut_comm comm = {.kind = UT_PIGGYBACK8,
                               .vcq = end.vcq,
                               .rmt = self.id,
                               .data = &comm,
                               .rmt_stadd = self.stadd,
                               .length = 8,
                               .flags = UT_LCL};

        ut_start_busy(&comm);
        ut_relax();
    }
}

Test(stress, mrq_overflow_by_local_notices_is_one_too)
{
    static struct ut_outcome out[1];
    static char report[65536];

    ut_run_collect(
        &(struct ut_run_opts){.n = 1, .env = {"UTOFU_NUM_MRQ_ENTRIES=2Ki"}, .may_die = 1u << 0},
        own_pile, NULL, out, report, sizeof(report));
    cr_assert_not(out[0].timed_out, "%s", report);
    check_overflow_message(&out[0], report);
}
