/* SPDX-License-Identifier: Apache-2.0 */
/* The part of MPI that the topology functions of compat/mpi-ext.h need, for a job of utofurun:
 * MPI_COMM_WORLD only. */
#ifndef WITHOUT_MPI_H
#define WITHOUT_MPI_H

#include <stdlib.h>

typedef int MPI_Comm, MPI_Group;
enum { MPI_COMM_WORLD, MPI_SUCCESS = 0, MPI_ERR_ARG = 12, MPI_ERR_RANK = 6, MPI_UNDEFINED = -1 };
#define MPI_VERSION 3

static inline int MPI_Comm_size(MPI_Comm comm, int *size)
{
    *size = comm == MPI_COMM_WORLD ? atoi(getenv("UTOFU_SIZE")) : 0;
    return MPI_SUCCESS;
}

static inline int MPI_Comm_rank(MPI_Comm comm, int *rank)
{
    *rank = comm == MPI_COMM_WORLD ? atoi(getenv("UTOFU_RANK")) : 0;
    return MPI_SUCCESS;
}

static inline int MPI_Comm_group(MPI_Comm comm, MPI_Group *group)
{
    *group = comm;
    return MPI_SUCCESS;
}

static inline int MPI_Group_translate_ranks(MPI_Group from, int n, const int ranks[], MPI_Group to,
                                            int there[])
{
    for (int i = 0; i < n; i++)
        there[i] = from == to ? ranks[i] : MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static inline int MPI_Group_free(MPI_Group *group)
{
    *group = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

#endif
