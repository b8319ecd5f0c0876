/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts that arrive before their descriptors are posted; refused calls, ignored arguments and limits
 * in session mode. Sections 2.2.8.1, 3.3.4.1, 3.7.9.3, 4.3.2.2, 4.3.2.4.
 */
#include "relay.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

TestSuite(shortfall);

#define NUM(array) (sizeof(array) / sizeof((array)[0]))

static void run(int n, const char *env, ut_body_fn *body)
{
    ut_run(&(struct ut_run_opts){.n = n, .env = {env}}, body, NULL);
}

/* Advances the schedule pointer of a relay of this process, and waits until it has moved. */
static void advance(const struct ut_end *from, const struct ut_peer *relay, uint64_t steps)
{
    while (steps > 0) {
        uint64_t sps = steps < 15 ? steps : 15;
        struct ut_comm put = relay_put(from, relay, 1024, 8, UT_LCL | UT_SPS(sps));

        ut_submit(&put);
        relay_expect(from->vcq, UTOFU_MRQ_TYPE_LCL_PUT, 0);
        steps -= sps;
    }
}

/* Posts puts to `to` that carry their number as EDATA. */
static void post(const struct ut_end *relay, const struct ut_peer *to, uint64_t *number, int count)
{
    for (int i = 0; i < count; i++) {
        struct ut_comm put = relay_put(relay, to, 0, 8, UT_RMT);

        put.edata = (*number)++ % 256;
        relay_submit(&put);
    }
}

/* Exactly `seen` plus the given number of puts have started. */
static void expect_started(const struct ut_end *relay, const struct ut_end *at, uint64_t *seen,
                           uint64_t count)
{
    while (*seen < count)
        relay_expect(at->vcq, UTOFU_MRQ_TYPE_RMT_PUT, (*seen)++ % 256);
    for (int i = 0; i < 20; i++) {
        ut_expect_nothing(relay->vcq);
        ut_expect_nothing(at->vcq);
    }
}

struct trio {
    struct ut_end origin, relay, sink;
    struct ut_peer to_relay, to_sink;
};

static void open_trio(struct trio *t)
{
    ut_end_open(&t->origin, 0, 0, 4096);
    ut_end_open(&t->relay, 0, UTOFU_VCQ_FLAG_SESSION_MODE, 4096);
    ut_end_open(&t->sink, 1, 0, 4096);
    t->to_relay = ut_end_peer(&t->relay);
    t->to_sink = ut_end_peer(&t->sink);
}

static void close_trio(struct trio *t)
{
    ut_end_close(&t->origin);
    ut_end_close(&t->relay);
    ut_end_close(&t->sink);
}

static void overlapping(void *arg)
{
    struct trio t;
    uint64_t posted = 0, seen = 0;

    (void)arg;
    open_trio(&t);
    post(&t.relay, &t.to_sink, &posted, 2);
    expect_started(&t.relay, &t.sink, &seen, 0);
    advance(&t.origin, &t.to_relay, 5); /* 3 descriptors are missing */
    expect_started(&t.relay, &t.sink, &seen, 2);
    advance(&t.origin, &t.to_relay, 4); /* 7 are missing */
    expect_started(&t.relay, &t.sink, &seen, 2);
    post(&t.relay, &t.to_sink, &posted, 4); /* 3 are missing */
    expect_started(&t.relay, &t.sink, &seen, 6);
    post(&t.relay, &t.to_sink, &posted, 5); /* none is missing, and 2 wait */
    expect_started(&t.relay, &t.sink, &seen, 9);
    advance(&t.origin, &t.to_relay, 2);
    expect_started(&t.relay, &t.sink, &seen, 11);
    advance(&t.origin, &t.to_relay, 0);
    expect_started(&t.relay, &t.sink, &seen, 11);
    close_trio(&t);
}

Test(shortfall, two_overlap_two_posts)
{
    run(1, NULL, overlapping);
}

