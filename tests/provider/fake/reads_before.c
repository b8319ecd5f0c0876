/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A get without a notice is executed, and so is the communication that waits for it, a get or a put
 * with STRONG_ORDER and a remote notice. Before the origin sees their completions the peer's next
 * request replaces the connection; but the peer has the notice, so the first get is complete, too.
 * A repeated first get would undo the data of the second get, or return the data of the put. One
 * process, two VCQs; the fake provider.
 */
#include "pair.h"

enum { OLD = 1, LATER = 2, NEW = 3, PUT = 4 };

static const unsigned long int tcq = UTOFU_ONESIDED_FLAG_TCQ_NOTICE,
                               strong = UTOFU_ONESIDED_FLAG_STRONG_ORDER |
                                        UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE |
                                        UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE;

static void get(unsigned int from, unsigned long int flags)
{
    CHECK(utofu_get(origin, peer_id, lcl, rmt + from * sizeof(uint64_t), sizeof(uint64_t), 0,
                    flags | tcq, NULL) == UTOFU_SUCCESS);
}

static void put(unsigned int from, unsigned long int flags)
{
    CHECK(utofu_put(origin, peer_id, lcl + from * sizeof(uint64_t), rmt, sizeof(uint64_t), 0,
                    flags | tcq, NULL) == UTOFU_SUCCESS);
}

static bool has_notice(utofu_vcq_hdl_t which)
{
    void *cbdata;
    int rc = fake_poll_mrq(which);

    CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_NOT_FOUND);
    (void)utofu_poll_tcq(which, 0, &cbdata);
    return rc == UTOFU_SUCCESS;
}

static void wait_for_notice(utofu_vcq_hdl_t which)
{
    utofu_vcq_hdl_t other = which == origin ? peer : origin;
    bool got = false;

    POLL_UNTIL(got, {
        got |= has_notice(which);
        CHECK(!has_notice(other));
    });
}

/* Connects by the peer's request, so that the next one replaces it, and reads its table. */
static void connect(void)
{
    uint32_t ups = fake_ups;

    put_back(tcq);
    POLL_UNTIL(fake_ups > ups, CHECK(!has_notice(peer) && !has_notice(origin)));
    get(0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE);
    wait_for_notice(origin);
}

/* The peer sees the connection break, and asks for another one before the origin has seen it. */
static void replace(void)
{
    uint32_t asks = fake_asks;

    fake_breaks = true;
    put_back(tcq);
    POLL_UNTIL(fake_asks > asks, CHECK(!has_notice(peer)));
    CHECK(!fake_breaks);
    fake_hides_ends = false;
    wait_for_notice(origin);
}

static void disconnect(void)
{
    fake_breaks = true;
    POLL_UNTIL(!fake_breaks, CHECK(!has_notice(peer)));
    CHECK(!has_notice(origin));
}

static void begin(void)
{
    there[0] = OLD;
    there[1] = LATER;
    here[0] = 0;
    here[1] = PUT;
    connect();
    fake_hides_ends = true;
    here[0] = 0;
    get(0, 0);
}

static void later_get_is_not_undone(void)
{
    begin();
    get(1, strong);
    bool told = false;
    POLL_UNTIL(told && here[0] == LATER, {
        told |= has_notice(peer);
        CHECK(!has_notice(origin));
    });
    there[0] = NEW;
    replace();
    CHECK(here[0] == LATER);
    disconnect();
}

static void later_put_is_not_read(void)
{
    begin();
    put(1, strong);
    bool told = false;
    POLL_UNTIL(told && here[0] == OLD, {
        told |= has_notice(peer);
        CHECK(!has_notice(origin));
    });
    CHECK(there[0] == PUT);
    replace();
    CHECK(here[0] == OLD);
    disconnect();
}

/* It is unknown whether the get is complete: later communications do not wait for it. */
static void without_order_it_is_repeated(void)
{
    begin();
    put(1, strong & ~(unsigned long int)UTOFU_ONESIDED_FLAG_STRONG_ORDER);
    bool told = false;
    POLL_UNTIL(told && here[0] == OLD, {
        told |= has_notice(peer);
        CHECK(!has_notice(origin));
    });
    there[0] = NEW;
    replace();
    POLL_UNTIL(here[0] == NEW, CHECK(!has_notice(peer) && !has_notice(origin)));
    disconnect();
}

int main(void)
{
    pair_open();
    later_get_is_not_undone();
    later_put_is_not_read();
    without_order_it_is_repeated();
    pair_close();
    return 0;
}
