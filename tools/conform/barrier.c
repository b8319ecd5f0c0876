/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers: shapes of circuits, what a barrier waits for, how its functions answer, mismatches */
#include <string.h>

#include "circuit.h"
#include "owned.h"

/* Each process writes the round to all others before it enters: behind the barrier all have it. The
   words come by puts with a local notice, so that they are in place. */
struct board {
    struct cf_ends e;
    utofu_vcq_id_t ids[CF_RANKS];
    utofu_stadd_t stadds[CF_RANKS];
};

static int open_board(struct cf *c, struct board *b)
{
    struct {
        utofu_vcq_id_t id;
        utofu_stadd_t stadd;
    } mine, all[CF_RANKS];

    if (!cf_open(c, &b->e, 0, 0, 8 * CF_RANKS))
        return 0;
    mine.id = b->e.id;
    mine.stadd = b->e.recv_stadd;
    if (!cf_share(c, &mine, sizeof(mine), all))
        return 0;
    for (int r = 0; r < cf_size(c); r++) {
        b->ids[r] = all[r].id;
        b->stadds[r] = all[r].stadd;
    }
    return 1;
}

static int write_round(struct cf *c, struct board *b, uint64_t round)
{
    ((volatile uint64_t *)(void *)b->e.recv)[cf_rank(c)] = round;
    for (int r = 0; r < cf_size(c); r++) {
        struct utofu_mrq_notice notice;
        int rc;
        if (r == cf_rank(c))
            continue;
        CF_RETRY(rc, b->e.vcq,
                 utofu_put_piggyback8(b->e.vcq, b->ids[r], round,
                                      b->stadds[r] + 8u * (unsigned)cf_rank(c), 8, 0,
                                      UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
        if (rc == UTOFU_SUCCESS)
            rc = cf_mrq(b->e.vcq, &notice);
        if (rc == UTOFU_SUCCESS)
            continue;
        cf_fail(c, "telling rank %d: %s", r, cf_code(rc));
        return 0;
    }
    return 1;
}

static int read_round(struct cf *c, const struct board *b, uint64_t round)
{
    const volatile uint64_t *words = (const volatile uint64_t *)(const void *)b->e.recv;

    for (int r = 0; r < cf_size(c); r++) {
        if (words[r] >= round)
            continue;
        cf_fail(c, "barrier %lu has ended before rank %d called it", (unsigned long)round, r);
        return 0;
    }
    return 1;
}

/* Rounds of a circuit of the shape, with a barrier and a sum in turn */
static void run_shape(struct cf *c, enum cf_shape shape)
{
    struct cf_circuit circuit;
    struct board b;

    if (open_board(c, &b) && cf_circuit_open(c, &circuit, shape, 0, 0)) {
        for (uint64_t round = 1; round <= 40; round++) {
            uint64_t sum = round * (uint64_t)(cf_rank(c) + 1), expected;
            int rc;
            if (cf_random(c, 8) == (uint32_t)cf_rank(c) % 8)
                cf_rest(0.002);
            if (!write_round(c, &b, round))
                break;
            rc = round % 2 ? cf_circuit_barrier(circuit.id)
                           : cf_circuit_uint64(circuit.id, UTOFU_REDUCE_OP_SUM, &sum, 1);
            CF_HOLDS(c, rc == UTOFU_SUCCESS, "round %lu: %s", (unsigned long)round, cf_code(rc));
            if (rc != UTOFU_SUCCESS || !read_round(c, &b, round))
                break;
            expected = round * (uint64_t)(cf_size(c) * (cf_size(c) + 1) / 2);
            CF_HOLDS(c, round % 2 || sum == expected, "the sum is %lu, not %lu", (unsigned long)sum,
                     (unsigned long)expected);
        }
    }
    cf_close(c, &b.e);
}

static void run_butterfly(struct cf *c)
{
    run_shape(c, CF_BUTTERFLY);
}
static void run_tree(struct cf *c)
{
    run_shape(c, CF_TREE);
}
static void run_wide_tree(struct cf *c)
{
    run_shape(c, CF_WIDE_TREE);
}
static void run_ring(struct cf *c)
{
    run_shape(c, CF_RING);
}

static void run_example(struct cf *c)
{
    int size = cf_size(c);

    if (size < 4 || (size & (size - 1)) != 0) {
        cf_skip(c, "needs 4, 8, 16 or 32 processes");
        return;
    }
    run_shape(c, CF_EXAMPLE);
}

static void run_many(struct cf *c)
{
    struct cf_circuit circuit;

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    for (int round = 0; round < 300; round++) {
        int rc = cf_circuit_barrier(circuit.id);
        CF_NEED(c, rc == UTOFU_SUCCESS, "barrier %d: %s", round, cf_code(rc));
    }
}

/* ---- What a barrier waits for ---- */

/* All but one have started and poll: nobody completes before that one starts */
static void wait_for(struct cf *c, int late, enum cf_shape shape)
{
    struct cf_circuit circuit;
    int rank = cf_rank(c), rc;

    if (!cf_circuit_open(c, &circuit, shape, 0, 0))
        return;
    for (int round = 0; round < 3 && !cf_failed(c); round++) {
        if (rank != late) {
            double until = cf_now() + 0.05;
            rc = utofu_barrier(circuit.id, 0);
            CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_barrier() returns %s", cf_code(rc));
            while (cf_now() < until) {
                rc = utofu_poll_barrier(circuit.id, 0);
                CF_NEED(c, rc == UTOFU_ERR_NOT_COMPLETED,
                        "rank %d has not started, and the poll returns %s", late, cf_code(rc));
                cf_rest(0.001);
            }
        }
        if (!cf_meet(c))
            return;
        rc = rank == late ? cf_circuit_barrier(circuit.id) : cf_circuit_poll_barrier(circuit.id);
        CF_NEED(c, rc == UTOFU_SUCCESS, "the barrier: %s", cf_code(rc));
    }
}

static void wait_for_first(struct cf *c)
{
    wait_for(c, 0, CF_RING);
}
static void wait_for_last(struct cf *c)
{
    wait_for(c, cf_size(c) - 1, CF_RING);
}
static void wait_for_middle(struct cf *c)
{
    wait_for(c, cf_size(c) / 2, CF_TREE);
}
static void wait_in_butterfly(struct cf *c)
{
    wait_for(c, cf_size(c) - 1, CF_BUTTERFLY);
}

/* A process that has started need not poll for the others to complete: it waits outside of the
 * library */
static void complete_alone(struct cf *c)
{
    struct cf_circuit circuit;
    int rc;

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    for (int silent = 0; silent < 2; silent++) {
        rc = utofu_barrier(circuit.id, 0);
        CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_barrier() returns %s", cf_code(rc));
        if (cf_rank(c) != silent)
            rc = cf_circuit_poll_barrier(circuit.id);
        CF_NEED(c, rc == UTOFU_SUCCESS, "while rank %d does not poll: %s", silent, cf_code(rc));
        if (!cf_meet(c))
            return;
        if (cf_rank(c) == silent)
            rc = cf_circuit_poll_barrier(circuit.id);
        CF_NEED(c, rc == UTOFU_SUCCESS, "the poll of the one that did not: %s", cf_code(rc));
    }
}

/* ---- What the functions answer ---- */

static void start_twice(struct cf *c)
{
    struct cf_circuit circuit;
    uint64_t value = 1;
    double real = 1;
    int rc;

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    if (cf_rank(c) == 0) { /* the others have not started: it is under way */
        rc = utofu_barrier(circuit.id, 0);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_barrier() returns %s", cf_code(rc));
        rc = utofu_barrier(circuit.id, 0);
        CF_HOLDS(c, rc == UTOFU_ERR_BUSY, "a second utofu_barrier() returns %s", cf_code(rc));
        rc = utofu_reduce_uint64(circuit.id, UTOFU_REDUCE_OP_SUM, &value, 1, 0);
        CF_HOLDS(c, rc == UTOFU_ERR_BUSY, "utofu_reduce_uint64() in a barrier returns %s",
                 cf_code(rc));
        rc = utofu_reduce_double(circuit.id, UTOFU_REDUCE_OP_BFPSUM, &real, 1, 0);
        CF_HOLDS(c, rc == UTOFU_ERR_BUSY, "utofu_reduce_double() in a barrier returns %s",
                 cf_code(rc));
    }
    if (!cf_meet(c))
        return;
    rc = cf_rank(c) == 0 ? cf_circuit_poll_barrier(circuit.id) : cf_circuit_barrier(circuit.id);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "the barrier: %s", cf_code(rc));
}

static void poll_before(struct cf *c)
{
    struct cf_circuit circuit;
    uint64_t value;
    double real;
    int rc;

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    rc = utofu_poll_barrier(circuit.id, 0);
    CF_HOLDS(c, rc == UTOFU_ERR_BUSY, "utofu_poll_barrier() without a barrier returns %s",
             cf_code(rc));
    rc = utofu_poll_reduce_uint64(circuit.id, 0, &value);
    CF_HOLDS(c, rc == UTOFU_ERR_BUSY, "utofu_poll_reduce_uint64() without a reduction returns %s",
             cf_code(rc));
    rc = utofu_poll_reduce_double(circuit.id, 0, &real);
    CF_HOLDS(c, rc == UTOFU_ERR_BUSY, "utofu_poll_reduce_double() without a reduction returns %s",
             cf_code(rc));
    rc = cf_circuit_barrier(circuit.id);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "a barrier behind: %s", cf_code(rc));
    rc = utofu_poll_barrier(circuit.id, 0);
    cf_saw_code(c, rc); /* behind the end, which the manual does not say */
}

