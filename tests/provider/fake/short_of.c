/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process lacks memory when it connects, or room when a peer connects: no communication fails
 * before UTOFU_JOB_TIMEOUT is over, which begins with the first try to connect. One process, two
 * VCQs; the fake provider.
 */
#include "../../harness/fake_clock.h"
#include "pair.h"

enum { VALUE = 4711, TIMEOUT = 2, ALWAYS = 1000000 };

static const unsigned long int notice = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE;

/* Polls both VCQs until the communication of `which` has ended. */
static int end_of(utofu_vcq_hdl_t which)
{
    int rc = UTOFU_ERR_NOT_FOUND;

    POLL_UNTIL(rc != UTOFU_ERR_NOT_FOUND, {
        utofu_vcq_hdl_t other = which == origin ? peer : origin;
        rc = fake_poll_mrq(which);
        int its = fake_poll_mrq(other);
        CHECK(its == UTOFU_ERR_NOT_FOUND || its == UTOFU_SUCCESS);
        fake_clock_pass_ms(1);
    });
    return rc;
}

static void disconnect(utofu_vcq_hdl_t asker)
{
    fake_breaks = true;
    POLL_UNTIL(!fake_breaks, CHECK(fake_poll_mrq(asker) == UTOFU_ERR_NOT_FOUND));
    CHECK(fake_poll_mrq(origin) == UTOFU_ERR_NOT_FOUND &&
          fake_poll_mrq(peer) == UTOFU_ERR_NOT_FOUND);
}

static void memory_comes(void)
{
    fake_lacks_memory = 5;
    here[0]++;
    put_there(notice);
    CHECK(end_of(origin) == UTOFU_SUCCESS && there[0] == here[0]);
    CHECK(fake_lacks_memory == 0);
    disconnect(origin);
}

static void memory_does_not_come(void)
{
    fake_lacks_memory = ALWAYS;
    put_there(notice);
    CHECK(end_of(origin) == UTOFU_ERR_MRQ_OTHER);
    CHECK(fake_lacks_memory < ALWAYS - 3);
    fake_lacks_memory = 0;
}

/* The origin was connected long ago. Its peer has seen the connection break first and asks for
 * another one, for which the origin has neither room nor the memory to ask itself. */
static void room_comes(void)
{
    put_back(notice);
    CHECK(end_of(peer) == UTOFU_SUCCESS);
    fake_clock_pass_ms(1000 * (TIMEOUT + 1));
    here[0]++;
    put_there(notice); /* reads the peer's table first */
    CHECK(fake_poll_mrq(origin) == UTOFU_ERR_NOT_FOUND);
    uint32_t asks = fake_asks;
    fake_breaks = true; /* the connection that the peer asked for */
    put_back(notice);
    POLL_UNTIL(fake_asks > asks, {
        (void)fake_poll_mrq(peer);
        fake_clock_pass_ms(1);
    });
    CHECK(!fake_breaks);
    fake_has_no_room = 1;
    fake_lacks_memory = 1;
    CHECK(end_of(origin) == UTOFU_SUCCESS && there[0] == here[0]);
    CHECK(fake_has_no_room == 0);
}

int main(void)
{
    setenv("UTOFU_JOB_TIMEOUT", "2", 1);
    pair_open();
    here[0] = VALUE;
    memory_comes();
    memory_does_not_come();
    room_comes();
    pair_close();
    return 0;
}
