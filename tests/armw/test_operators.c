/* SPDX-License-Identifier: Apache-2.0 */
/* One ARMW: its effect, its notices, and errors. Sections 2.2.5, 3.7.1.11 to 14, 3.7.2.11 to
 * 14, 3.7.6. */
#include "words.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(operators);

#define NUM(array) (sizeof(array) / sizeof((array)[0]))

/* UT_ARMW_MODE=nic runs all tests in that mode, if there is a device for it. */
static void run(int n, int nodes, ut_body_fn *body)
{
    static char env[64];
    const char *mode = getenv("UT_ARMW_MODE");

    snprintf(env, sizeof(env), "UTOFU_ARMW=%s", mode ? mode : "cpu");
    ut_run(&(struct ut_run_opts){.n = n, .nodes = nodes, .env = {env}}, body, NULL);
}

static void random_operands(struct word_armw *armw, uint64_t now)
{
    static const uint64_t corners[] = {0,          1,          UINT64_MAX,       1ull << 63,
                                       1ull << 31, UINT32_MAX, UINT32_MAX + 1ull};

    armw->operand = ut_random_below(3) ? ut_random() : corners[ut_random_below(NUM(corners))];
    armw->compare = ut_random_below(2) ? now : ut_random();
}

/* Every operator and size, in order and compared with the model, on words of `peer`; `seen` is the
 * target's memory if this process can read it. Neighbouring words do not change. */
static void against_model(const struct ut_end *end, const struct ut_peer *peer, size_t peer_size,
                          const uint8_t *seen)
{
    const uint64_t fill = 0x1122334455667788;

    for (int round = 0; round < 40; round++) {
        for (unsigned int size = 4; size <= 8; size += 4) {
            size_t places[] = {64, 64 + 4, 0, peer_size - size};
            size_t at = places[round % 4] & ~(size_t)(size - 1);
            uint64_t now = fill + (uint64_t)round;
            struct word_armw armw = {.op = WORD_SWAP,
                                     .size = size,
                                     .vcq = end->vcq,
                                     .rmt = peer->id,
                                     .rmt_stadd = peer->stadd + at,
                                     .operand = now,
                                     .flags = UT_LCL};

            word_submit(&armw);
            word_await(&armw);
            now = word_old(&armw, now);
            for (int op = WORD_SWAP; op < WORD_OPS_END; op++) {
                armw.op = (enum word_op)op;
                armw.prepared = ut_random_below(2);
                armw.edata = ut_random_below(256);
                random_operands(&armw, now);
                ut_step("%s of %u bytes at %zu, round %d", word_op_name(armw.op), size, at, round);
                word_submit(&armw);
                CHECK_EQ(word_await(&armw), now);
                now = word_after(&armw, now);
                if (seen)
                    CHECK_EQ(word_load(seen + at, size), now);
            }
        }
    }
    if (seen) {
        CHECK_EQ(word_load(seen + 56, 8), 0);
        CHECK_EQ(word_load(seen + 72, 8), 0);
    }
}

static void to_another_process(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, 4096, peers);
    if (ut_rank == 0) {
        against_model(&end, &peers[1], 4096, NULL);
        *ut_cell(0) = 1;
    } else {
        while (*ut_cell(0) == 0) {
            ut_expect_nothing(end.vcq);
            ut_relax();
        }
        CHECK_EQ(word_load(end.mem + 56, 8), 0); /* the neighbours */
        CHECK_EQ(word_load(end.mem + 72, 8), 0);
        CHECK_EQ(word_load(end.mem + 4096, 8), 0);
    }
    ut_close_all(&end);
}

Test(operators, every_operator_and_size_on_another_process_follows_the_model)
{
    run(2, 1, to_another_process);
    run(2, 2, to_another_process);
}

static void to_oneself(void *arg)
{
    struct ut_end end;

    (void)arg;
    ut_end_open(&end, 0, 0, 4096);
    struct ut_peer peer = ut_end_peer(&end);
    against_model(&end, &peer, 4096, end.mem);
    ut_end_close(&end);
}

Test(operators, every_operator_and_size_on_oneself_follows_the_model)
{
    run(1, 1, to_oneself);
}

static void to_own_other_vcq(void *arg)
{
    struct ut_end end, other;

    (void)arg;
    for (utofu_tni_id_t tni = 0; tni < 2; tni++) {
        ut_end_open(&end, 0, 0, 4096);
        ut_end_open(&other, tni, 0, 4096);
        struct ut_peer peer = ut_end_peer(&other);
        /* `other` is not polled: its requests are served all the same */
        against_model(&end, &peer, 4096, other.mem);
        ut_expect_nothing(other.vcq);
        ut_end_close(&other);
        ut_end_close(&end);
    }
}

