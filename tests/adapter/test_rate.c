/* SPDX-License-Identifier: Apache-2.0 */
/* Two ports with a limited rate, by a fault of the software adapter: each has a rate of its own. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "ends.h"
#include "harness.h"
#include "fault.h"

enum { LONG = 8 << 20 }; /* hours at 1 KB a second */

static void put(struct ut_end *end, const struct ut_peer *peer, size_t length)
{
    CHECK_OK(utofu_put(end->vcq, peer->id, end->stadd, peer->stadd, length, 0, UT_LCL, NULL));
}

static void check_busy_port(void *arg)
{
    struct utofu_mrq_notice notice;
    struct ut_peer peers[3][2];
    struct ut_end ends[3]; /* of TNIs 0 and 2, which have one port, and of TNI 1 */
    static const utofu_tni_id_t tnis[] = {0, 2, 1};

    (void)arg;
    for (size_t i = 0; i < NUM(ends); i++) {
        ut_end_open(&ends[i], tnis[i], 0, LONG);
        ut_end_gather(&ends[i], peers[i]);
        if (ut_rank == 0) { /* connected, and all that is asked for before a put is known */
            put(&ends[i], &peers[i][1], LONG);
            CHECK_OK(ut_await_mrq(ends[i].vcq, &notice));
        }
    }
    ut_barrier();
    if (ut_rank == 0) {
        CHECK(adapter_fault_set(AD_FAULT_RATE, 1));
        put(&ends[0], &peers[0][1], LONG);
        put(&ends[1], &peers[1][1], 8);
        put(&ends[2], &peers[2][1], 8);
        CHECK_OK(ut_await_mrq(ends[2].vcq, &notice));
        CHECK_RC(utofu_poll_mrq(ends[0].vcq, 0, &notice), UTOFU_ERR_NOT_FOUND);
        CHECK_RC(utofu_poll_mrq(ends[1].vcq, 0, &notice), UTOFU_ERR_NOT_FOUND);
        CHECK(adapter_fault_set(AD_FAULT_RATE, 0));
        CHECK_OK(ut_await_mrq(ends[0].vcq, &notice));
        CHECK_OK(ut_await_mrq(ends[1].vcq, &notice));
    }
    ut_barrier();
    for (size_t i = 0; i < NUM(ends); i++)
        ut_end_close(&ends[i]);
}

Test(rate, puts_wait_for_their_own_port_only)
{
    if (!getenv("UT_ADAPTER_SOCKET"))
        cr_skip_test("not over the software adapter");
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_PROVIDER=verbs"}}, check_busy_port, NULL);
}
