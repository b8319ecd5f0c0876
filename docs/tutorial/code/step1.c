/* SPDX-License-Identifier: Apache-2.0 */
/* Step 1: one process puts a number from one place of its memory to another. */
#include <stdio.h>
#include <stdlib.h>

#include "tutorial.h"

enum { SIZE = 4096, THERE = 256 };

int main(void)
{
    char *memory = new_memory(SIZE);
    uint64_t *here = (uint64_t *)memory, *there = (uint64_t *)(memory + THERE);
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;

    *here = 42;
    /* Your lines: */
    CALL(utofu_create_vcq(0, 0, &vcq));
    CALL(utofu_query_vcq_id(vcq, &id));
    CALL(utofu_reg_mem(vcq, memory, SIZE, 0, &stadd));
    unsigned long int flags = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE;
    CALL(utofu_put(vcq, id, stadd, stadd + THERE, 8, 0, flags, NULL));
    struct utofu_mrq_notice notice;
    int rc;
    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        continue;
    check_call(rc, "utofu_poll_mrq");
    printf("%d is there\n", (int)*there);
    /* End of your lines. */
    CALL(utofu_dereg_mem(vcq, stadd, 0));
    CALL(utofu_free_vcq(vcq));
    free(memory);
    return 0;
}
