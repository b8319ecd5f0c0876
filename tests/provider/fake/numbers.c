/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a break each end says how many messages of the other it has received, and the messages not
 * received are sent again: also where one of the two VCQs was freed and created again, and where a
 * message could not be posted on the connection between two breaks. One process, two VCQs; the fake
 * provider.
 */
#include <stdio.h>
#include <stdlib.h>

#include <utofu.h>

#include "fake.h"

enum { BEFORE = 5 };

static uint64_t there[8], here[8];
static utofu_vcq_hdl_t vcq, target;
static utofu_vcq_id_t vcq_id, target_id;
static utofu_stadd_t rmt, lcl;
static struct fake_answers answers;

static void poll_both(void)
{
    fake_poll(vcq, &answers);
    fake_poll(target, &answers);
}

static void open_vcq(void)
{
    CHECK(utofu_create_vcq(0, 0, &vcq) == UTOFU_SUCCESS);
    CHECK(utofu_query_vcq_id(vcq, &vcq_id) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(vcq, here, sizeof(here), 0, &lcl) == UTOFU_SUCCESS);
}

/* With the same id: the target may take it for the old VCQ. */
static void make_anew(void)
{
    utofu_vcq_id_t before = vcq_id;

    CHECK(utofu_free_vcq(vcq) == UTOFU_SUCCESS);
    open_vcq();
    CHECK(vcq_id == before);
}

static void add(uint64_t value)
{
    CHECK(utofu_armw8(vcq, target_id, UTOFU_ARMW_OP_ADD, value, rmt, 0,
                      UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_TCQ_NOTICE,
                      NULL) == UTOFU_SUCCESS);
}

static void add_and_wait(uint64_t value)
{
    int before = answers.count;

    add(value);
    POLL_UNTIL(answers.count > before && fake_unanswered == 0,
               poll_both()); /* the next is posted at once */
}

/* A new connection is made, as an answer is due. */
static void lose_connection(void)
{
    uint32_t before = fake_ups;

    fake_breaks = true;
    POLL_UNTIL(!fake_breaks, poll_both());
    POLL_UNTIL(fake_ups > before, poll_both());
}

/* The target has counted messages of the freed VCQ. */
static void counts_begin_anew(void)
{
    there[0] = 0;
    for (int i = 0; i < BEFORE; i++)
        add_and_wait(1);
    make_anew();
    add_and_wait(1);
    int before = answers.count;
    add(10);
    fake_refuses_messages = true; /* the answer */
    POLL_UNTIL(there[0] == BEFORE + 11, poll_both());
    lose_connection();
    CHECK(there[0] == BEFORE + 11 && answers.count == before);
    fake_refuses_messages = false;
    lose_connection();
    POLL_UNTIL(answers.count > before, poll_both());
    CHECK(there[0] == BEFORE + 11 && answers.old_value == BEFORE + 1);
    printf("ok: counts begin anew with the VCQ\n");
}

/* An answer that could not be sent in time is not taken for one to the new VCQ, whose first
 * communication has the same place in its queue. */
static void old_answers_are_dropped(void)
{
    uint32_t ups = fake_ups;

    make_anew();
    there[0] = 1;
    add(1);
    POLL_UNTIL(fake_ups > ups, {
        fake_poll(target, &answers);
        fake_poll(vcq, &answers);
    });
    fake_refuses_messages = true; /* the answer: 1 */
    POLL_UNTIL(there[0] == 2, poll_both());
    make_anew(); /* does not wait for the answer for ever */
    fake_refuses_messages = false;
    there[0] = 100;
    add_and_wait(1);
    CHECK(there[0] == 101 && answers.old_value == 100);
    printf("ok: old answers are dropped\n");
}

/* The message of this put carries nothing but a number. */
static void step(int word)
{
    CHECK(utofu_put(target, vcq_id, rmt, lcl + 8 * word, 8, 0,
                    UTOFU_ONESIDED_FLAG_SPS(1) | UTOFU_ONESIDED_FLAG_TCQ_NOTICE,
                    NULL) == UTOFU_SUCCESS);
}

/* An answer that was posted and lost with its connection loses its number: on the next connection
 * it cannot be posted, and others take the numbers. */
static void unposted_message_has_no_number(void)
{
    int before = answers.count;
    uint32_t ups = fake_ups;

    there[0] = 1000;
    add(1);
    POLL_UNTIL(there[0] == 1001, fake_poll(target, &answers));
    fake_breaks = true; /* the answer is under way */
    POLL_UNTIL(!fake_breaks, fake_poll(vcq, &answers));
    fake_refuses_messages = true;
    POLL_UNTIL(fake_ups > ups, poll_both());
    CHECK(answers.count == before);
    step(0);
    step(1);
    POLL_UNTIL(here[1] == there[0], poll_both());
    fake_refuses_messages = false;
    lose_connection();
    POLL_UNTIL(answers.count > before, poll_both());
    CHECK(there[0] == 1001 && answers.old_value == 1000);
    printf("ok: an unposted message has no number\n");
}

int main(void)
{
    setenv("UTOFU_PROVIDER", "fake", 1);
    setenv("UTOFU_PROGRESS_THREAD", "0", 1);
    setenv("UTOFU_PEER_TIMEOUT", "1", 1);
    open_vcq();
    CHECK(utofu_create_vcq(4, 0, &target) == UTOFU_SUCCESS);
    CHECK(utofu_query_vcq_id(target, &target_id) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(target, there, sizeof(there), 0, &rmt) == UTOFU_SUCCESS);
    fake_peer_lives = true;
    counts_begin_anew();
    old_answers_are_dropped();
    unposted_message_has_no_number();
    CHECK(utofu_free_vcq(vcq) == UTOFU_SUCCESS && utofu_free_vcq(target) == UTOFU_SUCCESS);
    return 0;
}
