/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that computes after it has posted to a session-mode VCQ, for the third time: its puts
 * start when the SPS arrives, not when the background thread next checks whether the program still
 * polls. The test sets that next check a quarter of an hour ahead.
 */
#include "runtime/thread.h"
#include "util/clock.h"
#include "vcq/wait.h"

#include "../harness/check.h"
#include "utofu.h"

enum { WORD = 8, SLOW_MS = 1000000, LIMIT_MS = 30000, LAST = 3 };

static utofu_vcq_hdl_t session, other;
static utofu_vcq_id_t session_id, other_id;
static utofu_stadd_t from, to, trigger, trigger_from;
static volatile uint64_t memory[3][512] __attribute__((aligned(4096)));

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static uint64_t limit(void)
{
    const char *scale = getenv("UT_TEST_TIMEOUT_SCALE");

    return ut_now_ms() + LIMIT_MS * (uint64_t)(scale ? atoi(scale) : 1);
}

static void post(uint64_t value)
{
    memory[0][0] = value;
    CHECK(utofu_put(session, other_id, from, to, WORD, 0, UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL) ==
          UTOFU_SUCCESS);
}

static void give_turn(void)
{
    CHECK(utofu_put(other, session_id, trigger_from, trigger, WORD, 0, UTOFU_ONESIDED_FLAG_SPS(1),
                    NULL) == UTOFU_SUCCESS);
}

static void poll_until_put(void)
{
    void *cbdata;
    uint64_t end = limit();

    while (utofu_poll_tcq(session, 0, &cbdata) != UTOFU_SUCCESS) {
        CHECK(utofu_poll_tcq(other, 0, &cbdata) == UTOFU_ERR_NOT_FOUND);
        CHECK(ut_now_ms() < end);
    }
}

/* The thread finds that the program polls, and sets its next check far ahead. */
static void let_thread_back_off(void)
{
    struct ut_vcq *vcq = ut_vcq_at(session);
    struct utofu_mrq_notice notice;
    uint64_t end = limit();

    for (bool off = false; !off; sleep_ms(1)) {
        CHECK(utofu_poll_mrq(session, 0, &notice) == UTOFU_ERR_NOT_FOUND);
        ut_vcq_request_progress(vcq);
        ut_lock(&vcq->lock);
        off = vcq->next_check_at != 0;
        if (off) {
            __atomic_store_n(&vcq->next_check_at, ut_now_ms() + SLOW_MS, __ATOMIC_RELAXED);
            __atomic_store_n(&vcq->wake_pending, 0, __ATOMIC_RELAXED);
        }
        ut_unlock(&vcq->lock);
        CHECK(ut_now_ms() < end);
    }
}

int main(void)
{
    CHECK(utofu_create_vcq(0, UTOFU_VCQ_FLAG_SESSION_MODE, &session) == UTOFU_SUCCESS);
    CHECK(utofu_create_vcq(0, 0, &other) == UTOFU_SUCCESS);
    CHECK(utofu_query_vcq_id(session, &session_id) == UTOFU_SUCCESS);
    CHECK(utofu_query_vcq_id(other, &other_id) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(session, (void *)memory[0], 4096, 0, &from) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(other, (void *)memory[1], 4096, 0, &to) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(session, (void *)memory[2], 4096, 0, &trigger) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(other, (void *)memory[2], 4096, 0, &trigger_from) == UTOFU_SUCCESS);

    for (uint64_t round = 1; round < LAST; round++) {
        post(round);
        sleep_ms(1); /* computes */
        give_turn();
        poll_until_put();
        CHECK(memory[1][0] == round);
    }

    let_thread_back_off();
    post(LAST);
    give_turn();
    for (uint64_t end = limit(); memory[1][0] != LAST; sleep_ms(1))
        CHECK(ut_now_ms() < end);
    poll_until_put();

    CHECK(utofu_free_vcq(session) == UTOFU_SUCCESS);
    CHECK(utofu_free_vcq(other) == UTOFU_SUCCESS);
    return 0;
}
