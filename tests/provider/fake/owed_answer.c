/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection is lost again and again between an ARMW that the target's CPU has executed and its
 * answer: it is not executed again, and the answer comes in the end. To another VCQ, and to the
 * VCQ itself. One process; the fake provider.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <utofu.h>

#include "fake.h"

enum { TIMES = 3 };

static uint64_t there[512];
static utofu_vcq_hdl_t vcq, target;
static utofu_stadd_t rmt;
static int answers;
static uint64_t old_value;

static void poll_one(utofu_vcq_hdl_t which)
{
    struct utofu_mrq_notice notice;
    void *cbdata;
    int rc = utofu_poll_mrq(which, 0, &notice);

    CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_NOT_FOUND);
    if (rc == UTOFU_SUCCESS && notice.notice_type == UTOFU_MRQ_TYPE_LCL_ARMW) {
        answers++;
        old_value = notice.rmt_value;
    }
    (void)utofu_poll_tcq(which, 0, &cbdata);
}

#define POLL_UNTIL(cond)                                                                           \
    do {                                                                                           \
        time_t end_ = time(NULL) + 60;                                                             \
        while (!(cond)) {                                                                          \
            poll_one(vcq);                                                                         \
            poll_one(target);                                                                      \
            CHECK(time(NULL) < end_);                                                              \
        }                                                                                          \
    } while (0)

static void add(utofu_vcq_id_t to, uint64_t value)
{
    CHECK(utofu_armw8(vcq, to, UTOFU_ARMW_OP_ADD, value, rmt, 0,
                      UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_TCQ_NOTICE,
                      NULL) == UTOFU_SUCCESS);
}

/* They are made anew, as there is something to answer. */
static void lose_connections(void)
{
    uint32_t before = fake_ups;

    fake_breaks = true;
    POLL_UNTIL(!fake_breaks);
    POLL_UNTIL(fake_ups > before);
}

static void executed_once(const char *name, utofu_vcq_hdl_t its)
{
    utofu_vcq_id_t to;

    there[0] = 0;
    answers = 0;
    CHECK(utofu_query_vcq_id(its, &to) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(its, there, sizeof(there), 0, &rmt) == UTOFU_SUCCESS);
    add(to, 1);
    POLL_UNTIL(answers == 1 && fake_unanswered == 0); /* the next one is posted at once */
    CHECK(old_value == 0 && there[0] == 1);
    add(to, 10);
    fake_refuses_messages = true; /* the answer */
    POLL_UNTIL(there[0] == 11);
    for (int i = 0; i < TIMES; i++) {
        lose_connections();
        CHECK(there[0] == 11 && answers == 1);
    }
    fake_refuses_messages = false;
    lose_connections(); /* what is kept is sent again on the next connection */
    POLL_UNTIL(answers == 2);
    CHECK(old_value == 1 && there[0] == 11);
    add(to, 100);
    POLL_UNTIL(answers == 3);
    CHECK(old_value == 11 && there[0] == 111);
    CHECK(utofu_dereg_mem(its, rmt, 0) == UTOFU_SUCCESS);
    printf("ok: %s\n", name);
}

int main(void)
{
    setenv("UTOFU_PROVIDER", "fake", 1);
    setenv("UTOFU_PROGRESS_THREAD", "0", 1);
    CHECK(utofu_create_vcq(0, 0, &vcq) == UTOFU_SUCCESS);
    CHECK(utofu_create_vcq(4, 0, &target) == UTOFU_SUCCESS);
    fake_peer_lives = true;
    executed_once("of another VCQ", target);
    executed_once("of the VCQ itself", vcq);
    CHECK(utofu_free_vcq(vcq) == UTOFU_SUCCESS && utofu_free_vcq(target) == UTOFU_SUCCESS);
    return 0;
}
