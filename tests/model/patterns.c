/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs whose time on Tofu depends on more than one communication, each a region of every rank:
 *
 *     UTOFU_TRACE=t.rec,record=1 utofurun -n N --nodes N patterns CASE [ROUNDS] [BYTES [tell]]
 *
 *   allgather   a ring: each rank puts on the block that it has received, and waits for the next
 *   halo        each rank exchanges a block with the ranks before and behind it
 *   doubling    recursive doubling, as of an allreduce: in step s with the rank that differs in
 *               bit s
 *   incast      all ranks put to rank 0, which waits for their notices
 *   lengths     rank 0 puts 8 and BYTES bytes to rank 1, in turn
 *   stripe      rank 0 puts to rank 1 by 1, 2, ... 6 TNIs at once
 *   links       rank 0 puts to rank 1 and, by another TNI, to rank 1 or rank 2
 *   barrier     a barrier circuit of all ranks, as rounds of a butterfly
 *
 * Nothing or little flows back in these; each has a second region, "CASE half", with blocks of half
 * as many bytes:
 *
 *   chain       each rank forwards the block that it received; two buffers in turn; the last rank
 * answers rank 0 pipeline    the same, but rank 0 does not wait: each round has a block of its own
 *   broadcast   down a binary tree, as the pipeline
 *   reduce      up a binary tree, as the pipeline
 *   sweep       a grid of four columns, from one corner to the other, as the pipeline
 *   master      rank 0 gives work to the others in turn, and waits for the result of a rank before
 * it gives it more
 *
 * The first three, and those, read memory. tell: the program says which blocks it has seen.
 */
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utofu.h>

#if __has_include(<utofu_ext.h>)
#    include <utofu_ext.h>
#else
#    include <utofu_regions.h>
#endif

#include "circuit.h"
#include "meet.h"

enum { STAG = 0, TNIS = 6, ROOM_BLOCKS = 2 * MAX_PROCESSES };

static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t ids[MAX_PROCESSES];
static utofu_stadd_t own, far[MAX_PROCESSES];
static uint8_t *memory;
static uint64_t rounds = 10;
static size_t bytes = 1024, stride; /* stride: from block to block */
static int tells;

static volatile uint64_t *end_of_block(size_t block)
{
    return (volatile uint64_t *)(memory + block * stride + bytes - 8);
}

static void wait_for_block(size_t block, uint64_t value)
{
    while (*end_of_block(block) != value)
        sched_yield();
    if (tells)
        CALL(utofu_profile_seen(own + block * stride, bytes));
}

static void put_block(int to, size_t from_block, size_t to_block)
{
    CALL(utofu_put(vcq, ids[to], own + from_block * stride, far[to] + to_block * stride, bytes, 0,
                   UTOFU_ONESIDED_FLAG_STRONG_ORDER | UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL));
}

