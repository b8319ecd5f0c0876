/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leaving FIRST SECOND: all ranks but 0 create a VCQ and end. Rank 0 calls the library after FIRST
 * seconds, and reaches the VCQ of the last rank for the first time SECOND seconds later. It prints
 * what the put has returned, and after how many seconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <utofu_ext.h>

#include "meet.h"

enum { TNI = 0, COMPONENT = 0 };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The first VCQ of the last rank, which is the first process of its node. */
static utofu_vcq_id_t last_vcq(uint32_t last)
{
    utofu_vcq_id_t id;
    uint8_t coords[6];
    uint32_t node;

    CALL(utofu_compat_rank_node(last, &node, coords));
    CALL(utofu_construct_vcq_id(coords, TNI, 0, COMPONENT, &id));
    return id;
}

static int put(utofu_vcq_hdl_t vcq, utofu_vcq_id_t peer)
{
    struct utofu_mrq_notice notice;
    utofu_stadd_t stadd;
    uint64_t word = 1;
    int rc;

    CALL(utofu_query_stadd(peer, 1, &stadd));
    CALL(utofu_put_piggyback(vcq, peer, &word, stadd, sizeof(word), 0,
                             UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        usleep(1000);
    return rc;
}

int main(int argc, char **argv)
{
    char text[1024] = "";
    utofu_vcq_hdl_t vcq;

    if (argc != 3)
        return 2;
    if (my_rank() == 0)
        sleep((unsigned int)atoi(argv[1]));
    CALL(utofu_create_vcq_with_cmp_id(TNI, COMPONENT, 0, &vcq));
    if (my_rank() != 0)
        return 0; /* the VCQ ends with the process */
    sleep((unsigned int)atoi(argv[2]));
    double start = now();
    int rc = put(vcq, last_vcq((uint32_t)num_processes() - 1));
    utofu_get_last_error(text);
    printf("the put has returned %d after %.1f s: %s\n", rc, now() - start, text);
    return rc == UTOFU_ERR_MRQ_PEER ? 0 : 1;
}