static void with_missing(uint64_t missing)
{
    struct trio t;
    uint64_t posted = 0, seen = 0;

    open_trio(&t);
    post(&t.relay, &t.to_sink, &posted, 3);
    advance(&t.origin, &t.to_relay, 3 + missing);
    expect_started(&t.relay, &t.sink, &seen, 3);
    post(&t.relay, &t.to_sink, &posted, (int)missing / 2);
    expect_started(&t.relay, &t.sink, &seen, 3 + missing / 2);
    post(&t.relay, &t.to_sink, &posted, (int)(missing - missing / 2));
    expect_started(&t.relay, &t.sink, &seen, 3 + missing);
    post(&t.relay, &t.to_sink, &posted, 4); /* these descriptors wait */
    expect_started(&t.relay, &t.sink, &seen, 3 + missing);
    advance(&t.origin, &t.to_relay, 4);
    expect_started(&t.relay, &t.sink, &seen, 7 + missing);
    close_trio(&t);
}

static void exactly_2000(void *arg)
{
    (void)arg;
    with_missing(2000);
}

/* Documented in docs/guide/porting.md: one error line, and the descriptors start all the same. */
static void more_than_2000(void *arg)
{
    (void)arg;
    with_missing(2001);
    with_missing(2600);
}

static int count_lines(const char *text, const char *what)
{
    int count = 0;

    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        count++;
    return count;
}

static int told_in(ut_body_fn *body)
{
    static struct ut_outcome out;
    static char report[16384];

    cr_assert(
        ut_run_collect(&(struct ut_run_opts){.n = 1}, body, NULL, &out, report, sizeof(report)),
        "%s", report);
    return count_lines(out.output, "2.2.8.1");
}

Test(shortfall, of_2000_is_made_good_without_a_word)
{
    cr_assert_eq(told_in(exactly_2000), 0);
}

Test(shortfall, of_more_is_told_once_a_vcq_and_corrupts_nothing)
{
    cr_assert_eq(told_in(more_than_2000), 2); /* one line of each of two VCQs */
}

/* Refused, ignored */

static void refused(void *arg)
{
    struct ut_end end;
    utofu_vcq_hdl_t vcq;
    uint64_t desc[UT_DESC / 8], value = 1;
    size_t size;

    (void)arg;
    ut_end_open(&end, 0, UTOFU_VCQ_FLAG_SESSION_MODE, 4096);
    for (unsigned long int more = 0; more <= 1; more++) {
        CHECK_RC(utofu_create_vcq(0, UTOFU_VCQ_FLAG_EXCLUSIVE | UTOFU_VCQ_FLAG_SESSION_MODE | more,
                                  &vcq),
                 UTOFU_ERR_INVALID_FLAGS);
        CHECK_RC(utofu_create_vcq_with_cmp_id(0, 0, UTOFU_VCQ_FLAG_SESSION_MODE | more, &vcq),
                 UTOFU_ERR_INVALID_FLAGS);
    }
    /* operations that the manual leaves undefined in a session-mode TOQ */
    for (int kind = 0; kind < UT_NUM_KINDS; kind++) {
        struct ut_comm comm = {.kind = (enum ut_kind)kind,
                               .vcq = end.vcq,
                               .rmt = end.id,
                               .lcl_stadd = end.stadd,
                               .data = &value,
                               .rmt_stadd = end.stadd,
                               .length = 8,
                               .stride = 8,
                               .blocks = 1};
        bool fits = kind == UT_NOP || (ut_is_put(comm.kind) && !ut_is_piggyback(comm.kind));

        CHECK_RC(ut_start(&comm), fits ? UTOFU_SUCCESS : UTOFU_ERR_NOT_SUPPORTED);
        CHECK_RC(ut_prepare(&comm, desc, &size), fits ? UTOFU_SUCCESS : UTOFU_ERR_NOT_SUPPORTED);
    }
    CHECK_RC(utofu_armw4(end.vcq, end.id, UTOFU_ARMW_OP_ADD, 1, end.stadd, 0, 0, NULL),
             UTOFU_ERR_NOT_SUPPORTED);
    CHECK_RC(utofu_armw8(end.vcq, end.id, UTOFU_ARMW_OP_ADD, 1, end.stadd, 0, 0, NULL),
             UTOFU_ERR_NOT_SUPPORTED);
    CHECK_RC(utofu_cswap4(end.vcq, end.id, 0, 1, end.stadd, 0, 0, NULL), UTOFU_ERR_NOT_SUPPORTED);
    CHECK_RC(utofu_cswap8(end.vcq, end.id, 0, 1, end.stadd, 0, 0, NULL), UTOFU_ERR_NOT_SUPPORTED);
    CHECK_RC(utofu_prepare_cswap8(end.vcq, end.id, 0, 1, end.stadd, 0, 0, desc, &size),
             UTOFU_ERR_NOT_SUPPORTED);
    ut_expect_nothing(end.vcq);
    ut_end_close(&end); /* with five puts and a NOP that wait */
}

