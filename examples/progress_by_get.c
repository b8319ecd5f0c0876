/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 0 computes and counts its steps; the others read the counter with gets. Rank 0 calls no
 * function for this.
 *
 *     cc -o progress_by_get progress_by_get.c meet.c $(pkg-config --cflags --libs utofu)
 *     utofurun -n 3 ./progress_by_get
 *     mpirun -n 3 ./progress_by_get
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "meet.h"

enum { STEPS = 100, STAG = 0 };

/* Some computation. */
static uint64_t compute(volatile uint64_t *step)
{
    uint64_t sum = 0;

    for (uint64_t i = 1; i <= STEPS; i++) {
        for (uint64_t k = 0; k < 100000; k++)
            sum = sum * 6364136223846793005u + k;
        *step = i;
    }
    return sum;
}

static void watch(utofu_vcq_hdl_t vcq, utofu_vcq_id_t rank_0, utofu_stadd_t mine,
                  const volatile uint64_t *seen)
{
    utofu_stadd_t step;
    uint64_t last = 0;

    CALL(utofu_query_stadd(rank_0, STAG, &step));
    while (last < STEPS) {
        CALL(utofu_get(vcq, rank_0, mine, step, 8, 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
        wait_notice(vcq); /* now the word has arrived */
        if (*seen < last) {
            fprintf(stderr, "rank %d: the counter went back\n", my_rank());
            exit(1);
        }
        if (*seen != last)
            printf("rank %d: rank 0 is at step %d of %d\n", my_rank(), (int)*seen, STEPS);
        last = *seen;
        sched_yield();
    }
}

int main(void)
{
    utofu_vcq_id_t ids[MAX_PROCESSES];
    uint64_t *word = aligned_memory(256); /* rank 0: the counter; others: its last value */
    utofu_stadd_t stadd;
    utofu_vcq_hdl_t vcq = open_vcq();

    CALL(utofu_reg_mem_with_stag(vcq, word, 256, STAG, 0, &stadd));
    meet(vcq, ids);
    if (my_rank() == 0)
        printf("rank 0: the result is %llx\n", (unsigned long long)compute(word));
    else
        watch(vcq, ids[0], stadd, word);
    meet(vcq, ids); /* all have seen the last step */
    CALL(utofu_dereg_mem(vcq, stadd, 0));
    close_vcq(vcq);
    free(word);
    return 0;
}