/* Output of a poll is written with UTOFU_SUCCESS alone, and only as many elements as were given */
static void keep_output(struct cf *c)
{
    struct cf_circuit circuit;
    uint64_t in[2] = {3, 4}, out[4] = {91, 92, 93, 94};
    int rc;

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    if (cf_rank(c) == 0) {
        rc = utofu_reduce_uint64(circuit.id, UTOFU_REDUCE_OP_MAX, in, 2, 0);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_reduce_uint64() returns %s", cf_code(rc));
        for (int i = 0; i < 20; i++) {
            rc = utofu_poll_reduce_uint64(circuit.id, 0, out);
            CF_HOLDS(c, rc == UTOFU_ERR_NOT_COMPLETED, "the poll returns %s", cf_code(rc));
        }
        CF_HOLDS(c, out[0] == 91 && out[1] == 92,
                 "the output is written before the reduction has completed");
    }
    if (!cf_meet(c))
        return;
    if (cf_rank(c) != 0)
        rc = utofu_reduce_uint64(circuit.id, UTOFU_REDUCE_OP_MAX, in, 2, 0);
    else
        rc = UTOFU_SUCCESS;
    if (rc == UTOFU_SUCCESS)
        rc = cf_circuit_poll_uint64(circuit.id, out);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "the reduction: %s", cf_code(rc));
    CF_HOLDS(c, out[0] == 3 && out[1] == 4, "the maxima are %lu and %lu", (unsigned long)out[0],
             (unsigned long)out[1]);
    CF_HOLDS(c, out[2] == 93 && out[3] == 94, "elements behind the two are written");
    CF_HOLDS(c, in[0] == 3 && in[1] == 4, "the input is written");
}

