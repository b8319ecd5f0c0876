/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds of short blocks, without RTRs. The blocks for a process are copied and sent in one put to
 * memory of the layer there, followed by the number of the round. With STRONG_ORDER the last bytes
 * are written last, so a receiver that sees the number has the blocks.
 *
 * There are two places for arriving blocks, for odd and even rounds. Processes that exchange blocks
 * in either direction send each other a put in each round, if only with the number, and a round is
 * over when all of these have arrived. So when this process starts a round, which reuses the place
 * of the round before the last, the other one has already taken the blocks from it. Every put is
 * awaited, so none is in flight when a request is freed.
 */
#include "eager.h"
#include "engine.h"

#include "../common/idle.h"

enum { LOOKS = 16 };

/* The place for the blocks of the current round. */
char *pr_eager_slot(const struct pr_xfer *x, char *even)
{
    return even + (x->round & 1) * x->stride;
}

static inline int try_put(const struct pr_xfer *x, const struct pr_lane *lane)
{
    struct pr_engine *e = &pr_engine;
    utofu_stadd_t rmt = lane->theirs.in + (x->round & 1) * lane->theirs.stride;

    return utofu_put(e->free.hdl, lane->theirs.vcq, lane->lcl, rmt, lane->out_bytes + PR_LANE_FLAG,
                     0, UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER, e);
}

/* Retries a put that found the TOQ full. */
static __attribute__((cold)) int retry_put(const struct pr_xfer *x, const struct pr_lane *lane)
{
    struct lc_stall_timer stall = {0};
    int rc;

    do
        pr_engine_poll_for_room(x, lane->rank, &stall);
    while ((rc = try_put(x, lane)) == UTOFU_ERR_BUSY);
    return rc;
}

static void put_blocks(struct pr_xfer *x, const struct pr_lane *lane)
{
    int rc;

    *(uint64_t *)(void *)(lane->out + lane->out_bytes) = x->round;
    rc = try_put(x, lane);
    if (rc == UTOFU_ERR_BUSY)
        rc = retry_put(x, lane);
    if (rc == UTOFU_SUCCESS)
        pr_engine.eager_posted++;
    else
        pr_xfer_fail(x, rc);
}

void pr_eager_start(struct pr_xfer *x)
{
    x->round++;
    x->arrived = 0;
    for (unsigned int i = 0; i < x->num_lanes; i++)
        put_blocks(x, &x->lanes[i]);
    x->last_put = pr_engine.eager_posted;
    pr_engine_poll_sent();
}

static bool all_arrived(struct pr_xfer *x)
{
    while (x->arrived < x->num_lanes) {
        const struct pr_lane *lane = &x->lanes[x->arrived];
        const void *flag = pr_eager_slot(x, lane->in) + lane->in_bytes;

        if (__atomic_load_n((const uint64_t *)flag, __ATOMIC_ACQUIRE) != x->round)
            return false;
        x->arrived++;
    }
    return true;
}

static bool all_sent(const struct pr_xfer *x)
{
    return (int64_t)(pr_engine.eager_done - x->last_put) >= 0;
}

/* Is the round over, possibly with x->error? */
bool pr_eager_poll(struct pr_xfer *x)
{
    for (int i = 0; i < LOOKS; i++) {
        if (all_arrived(x))
            break;
        lc_cpu_relax();
    }
    if (!all_sent(x))
        pr_engine_poll_sent();
    /* an empty poll also yields the core to other processes */
    if (!all_arrived(x) && !pr_xfer_skip_poll(x))
        pr_engine_poll();
    return x->error != UTOFU_SUCCESS || (all_arrived(x) && all_sent(x));
}