Test(operators, every_operator_and_size_on_another_vcq_of_the_process_follows_the_model)
{
    run(1, 1, to_own_other_vcq);
}

/* Notices */

static void notices(void *arg)
{
    enum { ROUNDS = 64 };
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, 4096, peers);
    for (int round = 0; round < ROUNDS; round++) {
        struct word_armw armw = {.op = (enum word_op)(1 + round % 6),
                                 .size = round % 2 ? 4 : 8,
                                 .prepared = round / 2 % 2,
                                 .vcq = end.vcq,
                                 .rmt = peers[1].id,
                                 .rmt_stadd = peers[1].stadd + 8 * (size_t)round,
                                 .edata = (uint64_t)(255 - round),
                                 .operand = UINT64_MAX,
                                 .cbdata = (void *)(uintptr_t)(0x1000 + round)};
        bool tcq = round / 4 % 2, lcl = round / 8 % 2, rmt = round / 16 % 2;

        armw.flags = (tcq ? UT_TCQ : 0) | (lcl ? UT_LCL : 0) | (rmt ? UT_RMT : 0);
        ut_step("round %d", round);
        if (ut_rank == 1) {
            /* a value whose upper half must not appear in the notice */
            word_store(end.mem + 8 * (size_t)round, 8, 0x8765432187654321);
        }
        ut_barrier();
        if (ut_rank == 0) {
            word_submit(&armw);
            if (tcq)
                ut_expect_tcq(end.vcq, UTOFU_SUCCESS, armw.cbdata);
            if (lcl)
                CHECK_EQ(word_await(&armw), armw.size == 4 ? 0x87654321 : 0x8765432187654321);
            ut_flush(&end, &peers[1]);
        }
        if (ut_rank == 1 && rmt)
            word_expect_remote(end.vcq, &armw, peers[0].id);
        ut_barrier();
        ut_expect_nothing(end.vcq); /* no unrequested notice comes */
        ut_barrier();
    }
    ut_close_all(&end);
}

Test(operators, notices_come_as_asked_for_with_all_fields)
{
    run(2, 1, notices);
}

static void value_before_remote_notice(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, 4096, peers);
    for (uint64_t round = 1; round <= 500; round++) {
        struct word_armw armw = {.op = WORD_ADD,
                                 .size = 8,
                                 .vcq = end.vcq,
                                 .rmt = peers[1].id,
                                 .rmt_stadd = peers[1].stadd,
                                 .operand = 3,
                                 .edata = round % 256,
                                 .flags = UT_RMT};
        if (ut_rank == 0) {
            word_submit(&armw);
        } else {
            word_expect_remote(end.vcq, &armw, peers[0].id);
            CHECK(word_load(end.mem, 8) >= 3 * round);
        }
    }
    if (ut_rank == 0)
        ut_flush(&end, &peers[1]);
    ut_close_all(&end);
}

Test(operators, remote_notice_says_that_the_word_is_changed)
{
    run(2, 1, value_before_remote_notice);
}

static void path_of_notice(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, 4096, peers);
    if (ut_rank == 0) {
        for (int i = 0; i < UT_PATHS; i++) {
            uint8_t path[3] = {(uint8_t)(i / 6), (uint8_t)(i / 2 % 3), (uint8_t)(i % 2)};
            struct word_armw armw = {.op = WORD_ADD,
                                     .size = 8,
                                     .vcq = end.vcq,
                                     .rmt = peers[1].id,
                                     .rmt_stadd = peers[1].stadd,
                                     .operand = 1,
                                     .flags = UT_LCL | UT_RMT};

            CHECK_OK(utofu_set_vcq_id_path(&armw.rmt, path));
            word_submit(&armw);
            armw.rmt = peers[1].id; /* the notice has the owner's path (3.7.6.1) */
            CHECK_EQ(word_await(&armw), (uint64_t)i);
        }
    } else {
        for (int i = 0; i < UT_PATHS; i++) {
            struct word_armw armw = {.rmt_stadd = end.stadd};
            word_expect_remote(end.vcq, &armw, peers[0].id);
        }
    }
    ut_close_all(&end);
}

Test(operators, notices_have_the_owners_path_whatever_path_was_taken)
{
    run(2, 2, path_of_notice);
}

