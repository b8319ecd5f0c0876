/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection that breaks each time that a communication is posted on it, and says nothing else,
 * as with rdma_rxe of Linux 6.12 and a bad local key: the communication fails after some times, and
 * those after it go on. One that breaks a few times is repeated. One process, two VCQs.
 */
#include "pair.h"

enum { FEW = 5, VALUE = 4711 };

static int breaks_left;

static void break_it(void)
{
    if (breaks_left > 0)
        fake_breaks = true;
}

static void count_break(bool was)
{
    if (was && !fake_breaks)
        breaks_left--;
}

/* What becomes of a put while the next `breaks` connections break. */
static int outcome_of_put(int breaks)
{
    struct utofu_mrq_notice notice;
    int rc = UTOFU_ERR_NOT_FOUND;

    breaks_left = breaks;
    here[0]++;
    put_there(UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE);
    POLL_UNTIL(rc != UTOFU_ERR_NOT_FOUND, {
        bool was = fake_breaks;
        rc = utofu_poll_mrq(origin, 0, &notice);
        count_break(was);
        CHECK(fake_poll_mrq(peer) == UTOFU_ERR_NOT_FOUND);
    });
    return rc;
}

int main(void)
{
    char text[1024];

    pair_open();
    fake_on_write = break_it;
    here[0] = VALUE;
    CHECK(outcome_of_put(0) == UTOFU_SUCCESS && there[0] == here[0]);
    CHECK(outcome_of_put(FEW) == UTOFU_SUCCESS && there[0] == here[0]);
    CHECK(outcome_of_put(1000) == UTOFU_ERR_MRQ_OTHER);
    CHECK(breaks_left > 1000 - 100);
    utofu_get_last_error(text);
    printf("%s\n", text);
    CHECK(strstr(text, "broke 16 times in a row"));
    CHECK(outcome_of_put(0) == UTOFU_SUCCESS && there[0] == here[0]);
    pair_close();
    return 0;
}