Test(shortfall, undefined_kinds_and_flags_are_refused_with_a_code)
{
    run(1, NULL, refused);
}

static void sps_refused(void *arg)
{
    struct ut_end end;
    uint64_t value = 1;

    (void)arg;
    ut_end_open(&end, 0, 0, 4096);
    for (int kind = 0; kind < UT_NUM_KINDS; kind++) {
        for (int prepared = 0; prepared < 2; prepared++) {
            struct ut_comm comm = {.kind = (enum ut_kind)kind,
                                   .vcq = end.vcq,
                                   .rmt = end.id,
                                   .lcl_stadd = end.stadd,
                                   .data = &value,
                                   .rmt_stadd = end.stadd,
                                   .length = 8,
                                   .stride = 8,
                                   .blocks = 1,
                                   .prepared = prepared,
                                   .flags = UT_SPS(15)};
            bool fits = kind != UT_NOP && ut_is_put(comm.kind) && !ut_is_piggyback(comm.kind);

            CHECK_RC(ut_start(&comm), fits ? UTOFU_SUCCESS : UTOFU_ERR_INVALID_FLAGS);
            comm.flags = UT_SPS(0);
            CHECK_RC(ut_start(&comm), UTOFU_SUCCESS);
        }
    }
    /* SPS of 16 and more run into the path id: those with path ids over 11 can be recognized and
     * are refused */
    for (unsigned int sps = 12 * 16; sps < 256; sps++)
        CHECK_RC(utofu_put(end.vcq, end.id, end.stadd, end.stadd, 8, 0, UT_SPS(sps), NULL),
                 UTOFU_ERR_INVALID_PATH_ID);
    struct ut_peer peer = ut_end_peer(&end);
    ut_flush(&end, &peer);
    ut_end_close(&end);
}

Test(shortfall, sps_on_anything_but_a_put_and_too_large_is_refused)
{
    run(1, NULL, sps_refused);
}

static void to_free_mode(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, 4096, peers);
    for (uint64_t i = 0; i < 100; i++) {
        struct ut_comm put =
            relay_put(&end, &peers[!ut_rank], 8 * i, 8, UT_LCL | UT_RMT | UT_SPS(i % 16));
        struct utofu_mrq_notice notice;

        put.edata = i;
        memcpy(end.mem + 8 * i, &i, 8);
        ut_submit(&put);
        for (int n = 0; n < 2; n++) {
            CHECK_OK(ut_await_mrq(end.vcq, &notice));
            CHECK_EQ(notice.edata, i);
        }
        ut_barrier();
        ut_expect_nothing(end.vcq);
        ut_barrier();
    }
    ut_close_all(&end);
}

Test(shortfall, sps_to_a_free_mode_vcq_is_ignored)
{
    run(2, NULL, to_free_mode);
}

