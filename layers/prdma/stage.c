/* SPDX-License-Identifier: Apache-2.0 */
/* Common to methods with and without lanes: the staging memory, and the peers to probe. */
#include "stage.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

bool pr_edge_has_data(const struct pr_edge *edge)
{
    return edge->rank != MPI_PROC_NULL && edge->bytes > 0;
}

/* Blocks of this process to itself are packed if one of the ends is not contiguous. Returns the
 * size of the staging memory including them. */
size_t pr_stage_self(struct pr_request *r, size_t size)
{
    for (int i = 0; i < r->num_in; i++) {
        struct pr_edge *edge = &r->in[i];

        if (!pr_edge_has_data(edge) || edge->rank != r->comm->rank)
            continue;
        edge->staged = !edge->contiguous || !r->out[edge->index].contiguous;
        if (!edge->staged)
            continue;
        edge->stage = size;
        size += (edge->bytes + PR_LINE - 1) / PR_LINE * PR_LINE;
    }
    return size;
}

bool pr_stage_alloc(struct pr_request *r, size_t size)
{
    void *memory;

    if (size == 0)
        return true;
    size = (size + PAGE - 1) / PAGE * PAGE;
    if (posix_memalign(&memory, PAGE, size) != 0)
        return false;
    memset(memory, 0, size);
    r->stage = memory;
    r->stage_size = size;
    return true;
}

void pr_xfer_add_peer(struct pr_xfer *x, int rank, utofu_vcq_id_t vcq, utofu_stadd_t scratch)
{
    for (unsigned int i = 0; i < x->num_peers; i++)
        if (x->peers[i].rank == rank)
            return;
    x->peers[x->num_peers++] = (struct pr_peer){rank, vcq, scratch};
}
