/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of puts that are started together the first is refused once, as the send queue is full. It is
 * posted later, and its remote notice has the next number of the link: when the connection breaks
 * after all of them have arrived, none is repeated. One process, two VCQs; the fake provider.
 */
#include "pair.h"

enum { PUTS = 3, POLLS = 1000 };

static const unsigned long int flags =
    UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_TCQ_NOTICE;
static int notices, entries;

static void poll_peer(void)
{
    notices += fake_poll_mrq(peer) == UTOFU_SUCCESS;
}

static void poll_both(void)
{
    void *cbdata;

    CHECK(fake_poll_mrq(origin) == UTOFU_ERR_NOT_FOUND);
    entries += utofu_poll_tcq(origin, 0, &cbdata) == UTOFU_SUCCESS;
    poll_peer();
}

static void start_together(unsigned int refusals)
{
    fake_is_full = refusals;
    for (int i = 1; i < PUTS; i++)
        put_there(flags | UTOFU_ONESIDED_FLAG_DELAY_START);
    put_there(flags);
}

/* Announces the STADD, so that the next notices travel with the data. */
static void announce(void)
{
    notices = entries = 0;
    put_there(flags);
    POLL_UNTIL(notices == 1 && entries == 1 && fake_unanswered == 0, poll_both());
}

static void break_after_arrival(unsigned int refusals)
{
    uint32_t ups = fake_ups;

    announce();
    notices = entries = 0;
    start_together(refusals);
    POLL_UNTIL(fake_unanswered >= PUTS, CHECK(fake_poll_mrq(origin) == UTOFU_ERR_NOT_FOUND));
    CHECK(fake_is_full == 0);
    POLL_UNTIL(notices == PUTS, poll_peer());
    fake_breaks = true;
    put_there(0);
    POLL_UNTIL(fake_ups > ups && entries == PUTS && fake_unanswered == 0, poll_both());
    for (int i = 0; i < POLLS; i++)
        poll_both();
    CHECK(notices == PUTS && entries == PUTS);
}

int main(void)
{
    pair_open();
    for (unsigned int refusals = 0; refusals < 3; refusals++)
        break_after_arrival(refusals);
    pair_close();
    return 0;
}
