/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Session mode beside everything else: a token goes around the session-mode VCQs of all processes,
 * some laps in each epoch. Each put that arrives starts a group of descriptors, of which one sends
 * the token on. In hop h it is read from slot h of a memory, and written to slot h + 1 of the next.
 */
#include "actor.h"

#include <stdatomic.h>
#include <string.h>

/* The cell of the board that says how far the token is: the epoch * CELL_EPOCH + answered hops. */
enum { CELL = 448, CELL_EPOCH = 1024, CUT = CELL_EPOCH - 1 };

enum { LAPS = 4, HOPS = LAPS * SOAK_MAX_PROCS, SLOT = 4096, MOST_NOPS = 5 };

static struct ut_end end;
static struct ut_peer peers[SOAK_MAX_PROCS];
static uint64_t now_epoch;

/* This epoch, the same in all processes. */
static struct {
    int starter, hops;
    size_t length;
    unsigned int nops[HOPS + 1];
    bool rmt[HOPS + 1], tcq[HOPS + 1], nops_first[HOPS + 1];
    uint8_t token[SLOT];
} plan;

static uint8_t model[(HOPS + 1) * SLOT];
static int next_hop; /* of this process: the next one whose descriptors are submitted */
static unsigned int next_nop;
static bool put_is_out, begun;
static int lcl, rmt, tcq, want_lcl, want_rmt, want_tcq;

static int rank_of(int hop)
{
    return (plan.starter + hop) % ut_size;
}

/* Tells the others how many hops have their local notice. CUT: one has failed. */
static void answered(int hops)
{
    uint64_t value = (now_epoch + 1) * CELL_EPOCH + (uint64_t)hops,
             old = atomic_load(ut_cell(CELL));

    while (old < value && !atomic_compare_exchange_weak(ut_cell(CELL), &old, value))
        ;
}

/* After a process was killed: the token will not move any more. */
static bool is_cut(void)
{
    uint64_t value = atomic_load(ut_cell(CELL));
    int hops = value / CELL_EPOCH == now_epoch + 1 ? (int)(value % CELL_EPOCH) : 0;

    return hops >= plan.hops || ut_is_dead(rank_of(hops));
}

static void ring_open(void)
{
    ut_end_open(&end, 0, UTOFU_VCQ_FLAG_SESSION_MODE, sizeof(model));
    ut_end_gather(&end, peers);
}

static void draw_plan(uint64_t epoch)
{
    struct ut_rng rng = ut_rng_start(ut_seed() * 23 + epoch);

    memset(&plan, 0, sizeof(plan));
    plan.starter = (int)ut_rng_below(&rng, (uint64_t)ut_size);
    plan.hops = (1 + (int)ut_rng_below(&rng, LAPS)) * ut_size;
    plan.length = 1 + ut_rng_below(&rng, ut_rng_below(&rng, 2) ? 64 : SLOT);
    for (int hop = 0; hop <= plan.hops; hop++) {
        plan.nops[hop] = (unsigned int)ut_rng_below(&rng, MOST_NOPS);
        plan.rmt[hop] = ut_rng_below(&rng, 2);
        plan.tcq[hop] = ut_rng_below(&rng, 2);
        plan.nops_first[hop] = ut_rng_below(&rng, 2);
    }
    plan.rmt[plan.hops] = true; /* tells the starter of the end */
    for (size_t i = 0; i < plan.length; i++)
        plan.token[i] = (uint8_t)ut_rng_next(&rng);
}

/* Of the put that brings the token into slot `hop`: how many descriptors it starts. */
static unsigned long int sps_into(int hop)
{
    return UTOFU_ONESIDED_FLAG_SPS(hop < plan.hops ? plan.nops[hop] + 1 : 0);
}

static void ring_prepare(uint64_t epoch)
{
    now_epoch = epoch;
    draw_plan(epoch);
    next_nop = 0;
    put_is_out = false;
    begun = rank_of(0) != ut_rank;
    lcl = rmt = tcq = want_lcl = want_rmt = want_tcq = 0;
    for (next_hop = 0; rank_of(next_hop) != ut_rank; next_hop++)
        ;
    for (int hop = 0; hop <= plan.hops; hop++) {
        if (rank_of(hop) != ut_rank)
            continue;
        memcpy(model + (size_t)hop * SLOT, plan.token, plan.length);
        want_rmt += plan.rmt[hop];
        if (hop < plan.hops) {
            want_lcl++;
            want_tcq += plan.tcq[hop];
        }
    }
}

static bool submit_nop(void)
{
    int rc = utofu_nop(end.vcq, 0, NULL);

    if (rc == UTOFU_ERR_BUSY)
        return false;
    CHECK_OK(rc);
    next_nop++;
    return true;
}