static void take_tcq(utofu_vcq_hdl_t of)
{
    void *cbdata;
    int rc;

    while ((rc = utofu_poll_tcq(of, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
        sched_yield();
    check_call(rc, "utofu_poll_tcq");
}

/* Blocks of even and odd rounds differ, so that a rank may be one round ahead. */
#include "../harness/limit.h"

static void allgather(void)
{
    int rank = my_rank(), size = num_processes(), next = (rank + 1) % size;

    for (uint64_t i = 1; i <= rounds; i++) {
        size_t base = i % 2 ? 0 : MAX_PROCESSES;
        *end_of_block(base + (size_t)rank) = i;
        for (int step = 0; step < size - 1; step++) {
            size_t block = base + (size_t)((rank - step + size) % size);
            put_block(next, block, block);
            take_tcq(vcq);
            wait_for_block(base + (size_t)((rank - step - 1 + size) % size), i);
        }
    }
}

static void halo(void)
{
    int rank = my_rank(), size = num_processes();
    int before = (rank + size - 1) % size, behind = (rank + 1) % size;

    for (uint64_t i = 1; i <= rounds; i++) {
        size_t base = i % 2 ? 0 : 8;
        *end_of_block(base) = i;
        put_block(before, base, base + 1);
        put_block(behind, base, base + 2);
        wait_for_block(base + 1, i);
        wait_for_block(base + 2, i);
        take_tcq(vcq);
        take_tcq(vcq);
    }
}

/* The blocks of even and odd rounds differ, the block that is put does not. */
static void doubling(void)
{
    for (uint64_t i = 1; i <= rounds; i++) {
        size_t base = i % 2 ? 1 : MAX_PROCESSES;
        for (int step = 0; 1 << step < num_processes(); step++) {
            int other = my_rank() ^ 1 << step;
            if (other >= num_processes())
                continue;
            *end_of_block(0) = i;
            put_block(other, 0, base + (size_t)step);
            take_tcq(vcq);
            wait_for_block(base + (size_t)step, i);
        }
    }
}

static void incast(void)
{
    for (uint64_t i = 0; i < rounds; i++) {
        for (int k = 1; my_rank() == 0 && k < num_processes(); k++)
            wait_notice(vcq);
        if (my_rank() == 0)
            continue;
        CALL(utofu_put(vcq, ids[0], own, far[0] + (size_t)my_rank() * bytes, bytes, 0,
                       UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_TCQ_NOTICE,
                       NULL));
        take_tcq(vcq);
    }
}

static void lengths(void)
{
    for (uint64_t i = 0; my_rank() == 0 && i < rounds; i++) {
        CALL(utofu_put(vcq, ids[1], own, far[1], i % 2 ? bytes : 8, 0,
                       UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL));
        take_tcq(vcq);
    }
}

static void stripe(void)
{
    utofu_vcq_hdl_t more[TNIS];
    utofu_stadd_t local[TNIS];
    char name[64];

    for (utofu_tni_id_t t = 0; t < TNIS; t++) {
        CALL(utofu_create_vcq(t, 0, &more[t]));
        CALL(utofu_reg_mem(more[t], memory, ROOM_BLOCKS * bytes, 0, &local[t]));
    }
    for (int tnis = 1; tnis <= TNIS; tnis++) {
        snprintf(name, sizeof(name), "stripe %d", tnis);
        meet(vcq, ids);
        if (my_rank() == 0) /* the others wait in meet() */
            CALL(utofu_profile_start(name));
        for (uint64_t i = 0; my_rank() == 0 && i < rounds; i++) {
            for (int t = 0; t < tnis; t++)
                CALL(utofu_put(more[t], ids[1], local[t], far[1] + (size_t)t * bytes, bytes, 0,
                               UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
            for (int t = 0; t < tnis; t++)
                wait_notice(more[t]);
        }
        if (my_rank() == 0)
            CALL(utofu_profile_stop(name));
    }
    meet(vcq, ids);
    for (int t = 0; t < TNIS; t++) {
        CALL(utofu_dereg_mem(more[t], local[t], 0));
        CALL(utofu_free_vcq(more[t]));
    }
}

static void links(void)
{
    static const int targets[][2] = {{1, -1}, {1, 1}, {1, 2}};
    static const char *const names[] = {"one put", "two puts, one link", "two puts, two links"};
    utofu_vcq_hdl_t second;
    utofu_stadd_t local;

    CALL(utofu_create_vcq(1, 0, &second));
    CALL(utofu_reg_mem(second, memory, ROOM_BLOCKS * bytes, 0, &local));
    for (int c = 0; c < 3; c++) {
        meet(vcq, ids);
        if (my_rank() == 0)
            CALL(utofu_profile_start(names[c]));
        for (uint64_t i = 0; my_rank() == 0 && i < rounds; i++) {
            CALL(utofu_put(vcq, ids[targets[c][0]], own, far[targets[c][0]], bytes, 0,
                           UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
            if (c > 0)
                CALL(utofu_put(second, ids[targets[c][1]], local, far[targets[c][1]] + bytes, bytes,
                               0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
            wait_notice(vcq);
            if (c > 0)
                wait_notice(second);
        }
        if (my_rank() == 0)
            CALL(utofu_profile_stop(names[c]));
    }
    meet(vcq, ids);
    CALL(utofu_dereg_mem(second, local, 0));
    CALL(utofu_free_vcq(second));
}

/* A barrier circuit: its notices are exact, where meet() reads memory and looks at the clock. */
static utofu_vbg_id_t (*gates)[CIRCUIT_MAX_GATES];
static size_t num_gates;

static void open_circuit(void)
{
    struct utofu_vbg_setting settings[CIRCUIT_MAX_GATES];
    int rank = my_rank(), size = num_processes();

    num_gates = circuit_gates(CIRCUIT_BUTTERFLY, size, rank);
    gates = aligned_memory(MAX_PROCESSES * sizeof(gates[0]));
    CALL(utofu_alloc_vbg(0, num_gates, 0, gates[rank]));
    share_rows(vcq, gates, sizeof(gates[0]));
    circuit_wire(CIRCUIT_BUTTERFLY, size, rank, gates[0], settings);
    CALL(utofu_set_vbg(settings, num_gates));
    meet(vcq, ids);
}

static void pass_circuit(void)
{
    int rc;

    CALL(utofu_barrier(gates[my_rank()][0], 0));
    while ((rc = utofu_poll_barrier(gates[my_rank()][0], 0)) == UTOFU_ERR_NOT_COMPLETED)
        sched_yield();
    check_call(rc, "utofu_poll_barrier");
}

static void close_circuit(void)
{
    meet(vcq, ids);
    CALL(utofu_free_vbg(gates[my_rank()], num_gates));
    free(gates);
}

static void barrier(void)
{
    for (uint64_t i = 0; i < rounds; i++)
        pass_circuit();
}

/*
 * Patterns in which nothing flows back
 */

enum { RESULTS = 64, COLUMNS = 4, MAX_ROUNDS = 16 };

static uint64_t sequence, region_begin; /* number of the round, over both regions */

/* The block of this round, and a second one. */
static size_t block_of_round(void)
{
    return sequence % (2 * MAX_ROUNDS);
}

static size_t second_block(void)
{
    return 2 * MAX_ROUNDS + block_of_round();
}

static void put_and_take(int to, size_t block)
{
    *end_of_block(2 * RESULTS - 1) = sequence;
    put_block(to, 2 * RESULTS - 1, block);
    take_tcq(vcq);
}

static void chain(void)
{
    int rank = my_rank(), last = num_processes() - 1;
    size_t block = sequence % 2;

    if (rank > 0)
        wait_for_block(block, sequence);
    put_and_take(rank < last ? rank + 1 : 0, rank < last ? block : block + 2);
    if (rank == 0)
        wait_for_block(block + 2, sequence);
}

static void pipeline(void)
{
    int rank = my_rank();

    if (rank > 0)
        wait_for_block(block_of_round(), sequence);
    if (rank < num_processes() - 1)
        put_and_take(rank + 1, block_of_round());
}

static void broadcast(void)
{
    int rank = my_rank();

    if (rank > 0)
        wait_for_block(block_of_round(), sequence);
    for (int child = 2 * rank + 1; child <= 2 * rank + 2 && child < num_processes(); child++)
        put_and_take(child, block_of_round());
}

static void reduce(void)
{
    int rank = my_rank();

    if (2 * rank + 1 < num_processes())
        wait_for_block(block_of_round(), sequence);
    if (2 * rank + 2 < num_processes())
        wait_for_block(second_block(), sequence);
    if (rank > 0)
        put_and_take((rank - 1) / 2, rank % 2 ? block_of_round() : second_block());
}

static void sweep(void)
{
    int rank = my_rank(), right = rank + 1, below = rank + COLUMNS;

    if (rank % COLUMNS > 0)
        wait_for_block(block_of_round(), sequence);
    if (rank >= COLUMNS)
        wait_for_block(second_block(), sequence);
    if (right % COLUMNS > 0 && right < num_processes())
        put_and_take(right, block_of_round());
    if (below < num_processes())
        put_and_take(below, second_block());
}

static void master(void)
{
    int rank = my_rank();

    for (int worker = 1; rank == 0 && worker < num_processes(); worker++) {
        if (sequence > region_begin)
            wait_for_block(RESULTS + (size_t)worker, sequence - 1);
        put_and_take(worker, 0);
    }
    if (rank == 0)
        return;
    wait_for_block(0, sequence);
    put_and_take(0, RESULTS + (size_t)rank);
}

static const struct pattern {
    const char *name;
    void (*run)(void);
    bool is_round; /* one round of a pattern in which nothing flows back */
} patterns[] = {
    {"allgather", allgather, false}, {"halo", halo, false},        {"doubling", doubling, false},
    {"incast", incast, false},       {"lengths", lengths, false},  {"barrier", barrier, false},
    {"chain", chain, true},          {"pipeline", pipeline, true}, {"broadcast", broadcast, true},
    {"reduce", reduce, true},        {"sweep", sweep, true},       {"master", master, true}};

static const struct pattern *find_pattern(const char *name)
{
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
        if (strcmp(patterns[i].name, name) == 0)
            return &patterns[i];
    fprintf(stderr, "patterns: there is no '%s'\n", name);
    exit(2);
}

/* The rounds of a region; then the same with half of the bytes, with other blocks. */
static void run_rounds(const struct pattern *pattern)
{
    char name[64];

    for (int half = 0; half < 2; half++) {
        snprintf(name, sizeof(name), "%s%s", pattern->name, half ? " half" : "");
        pass_circuit();
        CALL(utofu_profile_start(name));
        region_begin = sequence + 1;
        for (uint64_t i = 0; i < rounds && i < MAX_ROUNDS; i++) {
            sequence++;
            pattern->run();
        }
        CALL(utofu_profile_stop(name));
        bytes /= 2;
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "allgather";

    need_processes(2, MAX_PROCESSES);
    rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : rounds;
    bytes = argc > 3 ? strtoull(argv[3], NULL, 10) : bytes;
    tells = argc > 4;
    stride = bytes;
    memory = aligned_memory(ROOM_BLOCKS * bytes);
    vcq = open_vcq();
    CALL(utofu_reg_mem_with_stag(vcq, memory, ROOM_BLOCKS * bytes, STAG, 0, &own));
    meet(vcq, ids);
    for (int i = 0; i < num_processes(); i++)
        CALL(utofu_query_stadd(ids[i], STAG, &far[i]));
    meet(vcq, ids);
    if (strcmp(what, "stripe") == 0) {
        stripe();
    } else if (strcmp(what, "links") == 0) {
        links();
    } else {
        const struct pattern *pattern = find_pattern(what);
        open_circuit();
        pass_circuit();
        if (pattern->is_round) {
            run_rounds(pattern);
        } else {
            CALL(utofu_profile_start(what));
            pattern->run();
            CALL(utofu_profile_stop(what));
        }
        close_circuit();
    }
    meet(vcq, ids);
    CALL(utofu_dereg_mem(vcq, own, 0));
    close_vcq(vcq);
    free(memory);
    return 0;
}
