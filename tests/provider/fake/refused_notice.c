/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of a put or a get are posted, and the message with its notice is refused: the
 * communication fails once, and not before its data are reported, so that the report is not taken
 * for one of the next communication in the same TOQ entry. One process, two VCQs; the target
 * answers only when it is polled, so the report is late.
 */
#include <stdio.h>
#include <stdlib.h>

#include <utofu.h>

#include "fake.h"

enum {
    SIZE = 100000,
    FLAGS = UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE |
            UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE
};

static uint8_t here[SIZE], there[SIZE];
static utofu_vcq_hdl_t vcq, target;
static utofu_vcq_id_t target_id;
static utofu_stadd_t lcl, rmt;

static int put(uint64_t offset)
{
    return utofu_put(vcq, target_id, lcl, rmt + offset, SIZE / 2, 0, FLAGS, NULL);
}

static int get(uint64_t offset)
{
    return utofu_get(vcq, target_id, lcl, rmt + offset, SIZE / 2, 0, FLAGS, NULL);
}

/* Polls both VCQs until the origin has `origin` notices and the target `remote`. */
static void settle(int origin, int remote)
{
    void *cbdata;

    for (int tcq = 0; origin || remote || !tcq;) {
        tcq += utofu_poll_tcq(vcq, 0, &cbdata) == UTOFU_SUCCESS;
        int mine = fake_poll_mrq(vcq), its = fake_poll_mrq(target);
        CHECK(mine == UTOFU_SUCCESS || mine == UTOFU_ERR_NOT_FOUND);
        CHECK(its == UTOFU_SUCCESS || its == UTOFU_ERR_NOT_FOUND);
        origin -= mine == UTOFU_SUCCESS;
        remote -= its == UTOFU_SUCCESS;
    }
}

static void fails_when_its_data_are_reported(const char *name, int (*start)(uint64_t offset))
{
    void *cbdata;
    int rc, tcq = 0, failed = 0;

    CHECK(start(0) == UTOFU_SUCCESS); /* connected, and the region is known */
    settle(1, 1);
    CHECK(fake_unanswered == 0);
    fake_refuses_messages = true;
    CHECK(start(8) == UTOFU_SUCCESS);
    fake_refuses_messages = false;
    CHECK(fake_unanswered > 0); /* the data of the communication */
    for (int i = 0; i < 100000 && !(failed && tcq); i++) {
        rc = fake_poll_mrq(vcq);
        CHECK(rc == UTOFU_ERR_NOT_FOUND || rc == UTOFU_ERR_MRQ_OTHER);
        failed += rc == UTOFU_ERR_MRQ_OTHER;
        CHECK(!failed || fake_unanswered == 0);
        tcq += utofu_poll_tcq(vcq, 0, &cbdata) == UTOFU_SUCCESS;
        CHECK(fake_poll_mrq(target) == UTOFU_ERR_NOT_FOUND); /* the notice was refused */
    }
    CHECK(failed == 1 && tcq == 1);
    /* the TOQ entry is used again */
    for (int i = 0; i < 5000; i++) {
        CHECK(start(16) == UTOFU_SUCCESS);
        settle(1, 1);
    }
    printf("ok: %s\n", name);
}

int main(void)
{
    setenv("UTOFU_PROVIDER", "fake", 1);
    setenv("UTOFU_PROGRESS_THREAD", "0", 1);
    CHECK(utofu_create_vcq(0, 0, &vcq) == UTOFU_SUCCESS);
    CHECK(utofu_create_vcq(4, 0, &target) == UTOFU_SUCCESS);
    CHECK(utofu_query_vcq_id(target, &target_id) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(vcq, here, SIZE, 0, &lcl) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(target, there, SIZE, 0, &rmt) == UTOFU_SUCCESS);
    fails_when_its_data_are_reported("put", put);
    fails_when_its_data_are_reported("get", get);
    CHECK(utofu_free_vcq(vcq) == UTOFU_SUCCESS && utofu_free_vcq(target) == UTOFU_SUCCESS);
    return 0;
}
