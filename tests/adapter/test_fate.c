/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outcome of operations on a broken connection, over the software adapter with --fault
 * unknown=N: writes that are executed and end with an error. The target clears each word in its
 * memory as soon as it arrives, so it detects a second write.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <utofu_ext.h>

#include "ends.h"
#include "harness.h"

enum { ROUNDS = 60, MOST_ROUNDS = 5000, AT = 64, TAGS = 200, AGAIN = 1, OVER = 255 };

static struct ut_end end;
static struct ut_peer peers[2];

static struct ut_comm put_of(uint64_t value, unsigned long int flags, uint64_t edata)
{
    int to = !ut_rank;

    memcpy(end.mem, &value, sizeof(value));
    return (struct ut_comm){.kind = UT_PUT,
                            .vcq = end.vcq,
                            .rmt = peers[to].id,
                            .lcl_stadd = end.stadd,
                            .rmt_stadd = peers[to].stadd + AT,
                            .length = 8,
                            .data = end.mem,
                            .flags = flags | UT_TCQ,
                            .edata = edata};
}

static void submit(const struct ut_comm *put)
{
    void *cbdata;

    ut_submit(put);
    CHECK(ut_await_tcq(end.vcq, &cbdata) == UTOFU_SUCCESS);
}

struct expected {
    unsigned long int flags;
    bool fails, comes_again;
};

/* Puts words, each after the previous one was taken, until the expected event; returns the number
 * of failures. */
static unsigned int put_words(const struct expected *e)
{
    unsigned int failed = 0;
    bool again = false;
    uint64_t round = 0;

    while (round < ROUNDS ||
           (round < MOST_ROUNDS && ((e->fails && !failed) || (e->comes_again && !again)))) {
        round++;
        struct ut_comm put = put_of(round, e->flags | UT_LCL, round % TAGS);

        ut_step("round %llu", (unsigned long long)round);
        submit(&put);
        for (int i = 0; i < 2; i++) { /* its local notice, and the notice of the target's put */
            struct utofu_mrq_notice notice;
            char text[512];
            int rc = ut_await_mrq(end.vcq, &notice);
            if (rc == UTOFU_SUCCESS) {
                again |= notice.notice_type == UTOFU_MRQ_TYPE_RMT_PUT && notice.edata == AGAIN;
                continue;
            }
            failed++;
            CHECK(rc == UTOFU_ERR_MRQ_OTHER, "%d", rc);
            CHECK(notice.notice_type == UTOFU_MRQ_TYPE_LCL_PUT && notice.vcq_id == peers[1].id);
            utofu_get_last_error(text);
            CHECK(strstr(text, "it may have been executed"), "%s", text);
        }
    }
    struct ut_comm over = put_of(0, UT_RMT, OVER);
    submit(&over);
    return failed;
}

/* Takes words until the origin signals the end; returns the number of repeated ones. Words with a
 * notice are taken after the notice. */
static unsigned int take_words(bool told)
{
    uint64_t *word = (uint64_t *)(uintptr_t)(end.mem + AT), last = 0;
    struct utofu_mrq_notice notice;
    unsigned int again = 0;

    for (;;) {
        int rc = utofu_poll_mrq(end.vcq, 0, &notice);
        CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_NOT_FOUND, "%d", rc);
        if (rc == UTOFU_SUCCESS && notice.edata == OVER)
            break;
        if (told && rc != UTOFU_SUCCESS)
            continue;
        uint64_t value = __atomic_exchange_n(word, 0, __ATOMIC_ACQ_REL);
        CHECK(!told || (value == last + 1 && notice.edata == value % TAGS), "%llu behind %llu",
              (unsigned long long)value, (unsigned long long)last);
        CHECK(!value || value == last || value == last + 1, "%llu behind %llu",
              (unsigned long long)value, (unsigned long long)last);
        again += value && value == last;
        if (value == last + 1) {
            last = value;
            struct ut_comm taken = put_of(value, UT_RMT, again ? AGAIN : 0);
            submit(&taken);
        }
    }
    CHECK(last >= ROUNDS, "%llu words came", (unsigned long long)last);
    return again;
}

static void check_fates(void *arg)
{
    const struct expected *e = arg;

    ut_open_all(&end, 4096, peers);
    memset(end.mem, 0, 4096);
    ut_barrier();
    if (ut_rank == 0) {
        unsigned int failed = put_words(e);
        CHECK((failed > 0) == e->fails, "%u puts failed", failed);
    } else {
        unsigned int again = take_words(e->flags & UT_RMT);
        CHECK((again > 0) == e->comes_again, "%u words came again", again);
    }
    ut_barrier();
    ut_close_all(&end);
}

/* The adapter of the target adds one to its word, each time. */
static void check_adds(void *arg)
{
    const struct expected *e = arg;
    struct utofu_mrq_notice notice;
    unsigned int failed = 0;
    void *cbdata;

    ut_open_all(&end, 4096, peers);
    memset(end.mem, 0, 4096);
    ut_barrier();
    for (int round = 0; ut_rank == 0 && round < ROUNDS; round++) { /* no other word is written */
        CHECK_OK(utofu_armw8(end.vcq, peers[1].id, UTOFU_ARMW_OP_ADD, 1, peers[1].stadd + AT, 0,
                             UT_TCQ | UT_LCL, NULL));
        ut_await_tcq(end.vcq, &cbdata);
        int rc = ut_await_mrq(end.vcq, &notice);
        CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_MRQ_OTHER, "%d", rc);
        failed += rc != UTOFU_SUCCESS;
    }
    CHECK(ut_rank == 1 || (failed > 0) == e->fails, "%u ARMWs failed", failed);
    ut_barrier();
    if (ut_rank == 1) {
        uint64_t sum = *(uint64_t *)(uintptr_t)(end.mem + AT);
        CHECK(e->comes_again ? sum > ROUNDS : sum == ROUNDS, "%llu", (unsigned long long)sum);
    }
    ut_close_all(&end);
}

static void run(const char *env, ut_body_fn *body, struct expected expected)
{
    if (!getenv("UT_ADAPTER_SOCKET"))
        cr_skip_test("not over the software adapter");
    ut_run(&(struct ut_run_opts){.n = 2, .env = {env, "UTOFU_PROVIDER=verbs", "UTOFU_ARMW=nic"}},
           body, &expected);
}

Test(fate, a_put_is_repeated_and_may_be_seen_twice)
{
    run("UTOFU_AFTER_BREAK=repeat", check_fates, (struct expected){.comes_again = true});
}

Test(fate, repeated_by_default)
{
    run("UTOFU_LOG_LEVEL=error", check_fates, (struct expected){.comes_again = true});
}

Test(fate, a_put_is_reported_and_seen_once)
{
    run("UTOFU_AFTER_BREAK=report", check_fates, (struct expected){.fails = true});
}

/* Its notice shows whether it has arrived. */
Test(fate, a_put_with_a_remote_notice_is_told_once)
{
    run("UTOFU_AFTER_BREAK=report", check_fates, (struct expected){.flags = UT_RMT});
}

Test(fate, an_armw_by_the_adapter_is_repeated)
{
    run("UTOFU_AFTER_BREAK=repeat", check_adds, (struct expected){.comes_again = true});
}

Test(fate, an_armw_by_the_adapter_is_reported)
{
    run("UTOFU_AFTER_BREAK=report", check_adds, (struct expected){.fails = true});
}
