/* SPDX-License-Identifier: Apache-2.0 */
/* Step 4: processes take items of work from a counter in the memory of rank 0. */
#include <stdio.h>
#include <stdlib.h>

#include "tutorial.h"

enum { ITEMS = 1000, SIZE = 4096, NEXT = 0, DONE = 256 };

static utofu_vcq_hdl_t vcq;
static uint64_t rank_0, counters; /* the id of rank 0's VCQ, the STADD of its memory */

/* Adds to a counter of rank 0 and returns the value that it had before. */
static uint64_t fetch_and_add(uint64_t counter, uint64_t value)
{
    /* Your lines: */
    CALL(utofu_armw8(vcq, rank_0, UTOFU_ARMW_OP_ADD, value, counters + counter, 0,
                     UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
    return wait_notice(vcq).rmt_value;
    /* End of your lines. */
}

static void compute(void)
{
    for (volatile int i = 0; i < 10000; i++)
        continue;
}

static int work(void)
{
    int items = 0;

    /* Your lines: */
    while (fetch_and_add(NEXT, 1) < ITEMS) {
        compute();
        items++;
    }
    fetch_and_add(DONE, (uint64_t)items);
    /* End of your lines. */
    return items;
}

int main(void)
{
    char *memory = new_memory(SIZE); /* only that of rank 0 is used */
    uint64_t all[MAX_PROCESSES];
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;

    CALL(utofu_create_vcq(0, 0, &vcq));
    CALL(utofu_query_vcq_id(vcq, &id));
    CALL(utofu_reg_mem(vcq, memory, SIZE, 0, &stadd));
    exchange(id, all);
    rank_0 = all[0];
    exchange(stadd, all);
    counters = all[0];
    printf("rank %d did %d items\n", my_rank(), work());
    exchange(0, all); /* all are done */
    if (my_rank() == 0)
        printf("%d items of %d are done\n", (int)*(uint64_t *)(memory + DONE), ITEMS);
    CALL(utofu_dereg_mem(vcq, stadd, 0));
    CALL(utofu_free_vcq(vcq));
    free(memory);
    return 0;
}
