/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs whose waits utofu-model names by their lines: rank 0 and 1 put to each other in turn,
 * and see the puts by reading memory. `waits straight`: in one loop; `waits helper`: by functions
 * that have loop and put. test_model.py looks for the comments "the wait" and "the call".
 */
#include <sched.h>
#include <string.h>

#include <utofu.h>
#include <utofu_ext.h>

#include "../harness/limit.h"
#include "meet.h"

#define PUT utofu_put(vcq, ids[!my_rank()], own + 8 * LATER, far, SIZE, 0, 0, NULL)

enum { ROUNDS = 12, SIZE = 64, LATER = 64, ROOM = 4096 };

static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t ids[MAX_PROCESSES];
static utofu_stadd_t own, far;
static volatile uint64_t *memory;

static void __attribute__((noinline)) wait_for(uint64_t value)
{
    while (memory[0] != value)
        sched_yield();
}

static void __attribute__((noinline)) put_value(uint64_t value)
{
    memory[LATER] = value;
    CALL(PUT); /* the helper */
}

static void go_straight(void)
{
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        CALL(utofu_profile_start("work"));
        CALL(utofu_profile_stop("work"));
        while (my_rank() != 0 && memory[0] != round) /* the wait */
            sched_yield();
        memory[LATER] = round;
        CALL(PUT); /* the call */
        while (my_rank() == 0 && memory[0] != round)
            sched_yield();
    }
}

static void go_by_helpers(void)
{
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        if (my_rank() != 0)
            wait_for(round);
        put_value(round); /* called at */
        if (my_rank() == 0)
            wait_for(round);
    }
}

int main(int argc, char **argv)
{
    need_processes(2, 2);
    memory = aligned_memory(ROOM);
    vcq = open_vcq();
    CALL(utofu_reg_mem_with_stag(vcq, (void *)memory, ROOM, 0, 0, &own));
    meet(vcq, ids);
    CALL(utofu_query_stadd(ids[!my_rank()], 0, &far));
    CALL(utofu_profile_start("all"));
    if (argc > 1 && strcmp(argv[1], "helper") == 0)
        go_by_helpers();
    else
        go_straight();
    CALL(utofu_profile_stop("all"));
    close_vcq(vcq);
    return 0;
}
