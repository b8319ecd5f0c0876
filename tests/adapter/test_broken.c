/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Permanent failures: of the device, or of a queue of a VCQ. Communications of its VCQs end with
 * UTOFU_ERR_MRQ_OTHER; if only a queue is broken, a new VCQ works.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "ends.h"
#include "harness.h"
#include "fault.h"

enum { SIZE = 4096, ROUNDS = 16 };

struct broken {
    enum ad_fault what;
    uint32_t count;
    bool new_one_works;
};

static void fault(enum ad_fault what, uint32_t count)
{
    CHECK(adapter_fault_set(what, count));
}

static struct ut_comm put_of(const struct ut_end *end, const struct ut_peer *to)
{
    return (struct ut_comm){.kind = UT_PUT,
                            .vcq = end->vcq,
                            .rmt = to->id,
                            .lcl_stadd = end->stadd,
                            .rmt_stadd = to->stadd + SIZE / 2,
                            .length = 8,
                            .flags = UT_LCL};
}

static int put(const struct ut_end *end, const struct ut_peer *to)
{
    struct ut_comm comm = put_of(end, to);
    struct utofu_mrq_notice notice;

    ut_submit(&comm);
    return ut_await_mrq(end->vcq, &notice);
}

static void check_broken(void *arg)
{
    const struct broken *b = arg;
    struct ut_peer peers[2], new_peers[2];
    struct ut_end end, new_end;
    int rc;

    ut_open_all(&end, SIZE, peers);
    for (int i = 0; i < ROUNDS; i++)
        CHECK_OK(put(&end, &peers[!ut_rank]));
    ut_barrier();
    if (ut_rank == 0)
        fault(b->what, b->count);
    ut_barrier();
    ut_step("puts until one fails");
    do
        rc = put(&end, &peers[!ut_rank]);
    while (rc == UTOFU_SUCCESS);
    CHECK_RC(rc, UTOFU_ERR_MRQ_OTHER);
    ut_step("puts that all fail");
    for (int i = 0; i < ROUNDS; i++)
        CHECK_RC(put(&end, &peers[!ut_rank]), UTOFU_ERR_MRQ_OTHER);
    ut_barrier();
    if (b->new_one_works) {
        ut_step("a new VCQ");
        ut_end_open(&new_end, 1, 0, SIZE);
        ut_end_gather(&new_end, new_peers);
        for (int i = 0; i < ROUNDS; i++)
            CHECK_OK(put(&new_end, &new_peers[!ut_rank]));
        ut_barrier();
        ut_end_close(&new_end);
    }
    ut_close_all(&end);
}

static void run(struct broken b)
{
    if (!getenv("UT_ADAPTER_SOCKET"))
        cr_skip_test("not over the software adapter");
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_PROVIDER=verbs", "UTOFU_PEER_TIMEOUT=2"}},
           check_broken, &b);
}

Test(broken, completion_queues)
{
    run((struct broken){AD_FAULT_QUEUES, 1, true});
}

Test(broken, shared_receive_queues)
{
    run((struct broken){AD_FAULT_QUEUES, 2, true});
}

Test(broken, the_device)
{
    run((struct broken){AD_FAULT_DEVICE, 1, false});
}
