/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection breaks while an entry of the peer's STag table is read on it, and the peer's next
 * request comes before this side has seen the break: the read is never reported, and is repeated on
 * the new connection. One process, two VCQs; the fake provider, which polls new connections first.
 */
#include "pair.h"

enum { VALUE = 4711, TIMES = 3 };

static const unsigned long int notice = UTOFU_ONESIDED_FLAG_TCQ_NOTICE;

static bool is_complete(utofu_vcq_hdl_t which)
{
    void *cbdata;

    CHECK(fake_poll_mrq(which) == UTOFU_ERR_NOT_FOUND); /* polls in any case */
    int rc = utofu_poll_tcq(which, 0, &cbdata);

    CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_NOT_FOUND);
    return rc == UTOFU_SUCCESS;
}

/* A connection for which the peer has asked. The origin has not read the peer's table. */
static void connect_from_peer(void)
{
    uint32_t ups = fake_ups;
    bool done = false;

    put_back(notice);
    POLL_UNTIL(done && fake_ups > ups, {
        done |= is_complete(peer);
        CHECK(!is_complete(origin));
    });
}

static void disconnect(void)
{
    fake_breaks = true;
    POLL_UNTIL(!fake_breaks, CHECK(!is_complete(peer)));
    CHECK(!is_complete(origin)); /* sees the break, too */
}

static void read_is_repeated(void)
{
    bool mine = false, its = false;

    connect_from_peer();
    uint32_t asks = fake_asks, unanswered = fake_unanswered;
    here[0]++;
    put_there(notice); /* reads the peer's table, which is not polled */
    CHECK(!is_complete(origin));
    CHECK(fake_unanswered == unanswered + 1);
    put_back(notice);
    fake_breaks = true;                                     /* the peer's */
    POLL_UNTIL(fake_asks > asks, its |= is_complete(peer)); /* a small put, at once */
    CHECK(!fake_breaks);
    POLL_UNTIL(mine && its, {
        mine |= is_complete(origin);
        its |= is_complete(peer);
    });
    CHECK(there[0] == here[0]);
    disconnect();
}

int main(void)
{
    pair_open();
    here[0] = VALUE;
    for (int i = 0; i < TIMES; i++)
        read_is_repeated();
    pair_close();
    return 0;
}
