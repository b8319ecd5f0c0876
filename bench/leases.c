/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leases PROCESSES PLACES WINDOW BURST ROUNDS
 *
 * What it costs to turn from one peer to the next, for docs/design/dc.md. Rank 0 puts eight bytes
 * to each other process in turn, BURST times each, ROUNDS times around. At most WINDOW peers have
 * puts under way: the next one has its turn when the oldest burst is complete, as with WINDOW
 * initiators that are lent. PLACES is UTOFU_VERBS_MAX_QPS of rank 0; 0: a queue pair for each peer.
 * For the verbs provider; the first round is not counted.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "forked.h"
#include "utofu.h"

enum { MAX_PROCESSES = 1024, MAX_WINDOW = 256, STAG = 7, LOOK_US = 20000 };

static struct world {
    uint32_t here, done;
    utofu_vcq_id_t ids[MAX_PROCESSES];
    double took;
} * world;

static int places, window, burst, rounds;
static utofu_vcq_hdl_t vcq;
static int under_way[MAX_WINDOW]; /* puts of each lease */

static double read_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void poll_notice(void)
{
    struct utofu_mrq_notice notice;
    int rc = utofu_poll_mrq(vcq, 0, &notice);

    if (rc == UTOFU_ERR_NOT_FOUND) {
        sched_yield();
        return;
    }
    CHECK(rc == UTOFU_SUCCESS && notice.notice_type == UTOFU_MRQ_TYPE_LCL_PUT);
    under_way[notice.edata]--;
}

/* The notice on this side says that the put has arrived, so that its initiator could be lent to
 * another peer. */
static void put_burst(int to, int lease, utofu_stadd_t rmt)
{
    static uint64_t value;
    int rc;

    for (int n = 0; n < burst; n++) {
        while ((rc = utofu_put_piggyback8(vcq, world->ids[to], ++value, rmt, 8, (uint64_t)lease,
                                          UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL)) ==
               UTOFU_ERR_BUSY)
            poll_notice();
        CHECK(rc == UTOFU_SUCCESS);
        under_way[lease]++;
    }
}

static void turn_round(const utofu_stadd_t *rmt)
{
    static int lease;

    for (int to = 1; to < size; to++) {
        while (under_way[lease] > 0)
            poll_notice();
        put_burst(to, lease, rmt[to]);
        lease = (lease + 1) % window;
    }
}

static void put_to_all(void)
{
    static utofu_stadd_t rmt[MAX_PROCESSES];
    double start = 0;

    for (int to = 1; to < size; to++)
        CHECK(utofu_query_stadd(world->ids[to], STAG, &rmt[to]) == UTOFU_SUCCESS);
    for (int round = -1; round < rounds; round++) {
        if (round == 0)
            start = read_seconds();
        turn_round(rmt);
    }
    for (int lease = 0; lease < window; lease++)
        while (under_way[lease] > 0)
            poll_notice();
    world->took = read_seconds() - start;
}

static int be_process(void)
{
    static uint64_t words[512] __attribute__((aligned(4096)));
    utofu_stadd_t stadd;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (rank == 0 && places)
        set_number("UTOFU_VERBS_MAX_QPS", places);
    CHECK(utofu_create_vcq(0, 0, &vcq) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem_with_stag(vcq, words, sizeof(words), STAG, 0, &stadd) == UTOFU_SUCCESS);
    CHECK(utofu_query_vcq_id(vcq, &world->ids[rank]) == UTOFU_SUCCESS);
    await_all(&world->here, LOOK_US);
    if (rank == 0)
        put_to_all();
    await_all(&world->done, LOOK_US);
    return 0;
}

int main(int argc, char **argv)
{
    int *const numbers[] = {&size, &places, &window, &burst, &rounds};

    for (int i = 0; i < 5 && i + 1 < argc; i++)
        *numbers[i] = atoi(argv[i + 1]);
    if (argc != 6 || size < 2 || size > MAX_PROCESSES || places < 0 || window < 1 ||
        window > MAX_WINDOW || burst < 1 || rounds < 1) {
        fprintf(stderr,
                "usage: %s PROCESSES PLACES WINDOW BURST ROUNDS; 2 to %d processes, "
                "a window of %d at most\n",
                argv[0], MAX_PROCESSES, MAX_WINDOW);
        return 2;
    }
    world = shared_memory(sizeof(*world));
    if (run_processes("utofu-leases", be_process))
        return 1;
    double turns = (double)(size - 1) * rounds;
    printf("%d peers, %d places, %d at once, bursts of %d: %.1f us a turn, %.0f puts a second\n",
           size - 1, places, window, burst, world->took / turns * 1e6, turns * burst / world->took);
    return 0;
}
