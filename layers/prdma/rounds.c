/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds. A sender's puts of a round wait in session-mode VCQs, one for each group of targets,
 * until the RTRs of the targets free them (blocks.c). A receiver sends the RTRs of a round only
 * after all puts of the round before have arrived, so two rounds never mix. One RTR serves all
 * edges of a pair of processes. Rounds of short blocks need no RTRs.
 */
#include "rounds.h"
#include "../common/idle.h"
#include "engine.h"

enum { PROBE_AFTER_MS = 200, PROBE_BYTES = 32 };
enum { LOOKS = 2000, EAGER_LOOKS = 250 }; /* 0.1 ms; an eager memory poll checks many times */

static int try_rtr(const struct pr_source *s, unsigned int sps)
{
    struct pr_engine *e = &pr_engine;

    return utofu_put(e->free.hdl, s->session, e->free.scratch, s->scratch, 8, 0,
                     UTOFU_ONESIDED_FLAG_SPS(sps), NULL);
}

static void put_rtr(struct pr_xfer *x, const struct pr_source *s, unsigned int sps)
{
    int rc = try_rtr(s, sps);

    if (rc == UTOFU_ERR_BUSY) {
        struct lc_stall_timer stall = {0};
        do
            pr_engine_poll_for_room(x, s->rank, &stall);
        while ((rc = try_rtr(s, sps)) == UTOFU_ERR_BUSY);
    }
    if (rc != UTOFU_SUCCESS)
        pr_xfer_fail(x, rc);
}

/* The TOQ entries of the last round are free once its notice was polled. */
static void post_block(struct pr_xfer *x, const struct pr_group *g)
{
    struct lc_stall_timer stall = {0};
    void *cbdata;
    int rc;

    while ((rc = utofu_post_toq(g->vcq.hdl, g->block, g->block_size, NULL)) == UTOFU_ERR_BUSY) {
        int last = utofu_poll_tcq(g->vcq.hdl, 0, &cbdata);
        if (last != UTOFU_SUCCESS && last != UTOFU_ERR_NOT_FOUND)
            pr_xfer_fail(x, last);
        if (lc_stall_should_log(&stall, 0))
            pr_warn("%s: has waited %llu s for room in the queue of uTofu (TOQ) for the puts of a "
                    "round",
                    x->call, lc_stall_seconds(&stall));
    }
    if (rc != UTOFU_SUCCESS)
        pr_xfer_fail(x, rc);
}

void pr_xfer_start(struct pr_xfer *x)
{
    x->since = 0;
    x->memory_polls = x->oversubscribed ? 0 : x->lanes != NULL ? EAGER_LOOKS : LOOKS;
    if (x->lanes != NULL) {
        pr_eager_start(x);
        return;
    }
    x->missing = x->arrivals + x->num_groups;
    x->rx.missing = x->rx.arrivals;
    x->rx.ended = true;
    for (unsigned int i = 0; i < x->num_groups; i++) {
        x->groups[i].vcq.missing = x->groups[i].vcq.arrivals;
        x->groups[i].vcq.ended = false;
    }
    for (unsigned int i = 0; i < x->num_sources; i++) {
        unsigned int sps = x->sources[i].sps;

        for (; sps > PR_SPS_MAX; sps -= PR_SPS_MAX)
            put_rtr(x, &x->sources[i], PR_SPS_MAX);
        put_rtr(x, &x->sources[i], sps);
    }
    for (unsigned int i = 0; i < x->num_groups; i++)
        post_block(x, &x->groups[i]);
}

/*
 * Polls only for notices that are outstanding, because an empty poll may yield the core. Without
 * outstanding notices, the MRQ may still report a failed put.
 */
static void poll_vcq(struct pr_xfer *x, struct pr_vcq *vcq)
{
    struct utofu_mrq_notice notice;
    void *cbdata;
    int rc;

    while ((vcq->missing != 0 || x->arrivals == 0) &&
           (rc = utofu_poll_mrq(vcq->hdl, 0, &notice)) != UTOFU_ERR_NOT_FOUND) {
        if (rc != UTOFU_SUCCESS) {
            pr_xfer_fail(x, rc);
        } else if (notice.notice_type == UTOFU_MRQ_TYPE_RMT_PUT && vcq->missing > 0) {
            vcq->missing--;
            x->missing--;
        }
    }
    while (!vcq->ended && (rc = utofu_poll_tcq(vcq->hdl, 0, &cbdata)) != UTOFU_ERR_NOT_FOUND) {
        if (rc != UTOFU_SUCCESS) {
            pr_xfer_fail(x, rc);
        } else {
            vcq->ended = true;
            x->missing--;
        }
    }
}

