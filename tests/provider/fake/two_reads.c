/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ARMW checks whether its target is mapped here, and begins to read the entry of its STag; the
 * target is not mapped, so the ARMW is sent to the target's CPU at once. The next communication on
 * the link needs another STag, whose entry is read next. One process, two VCQs; the fake provider,
 * which maps nothing and answers a read when the target is polled.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <utofu.h>

#include "fake.h"

enum {
    ADD = 1,
    VALUE = 4711,
    FLAGS = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_TCQ_NOTICE
};

static uint64_t here[8], counter[8], there[8];
static utofu_vcq_hdl_t vcq, target;

static void expect_notice(int type)
{
    struct utofu_mrq_notice notice, none;
    time_t end = time(NULL) + 60;
    int rc;

    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND) {
        CHECK(utofu_poll_mrq(target, 0, &none) == UTOFU_ERR_NOT_FOUND);
        CHECK(time(NULL) < end);
    }
    CHECK(rc == UTOFU_SUCCESS && notice.notice_type == type);
}

int main(void)
{
    utofu_vcq_id_t id;
    utofu_stadd_t lcl, word, rmt;

    setenv("UTOFU_PROVIDER", "fake", 1);
    setenv("UTOFU_PROGRESS_THREAD", "0", 1);
    CHECK(utofu_create_vcq(0, 0, &vcq) == UTOFU_SUCCESS);
    CHECK(utofu_create_vcq(4, 0, &target) == UTOFU_SUCCESS);
    CHECK(utofu_query_vcq_id(target, &id) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(vcq, here, sizeof(here), 0, &lcl) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(target, counter, sizeof(counter), 0, &word) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(target, there, sizeof(there), 0, &rmt) == UTOFU_SUCCESS);
    here[0] = VALUE;
    CHECK(utofu_armw8(vcq, id, UTOFU_ARMW_OP_ADD, ADD, word, 0, FLAGS, NULL) == UTOFU_SUCCESS);
    CHECK(utofu_put(vcq, id, lcl, rmt, sizeof(here[0]), 0, FLAGS, NULL) == UTOFU_SUCCESS);
    expect_notice(UTOFU_MRQ_TYPE_LCL_ARMW);
    expect_notice(UTOFU_MRQ_TYPE_LCL_PUT);
    CHECK(counter[0] == ADD && there[0] == VALUE);
    CHECK(utofu_free_vcq(vcq) == UTOFU_SUCCESS && utofu_free_vcq(target) == UTOFU_SUCCESS);
    printf("ok\n");
    return 0;
}