static void prepared_once(void *arg)
{
    enum { ROUNDS = 100 };
    struct ut_end end;
    uint64_t desc[3][UT_DESC / 8], all[3 * UT_DESC / 8];
    size_t size, total = 0;

    (void)arg;
    ut_end_open(&end, 0, 0, 4096);
    for (int i = 0; i < 3; i++) {
        struct word_armw armw = {.op = WORD_ADD,
                                 .size = i == 1 ? 4 : 8,
                                 .vcq = end.vcq,
                                 .rmt = end.id,
                                 .rmt_stadd = end.stadd + 8 * (size_t)i,
                                 .operand = (uint64_t)i + 1,
                                 .edata = (uint64_t)i,
                                 .flags = UT_LCL};
        CHECK_OK(word_prepare(&armw, desc[i], &size));
        memcpy((uint8_t *)all + total, desc[i], size);
        total += size;
    }
    for (uint64_t round = 0; round < ROUNDS; round++) {
        CHECK_OK(utofu_post_toq(end.vcq, all, total, NULL));
        for (uint64_t i = 0; i < 3; i++) {
            struct word_armw armw = {.size = i == 1 ? 4 : 8,
                                     .vcq = end.vcq,
                                     .rmt = end.id,
                                     .rmt_stadd = end.stadd + 8 * i,
                                     .edata = i};
            CHECK_EQ(word_await(&armw), round * (i + 1));
        }
    }
    ut_end_close(&end);
}

Test(operators, prepared_descriptors_can_be_posted_again_and_again)
{
    run(1, 1, prepared_once);
}

/* Misuse */

static void refused_by_the_call(void *arg)
{
    struct ut_end end;
    uint64_t desc[UT_DESC / 8];
    size_t size;

    (void)arg;
    ut_end_open(&end, 0, 0, 4096);
    for (int op = WORD_SWAP; op < WORD_OPS_END; op++) {
        for (unsigned int word = 4; word <= 8; word += 4) {
            const struct word_armw good = {.op = (enum word_op)op,
                                           .size = word,
                                           .vcq = end.vcq,
                                           .rmt = end.id,
                                           .rmt_stadd = end.stadd,
                                           .flags = UT_LCL};

            for (int prepared = 0; prepared < 2; prepared++) {
                struct word_armw bad = good;

                bad.prepared = prepared;
                for (unsigned int off = 1; off < word; off++) {
                    bad.rmt_stadd = end.stadd + 64 + off;
                    CHECK_RC(word_start(&bad), UTOFU_ERR_INVALID_STADD);
                }
                bad.rmt_stadd = end.stadd;
                bad.edata = 256;
                CHECK_RC(word_start(&bad), UTOFU_ERR_INVALID_EDATA);
                bad.edata = 0;
                bad.rmt = end.id ^ 1;
                CHECK_RC(word_start(&bad), UTOFU_ERR_INVALID_VCQ_ID);
                bad.rmt = end.id;
                bad.flags = 1ul << 9;
                CHECK_RC(word_start(&bad), UTOFU_ERR_INVALID_FLAGS);
                bad.flags = UTOFU_ONESIDED_FLAG_PATH(0xff);
                CHECK_RC(word_start(&bad), UTOFU_ERR_INVALID_PATH_ID);
                bad.flags = UTOFU_ONESIDED_FLAG_SPS(1); /* undefined: an error code */
                CHECK_RC(word_start(&bad), UTOFU_ERR_INVALID_FLAGS);
                bad.flags = 0;
                bad.vcq = end.vcq ^ 0x10000;
                CHECK_RC(word_start(&bad), UTOFU_ERR_INVALID_VCQ_HDL);
            }
            CHECK_RC(word_prepare(&good, NULL, &size), UTOFU_ERR_INVALID_POINTER);
            CHECK_RC(word_prepare(&good, desc, NULL), UTOFU_ERR_INVALID_POINTER);
            CHECK_RC(word_prepare(&good, (uint8_t *)desc + 4, &size), UTOFU_ERR_INVALID_POINTER);
        }
    }
    for (int op = -1; op < 20; op++) {
        if (op >= UTOFU_ARMW_OP_SWAP && op <= UTOFU_ARMW_OP_OR)
            continue;
        CHECK_RC(utofu_armw4(end.vcq, end.id, (enum utofu_armw_op)op, 1, end.stadd, 0, 0, NULL),
                 UTOFU_ERR_INVALID_OP);
        CHECK_RC(utofu_armw8(end.vcq, end.id, (enum utofu_armw_op)op, 1, end.stadd, 0, 0, NULL),
                 UTOFU_ERR_INVALID_OP);
        CHECK_RC(utofu_prepare_armw8(end.vcq, end.id, (enum utofu_armw_op)op, 1, end.stadd, 0, 0,
                                     desc, &size),
                 UTOFU_ERR_INVALID_OP);
    }
    ut_expect_nothing(end.vcq);
    for (int i = 0; i < 4096 / 8; i++)
        CHECK_EQ(word_load(end.mem + 8 * i, 8), 0);
    ut_end_close(&end);
}

