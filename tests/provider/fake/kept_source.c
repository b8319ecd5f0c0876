/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source of a small put is overwritten as soon as the put is posted: another thread of the
 * program may learn from the peer that the put has arrived before the call has returned. The
 * connection breaks before the origin has the completion, and the put is repeated with the data
 * that it had when it was posted. One process, two VCQs; the fake provider.
 */
#include "pair.h"

enum { LONGEST = 32, STRIDE = 7 };

static const unsigned long int notice = UTOFU_ONESIDED_FLAG_TCQ_NOTICE;
static bool overwrites;

/* Called when the put has arrived: from now on another thread may overwrite the source. */
static void arrived(void)
{
    if (overwrites)
        memset(here, 0xff, sizeof(here));
}

static int entries(void)
{
    void *cbdata;

    CHECK(fake_poll_mrq(origin) == UTOFU_ERR_NOT_FOUND &&
          fake_poll_mrq(peer) == UTOFU_ERR_NOT_FOUND);
    int rc = utofu_poll_tcq(origin, 0, &cbdata);
    CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_NOT_FOUND);
    return rc == UTOFU_SUCCESS;
}

static void put(size_t length, unsigned long int flags)
{
    memset(here, (int)length, sizeof(here));
    CHECK(utofu_put(origin, peer_id, lcl, rmt, length, 0, flags | notice, NULL) == UTOFU_SUCCESS);
}

static bool has_arrived(size_t length)
{
    const uint8_t *bytes = (const uint8_t *)there;

    for (size_t i = 0; i < length; i++)
        CHECK(bytes[i] == 0 || bytes[i] == length);
    return bytes[length - 1] == length;
}

/* delay: the put is started together with the next one, by the slow path. */
static void repeated(size_t length, bool delay)
{
    int n = 0;

    POLL_UNTIL(fake_unanswered == 0, CHECK(entries() == 0));
    memset(there, 0, sizeof(there));
    overwrites = true;
    put(length, delay ? UTOFU_ONESIDED_FLAG_DELAY_START : 0);
    if (delay)
        CHECK(utofu_nop(origin, 0, NULL) == UTOFU_SUCCESS);
    overwrites = false;
    CHECK(fake_unanswered == 1);
    POLL_UNTIL(has_arrived(length), CHECK(fake_poll_mrq(peer) == UTOFU_ERR_NOT_FOUND));
    memset(there, 0, sizeof(there));
    fake_breaks = true;
    POLL_UNTIL(has_arrived(length), n += entries());
    CHECK(!fake_breaks);
    POLL_UNTIL(n == 1, n += entries());
}

int main(void)
{
    int n = 0;

    fake_reads_source = true;
    fake_on_write = arrived;
    pair_open();
    put(1, 0); /* makes the connection, and both STADDs known */
    POLL_UNTIL(n == 1, n += entries());
    for (size_t length = 1; length <= LONGEST; length += STRIDE)
        repeated(length, false);
    printf("ok: posted by the fast path\n");
    for (size_t length = 1; length <= LONGEST; length += STRIDE)
        repeated(length, true);
    printf("ok: posted by the slow path\n");
    pair_close();
    return 0;
}
