/* SPDX-License-Identifier: Apache-2.0 */
/* Step 2: rank 0 puts a number into the memory of rank 1, which waits for the notice. */
#include <stdio.h>
#include <stdlib.h>

#include "tutorial.h"

enum { SIZE = 4096, OUT = 0, IN = 256 };

int main(void)
{
    char *memory = new_memory(SIZE);
    uint64_t *out = (uint64_t *)(memory + OUT), *in = (uint64_t *)(memory + IN);
    uint64_t ids[MAX_PROCESSES], stadds[MAX_PROCESSES];
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;

    need_processes(2);
    CALL(utofu_create_vcq(0, 0, &vcq));
    CALL(utofu_query_vcq_id(vcq, &id));
    CALL(utofu_reg_mem(vcq, memory, SIZE, 0, &stadd));
    /* Your lines: */
    exchange(id, ids);
    exchange(stadd, stadds);
    if (my_rank() == 0) {
        *out = 42;
        CALL(utofu_put(vcq, ids[1], stadd + OUT, stadds[1] + IN, 8, 7,
                       UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE,
                       NULL));
        wait_notice(vcq);
    } else if (my_rank() == 1) {
        struct utofu_mrq_notice notice = wait_notice(vcq);
        printf("rank 1: a put with EDATA %d came, and %d is there\n", (int)notice.edata, (int)*in);
    }
    /* End of your lines. */
    exchange(0, ids); /* nobody frees what another process still uses */
    CALL(utofu_dereg_mem(vcq, stadd, 0));
    CALL(utofu_free_vcq(vcq));
    free(memory);
    return 0;
}