static bool submit_put(int hop)
{
    const struct ut_peer *to = &peers[rank_of(hop + 1)];
    int rc = utofu_put(end.vcq, to->id, end.stadd + (size_t)hop * SLOT,
                       to->stadd + (size_t)(hop + 1) * SLOT, plan.length, (uint64_t)hop,
                       UT_LCL | (plan.rmt[hop + 1] ? UT_RMT : 0) | (plan.tcq[hop] ? UT_TCQ : 0) |
                           sps_into(hop + 1),
                       (void *)(uintptr_t)(hop + 1));

    if (rc == UTOFU_ERR_BUSY)
        return false;
    CHECK_OK(rc);
    put_is_out = true;
    soak_count(SOAK_HOPS, 1);
    soak_note("hop", now_epoch, (uint64_t)hop, (uint64_t)rank_of(hop + 1), plan.length, 0);
    return true;
}

/* The next descriptor of this process. */
static bool submit(void)
{
    int hop = next_hop;

    if (hop >= plan.hops)
        return false;
    if (!put_is_out && !(plan.nops_first[hop] && next_nop < plan.nops[hop]))
        return submit_put(hop);
    if (next_nop < plan.nops[hop] && !submit_nop())
        return false;
    if (put_is_out && next_nop == plan.nops[hop]) {
        next_hop += ut_size;
        next_nop = 0;
        put_is_out = false;
    }
    return true;
}

static void check_notice(const struct utofu_mrq_notice *notice)
{
    bool local = notice->notice_type == UTOFU_MRQ_TYPE_LCL_PUT;
    int hop; /* the slot that it has filled */

    if (local) {
        hop = (int)notice->edata + 1;
        CHECK(hop - 1 < plan.hops && rank_of(hop - 1) == ut_rank);
        answered(hop);
        lcl++;
        return;
    }
    CHECK_EQ(notice->notice_type, UTOFU_MRQ_TYPE_RMT_PUT);
    hop = notice->edata == SOAK_EDATA_RING ? 0 : (int)notice->edata + 1;
    CHECK(hop <= plan.hops && rank_of(hop) == ut_rank && plan.rmt[hop],
          "a remote notice of hop %d, which has none here", hop);
    CHECK_EQ(notice->rmt_stadd, end.stadd + (size_t)hop * SLOT + plan.length);
    CHECK(memcmp(end.mem + (size_t)hop * SLOT, plan.token, plan.length) == 0,
          "hop %d: the token is not there behind its notice", hop);
    rmt++;
}

static bool poll(void)
{
    struct utofu_mrq_notice notice;
    void *cbdata;
    int rc = utofu_poll_mrq(end.vcq, 0, &notice);
    bool found = rc != UTOFU_ERR_NOT_FOUND;

    if (rc == UTOFU_ERR_MRQ_PEER) {
        soak_expect_dead(rank_of((int)notice.edata + 1), "a hop to it failed");
        answered(CUT);
    } else if (found) {
        CHECK_OK(rc);
        check_notice(&notice);
    }
    rc = utofu_poll_tcq(end.vcq, 0, &cbdata);
    if (rc == UTOFU_ERR_NOT_FOUND)
        return found;
    CHECK_OK(rc);
    CHECK(cbdata != NULL && plan.tcq[(uintptr_t)cbdata - 1]);
    tcq++;
    return true;
}

static bool ring_step(void)
{
    bool found = poll();

    if (!begun && ut_random_below(4) == 0) {
        const struct ut_peer *to = &peers[rank_of(0)];
        begun = soak_lease_put(to, 0, plan.token, plan.length, SOAK_EDATA_RING,
                               (plan.rmt[0] ? UT_RMT : 0) | sps_into(0));
        return begun;
    }
    if (ut_random_below(3) == 0)
        found = submit() || found;
    return found;
}

static bool ring_is_done(void)
{
    if (begun && soak_any_dead() && is_cut())
        return true;
    return begun && next_hop >= plan.hops && lcl == want_lcl && rmt == want_rmt && tcq == want_tcq;
}

static void ring_check(void)
{
    if (soak_any_dead())
        return;
    CHECK(memcmp(end.mem, model, sizeof(model)) == 0, "the memory of the ring is wrong");
    ut_expect_nothing(end.vcq);
}

static void ring_close(void)
{
    ut_end_close(&end);
}

size_t soak_ring_vcqs(utofu_vcq_hdl_t vcqs[])
{
    vcqs[0] = end.vcq;
    return 1;
}

const struct soak_actor soak_ring = {"ring",       ring_open,  ring_prepare, ring_step,
                                     ring_is_done, ring_check, ring_close};
