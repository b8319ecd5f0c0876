/* SPDX-License-Identifier: Apache-2.0 */
#include "circuit.h"

/*
 * A plan identifies gates by process and number: 0 is the start/end gate, followed by the relay
 * gates. The gates of each process form a chain of signals. Each function below sets all edges from
 * and to one process; the two processes of an edge set it in the same way.
 */
struct gate {
    int rank, number;
};
static const struct gate nowhere = {-1, 0};

struct plan {
    struct gate src_lcl, src_rmt, dst_lcl, dst_rmt;
};

static void chain(struct plan *plan, int rank, int from, int to)
{
    plan[from].dst_lcl = (struct gate){rank, to};
    plan[to].src_lcl = (struct gate){rank, from};
}

static void clear(struct plan plan[CIRCUIT_MAX_GATES])
{
    for (int i = 0; i < CIRCUIT_MAX_GATES; i++)
        plan[i] = (struct plan){nowhere, nowhere, nowhere, nowhere};
}

/*
 * Butterfly. The core is the largest power of two. If a process `core` + i exists, it is the guest
 * of core process i.
 */

static int core_size(int n)
{
    int core = 1;

    while (core * 2 <= n)
        core *= 2;
    return core;
}

static int num_steps(int core)
{
    int steps = 0;

    while (1 << steps < core)
        steps++;
    return steps;
}

static int has_guest(int n, int core, int rank)
{
    return rank + core < n;
}

/* The gate that receives in this step, from 1 on, in a core process. With a guest, gate 1 receives
 * the guest's value first, and the last step's gate is a relay, which sends the result to the
 * guest. */
static int step_gate(int n, int core, int rank, int step)
{
    int guest = has_guest(n, core, rank);

    return step == num_steps(core) && !guest ? 0 : step + guest;
}

/* The gate that sends in this step: the one that received in the previous step. */
static int step_source(int n, int core, int rank, int step)
{
    return step > 1 ? step_gate(n, core, rank, step - 1) : has_guest(n, core, rank);
}

static size_t butterfly(int n, int rank, struct plan *plan)
{
    int core = core_size(n), steps = num_steps(core);

    if (rank >= core) {
        int host = rank - core;
        plan[0].dst_rmt = (struct gate){host, 1};
        plan[0].src_rmt = (struct gate){host, step_gate(n, core, host, steps)};
        return 1;
    }
    int guest = has_guest(n, core, rank), last = 0;
    if (guest) {
        plan[1].src_rmt = (struct gate){rank + core, 0};
        chain(plan, rank, 0, last = 1);
    }
    for (int step = 1; step <= steps; step++) {
        int partner = rank ^ 1 << (step - 1), to = step_gate(n, core, rank, step);
        plan[last].dst_rmt = (struct gate){partner, step_gate(n, core, partner, step)};
        plan[to].src_rmt = (struct gate){partner, step_source(n, core, partner, step)};
        chain(plan, rank, last, to);
        last = to;
    }
    if (guest) {
        plan[last].dst_rmt = (struct gate){rank + core, 0};
        chain(plan, rank, last, 0);
    }
    return guest ? (size_t)steps + 2 : steps > 0 ? (size_t)steps : 1;
}

/*
 * Tree. On the way up, a process has one gate per child, which receives the child's value; the last
 * of these gates sends to the parent. On the way down, one gate per child sends to the child; the
 * first of these gates receives from the parent, and in process 0 it is the last gate of the way
 * up.
 */

static int num_children(int n, int rank)
{
    int first = 2 * rank + 1;

    return first >= n ? 0 : first + 1 >= n ? 1 : 2;
}

/* The gate that sends to the parent. */
static int up_gate(int n, int rank)
{
    return num_children(n, rank);
}

/* The gate that sends to child c; for c = 0 it also receives from the parent. */
static int down_gate(int n, int rank, int c)
{
    int children = num_children(n, rank);

    if (children == 0)
        return 0;
    return children + (rank == 0 ? 0 : 1) + c;
}