static void failed_put(void *arg)
{
    struct trio t;
    uint64_t posted = 0, seen = 0;
    utofu_stadd_t read_only;

    (void)arg;
    open_trio(&t);
    CHECK_OK(
        utofu_reg_mem(t.relay.vcq, t.relay.mem, 4096, UTOFU_REG_MEM_FLAG_READ_ONLY, &read_only));
    const struct {
        utofu_stadd_t rmt, lcl;
        size_t length;
        int mrq, tcq;
    } bad[] = {
        {0, t.origin.stadd, 8, UTOFU_ERR_MRQ_RMT_STADD, 0},
        {t.relay.stadd + (1 << 20), t.origin.stadd, 8, UTOFU_ERR_MRQ_RMT_STADD, 0},
        {t.relay.stadd + 4096, t.origin.stadd, 100, UTOFU_ERR_MRQ_RMT_LENGTH, 0},
        {read_only, t.origin.stadd, 8, UTOFU_ERR_MRQ_RMT_MEMORY, 0},
        {t.relay.stadd, 0, 8, 0, UTOFU_ERR_TCQ_STADD},
    };
    post(&t.relay, &t.to_sink, &posted, 15);
    for (size_t i = 0; i < NUM(bad); i++) {
        struct ut_comm put = {.kind = UT_PUT,
                              .vcq = t.origin.vcq,
                              .rmt = t.relay.id,
                              .lcl_stadd = bad[i].lcl,
                              .rmt_stadd = bad[i].rmt,
                              .length = bad[i].length,
                              .edata = i,
                              .flags = UT_SPS(15)};
        ut_submit(&put);
        if (bad[i].tcq)
            ut_expect_tcq(t.origin.vcq, bad[i].tcq, NULL);
        else
            ut_expect_error(t.origin.vcq, bad[i].mrq, UTOFU_MRQ_TYPE_LCL_PUT, t.relay.id, i);
        expect_started(&t.relay, &t.sink, &seen, i); /* one start for each good put, and no other */
        advance(&t.origin, &t.to_relay, 1);
        expect_started(&t.relay, &t.sink, &seen, i + 1);
    }
    CHECK_OK(utofu_dereg_mem(t.relay.vcq, read_only, 0));
    close_trio(&t);
}

Test(shortfall, put_that_fails_does_not_advance)
{
    run(1, NULL, failed_put);
}

/* A relayed put that fails gives a notice at the relay, and the puts behind it start. */
static void relayed_put_fails(void *arg)
{
    struct trio t;
    uint64_t posted = 0, seen = 0;

    (void)arg;
    open_trio(&t);
    struct ut_comm bad = relay_put(&t.relay, &t.to_sink, 0, 8, 0);
    bad.rmt_stadd = 0;
    bad.edata = 77;
    ut_submit(&bad);
    bad.rmt_stadd = t.sink.stadd;
    bad.lcl_stadd = 0;
    bad.cbdata = &t;
    ut_submit(&bad);
    post(&t.relay, &t.to_sink, &posted, 2);
    advance(&t.origin, &t.to_relay, 4);
    ut_expect_error(t.relay.vcq, UTOFU_ERR_MRQ_RMT_STADD, UTOFU_MRQ_TYPE_LCL_PUT, t.sink.id, 77);
    ut_expect_tcq(t.relay.vcq, UTOFU_ERR_TCQ_STADD, &t);
    expect_started(&t.relay, &t.sink, &seen, 2);
    close_trio(&t);
}

Test(shortfall, relayed_put_that_fails_is_told_and_the_next_starts)
{
    run(1, NULL, relayed_put_fails);
}

/* Numbers of CQs and of MRQ entries */

static size_t create_sessions(utofu_vcq_hdl_t vcq[], int *rc)
{
    size_t count = 0;

    while ((*rc = utofu_create_vcq(0, UTOFU_VCQ_FLAG_SESSION_MODE, &vcq[count])) == UTOFU_SUCCESS)
        count++;
    return count;
}

static size_t count_cqs(const utofu_vcq_hdl_t vcq[], size_t count)
{
    uint64_t seen = 0;

    for (size_t i = 0; i < count; i++) {
        utofu_vcq_id_t id;
        uint8_t coords[6];
        utofu_tni_id_t tni;
        utofu_cq_id_t cq;
        uint16_t extra;

        CHECK_OK(utofu_query_vcq_id(vcq[i], &id));
        CHECK_OK(utofu_query_vcq_info(id, coords, &tni, &cq, &extra));
        seen |= 1ull << cq;
    }
    return (size_t)__builtin_popcountll(seen);
}

