/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers and datatypes: where the block of an edge lies, whether it is contiguous and in order,
 * and packing otherwise.
 */
#include "datatype.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { TEST_MAX = 1 << 24 };

/*
 * Does packing one element leave its bytes as they are? Tested four times, with bytes that hold one
 * byte of their own offset.
 */
static bool packs_in_order(MPI_Datatype type, size_t size, MPI_Aint lb)
{
    char *from = malloc(size), *to = malloc(size);
    bool same = from != NULL && to != NULL;

    for (int shift = 0; same && shift < 24; shift += 8) {
        int position = 0;

        for (size_t i = 0; i < size; i++)
            from[i] = (char)(i >> shift);
        PMPI_Pack(from - lb, 1, type, to, (int)size, &position, MPI_COMM_SELF);
        same = (size_t)position == size && memcmp(from, to, size) == 0;
    }
    free(from);
    free(to);
    return same;
}

static bool is_contiguous(MPI_Datatype type, size_t size, MPI_Count count, MPI_Aint *lb)
{
    MPI_Aint extent, any_lb, true_extent;
    int ints, addresses, types, combiner;

    PMPI_Type_get_extent(type, &any_lb, &extent);
    PMPI_Type_get_true_extent(type, lb, &true_extent);
    if ((size_t)true_extent != size || (count > 1 && (size_t)extent != size))
        return false;
    PMPI_Type_get_envelope(type, &ints, &addresses, &types, &combiner);
    return combiner == MPI_COMBINER_NAMED || (size <= TEST_MAX && packs_in_order(type, size, *lb));
}

static MPI_Count side_count(const struct pr_side *side, int k)
{
    return side->counts != NULL     ? side->counts[k]
           : side->counts_c != NULL ? side->counts_c[k]
                                    : side->count;
}

static MPI_Aint side_displacement(const struct pr_side *side, int k, MPI_Count count)
{
    MPI_Aint lb, extent = 1;

    if (side->same)
        return 0;
    if (side->types == NULL)
        PMPI_Type_get_extent(side->type, &lb, &extent);
    return extent * (side->displs != NULL     ? side->displs[k]
                     : side->displs_c != NULL ? side->displs_c[k]
                                              : (MPI_Aint)count * k);
}

/* Describes the k-th block. False: it is larger than can be packed, or memory is short. */
bool pr_side_edge(const struct pr_side *side, int k, struct pr_edge *edge)
{
    MPI_Count size;
    MPI_Aint lb;

    edge->type = side->types != NULL ? side->types[k] : side->type;
    edge->count = side_count(side, k);
    edge->buf = (void *)((intptr_t)side->buf + side_displacement(side, k, edge->count));
    PMPI_Type_size_x(edge->type, &size);
    edge->bytes = (size_t)edge->count * (size_t)size;
    if (edge->bytes == 0)
        return true;
    edge->contiguous = is_contiguous(edge->type, (size_t)size, edge->count, &lb);
    if (edge->contiguous) {
        edge->data = (char *)edge->buf + lb;
        return true;
    }
    if (edge->bytes > INT_MAX || edge->count > INT_MAX)
        return false;
    /* the program may free its type before the request */
    edge->own_type = PMPI_Type_dup(edge->type, &edge->type) == MPI_SUCCESS;
    return edge->own_type;
}

void pr_edge_release(struct pr_edge *edge)
{
    if (edge->own_type)
        PMPI_Type_free(&edge->type);
    edge->own_type = false;
}

int pr_edge_pack(const struct pr_edge *edge, char *to, MPI_Comm comm)
{
    int position = 0;

    if (!edge->contiguous)
        return PMPI_Pack(edge->buf, (int)edge->count, edge->type, to, (int)edge->bytes, &position,
                         comm);
    memcpy(to, edge->data, edge->bytes);
    return MPI_SUCCESS;
}

int pr_edge_unpack(const struct pr_edge *edge, const char *from, MPI_Comm comm)
{
    int position = 0;

    if (!edge->contiguous)
        return PMPI_Unpack(from, (int)edge->bytes, &position, edge->buf, (int)edge->count,
                           edge->type, comm);
    memcpy(edge->data, from, edge->bytes);
    return MPI_SUCCESS;
}
