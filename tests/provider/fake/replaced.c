/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection breaks while an entry of the peer's STag table is being read on it, and the peer's
 * next request comes before this side has seen the break: nobody reports the read any more, and it
 * is done again on the new connection. One process, two VCQs; the fake provider, which polls new
 * connections first.
 */
#include <stdio.h>
#include <stdlib.h>

#include <utofu.h>

#include "fake.h"

enum { VALUE = 4711, TIMES = 3 };

static uint64_t here[8], there[8], memory_of[2][8];
static utofu_vcq_hdl_t origin, peer;
static utofu_vcq_id_t origin_id, peer_id;
static utofu_stadd_t lcl, rmt, back_lcl, back_rmt;

static bool is_complete(utofu_vcq_hdl_t which)
{
    struct utofu_mrq_notice notice;
    void *cbdata;

    CHECK(utofu_poll_mrq(which, 0, &notice) == UTOFU_ERR_NOT_FOUND); /* polls in any case */
    int rc = utofu_poll_tcq(which, 0, &cbdata);

    CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_NOT_FOUND);
    return rc == UTOFU_SUCCESS;
}

static void put(utofu_vcq_hdl_t from, utofu_vcq_id_t to, utofu_stadd_t src, utofu_stadd_t dst)
{
    CHECK(utofu_put(from, to, src, dst, sizeof(uint64_t), 0, UTOFU_ONESIDED_FLAG_TCQ_NOTICE,
                    NULL) == UTOFU_SUCCESS);
}

/* A connection for which the peer has asked. The origin knows nothing of the peer's table. */
static void connect_from_peer(void)
{
    uint32_t ups = fake_ups;
    bool done = false;

    put(peer, origin_id, back_lcl, back_rmt);
    POLL_UNTIL(done && fake_ups > ups, {
        done |= is_complete(peer);
        CHECK(!is_complete(origin));
    });
}

static void disconnect(void)
{
    fake_breaks = true;
    POLL_UNTIL(!fake_breaks, CHECK(!is_complete(peer)));
    CHECK(!is_complete(origin)); /* sees it too */
}

static void read_is_repeated(void)
{
    bool mine = false, its = false;

    connect_from_peer();
    uint32_t asks = fake_asks, unanswered = fake_unanswered;
    here[0]++;
    put(origin, peer_id, lcl, rmt); /* reads the peer's table, which is not polled */
    CHECK(!is_complete(origin));
    CHECK(fake_unanswered == unanswered + 1);
    put(peer, origin_id, back_lcl, back_rmt);
    fake_breaks = true;                                     /* of what the peer has asked for */
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
    setenv("UTOFU_PROVIDER", "fake", 1);
    setenv("UTOFU_PROGRESS_THREAD", "0", 1);
    CHECK(utofu_create_vcq(0, 0, &origin) == UTOFU_SUCCESS);
    CHECK(utofu_create_vcq(4, 0, &peer) == UTOFU_SUCCESS);
    CHECK(utofu_query_vcq_id(origin, &origin_id) == UTOFU_SUCCESS);
    CHECK(utofu_query_vcq_id(peer, &peer_id) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(origin, here, sizeof(here), 0, &lcl) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(peer, there, sizeof(there), 0, &rmt) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(peer, memory_of[0], sizeof(memory_of[0]), 0, &back_lcl) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(origin, memory_of[1], sizeof(memory_of[1]), 0, &back_rmt) == UTOFU_SUCCESS);
    fake_peer_lives = true;
    here[0] = VALUE;
    for (int i = 0; i < TIMES; i++)
        read_is_repeated();
    CHECK(utofu_free_vcq(origin) == UTOFU_SUCCESS && utofu_free_vcq(peer) == UTOFU_SUCCESS);
    printf("ok\n");
    return 0;
}