/* The input may be used again when the function has returned: what is sent is what it was */
static void reuse_input(struct cf *c)
{
    struct cf_circuit circuit;
    uint64_t value = 7, out = 0;
    int rc;

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    rc = utofu_reduce_uint64(circuit.id, UTOFU_REDUCE_OP_SUM, &value, 1, 0);
    value = 1000000;
    CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_reduce_uint64() returns %s", cf_code(rc));
    rc = cf_circuit_poll_uint64(circuit.id, &out);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "the reduction: %s", cf_code(rc));
    cf_saw(c, out == 7 * (uint64_t)cf_size(c) ? "the value at the call" : "a later value");
}

/* ---- Several circuits ---- */

static void run_two(struct cf *c, size_t second_place)
{
    struct cf_circuit first, second;
    int rank = cf_rank(c), rc;

    if (!cf_circuit_open(c, &first, CF_RING, 0, 0) ||
        !cf_circuit_open(c, &second, CF_RING, second_place, 0))
        return;
    for (int round = 0; round < 30; round++) {
        uint64_t value = (uint64_t)round;
        /* each process starts and awaits them in an order of its own */
        struct cf_circuit *one = (rank + round) % 2 ? &first : &second,
                          *other = one == &first ? &second : &first;
        uint64_t out[2] = {0, 0};
        rc = utofu_reduce_uint64(one->id, one == &first ? UTOFU_REDUCE_OP_SUM : UTOFU_REDUCE_OP_MAX,
                                 &value, 1, 0);
        if (rc == UTOFU_SUCCESS)
            rc = utofu_reduce_uint64(other->id,
                                     other == &first ? UTOFU_REDUCE_OP_SUM : UTOFU_REDUCE_OP_MAX,
                                     &value, 1, 0);
        CF_NEED(c, rc == UTOFU_SUCCESS, "starting the second: %s", cf_code(rc));
        rc = cf_circuit_poll_uint64(second.id, &out[1]);
        if (rc == UTOFU_SUCCESS)
            rc = cf_circuit_poll_uint64(first.id, &out[0]);
        CF_NEED(c, rc == UTOFU_SUCCESS, "round %d: %s", round, cf_code(rc));
        CF_HOLDS(c, out[0] == (uint64_t)(round * cf_size(c)) && out[1] == (uint64_t)round,
                 "the sum is %lu and the maximum %lu in round %d", (unsigned long)out[0],
                 (unsigned long)out[1], round);
    }
}