static size_t tree(int n, int rank, struct plan *plan)
{
    int children = num_children(n, rank), last = 0;

    for (int c = 0; c < children; c++) {
        int child = 2 * rank + 1 + c;
        plan[c + 1].src_rmt = (struct gate){child, up_gate(n, child)};
        chain(plan, rank, last, c + 1);
        last = c + 1;
    }
    if (rank > 0) {
        int parent = (rank - 1) / 2, c = (rank - 1) % 2;
        plan[last].dst_rmt = (struct gate){parent, c + 1};
        plan[down_gate(n, rank, 0)].src_rmt = (struct gate){parent, down_gate(n, parent, c)};
    }
    for (int c = 0; c < children; c++) {
        int child = 2 * rank + 1 + c, gate = down_gate(n, rank, c);
        plan[gate].dst_rmt = (struct gate){child, down_gate(n, child, 0)};
        if (c > 0)
            chain(plan, rank, last, gate);
        last = gate;
    }
    if (children > 0)
        chain(plan, rank, last, 0);
    return children > 0 ? (size_t)last + 1 : 1;
}

/*
 * Ring. Gate 1 of every process but the first adds its value to the received one. From the last
 * process the result goes around through one more gate per process; in the last process that it
 * reaches, n - 2, this is the end gate.
 */

static int round_gate(int n, int rank)
{
    return rank == n - 2 ? 0 : rank == 0 ? 1 : 2;
}

static size_t ring(int n, int rank, struct plan *plan)
{
    int last = n - 1, next = (rank + 1) % n, before = (rank + last) % n;

    if (n == 1)
        return 1;
    if (rank > 0) {
        plan[1].src_rmt = (struct gate){before, before > 0 ? 1 : 0};
        chain(plan, rank, 0, 1);
    }
    if (rank < last)
        plan[rank > 0 ? 1 : 0].dst_rmt = (struct gate){next, 1};
    if (rank == last) {
        plan[1].dst_rmt = (struct gate){0, round_gate(n, 0)};
        chain(plan, rank, 1, 0);
        return 2;
    }
    int gate = round_gate(n, rank);
    plan[gate].src_rmt = (struct gate){before, before == last ? 1 : round_gate(n, before)};
    if (gate > 0) {
        plan[gate].dst_rmt = (struct gate){next, round_gate(n, next)};
        chain(plan, rank, gate, 0);
    }
    return rank > 0 && gate == 0 ? 2 : (size_t)gate + 1;
}

static size_t draw(enum circuit_shape shape, int n, int rank, struct plan *plan)
{
    clear(plan);
    switch (shape) {
    case CIRCUIT_TREE:
        return tree(n, rank, plan);
    case CIRCUIT_RING:
        return ring(n, rank, plan);
    default:
        return butterfly(n, rank, plan);
    }
}

size_t circuit_gates(enum circuit_shape shape, int n, int rank)
{
    struct plan plan[CIRCUIT_MAX_GATES];

    return draw(shape, n, rank, plan);
}

static utofu_vbg_id_t id_of(const utofu_vbg_id_t *ids, struct gate gate)
{
    return gate.rank < 0 ? UTOFU_VBG_ID_NULL : ids[gate.rank * CIRCUIT_MAX_GATES + gate.number];
}

void circuit_wire(enum circuit_shape shape, int n, int rank, const utofu_vbg_id_t *ids,
                  struct utofu_vbg_setting settings[CIRCUIT_MAX_GATES])
{
    struct plan plan[CIRCUIT_MAX_GATES];
    size_t count = draw(shape, n, rank, plan);

    for (size_t i = 0; i < count; i++) {
        settings[i] = (struct utofu_vbg_setting){
            .vbg_id = ids[(size_t)rank * CIRCUIT_MAX_GATES + i],
            .src_lcl_vbg_id = id_of(ids, plan[i].src_lcl),
            .src_rmt_vbg_id = id_of(ids, plan[i].src_rmt),
            .dst_lcl_vbg_id = id_of(ids, plan[i].dst_lcl),
            .dst_rmt_vbg_id = id_of(ids, plan[i].dst_rmt),
            .dst_path_coords = {UTOFU_PATH_COORD_NULL},
        };
    }
}
