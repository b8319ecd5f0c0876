/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of MPI. Barriers, and reductions of a few elements, are those of the machine's gates,
 * where it has them. Others go in rounds: in round k a process waits for the one that is 2^k before
 * it (all wait for all), or along a binomial tree (from the root, or to it). A process leaves as
 * soon as what it waits for has happened, also when others are not there yet.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/fail.h"
#include "model/mpi.h"
#include "record/format.h"

struct coll {
    const struct um_sim *sim;
    const struct um_mpi_instance *instance;
    const struct um_mpi_comm *comm;
    struct um_mpi_run *run;
};

static uint32_t node_of(const struct coll *c, uint32_t rank)
{
    uint32_t process = c->comm->processes[rank];

    return process == UM_NONE ? 0 : c->sim->place->node_of_process[process];
}

static double hops_ns(const struct um_sim *s, uint32_t from, uint32_t to)
{
    static const uint8_t path[3] = {UM_DEFAULT_PATH, UM_DEFAULT_PATH, UM_DEFAULT_PATH};
    uint32_t links[UM_MOST_HOPS];

    return um_route(s->place, from, to, path, links) * s->machine->link_hop_ns;
}

static unsigned int rounds_of(uint32_t size)
{
    unsigned int rounds = 0;

    while ((uint64_t)1 << rounds < size)
        rounds++;
    return rounds;
}

/* Of a message of a collective. */
static double step_ns(const struct coll *c, uint32_t from, uint32_t to, double bytes)
{
    const struct um_machine *m = c->sim->machine;
    uint32_t a = node_of(c, from), b = node_of(c, to);

    if (a == b)
        return m->mpi_node_ns + bytes / m->mpi_node_rate;
    return m->mpi_round_ns + hops_ns(c->sim, a, b) + bytes / m->mpi_round_rate;
}

/* The time until which a rank waits, and for whom. */
struct when {
    double at;
    uint32_t cause;
};

static void take_later(struct when *w, struct when other, double ns)
{
    if (other.at + ns > w->at)
        *w = (struct when){other.at + ns, other.cause};
}

static void set_ends(struct coll *c, const struct when *when, double ns)
{
    for (uint32_t i = 0; i < c->comm->size; i++) {
        c->run->ends[i] = when[i].at + ns;
        c->run->cause[i] = when[i].cause;
    }
}

static struct when *when_entered(const struct coll *c)
{
    struct when *when = um_calloc(c->comm->size, sizeof(*when));

    for (uint32_t i = 0; i < c->comm->size; i++)
        when[i] = (struct when){c->run->entered[i] < 0 ? 0 : c->run->entered[i], i};
    return when;
}

/*
 * By gates
 */

static bool is_offloaded(const struct coll *c)
{
    const struct um_mpi_instance *in = c->instance;

    return (in->coll == UT_RECORD_MPI_BARRIER || in->coll == UT_RECORD_MPI_REDUCE ||
            in->coll == UT_RECORD_MPI_ALLREDUCE) &&
           in->elements <= c->sim->machine->mpi_offload_elements;
}

struct member {
    uint32_t node, rank;
};