static void run_two_of_tni(struct cf *c)
{
    run_two(c, 0);
}
static void run_two_of_tnis(struct cf *c)
{
    run_two(c, 1);
}

/* One circuit is waiting for a process while the other one goes on */
static void run_beside_waiting(struct cf *c)
{
    struct cf_circuit waiting, other;
    int rc;

    if (!cf_circuit_open(c, &waiting, CF_RING, 0, 0) || !cf_circuit_open(c, &other, CF_RING, 0, 0))
        return;
    if (cf_rank(c) != 0) {
        rc = utofu_barrier(waiting.id, 0);
        CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_barrier() returns %s", cf_code(rc));
    }
    for (int i = 0; i < 20; i++) {
        rc = cf_circuit_barrier(other.id);
        CF_NEED(c, rc == UTOFU_SUCCESS, "a barrier beside one that waits: %s", cf_code(rc));
    }
    rc = cf_rank(c) == 0 ? cf_circuit_barrier(waiting.id) : cf_circuit_poll_barrier(waiting.id);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "the barrier that waited: %s", cf_code(rc));
}

/* A circuit of some processes, the others not taking part */
static void run_part(struct cf *c)
{
    struct cf_circuit circuit;
    struct utofu_vbg_setting settings[CF_GATES];
    int part = cf_size(c) / 2 + 1, rc = UTOFU_SUCCESS, inside;

    inside = cf_rank(c) < part;
    cf_circuit_wire(&circuit, CF_RING, part);
    if (!cf_circuit_allocate(c, &circuit, 0, 0))
        return;
    if (inside)
        rc = utofu_set_vbg(settings, (size_t)cf_circuit_settings(c, &circuit, settings));
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_set_vbg() returns %s", cf_code(rc));
    if (rc != UTOFU_SUCCESS || !cf_meet(c))
        return;
    for (int i = 0; inside && i < 20; i++) {
        uint64_t sum = 1;
        rc = cf_circuit_uint64(circuit.id, UTOFU_REDUCE_OP_SUM, &sum, 1);
        CF_NEED(c, rc == UTOFU_SUCCESS && sum == (uint64_t)part,
                "a sum of %d processes is %lu (%s)", part, (unsigned long)sum, cf_code(rc));
    }
}

