/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wrong [right]: puts to itself, whose source it writes too early, ROUNDS times at the same place;
 * "right": after the TCQ entry. Both have a gap now and then, and leave a notice in the MRQ. The
 * number of the line with the call is on standard output.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "utofu.h"

enum { ROUNDS = 20, SIZE = 4096, GAPS = 3 };

static uint64_t mem[SIZE / 8];

static int poll_to_end(utofu_vcq_hdl_t vcq)
{
    void *cbdata;
    int rc;

    while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
        ;
    return rc;
}

int main(int argc, char **argv)
{
    int right = argc > 1 && strcmp(argv[1], "right") == 0, line = 0, rc = 0;
    struct utofu_mrq_notice notice;
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;

    if (utofu_create_vcq(0, 0, &vcq) || utofu_query_vcq_id(vcq, &id) ||
        utofu_reg_mem(vcq, mem, sizeof(mem), 0, &stadd))
        return 1;
    for (int i = 0; i < ROUNDS && rc == 0; i++) {
        line = __LINE__ + 1;
        rc = utofu_put(vcq, id, stadd, stadd + SIZE / 2, 8, 0, UTOFU_ONESIDED_FLAG_TCQ_NOTICE, 0);
        if (!right)
            mem[0]++;
        if (rc == 0)
            rc = poll_to_end(vcq);
        mem[0]++;
    }
    for (int i = 0; i < GAPS && rc == 0; i++) {
        rc = utofu_put_gap(vcq, id, stadd, stadd + SIZE / 2, 8, 0,
                           UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, 1920, 8, 0);
        for (size_t unread = 0; rc == 0 && unread == 0;)
            rc = utofu_query_num_unread_mrq(vcq, &unread);
        if (rc == 0 && i > 0)
            rc = utofu_poll_mrq(vcq, 0, &notice);
    }
    printf("line %d\n", line);
    return rc || fflush(stdout);
}
