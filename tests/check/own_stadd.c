/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_stadd own|peers: each process puts to the next one, with its own STADD instead of the peer's,
 * or correctly. Both have registered the same number of regions, at addresses with the same offset.
 * Status 3: the put failed with UTOFU_ERR_MRQ_RMT_STADD.
 */
#include <stdlib.h>
#include <string.h>

#include "meet.h"
#include "../harness/limit.h"

enum { SIZE = 4096, OFFSETS = 65536 };

int main(int argc, char **argv)
{
    struct row {
        uint64_t stadd;
    } *rows = aligned_memory(MAX_PROCESSES * sizeof(*rows));
    utofu_vcq_id_t ids[MAX_PROCESSES];
    struct utofu_mrq_notice notice;
    utofu_stadd_t own;
    int rank = my_rank(), next = (rank + 1) % num_processes(), rc;

    utofu_vcq_hdl_t vcq = open_vcq();
    void *memory = NULL;
    if (argc != 2 || posix_memalign(&memory, OFFSETS, SIZE) != 0)
        return 1;
    memset(memory, rank, SIZE);
    CALL(utofu_reg_mem(vcq, memory, SIZE, 0, &own));
    rows[rank].stadd = own;
    share_rows(vcq, rows, sizeof(*rows));
    meet(vcq, ids);
    utofu_stadd_t rmt = strcmp(argv[1], "own") == 0 ? own : rows[next].stadd;
    CALL(utofu_put(vcq, ids[next], own, rmt + SIZE / 2, 64, 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
                   NULL));
    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        ;
    if (rc == UTOFU_ERR_MRQ_RMT_STADD)
        return 3;
    CALL(rc);
    close_vcq(vcq);
    free(memory);
    free(rows);
    return 0;
}