/* Barriers and puts at a time */
static void run_beside_puts(struct cf *c)
{
    struct cf_circuit circuit;
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 65536) && cf_circuit_open(c, &circuit, CF_RING, 0, 0)) {
        for (int round = 0; round < 30 && !cf_failed(c); round++) {
            int rc, put;
            CF_RETRY(put, e.vcq,
                     utofu_put(e.vcq, e.next_id, e.send_stadd, e.next_recv, 65536, 1,
                               UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
            rc = cf_circuit_barrier(circuit.id);
            CF_HOLDS(c, rc == UTOFU_SUCCESS && put == UTOFU_SUCCESS,
                     "round %d: a put %s and a barrier %s", round,
                     put == UTOFU_SUCCESS ? "starts" : "does not start", cf_code(rc));
            cf_expect(c, e.vcq, UTOFU_MRQ_TYPE_LCL_PUT, 1);
        }
        if (!cf_failed(c))
            CF_HOLDS(c, cf_differs(e.recv, cf_prev(c), 0, 65536) == 65536, "wrong data");
    }
    cf_close(c, &e);
}

/* ---- Mismatches ---- */

enum start { START_BARRIER, START_SUM, START_MAX, START_DOUBLE };

static int start_kind(utofu_vbg_id_t id, enum start what)
{
    uint64_t value[2] = {1, 2};
    double real = 1;

    switch (what) {
    case START_BARRIER:
        return utofu_barrier(id, 0);
    case START_SUM:
        return utofu_reduce_uint64(id, UTOFU_REDUCE_OP_SUM, value, 1, 0);
    case START_MAX:
        return utofu_reduce_uint64(id, UTOFU_REDUCE_OP_MAX, value, 1, 0);
    default:
        return utofu_reduce_double(id, UTOFU_REDUCE_OP_BFPSUM, &real, 1, 0);
    }
}

static int await_end(utofu_vbg_id_t id, enum start what)
{
    uint64_t value[2];
    double real;

    if (what == START_BARRIER)
        return cf_circuit_poll_barrier(id);
    return what == START_DOUBLE ? cf_circuit_poll_double(id, &real)
                                : cf_circuit_poll_uint64(id, value);
}

/* Rank 0 starts something else than the others: all are told */
static void start_mismatch(struct cf *c, enum start mine, enum start others)
{
    struct cf_circuit circuit;
    enum start what = cf_rank(c) == 0 ? mine : others;
    int rc;

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    rc = start_kind(circuit.id, what);
    CF_NEED(c, rc == UTOFU_SUCCESS, "starting returns %s", cf_code(rc));
    rc = await_end(circuit.id, what);
    CF_HOLDS(c, rc == UTOFU_ERR_BARRIER_MISMATCH, "different calls, and the poll returns %s",
             cf_code(rc));
}

static void mismatch_operators(struct cf *c)
{
    start_mismatch(c, START_SUM, START_MAX);
}
static void mismatch_barrier(struct cf *c)
{
    start_mismatch(c, START_BARRIER, START_SUM);
}
static void mismatch_types(struct cf *c)
{
    start_mismatch(c, START_DOUBLE, START_SUM);
}
static void mismatch_barrier_double(struct cf *c)
{
    start_mismatch(c, START_DOUBLE, START_BARRIER);
}

/* Whether the circuit can be used behind a mismatch */
static void go_on(struct cf *c)
{
    struct cf_circuit circuit;
    int rc;

    start_mismatch(c, START_SUM, START_MAX);
    if (cf_failed(c) || !cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    rc = start_kind(circuit.id, cf_rank(c) == 0 ? START_SUM : START_BARRIER);
    if (rc == UTOFU_SUCCESS)
        rc = await_end(circuit.id, cf_rank(c) == 0 ? START_SUM : START_BARRIER);
    cf_saw_code(c, rc);
    if (!cf_meet(c))
        return;
    cf_saw_code(c, cf_circuit_barrier(circuit.id));
}

/* Different numbers of elements: forbidden, without a promise */
static void mismatch_numbers(struct cf *c)
{
    struct cf_circuit circuit;
    uint64_t value[6] = {1, 2, 3, 4, 5, 6};
    int rc;

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    rc = utofu_reduce_uint64(circuit.id, UTOFU_REDUCE_OP_SUM, value, cf_rank(c) == 0 ? 1 : 3, 0);
    if (rc == UTOFU_SUCCESS)
        rc = cf_circuit_poll_uint64(circuit.id, value);
    cf_saw_code(c, rc);
}

/* The poll function of another kind */
static void poll_other(struct cf *c)
{
    struct cf_circuit circuit;
    uint64_t value[6];
    int rc;

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    rc = utofu_barrier(circuit.id, 0);
    CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_barrier() returns %s", cf_code(rc));
    if (!cf_meet(c))
        return;
    cf_rest(0.01);
    cf_saw_code(c, utofu_poll_reduce_uint64(circuit.id, 0, value));
    rc = cf_circuit_poll_barrier(circuit.id);
    cf_saw(c, rc == UTOFU_SUCCESS ? "the barrier completes" : "the barrier does not complete");
}

static void start_on_relay(struct cf *c)
{
    struct cf_circuit circuit;

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    cf_saw_code(c, utofu_barrier(circuit.ids[cf_rank(c)][1], 0));
}

static void start_unset(struct cf *c)
{
    struct cf_circuit circuit;

    cf_circuit_wire(&circuit, CF_RING, cf_size(c));
    if (cf_circuit_allocate(c, &circuit, 0, 0))
        cf_saw_code(c, utofu_barrier(circuit.id, 0));
}

/* Rank 0 starts before the others have set their gates */
static void start_early(struct cf *c)
{
    struct cf_circuit circuit;
    struct utofu_vbg_setting settings[CF_GATES];
    int rank = cf_rank(c), rc = UTOFU_SUCCESS, count;

    cf_circuit_wire(&circuit, CF_RING, cf_size(c));
    if (!cf_circuit_allocate(c, &circuit, 0, 0))
        return;
    count = cf_circuit_settings(c, &circuit, settings);
    if (rank == 0)
        rc = utofu_set_vbg(settings, (size_t)count);
    if (rank == 0 && rc == UTOFU_SUCCESS)
        rc = utofu_barrier(circuit.id, 0);
    cf_rest(0.02);
    if (!cf_meet(c))
        return;
    if (rank != 0)
        rc = utofu_set_vbg(settings, (size_t)count);
    if (rank != 0 && rc == UTOFU_SUCCESS)
        rc = utofu_barrier(circuit.id, 0);
    if (rc == UTOFU_SUCCESS)
        rc = cf_circuit_poll_barrier(circuit.id);
    cf_saw_code(c, rc);
}

static void start_with_flags(struct cf *c)
{
    struct cf_circuit circuit;
    int rc;

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    rc = utofu_barrier(circuit.id, 1UL << 9);
    cf_saw_code(c, rc);
    if (rc == UTOFU_SUCCESS)
        cf_saw_code(c, cf_circuit_poll_barrier(circuit.id));
}

static void start_foreign(struct cf *c)
{
    struct cf_circuit circuit;

    if (cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        cf_saw_code(c, utofu_barrier(circuit.ids[cf_next(c)][0], 0));
}

static const struct cf_case cases[] = {
    {"barrier-butterfly", "2.3.2", 4, CF_PROMISED, CF_BARRIER,
     "a butterfly of all processes is a barrier", run_butterfly},
    {"barrier-tree", "2.3.1", 11, CF_PROMISED, CF_BARRIER, "a tree of all processes is a barrier",
     run_tree},
    {"barrier-wide-tree", "2.3.1", 10, CF_PROMISED, CF_BARRIER,
     "a tree of three branches is a barrier", run_wide_tree},
    {"barrier-ring", "3.4.4.1", 3, CF_PROMISED, CF_BARRIER,
     "gates without a signal or a packet make a ring", run_ring},
    {"barrier-example", "5.2.1", 1, CF_PROMISED, CF_BARRIER,
     "the manual's circuit is a barrier, and sums", run_example},
    {"barrier-many", "3.4", 8, CF_PROMISED, CF_BARRIER, "a circuit serves any number of times",
     run_many},
    {"barrier-first-late", "5.2.1", 3, CF_PROMISED, CF_BARRIER,
     "no process leaves before rank 0 has entered", wait_for_first},
    {"barrier-last-late", "5.2.1", 3, CF_PROMISED, CF_BARRIER,
     "no process leaves before the last rank has entered", wait_for_last},
    {"barrier-middle-late", "3.8.2.1", 5, CF_PROMISED, CF_BARRIER,
     "a barrier that waits is UTOFU_ERR_NOT_COMPLETED", wait_for_middle},
    {"barrier-butterfly-late", "2.3.3", 2, CF_PROMISED, CF_BARRIER,
     "a butterfly waits for the last rank", wait_in_butterfly},
    {"barrier-alone", "2.3", 1, CF_PROMISED, CF_BARRIER,
     "a process that has started need not poll for the others", complete_alone},
    {"barrier-start-twice", "3.8.1.1", 9, CF_PROMISED, CF_BARRIER,
     "a circuit with a barrier is UTOFU_ERR_BUSY", start_twice},
    {"barrier-poll-before", "3.8.2.1", 12, CF_PROMISED, CF_BARRIER,
     "a poll without a start is UTOFU_ERR_BUSY", poll_before},
    {"barrier-output", "3.8.2.2", 12, CF_PROMISED, CF_BARRIER,
     "output is written with UTOFU_SUCCESS, as many elements as were given", keep_output},
    {"barrier-input", "3.8.1.2", 0, CF_UNSAID, CF_BARRIER,
     "whether input may be changed behind the start", reuse_input},
    {"barrier-two", "3.8", 6, CF_PROMISED, CF_BARRIER, "two circuits of a TNI run at a time",
     run_two_of_tni},
    {"barrier-two-tnis", "2.3.3", 3, CF_PROMISED, CF_BARRIER, "circuits of two TNIs run at a time",
     run_two_of_tnis},
    {"barrier-beside", "2.3.3", 3, CF_PROMISED, CF_BARRIER,
     "a circuit runs while another one waits", run_beside_waiting},
    {"barrier-part", "2.3.1", 2, CF_PROMISED, CF_BARRIER, "a part of the processes has a circuit",
     run_part},
    {"barrier-puts", "2.3", 0, CF_UNSAID, CF_BARRIER, "barriers and puts run at a time",
     run_beside_puts},
    {"barrier-mismatch-operators", "3.8", 8, CF_PROMISED, CF_BARRIER,
     "two operators are a mismatch", mismatch_operators},
    {"barrier-mismatch-barrier", "3.8", 8, CF_PROMISED, CF_BARRIER,
     "a barrier and a sum are a mismatch", mismatch_barrier},
    {"barrier-mismatch-types", "3.8", 8, CF_PROMISED, CF_BARRIER,
     "sums of doubles and integers are a mismatch", mismatch_types},
    {"barrier-mismatch-double", "3.1.2.1", 47, CF_PROMISED, CF_BARRIER,
     "a barrier and a sum of doubles are a mismatch", mismatch_barrier_double},
    {"barrier-mismatch-again", "3.8", 0, CF_UNSAID, CF_BARRIER,
     "whether the circuit works behind a mismatch", go_on},
    {"barrier-mismatch-numbers", "3.8.1.2", 13, CF_OPEN, CF_BARRIER | CF_RISKY,
     "all give as many elements: what happens else", mismatch_numbers},
    {"barrier-poll-other", "3.8", 2, CF_OPEN, CF_BARRIER | CF_RISKY,
     "the poll function must be the one of the start: what another returns", poll_other},
    {"barrier-relay", "3.8", 10, CF_OPEN, CF_BARRIER | CF_RISKY,
     "what a start on a relay gate returns", start_on_relay},
    {"barrier-unset", "2.3.2", 6, CF_OPEN, CF_BARRIER | CF_RISKY,
     "what a start on gates without settings returns", start_unset},
    {"barrier-early", "2.3.2", 6, CF_OPEN, CF_BARRIER | CF_RISKY,
     "all gates must be set before: what a start before it becomes", start_early},
    {"barrier-flags", "3.8.4.1", 3, CF_OPEN, CF_BARRIER | CF_RISKY,
     "no flags are defined: what one returns", start_with_flags},
    {"barrier-foreign", "3.1.2.1", 59, CF_OPEN, CF_BARRIER | CF_RISKY,
     "what a start on another process's gate returns", start_foreign},
};
CF_GROUP(barrier_group, "barrier", cases);
