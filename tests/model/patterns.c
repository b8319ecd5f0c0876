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
 * The first three read memory. tell: the program says which blocks it has seen.
 */
#include <sched.h>
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
static size_t bytes = 1024;
static int tells;

static volatile uint64_t *end_of_block(size_t block)
{
    return (volatile uint64_t *)(memory + (block + 1) * bytes - 8);
}

static void wait_for_block(size_t block, uint64_t value)
{
    while (*end_of_block(block) != value)
        sched_yield();
    if (tells)
        CALL(utofu_profile_seen(own + block * bytes, bytes));
}

static void put_block(int to, size_t from_block, size_t to_block)
{
    CALL(utofu_put(vcq, ids[to], own + from_block * bytes, far[to] + to_block * bytes, bytes, 0,
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
        CALL(utofu_profile_start(name));
        for (uint64_t i = 0; my_rank() == 0 && i < rounds; i++) {
            for (int t = 0; t < tnis; t++)
                CALL(utofu_put(more[t], ids[1], local[t], far[1] + (size_t)t * bytes, bytes, 0,
                               UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
            for (int t = 0; t < tnis; t++)
                wait_notice(more[t]);
        }
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

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "allgather";

    need_processes(2, MAX_PROCESSES);
    rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : rounds;
    bytes = argc > 3 ? strtoull(argv[3], NULL, 10) : bytes;
    tells = argc > 4;
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
        open_circuit();
        pass_circuit();
        CALL(utofu_profile_start(what));
        if (strcmp(what, "allgather") == 0)
            allgather();
        else if (strcmp(what, "incast") == 0)
            incast();
        else if (strcmp(what, "lengths") == 0)
            lengths();
        else if (strcmp(what, "doubling") == 0)
            doubling();
        else if (strcmp(what, "barrier") == 0)
            barrier();
        else
            halo();
        CALL(utofu_profile_stop(what));
        close_circuit();
    }
    meet(vcq, ids);
    CALL(utofu_dereg_mem(vcq, own, 0));
    close_vcq(vcq);
    free(memory);
    return 0;
}
