/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step 6: a number goes around four processes, and three of them do nothing for it; then barrier
 * gates add up what the processes have.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tutorial.h"

enum { SIZE = 4096 };

static uint64_t *here, *there;
static utofu_vcq_hdl_t vcq, relay; /* in free mode, in session mode */
static utofu_stadd_t here_stadd, there_stadd;

static void open_vcqs(void)
{
    here = new_memory(SIZE);
    there = new_memory(SIZE);
    CALL(utofu_create_vcq(0, 0, &vcq));
    CALL(utofu_create_vcq(0, UTOFU_VCQ_FLAG_SESSION_MODE, &relay));
    CALL(utofu_reg_mem(vcq, here, SIZE, 0, &here_stadd));
    CALL(utofu_reg_mem(relay, there, SIZE, 0, &there_stadd));
}

static void close_vcqs(void)
{
    uint64_t ready[MAX_PROCESSES];

    exchange(0, ready); /* nobody frees what another process still uses */
    CALL(utofu_dereg_mem(relay, there_stadd, 0));
    CALL(utofu_dereg_mem(vcq, here_stadd, 0));
    CALL(utofu_free_vcq(relay));
    CALL(utofu_free_vcq(vcq));
    free(there);
    free(here);
}

static void send_around(void)
{
    uint64_t ids[MAX_PROCESSES], stadds[MAX_PROCESSES], ready[MAX_PROCESSES];
    int rank = my_rank(), next = (rank + 1) % 4;
    unsigned long int flags = UTOFU_ONESIDED_FLAG_TCQ_NOTICE;
    utofu_vcq_id_t id;

    CALL(utofu_query_vcq_id(relay, &id));
    exchange(id, ids);
    exchange(there_stadd, stadds);
    /* Your lines: */
    if (next != 0) /* rank 0 has no put that waits */
        flags |= UTOFU_ONESIDED_FLAG_SPS(1);
    if (rank != 0) /* waits in the TOQ until a put with an SPS comes */
        CALL(utofu_put(relay, ids[next], there_stadd, stadds[next], 8, 0, flags, NULL));
    exchange(0, ready);
    if (rank == 0) {
        *here = 42;
        CALL(utofu_put(vcq, ids[next], here_stadd, stadds[next], 8, 0, flags, NULL));
    }
    wait_sent(rank == 0 ? vcq : relay);
    wait_word(there, 42);
    /* End of your lines. */
    if (rank == 0)
        printf("42 has gone around\n");
}

/* The circuit: a butterfly of two exchanges, first with rank ^ 1, then with rank ^ 2. */
static void add_up(uint64_t value)
{
    uint64_t start[MAX_PROCESSES], second[MAX_PROCESSES], ready[MAX_PROCESSES], sum;
    int rank = my_rank(), rc;
    utofu_vbg_id_t gates[2];

    CALL(utofu_alloc_vbg(0, 2, 0, gates)); /* a start/end gate and a relay gate */
    exchange(gates[0], start);
    exchange(gates[1], second);
    /* Your lines: */
    struct utofu_vbg_setting settings[2] = {
        {gates[0], gates[1], second[rank ^ 2], gates[1], second[rank ^ 1], {UTOFU_PATH_COORD_NULL}},
        {gates[1], gates[0], start[rank ^ 1], gates[0], start[rank ^ 2], {UTOFU_PATH_COORD_NULL}},
    };
    CALL(utofu_set_vbg(settings, 2));
    exchange(0, ready); /* all gates are set */
    CALL(utofu_reduce_uint64(gates[0], UTOFU_REDUCE_OP_SUM, &value, 1, 0));
    while ((rc = utofu_poll_reduce_uint64(gates[0], 0, &sum)) == UTOFU_ERR_NOT_COMPLETED)
        continue;
    check_call(rc, "utofu_poll_reduce_uint64");
    /* End of your lines. */
    if (rank == 0)
        printf("the sum is %d\n", (int)sum);
    exchange(0, ready);
    CALL(utofu_free_vbg(gates, 2));
}

int main(void)
{
    if (num_processes() != 4) {
        fprintf(stderr, "start this program with four processes: utofurun -n 4\n");
        return 2;
    }
    open_vcqs();
    send_around();
    add_up((uint64_t)my_rank() + 1);
    close_vcqs();
    return 0;
}