Test(operators, misaligned_words_unknown_operators_and_bad_arguments_are_refused)
{
    run(1, 1, refused_by_the_call);
}

/* The memory of a peer. */
struct places {
    utofu_stadd_t region, read_only, gone;
};

static void remote_errors(void *arg)
{
    enum { SIZE = 256 };
    struct ut_end end;
    struct ut_peer peers[2];
    struct places mine, all[2];
    uint8_t *extra = ut_pages(8192);

    (void)arg;
    ut_open_all(&end, 4096, peers);
    memset(extra, 0x55, 8192);
    CHECK_OK(utofu_reg_mem(end.vcq, extra, SIZE, 0, &mine.region));
    CHECK_OK(
        utofu_reg_mem(end.vcq, extra + 4096, SIZE, UTOFU_REG_MEM_FLAG_READ_ONLY, &mine.read_only));
    CHECK_OK(utofu_reg_mem(end.vcq, extra + 2048, SIZE, 0, &mine.gone));
    CHECK_OK(utofu_dereg_mem(end.vcq, mine.gone, 0));
    ut_allgather(&mine, all, sizeof(mine));
    const struct {
        utofu_stadd_t stadd;
        unsigned int size;
        int rc;
    } cases[] = {
        {all[1].region + SIZE, 4, UTOFU_ERR_MRQ_RMT_STADD},
        {all[1].region + SIZE, 8, UTOFU_ERR_MRQ_RMT_STADD},
        {all[1].region - 8, 8, UTOFU_ERR_MRQ_RMT_STADD},
        {all[1].region + (1u << 20), 8, UTOFU_ERR_MRQ_RMT_STADD},
        {all[1].gone, 8, UTOFU_ERR_MRQ_RMT_STADD},
        {all[1].read_only, 4, UTOFU_ERR_MRQ_RMT_MEMORY},
        {all[1].read_only + SIZE - 8, 8, UTOFU_ERR_MRQ_RMT_MEMORY},
        {0, 8, UTOFU_ERR_MRQ_RMT_STADD},
    };
    if (ut_rank == 0) {
        for (size_t i = 0; i < NUM(cases) * WORD_CSWAP; i++) {
            struct word_armw bad = {.op = (enum word_op)(1 + i / NUM(cases)),
                                    .size = cases[i % NUM(cases)].size,
                                    .vcq = end.vcq,
                                    .rmt = peers[1].id,
                                    .operand = 1,
                                    .edata = i % 256,
                                    .rmt_stadd = cases[i % NUM(cases)].stadd,
                                    .prepared = i % 3,
                                    .flags = (i & 1 ? UT_LCL : 0) | UT_RMT};
            struct word_armw good = {.op = WORD_ADD,
                                     .size = 8,
                                     .vcq = end.vcq,
                                     .rmt = peers[1].id,
                                     .operand = 1,
                                     .rmt_stadd = peers[1].stadd,
                                     .flags = UT_LCL};
            ut_step("%s, case %zu", word_op_name(bad.op), i % NUM(cases));
            word_submit(&bad);
            word_submit(&good); /* the connection still works */
            ut_expect_error(end.vcq, cases[i % NUM(cases)].rc, UTOFU_MRQ_TYPE_LCL_ARMW, peers[1].id,
                            bad.edata);
            CHECK_EQ(word_await(&good), i);
        }
        ut_expect_nothing(end.vcq);
    }
    ut_barrier();
    ut_expect_nothing(end.vcq); /* no remote notices */
    for (size_t i = 0; i < 8192; i++)
        CHECK_EQ(extra[i], 0x55);
    ut_close_all(&end);
}

Test(operators, word_outside_its_region_or_read_only_is_an_error_of_that_armw_alone)
{
    run(2, 1, remote_errors);
}