static void session_cqs(void *arg)
{
    size_t wanted = *(size_t *)arg;
    utofu_vcq_hdl_t vcq[UT_CQS * UT_VCQS_PER_CQ + 1], ordinary;
    int rc;
    size_t count = create_sessions(vcq, &rc);

    CHECK(rc == UTOFU_ERR_FULL || rc == UTOFU_ERR_NOT_AVAILABLE, "%s", ut_rc_name(rc));
    CHECK_EQ(count_cqs(vcq, count), wanted);
    if (wanted == 0)
        CHECK_RC(rc, UTOFU_ERR_NOT_AVAILABLE);
    CHECK_OK(utofu_create_vcq(0, 0, &ordinary)); /* one VCQ for free mode is always available */
    if (count > 0) {
        CHECK_OK(utofu_free_vcq(vcq[0]));
        CHECK_OK(utofu_create_vcq(0, UTOFU_VCQ_FLAG_SESSION_MODE, &vcq[0]));
    }
}

Test(shortfall, session_cqs_are_as_many_as_the_environment_says)
{
    static const struct {
        const char *env;
        size_t cqs;
    } cases[] = {
        {NULL, 3},
        {"UTOFU_NUM_SESSION_MODE_CQS=0", 0},
        {"UTOFU_NUM_SESSION_MODE_CQS=1", 1},
        {"UTOFU_NUM_SESSION_MODE_CQS=5", 5},
    };

    for (size_t i = 0; i < NUM(cases); i++)
        ut_run(&(struct ut_run_opts){.n = 1, .env = {cases[i].env}}, session_cqs,
               &(size_t){cases[i].cqs});
}

static void exclusive_first(void *arg)
{
    utofu_vcq_hdl_t vcq[UT_CQS * UT_VCQS_PER_CQ + 1], exclusive;
    int rc;
    size_t cqs = count_cqs(vcq, create_sessions(vcq, &rc));

    (void)arg;
    /* seven exclusive CQs are granted, one stays for ordinary VCQs (4.3.2.2) */
    CHECK(cqs <= 1, "%zu", cqs);
    for (int i = 0; i < 7; i++)
        CHECK_OK(utofu_create_vcq(0, UTOFU_VCQ_FLAG_EXCLUSIVE, &exclusive));
    CHECK_OK(utofu_create_vcq(0, 0, &exclusive));
}

Test(shortfall, exclusive_cqs_come_before_session_cqs)
{
    ut_run(
        &(struct ut_run_opts){.n = 1,
                              .env = {"UTOFU_NUM_EXCLUSIVE_CQS=7", "UTOFU_NUM_SESSION_MODE_CQS=3"}},
        exclusive_first, NULL);
}

/* Puts with a remote notice that the target never polls. */
static void fill_mrq(void *arg)
{
    int count = *(int *)arg;
    struct trio t;
    struct ut_peer free_mode;

    open_trio(&t);
    free_mode = ut_end_peer(&t.sink);
    for (int i = 0; i < 3000; i++) { /* an MRQ of free mode has room for more */
        struct ut_comm put = relay_put(&t.origin, &free_mode, 0, 8, UT_RMT);
        relay_submit(&put);
    }
    for (int i = 0; i < count; i++) {
        struct ut_comm put = relay_put(&t.origin, &t.to_relay, 0, 8, UT_RMT);
        relay_submit(&put);
    }
    ut_flush(&t.origin, &t.to_relay);
    for (int i = 0; i < count; i++)
        relay_expect(t.relay.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 0);
    ut_expect_nothing(t.relay.vcq);
}

Test(shortfall, mrq_of_a_session_vcq_has_the_entries_that_the_environment_says)
{
    static struct ut_outcome out;
    static char report[16384];
    const struct ut_run_opts opts = {.n = 1, .env = {"UTOFU_NUM_MRQ_ENTRIES_SESSION=2Ki"}};
    const struct ut_run_opts may_die = {
        .n = 1, .may_die = 1, .env = {"UTOFU_NUM_MRQ_ENTRIES_SESSION=2048"}};

    ut_run(&opts, fill_mrq, &(int){2048});
    ut_run_collect(&may_die, fill_mrq, &(int){9000}, &out, report, sizeof(report));
    cr_assert(WIFEXITED(out.status) && WEXITSTATUS(out.status) == 1, "%s", report);
    cr_assert_not_null(strstr(out.output, "utofu: asynchronous error: MRQ Overflow on TNI 0 CQ"),
                       "%s", report);
}