static int compare_members(const void *a, const void *b)
{
    const struct member *x = a, *y = b;

    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Rounds among nodes: 2^k before, as the circuits that a program sets up. */
static void pass_gates(const struct coll *c, struct when *nodes, const uint32_t *numbers,
                       uint32_t num)
{
    const struct um_machine *m = c->sim->machine;
    struct when *next = um_calloc(num, sizeof(*next));

    for (uint32_t d = 1; d < num; d *= 2) {
        memcpy(next, nodes, num * sizeof(*next));
        for (uint32_t i = 0; i < num; i++) {
            uint32_t from = (i + num - d) % num;
            next[i].at += m->barrier_signal_ns;
            take_later(&next[i], nodes[from],
                       m->barrier_gate_ns + hops_ns(c->sim, numbers[from], numbers[i]));
        }
        memcpy(nodes, next, num * sizeof(*next));
    }
    free(next);
}

static void run_by_gates(struct coll *c, struct when *when)
{
    const struct um_machine *m = c->sim->machine;
    uint32_t size = c->comm->size, num = 0;
    struct member *members = um_calloc(size, sizeof(*members));
    struct when *nodes = um_calloc(size, sizeof(*nodes));
    uint32_t *numbers = um_calloc(size, sizeof(*numbers)), *node = um_calloc(size, sizeof(*node));

    for (uint32_t i = 0; i < size; i++)
        members[i] = (struct member){node_of(c, i), i};
    qsort(members, size, sizeof(*members), compare_members);
    for (uint32_t i = 0; i < size; i++) {
        bool first = i == 0 || members[i].node != members[i - 1].node;
        double inside =
            size > 1 && (!first || (i + 1 < size && members[i + 1].node == members[i].node))
                ? m->mpi_node_ns
                : 0;
        if (first)
            numbers[num++] = members[i].node;
        node[members[i].rank] = num - 1;
        take_later(&nodes[num - 1], when[members[i].rank], inside);
    }
    if (num > 1) {
        for (uint32_t i = 0; i < num; i++)
            nodes[i].at += m->barrier_start_ns;
        pass_gates(c, nodes, numbers, num);
    }
    bool inside = num < size;
    for (uint32_t i = 0; i < size; i++)
        when[i] = nodes[node[i]];
    set_ends(c, when, (num > 1 ? m->barrier_result_ns : 0) + (inside ? m->mpi_node_ns : 0));
    free(members);
    free(nodes);
    free(numbers);
    free(node);
}

/*
 * All wait for all
 */

/* Bytes of a message in round k. */
static double bytes_of_round(const struct coll *c, unsigned int k, unsigned int rounds)
{
    double n = c->instance->bytes, size = c->comm->size;

    switch ((enum ut_record_mpi_coll)c->instance->coll) {
    case UT_RECORD_MPI_ALLGATHER:
        return n * ldexp(1, (int)k);
    case UT_RECORD_MPI_ALLTOALL:
        return n * size / 2;
    case UT_RECORD_MPI_REDUCE_SCATTER:
        return n * ldexp(1, (int)(rounds - 1 - k));
    default:
        return n;
    }
}

/* Long results go in parts, in a ring or a tree of several: a time for each round, and twice the
 * bytes. */
static double long_ns(const struct coll *c, unsigned int rounds)
{
    const struct um_machine *m = c->sim->machine;
    double n = c->instance->bytes, size = c->comm->size;
    bool once = c->instance->coll == UT_RECORD_MPI_ALLGATHER ||
                c->instance->coll == UT_RECORD_MPI_ALLTOALL ||
                c->instance->coll == UT_RECORD_MPI_REDUCE_SCATTER;

    return rounds * m->mpi_pipeline_ns +
           (once ? n * (size - 1) : 2 * n * (size - 1) / size) / m->mpi_pipeline_rate;
}

static double total_bytes(const struct coll *c)
{
    bool result = c->instance->coll == UT_RECORD_MPI_ALLREDUCE;

    return result ? c->instance->bytes : c->instance->bytes * c->comm->size;
}

static void run_all(struct coll *c)
{
    struct when *when = when_entered(c), *next;
    uint32_t size = c->comm->size;
    unsigned int rounds = rounds_of(size);
    bool is_long = total_bytes(c) >= c->sim->machine->mpi_pipeline_bytes;

    if (is_offloaded(c)) {
        run_by_gates(c, when);
        free(when);
        return;
    }
    next = um_calloc(size, sizeof(*next));
    for (unsigned int k = 0; k < rounds; k++) {
        memcpy(next, when, size * sizeof(*next));
        double bytes = is_long ? 0 : bytes_of_round(c, k, rounds);
        for (uint32_t i = 0; i < size; i++) {
            uint32_t from = (uint32_t)((i + size - ((uint64_t)1 << k) % size) % size);
            double ns = is_long ? 0 : step_ns(c, from, i, bytes);
            next[i].at += ns;
            take_later(&next[i], when[from], ns);
        }
        memcpy(when, next, size * sizeof(*next));
    }
    set_ends(c, when, is_long ? long_ns(c, rounds) : 0);
    free(when);
    free(next);
}

/*
 * Trees
 */

static uint32_t place_in_tree(const struct coll *c, uint32_t rank)
{
    uint32_t size = c->comm->size;

    return (rank + size - c->instance->root) % size;
}

static uint32_t rank_at(const struct coll *c, uint32_t v)
{
    return (uint32_t)(((uint64_t)v + c->instance->root) % c->comm->size);
}

/* Bytes between a process of the tree and its parent: scatter and gather pass on those of others.
 */
static double bytes_of_edge(const struct coll *c, uint32_t v)
{
    uint32_t below = v & -v, size = c->comm->size;

    if (c->instance->coll != UT_RECORD_MPI_SCATTER && c->instance->coll != UT_RECORD_MPI_GATHER)
        return c->instance->bytes;
    return c->instance->bytes * (v + below > size ? size - v : below);
}

/* Of a message along an edge. Long ones of a tree with one result go in parts, which follow each
 * other. */
static double edge_ns(const struct coll *c, uint32_t from, uint32_t to, uint32_t child)
{
    const struct um_machine *m = c->sim->machine;
    double bytes = bytes_of_edge(c, child), whole = step_ns(c, from, to, bytes);
    bool sums = c->instance->coll == UT_RECORD_MPI_REDUCE;

    if (!sums && c->instance->coll != UT_RECORD_MPI_BCAST)
        return whole;
    double in_parts = m->mpi_pipeline_ns + bytes /
                                               (sums ? m->mpi_round_rate : m->mpi_pipeline_rate) /
                                               rounds_of(c->comm->size);
    return in_parts < whole ? in_parts : whole;
}

/* From the root: the parent of v lacks its lowest bit; the largest subtree comes first. */
static void pass_down(struct coll *c, uint32_t v, struct when arrival)
{
    uint32_t rank = rank_at(c, v), size = c->comm->size;
    uint32_t low = v ? v & -v : (uint32_t)1 << rounds_of(size);

    if (c->run->entered[rank] < 0 || c->run->ends[rank] >= 0)
        return;
    struct when ready = {c->run->entered[rank], rank};
    take_later(&ready, arrival, 0);
    double sent = ready.at;
    for (uint32_t bit = low >> 1; bit; bit >>= 1) {
        if (v + bit >= size)
            continue;
        uint32_t child = rank_at(c, v + bit);
        struct when there = {sent + edge_ns(c, rank, child, v + bit), rank};
        sent += c->sim->machine->mpi_post_ns;
        c->run->cause[child] = rank;
        c->run->arrived[child] = there.at;
        pass_down(c, v + bit, there);
    }
    c->run->ends[rank] = sent;
    c->run->cause[rank] = ready.cause;
}

static void run_down(struct coll *c, uint32_t rank)
{
    uint32_t v = place_in_tree(c, rank);

    if (v == 0)
        pass_down(c, 0, (struct when){0, rank});
    else if (c->run->arrived[rank] > 0)
        pass_down(c, v, (struct when){c->run->arrived[rank], c->run->cause[rank]});
}

/* To the root: v waits for v + 1, v + 2, v + 4... and passes the sum to its parent. */
static void pass_up(struct coll *c, uint32_t v)
{
    uint32_t rank = rank_at(c, v), size = c->comm->size;
    uint32_t low = v ? v & -v : (uint32_t)1 << rounds_of(size);

    if (c->run->entered[rank] < 0 || c->run->ends[rank] >= 0)
        return;
    struct when ready = {c->run->entered[rank], rank};
    for (uint32_t bit = 1; bit < low && v + bit < size; bit <<= 1) {
        uint32_t child = rank_at(c, v + bit);
        if (c->run->ends[child] < 0)
            return;
        take_later(&ready, (struct when){c->run->ends[child], child},
                   edge_ns(c, child, rank, v + bit));
    }
    c->run->ends[rank] = ready.at + (v ? c->sim->machine->mpi_post_ns : 0);
    c->run->cause[rank] = ready.cause;
    if (v)
        pass_up(c, v & (v - 1));
}

/*
 * Blocks of their own lengths, to the root
 */

static double bytes_of_block(const struct coll *c, uint32_t rank)
{
    return c->sim->program->mpi->calls[c->instance->calls[rank]].bytes;
}

/* The root takes the block of a rank that has entered, once it is there. A long one is not sent
 * before. */
static void take_block(struct coll *c, uint32_t rank)
{
    const struct um_machine *m = c->sim->machine;
    uint32_t root = c->instance->root, from = node_of(c, rank), to = node_of(c, root);
    double bytes = bytes_of_block(c, rank);
    double flight = from == to ? m->mpi_node_ns
                               : m->tni_send_ns + hops_ns(c->sim, from, to) + m->tni_receive_ns;
    double there = c->run->entered[rank] + m->mpi_post_ns + flight;
    double *busy = &c->run->arrived[root];

    if (there > *busy) {
        *busy = there;
        c->run->cause[root] = rank;
    }
    *busy += m->mpi_block_ns + bytes / m->mpi_block_rate;
    if (bytes <= m->mpi_eager_bytes)
        return;
    c->run->ends[rank] = *busy;
    c->run->cause[rank] = root;
}

static void run_blocks(struct coll *c, uint32_t rank)
{
    const struct um_machine *m = c->sim->machine;
    uint32_t root = c->instance->root;

    if (rank != root && bytes_of_block(c, rank) <= m->mpi_eager_bytes) {
        c->run->ends[rank] = c->run->entered[rank] + m->mpi_post_ns;
        c->run->cause[rank] = rank;
    }
    if (rank == root) {
        c->run->arrived[root] = c->run->entered[root];
        c->run->cause[root] = root;
        for (uint32_t i = 0; i < c->comm->size; i++)
            if (i != root && c->run->entered[i] >= 0)
                take_block(c, i);
    } else if (c->run->entered[root] >= 0) {
        take_block(c, rank);
    }
    if (c->run->num_entered == c->instance->num_calls && c->run->entered[root] >= 0)
        c->run->ends[root] = c->run->arrived[root];
}

/* A prefix: a rank waits for all before it. */
static void run_prefix(struct coll *c)
{
    struct when sum = {0, 0};
    double ns = 0;

    for (uint32_t i = 0; i < c->comm->size && c->run->entered[i] >= 0; i++) {
        take_later(&sum, (struct when){c->run->entered[i], i}, 0);
        if (i > 0 && rounds_of(i + 1) > rounds_of(i))
            ns += step_ns(c, i - 1, i, c->instance->bytes);
        if (c->run->ends[i] >= 0)
            continue;
        c->run->ends[i] = sum.at + ns;
        c->run->cause[i] = sum.cause;
    }
}

void um_mpi_coll_enter(const struct um_sim *s, const struct um_mpi_instance *instance,
                       struct um_mpi_run *run, uint32_t rank, double at)
{
    struct coll c = {s, instance, &s->program->mpi->comms[instance->comm], run};

    run->entered[rank] = at;
    run->num_entered++;
    switch (is_offloaded(&c) ? UT_RECORD_MPI_BARRIER : (enum ut_record_mpi_coll)instance->coll) {
    case UT_RECORD_MPI_BCAST:
    case UT_RECORD_MPI_SCATTER:
        run_down(&c, rank);
        break;
    case UT_RECORD_MPI_REDUCE:
    case UT_RECORD_MPI_GATHER:
        pass_up(&c, place_in_tree(&c, rank));
        break;
    case UT_RECORD_MPI_GATHERV:
        run_blocks(&c, rank);
        break;
    case UT_RECORD_MPI_SCAN:
    case UT_RECORD_MPI_EXSCAN:
        run_prefix(&c);
        break;
    default:
        if (run->num_entered == instance->num_calls)
            run_all(&c);
    }
}
