/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what utofu_query_job() says, one line for each process. */
#include <stdio.h>

#include "utofu_ext.h"

int main(void)
{
    struct utofu_job job = {0};
    int rc = utofu_query_job(&job);

    if (rc != UTOFU_SUCCESS)
        return 1;
    printf("rank %u of %u, node %u of %u, local rank %u of %u, most %u\n", job.rank, job.size,
           job.node, job.num_nodes, job.local_rank, job.local_size, job.max_local_size);
    return 0;
}