static void poll_if_due(struct pr_xfer *x, struct pr_vcq *vcq, bool first)
{
    if (vcq->missing == 0 && vcq->ended && x->arrivals != 0)
        return;
    if (first || !pr_xfer_skip_poll(x) || utofu_wait_vcqs(&vcq->hdl, 1, 0) != UTOFU_ERR_NOT_FOUND)
        poll_vcq(x, vcq);
}

/* Is the round over, possibly with x->error? */
bool pr_xfer_poll(struct pr_xfer *x)
{
    if (x->lanes != NULL)
        return pr_eager_poll(x);
    if (x->missing != 0 && x->error == UTOFU_SUCCESS) {
        bool first = x->memory_polls == LOOKS;

        x->memory_polls -= first;
        for (unsigned int i = 0; i < x->num_groups; i++)
            poll_if_due(x, &x->groups[i].vcq, first);
        if (x->has_rx)
            poll_if_due(x, &x->rx, first);
    }
    return x->missing == 0 || x->error != UTOFU_SUCCESS;
}

/* The rank of a process whose blocks have not arrived. If several processes send to one VCQ, the
 * rank of one of them. */
static int rank_of_missing_blocks(const struct pr_xfer *x)
{
    for (unsigned int i = 0; i < x->num_sources; i++)
        if (x->sources[i].rx != NULL && x->sources[i].rx->missing != 0)
            return x->sources[i].rank;
    return -1;
}

/* The rank of a process whose RTR has not arrived, so that puts wait. */
static int rank_of_missing_rtr(const struct pr_xfer *x)
{
    for (unsigned int i = 0; i < x->num_targets && x->groups != NULL; i++)
        if (!x->groups[x->targets[i].group].vcq.ended)
            return x->targets[i].rank;
    return -1;
}

static void log_stall(const struct pr_xfer *x)
{
    unsigned long long seconds = lc_stall_seconds(&x->stall);
    int from = x->lanes == NULL            ? rank_of_missing_blocks(x)
               : x->arrived < x->num_lanes ? x->lanes[x->arrived].rank
                                           : -1;
    int to = x->lanes == NULL && from < 0 ? rank_of_missing_rtr(x) : -1;

    if (from >= 0)
        pr_warn("%s: a round has waited %llu s for rank %d of the communicator, whose blocks have "
                "not arrived",
                x->call, seconds, from);
    else if (to >= 0)
        pr_warn("%s: a round has waited %llu s for rank %d of the communicator, which is not ready "
                "to receive",
                x->call, seconds, to);
    else
        pr_warn("%s: a round has waited %llu s for its own puts to complete", x->call, seconds);
}

/*
 * Called from time to time by waiting calls. If a peer dies before it sends its RTR, no
 * communication fails, so probes are put to the peers. The probes go to VCQs that exist as long as
 * their processes.
 */
void pr_xfer_check_peers(struct pr_xfer *x)
{
    uint64_t now = lc_now_ns();

    pr_engine_poll();
    if (x->since == 0) {
        x->since = now;
        x->next_probe = now + PROBE_AFTER_MS * 1000000ull;
        x->stall = (struct lc_stall_timer){0};
    }
    if (lc_stall_should_log(&x->stall, LC_STALL_SLEEPING_LOOP))
        log_stall(x);
    if (now < x->next_probe)
        return;
    x->next_probe = now + PROBE_AFTER_MS * 1000000ull;
    for (unsigned int i = 0; i < x->num_peers; i++) {
        int rc = utofu_put(pr_engine.free.hdl, x->peers[i].free, pr_engine.free.scratch,
                           x->peers[i].scratch, PROBE_BYTES, 0, 0, NULL);
        if (rc != UTOFU_SUCCESS &&
            rc != UTOFU_ERR_BUSY) /* if the TOQ is full, the next call tries again */
            pr_xfer_fail(x, rc);
    }
}

/*
 * Rounds of short blocks (eager), without RTRs
 */

enum { EAGER_SPINS = 16 };

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
    for (int i = 0; i < EAGER_SPINS; i++) {
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
