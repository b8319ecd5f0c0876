/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communications without notices are not signalled: they complete with a later signalled one.
 * Entries behind them in the TCQ, or communications behind them on the link, complete in the end:
 * also where a thread sleeps until they do, and where the oldest on the link is an ARMW. One
 * process, two VCQs; the fake provider, which answers only signalled operations.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <utofu.h>
#include <utofu_ext.h>

#include "fake.h"
#include "provider.h"

enum {
    LARGE = 4096, /* its source is needed until it is complete */
    TIMES = 5,
    ASLEEP_MS = 20,
    PATIENCE_US = 30000000,
    ARMW_FLAGS = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE
};

static uint64_t here[LARGE / 8], there[LARGE / 8 + 1];
static utofu_vcq_hdl_t vcq, target;
static utofu_vcq_id_t target_id;
static utofu_stadd_t lcl, rmt;

static int poll_tcq(void)
{
    void *cbdata;

    return utofu_poll_tcq(vcq, 0, &cbdata);
}

static void put(uint64_t offset, uint32_t length, unsigned long flags)
{
    CHECK(utofu_put(vcq, target_id, lcl, rmt + offset, length, 0, flags, NULL) == UTOFU_SUCCESS);
}

static void *sleeper(void *arg)
{
    int *rc = arg;

    *rc = utofu_wait_vcqs(&vcq, 1, PATIENCE_US);
    return NULL;
}

static void begin_to_sleep(pthread_t *thread, int *rc)
{
    const struct timespec ms = {.tv_nsec = ASLEEP_MS * 1000000L};

    CHECK(pthread_create(thread, NULL, sleeper, rc) == 0);
    nanosleep(&ms, NULL); /* else the thread does not sleep yet, and polls once more */
}

static void put_value(uint64_t offset, bool from_descriptor)
{
    if (from_descriptor)
        CHECK(utofu_put_piggyback8(vcq, target_id, here[0], rmt + offset, sizeof(here[0]), 0,
                                   UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL) == UTOFU_SUCCESS);
    else
        put(offset, sizeof(here[0]), UTOFU_ONESIDED_FLAG_TCQ_NOTICE);
}

/* Both puts are executed, and the TCQ entry of the second waits for the first. */
static void who_sleeps_is_woken(bool from_descriptor)
{
    pthread_t thread;
    int rc;

    here[0]++;
    begin_to_sleep(&thread, &rc);
    put(0, LARGE, 0);
    put_value(LARGE, from_descriptor);
    POLL_UNTIL(__atomic_load_n(&there[LARGE / 8], __ATOMIC_RELAXED) == here[0],
               CHECK(fake_poll_mrq(target) == UTOFU_ERR_NOT_FOUND));
    CHECK(fake_poll_mrq(target) == UTOFU_ERR_NOT_FOUND);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(rc == UTOFU_SUCCESS);
    CHECK(poll_tcq() == UTOFU_SUCCESS);
}