static void four_bytes_at_the_end(void *arg)
{
    /* a region that ends after half of an aligned 8-byte word: 4 bytes fit, 8 do not */
    uint8_t *mem = ut_pages(4096);
    struct ut_end end;
    utofu_stadd_t stadd;

    (void)arg;
    ut_end_open(&end, 0, 0, 4096);
    CHECK_OK(utofu_reg_mem(end.vcq, mem + 4, 256, 0, &stadd)); /* 4 to 260 */
    struct word_armw four = {.op = WORD_OR,
                             .size = 4,
                             .vcq = end.vcq,
                             .rmt = end.id,
                             .operand = UINT64_MAX,
                             .flags = UT_LCL};
    for (size_t at = 0; at < 256; at += 252) {
        four.rmt_stadd = stadd + at;
        word_submit(&four);
        CHECK_EQ(word_await(&four), 0);
        CHECK_EQ(word_load(mem + 4 + at, 4), UINT32_MAX);
    }
    CHECK_EQ(word_load(mem, 4), 0);
    CHECK_EQ(word_load(mem + 260, 4), 0);
    struct word_armw eight = {.op = WORD_OR,
                              .size = 8,
                              .vcq = end.vcq,
                              .rmt = end.id,
                              .operand = 1,
                              .rmt_stadd = stadd + 252,
                              .flags = UT_LCL};
    word_submit(&eight);
    ut_expect_error(end.vcq, UTOFU_ERR_MRQ_RMT_LENGTH, UTOFU_MRQ_TYPE_LCL_ARMW, end.id, 0);
    CHECK_EQ(word_load(mem + 260, 4), 0);
    ut_end_close(&end);
}

Test(operators, four_byte_words_at_either_end_of_a_region_work_and_eight_bytes_run_out_of_it)
{
    run(1, 1, four_bytes_at_the_end);
}

/* The three errors of wrong access to a READ_ONLY region: of a put or an ARMW to it, and of a get
 * into it; reading it is allowed. */
static void read_only(void *arg)
{
    struct ut_end end;
    uint8_t *mem = ut_pages(4096);
    utofu_stadd_t ro;
    struct utofu_mrq_notice notice;

    (void)arg;
    ut_end_open(&end, 0, 0, 4096);
    memset(mem, 0x77, 4096);
    CHECK_OK(utofu_reg_mem(end.vcq, mem, 4096, UTOFU_REG_MEM_FLAG_READ_ONLY, &ro));
    struct word_armw armw = {
        .op = WORD_SWAP, .size = 8, .vcq = end.vcq, .rmt = end.id, .rmt_stadd = ro, .edata = 9};
    struct ut_comm comm = {.kind = UT_PUT,
                           .vcq = end.vcq,
                           .rmt = end.id,
                           .lcl_stadd = end.stadd,
                           .rmt_stadd = ro,
                           .length = 8,
                           .edata = 7};
    ut_submit(&comm);
    ut_expect_error(end.vcq, UTOFU_ERR_MRQ_RMT_MEMORY, UTOFU_MRQ_TYPE_LCL_PUT, end.id, 7);
    word_submit(&armw);
    ut_expect_error(end.vcq, UTOFU_ERR_MRQ_RMT_MEMORY, UTOFU_MRQ_TYPE_LCL_ARMW, end.id, 9);
    comm = (struct ut_comm){.kind = UT_GET,
                            .vcq = end.vcq,
                            .rmt = end.id,
                            .lcl_stadd = ro,
                            .rmt_stadd = end.stadd,
                            .length = 8,
                            .edata = 5};
    ut_submit(&comm);
    ut_expect_error(end.vcq, UTOFU_ERR_MRQ_LCL_MEMORY, UTOFU_MRQ_TYPE_LCL_GET, end.id, 5);
    for (size_t i = 0; i < 4096; i++)
        CHECK_EQ(mem[i], 0x77);
    /* good twins: source of a put, remote side of a get */
    comm = (struct ut_comm){.kind = UT_PUT,
                            .vcq = end.vcq,
                            .rmt = end.id,
                            .lcl_stadd = ro,
                            .rmt_stadd = end.stadd,
                            .length = 16,
                            .flags = UT_LCL};
    ut_submit(&comm);
    CHECK_OK(ut_await_mrq(end.vcq, &notice));
    comm = (struct ut_comm){.kind = UT_GET,
                            .vcq = end.vcq,
                            .rmt = end.id,
                            .flags = UT_LCL,
                            .lcl_stadd = end.stadd + 16,
                            .rmt_stadd = ro,
                            .length = 16};
    ut_submit(&comm);
    CHECK_OK(ut_await_mrq(end.vcq, &notice));
    CHECK_EQ(end.mem[0], 0x77);
    CHECK_EQ(end.mem[31], 0x77);
    CHECK_EQ(end.mem[32], 0);
    ut_end_close(&end);
}

Test(operators, read_only_region_refuses_put_armw_and_get_and_can_be_read)
{
    run(1, 1, read_only);
}
