/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that was silent for too long is given up: communications under way to it fail, and so do,
 * at once, those that start soon after; one that starts later tries again, and reaches the peer if
 * it answers. No communication that failed meanwhile arrives, and no earlier answer is taken for a
 * new one. One process, two VCQs; the target acts only when it is polled.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <utofu.h>

#include "../../harness/fake_clock.h"
#include "fake.h"

enum {
    ORIGIN_TNI = 0,
    TARGET_TNI = 4,
    WORDS = 4096,
    TOQ = 2048, /* entries */
    PUT_FLAGS = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE |
                UTOFU_ONESIDED_FLAG_TCQ_NOTICE,
};

static uint64_t there[WORDS];
static utofu_vcq_hdl_t vcq, target;
static utofu_vcq_id_t target_id;
static utofu_stadd_t rmt;
static int arrived; /* notices at the target */

static void poll_target(void)
{
    struct utofu_mrq_notice notice;

    fake_clock_pass_ms(1);
    while (utofu_poll_mrq(target, 0, &notice) == UTOFU_SUCCESS)
        arrived++;
}

static void poll_both(void)
{
    CHECK(fake_poll_mrq(vcq) == UTOFU_ERR_NOT_FOUND);
    poll_target();
}

/* Result of the one communication under way; the target is polled too if it `acts`. */
static int outcome(bool acts, uint64_t *old_value)
{
    struct utofu_mrq_notice notice;
    time_t end = time(NULL) + 100;
    void *cbdata;
    int rc;

    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND) {
        if (acts)
            poll_target();
        CHECK(time(NULL) < end);
    }
    while (utofu_poll_tcq(vcq, 0, &cbdata) == UTOFU_ERR_NOT_FOUND)
        CHECK(time(NULL) < end);
    if (old_value)
        *old_value = notice.rmt_value;
    return rc;
}

static int put(uint64_t word, bool acts)
{
    uint64_t value = word + 1;

    CHECK(utofu_put_piggyback8(vcq, target_id, value, rmt + 8 * word, 8, 0, PUT_FLAGS, NULL) ==
          UTOFU_SUCCESS);
    return outcome(acts, NULL);
}

static unsigned int entries; /* TOQ entries used since the addition whose answer is late */

static void start_add(uint64_t value)
{
    CHECK(utofu_armw8(vcq, target_id, UTOFU_ARMW_OP_ADD, value, rmt, 0,
                      UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_TCQ_NOTICE,
                      NULL) == UTOFU_SUCCESS);
    entries++;
}

/* The next communication has the same place in the TOQ as the first one. */
static void go_round(void)
{
    void *cbdata;

    for (; entries % TOQ != 0; entries++) {
        CHECK(utofu_nop(vcq, UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL) == UTOFU_SUCCESS);
        CHECK(utofu_poll_tcq(vcq, 0, &cbdata) == UTOFU_SUCCESS);
    }
}

/* Puts until one arrives: the words from `from` on. Returns the number of failed puts. */
static uint64_t put_until_it_arrives(uint64_t from)
{
    uint64_t failed = 0;
    int rc;

    while ((rc = put(from + failed, true)) != UTOFU_SUCCESS) {
        CHECK(rc == UTOFU_ERR_MRQ_PEER);
        CHECK(++failed < WORDS - from);
        fake_clock_pass_ms(1);
    }
    CHECK(there[from + failed] == from + failed + 1);
    for (uint64_t i = 0; i < failed; i++)
        CHECK(there[from + i] == 0);
    return failed;
}

static void tried_again(const char *name)
{
    char why[1024];

    memset(there, 0, sizeof(there));
    arrived = 0;
    fake_hears_nothing = true;
    CHECK(put(0, false) == UTOFU_ERR_MRQ_PEER);
    utofu_get_last_error(why);
    CHECK(strstr(why, "has not answered"));
    fake_hears_nothing = false;
    CHECK(put_until_it_arrives(1) > 0); /* the first puts fail at once, although the target would
                                         * answer */
    CHECK(arrived == 1 || (arrived == 2 && there[0] == 1)); /* the put from before the silence */
    CHECK(put(WORDS - 1, true) == UTOFU_SUCCESS);
    printf("ok: %s\n", name);
}

/* The origin has no port for a while: additions fail without reaching the target. */
static void fail_without_port(unsigned int times)
{
    fake_has_no_port = true;
    while (times > 0) {
        start_add(1000);
        int rc = outcome(true, NULL);
        CHECK(rc == UTOFU_ERR_MRQ_OTHER || rc == UTOFU_ERR_MRQ_PEER); /* it is silent */
        times -= rc == UTOFU_ERR_MRQ_OTHER;
        fake_clock_pass_ms(1);
    }
    fake_has_no_port = false;
}

/* The late answer to a failed addition, in the same TOQ entry, `failures` others later. */
static void late_answer_is_dropped(const char *name, unsigned int failures)
{
    uint64_t old;
    int rc;

    memset(there, 0, sizeof(there));
    fake_peer_lives = true;
    fake_unasked = ORIGIN_TNI; /* a connection that the target asks for is never silent */
    entries = 0;
    POLL_UNTIL(fake_unanswered == 0, poll_both()); /* the next one is posted at once */
    start_add(5);
    fake_hears_nothing = true;
    CHECK(outcome(false, NULL) == UTOFU_ERR_MRQ_PEER);
    fake_hears_nothing = false;
    for (int i = 0; i < 100; i++)
        poll_target(); /* the target executes it and posts its answer */
    CHECK(there[0] == 5);
    fail_without_port(failures);
    do {
        go_round();
        start_add(7);
        rc = outcome(true, &old);
        CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_MRQ_PEER);
        fake_clock_pass_ms(1);
    } while (rc != UTOFU_SUCCESS);
    CHECK(old == 5 && there[0] == 12);
    fake_peer_lives = false;
    fake_unasked = -1;
    printf("ok: %s\n", name);
}

static void open_both(void)
{
    CHECK(utofu_create_vcq(ORIGIN_TNI, 0, &vcq) == UTOFU_SUCCESS);
    CHECK(utofu_create_vcq(TARGET_TNI, 0, &target) == UTOFU_SUCCESS);
    CHECK(utofu_query_vcq_id(target, &target_id) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(target, there, sizeof(there), 0, &rmt) == UTOFU_SUCCESS);
}

static void close_both(void)
{
    CHECK(utofu_free_vcq(vcq) == UTOFU_SUCCESS && utofu_free_vcq(target) == UTOFU_SUCCESS);
}

int main(void)
{
    setenv("UTOFU_PROVIDER", "fake", 1);
    setenv("UTOFU_PROGRESS_THREAD", "0", 1);
    setenv("UTOFU_PEER_TIMEOUT", "1", 1);
    open_both();
    tried_again("first contact");
    fake_peer_lives = true;
    tried_again("connected before");
    fake_peer_lives = false;
    late_answer_is_dropped("late answer", 0);
    late_answer_is_dropped("late answer behind 255 that failed", 255);
    close_both();
    return 0;
}
