/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection is lost again and again between an ARMW's execution by the target's CPU and its
 * answer: the ARMW is not executed again, and the answer arrives in the end. To another VCQ, and to
 * the VCQ itself. One process; the fake provider.
 */
#include <stdio.h>
#include <stdlib.h>

#include <utofu.h>

#include "fake.h"

enum { TIMES = 3 };

static uint64_t there[512];
static utofu_vcq_hdl_t vcq, target;
static utofu_stadd_t rmt;
static struct fake_answers answers;

static void poll_both(void)
{
    fake_poll(vcq, &answers);
    fake_poll(target, &answers);
}

static void add(utofu_vcq_id_t to, uint64_t value)
{
    CHECK(utofu_armw8(vcq, to, UTOFU_ARMW_OP_ADD, value, rmt, 0,
                      UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_TCQ_NOTICE,
                      NULL) == UTOFU_SUCCESS);
}

/* New connections are made, as an answer is due. */
static void lose_connections(void)
{
    uint32_t before = fake_ups;

    fake_breaks = true;
    POLL_UNTIL(!fake_breaks, poll_both());
    POLL_UNTIL(fake_ups > before, poll_both());
}

static void executed_once(const char *name, utofu_vcq_hdl_t its)
{
    utofu_vcq_id_t to;

    there[0] = 0;
    answers.count = 0;
    CHECK(utofu_query_vcq_id(its, &to) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(its, there, sizeof(there), 0, &rmt) == UTOFU_SUCCESS);
    add(to, 1);
    POLL_UNTIL(answers.count == 1 && fake_unanswered == 0,
               poll_both()); /* the next one is posted at once */
    CHECK(answers.old_value == 0 && there[0] == 1);
    add(to, 10);
    fake_refuses_messages = true; /* the answer */
    POLL_UNTIL(there[0] == 11, poll_both());
    for (int i = 0; i < TIMES; i++) {
        lose_connections();
        CHECK(there[0] == 11 && answers.count == 1);
    }
    fake_refuses_messages = false;
    lose_connections(); /* the stored answer is sent again on the next connection */
    POLL_UNTIL(answers.count == 2, poll_both());
    CHECK(answers.old_value == 1 && there[0] == 11);
    add(to, 100);
    POLL_UNTIL(answers.count == 3, poll_both());
    CHECK(answers.old_value == 11 && there[0] == 111);
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
