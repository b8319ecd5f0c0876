/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wrong [right [MRQ]]: puts to itself, and writes the source too early, ROUNDS times at the same
 * place; "right": after the TCQ entry. Both sometimes have a gap, and leave a notice in the MRQ.
 * Prints the line number of the call to standard output. With MRQ the program allocates GATES
 * barrier gates of two TNIs, and lets MRQ notices pile up before it takes them.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utofu.h"
#include "../harness/limit.h"

enum { ROUNDS = 20, SIZE = 4096, GAPS = 3, GATES = 20 };

static uint64_t mem[SIZE / 8];

static int poll_to_end(utofu_vcq_hdl_t vcq)
{
    void *cbdata;
    int rc;

    while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
        ;
    return rc;
}

static int fill_mrq(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, utofu_stadd_t stadd, size_t most)
{
    struct utofu_mrq_notice notice;
    size_t unread = 0;
    int rc = 0;

    while (rc == 0 && unread < most) {
        rc = utofu_put_piggyback8(vcq, id, 0, stadd, 8, 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, 0);
        if (rc == UTOFU_ERR_BUSY || rc == 0)
            rc = utofu_query_num_unread_mrq(vcq, &unread);
    }
    for (; rc == 0 && unread > 0; unread--)
        rc = utofu_poll_mrq(vcq, 0, &notice);
    return rc;
}

static int have_gates(void)
{
    utofu_vbg_id_t gates[GATES];
    int rc = 0;

    /* in sequence: freed gates do not count */
    for (utofu_tni_id_t tni = 0; tni < 4 && rc == 0; tni++) {
        rc = utofu_alloc_vbg(tni % 2, GATES, 0, gates);
        if (rc == 0)
            rc = utofu_free_vbg(gates, GATES);
    }
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
    if (argc > 2 && rc == 0)
        rc = fill_mrq(vcq, id, stadd, strtoul(argv[2], NULL, 10)) || have_gates();
    printf("line %d\n", line);
    return rc || fflush(stdout);
}
