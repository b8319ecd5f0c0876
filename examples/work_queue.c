/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of work without a master: rank 0 has a counter of taken items, and every process,
 * including rank 0, takes the next chunk of items with one fetch-and-add. A process with cheap
 * items returns sooner. The results are added up in the same way.
 *
 *     cc -o work_queue work_queue.c meet.c $(pkg-config --cflags --libs utofu)
 *     utofurun -n 4 ./work_queue
 *     mpirun -n 4 ./work_queue
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "meet.h"

/* A whole page of its own: processes on rank 0's host map it and execute their ARMWs themselves. */
enum { ITEMS = 400000, CHUNK = 1000, STAG = 0, PAGE = 4096 };

/* In the memory of rank 0. Only ARMWs change it while processes work. */
struct queue {
    uint64_t next;  /* the first item that is not taken */
    uint64_t done;  /* number of items that are done */
    uint64_t total; /* the sum of their results */
};

static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t rank_0;
static utofu_stadd_t queue;

/* Adds to a word of the queue and returns its old value. */
static uint64_t fetch_and_add(size_t word, uint64_t value)
{
    CALL(utofu_armw8(vcq, rank_0, UTOFU_ARMW_OP_ADD, value, queue + word, 0,
                     UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
    struct utofu_mrq_notice notice = wait_notice(vcq);

    if (notice.notice_type != UTOFU_MRQ_TYPE_LCL_ARMW) {
        fprintf(stderr, "rank %d: a notice of type %d\n", my_rank(), notice.notice_type);
        exit(1);
    }
    return notice.rmt_value;
}

/* An item with unpredictable cost: the number of steps to 1, halving even numbers, and tripling odd
 * ones and adding one. */
static uint64_t work(uint64_t item)
{
    uint64_t steps = 0;

    for (uint64_t x = item + 1; x != 1; steps++)
        x = x % 2 ? 3 * x + 1 : x / 2;
    return steps;
}

static void check_all(const struct queue *q)
{
    uint64_t expected = 0;

    for (uint64_t item = 0; item < ITEMS; item++)
        expected += work(item);
    if (q->done != ITEMS || q->total != expected) {
        fprintf(stderr, "%llu of %d items were done, with the sum %llu instead of %llu\n",
                (unsigned long long)q->done, ITEMS, (unsigned long long)q->total,
                (unsigned long long)expected);
        exit(1);
    }
    printf("%d items are done once each, their sum is %llu\n", ITEMS, (unsigned long long)q->total);
}

int main(void)
{
    struct queue *mine = aligned_memory(PAGE); /* only rank 0's is used */
    utofu_vcq_id_t ids[MAX_PROCESSES];
    uint64_t first, done = 0, sum = 0;
    utofu_stadd_t stadd;

    vcq = open_vcq();
    CALL(utofu_reg_mem_with_stag(vcq, mine, PAGE, STAG, 0, &stadd));
    meet(vcq, ids);
    rank_0 = ids[0];
    CALL(utofu_query_stadd(rank_0, STAG, &queue));

    while ((first = fetch_and_add(offsetof(struct queue, next), CHUNK)) < ITEMS) {
        for (uint64_t item = first; item < first + CHUNK && item < ITEMS; item++, done++)
            sum += work(item);
    }
    fetch_and_add(offsetof(struct queue, done), done);
    fetch_and_add(offsetof(struct queue, total), sum);
    printf("rank %d did %llu items\n", my_rank(), (unsigned long long)done);

    meet(vcq, ids); /* all have added their results */
    if (my_rank() == 0)
        check_all(mine);
    CALL(utofu_dereg_mem(vcq, stadd, 0));
    close_vcq(vcq);
    free(mine);
    return 0;
}