/* The data are posted, and the notice is refused: the put fails when the data are reported. */
static void who_sleeps_hears_of_a_failure(void)
{
    pthread_t thread;
    int rc;

    here[0]++;
    fake_refuses_messages = true;
    begin_to_sleep(&thread, &rc);
    put(0, LARGE, UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
    POLL_UNTIL(there[0] == here[0], CHECK(fake_poll_mrq(target) == UTOFU_ERR_NOT_FOUND));
    CHECK(pthread_join(thread, NULL) == 0);
    fake_refuses_messages = false;
    CHECK(rc == UTOFU_SUCCESS);
    CHECK(fake_poll_mrq(vcq) == UTOFU_ERR_MRQ_OTHER);
}

/* The get fails at once. */
static void behind_an_armw(void)
{
    int rc;

    CHECK(utofu_armw8(vcq, target_id, UTOFU_ARMW_OP_ADD, 1, rmt, 0, ARMW_FLAGS, NULL) ==
          UTOFU_SUCCESS);
    put(0, LARGE, 0);
    CHECK(utofu_get(vcq, target_id, lcl + sizeof(here), rmt, 8, 0, 0, NULL) == UTOFU_SUCCESS);
    POLL_UNTIL((rc = fake_poll_mrq(vcq)) != UTOFU_ERR_NOT_FOUND,
               CHECK(fake_poll_mrq(target) == UTOFU_ERR_NOT_FOUND));
    CHECK(rc == UTOFU_SUCCESS); /* the ARMW */
    POLL_UNTIL((rc = fake_poll_mrq(vcq)) != UTOFU_ERR_NOT_FOUND,
               CHECK(fake_poll_mrq(target) == UTOFU_ERR_NOT_FOUND));
    CHECK(rc == UTOFU_ERR_MRQ_LCL_STADD || rc == UTOFU_ERR_MRQ_LCL_LENGTH);
}

static int poll_mrq(void)
{
    struct utofu_mrq_notice notice;

    return utofu_poll_mrq(vcq, 0, &notice);
}

/* Alone, with nothing behind it: its notice comes, twice the same way. */
static void one_completes(int kind, bool by_tcq)
{
    unsigned long flags =
        by_tcq ? UTOFU_ONESIDED_FLAG_TCQ_NOTICE : UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE;

    for (int i = 0; i < 2; i++) {
        here[0]++;
        if (kind == 0)
            put(0, LARGE, flags);
        else if (kind == 1)
            put(0, sizeof(here[0]), flags);
        else if (kind == 2)
            CHECK(utofu_get(vcq, target_id, lcl, rmt, sizeof(here[0]), 0, flags, NULL) ==
                  UTOFU_SUCCESS);
        else
            CHECK(utofu_put_piggyback8(vcq, target_id, here[0], rmt, sizeof(here[0]), 0, flags,
                                       NULL) == UTOFU_SUCCESS);
        int rc = UTOFU_ERR_NOT_FOUND;
        for (int polls = 0; polls < 20000 && rc == UTOFU_ERR_NOT_FOUND; polls++) {
            CHECK(fake_poll_mrq(target) == UTOFU_ERR_NOT_FOUND);
            rc = by_tcq ? poll_tcq() : poll_mrq();
        }
        CHECK(rc == UTOFU_SUCCESS);
        /* the fake provider answers each read at once; others do not */
        CHECK(kind != 2 || by_tcq || fake_read_flags == (PROV_SIGNAL | PROV_DELIVERY_COMPLETE));
        CHECK(kind != 2 || !by_tcq || fake_read_flags == PROV_SIGNAL);
    }
}

int main(void)
{
    setenv("UTOFU_PROVIDER", "fake", 1);
    setenv("UTOFU_PROGRESS_THREAD", "0", 1);
    CHECK(utofu_create_vcq(0, UTOFU_VCQ_FLAG_THREAD_SAFE, &vcq) == UTOFU_SUCCESS);
    CHECK(utofu_create_vcq(4, 0, &target) == UTOFU_SUCCESS);
    CHECK(utofu_query_vcq_id(target, &target_id) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(vcq, here, sizeof(here), 0, &lcl) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(target, there, sizeof(there), 0, &rmt) == UTOFU_SUCCESS);
    put(0, sizeof(here[0]),
        UTOFU_ONESIDED_FLAG_TCQ_NOTICE); /* connected, and the region is known */
    POLL_UNTIL(poll_tcq() == UTOFU_SUCCESS, CHECK(fake_poll_mrq(target) == UTOFU_ERR_NOT_FOUND));
    fake_saves_reports = true;
    for (int i = 0; i < 8; i++)
        one_completes(i / 2, i % 2);
    printf("ok: each alone\n");
    for (int i = 0; i < TIMES; i++)
        who_sleeps_is_woken(i % 2);
    printf("ok: who sleeps is woken\n");
    who_sleeps_hears_of_a_failure();
    printf("ok: a failure wakes a thread in utofu_wait_vcqs\n");
    behind_an_armw();
    printf("ok: behind an ARMW\n");
    CHECK(utofu_free_vcq(vcq) == UTOFU_SUCCESS && utofu_free_vcq(target) == UTOFU_SUCCESS);
    return 0;
}
