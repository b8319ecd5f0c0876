/* SPDX-License-Identifier: Apache-2.0 */
/* MPI's function names and the checks that the programs of this folder share. */
#ifndef PRDMA_CHECK_H
#define PRDMA_CHECK_H

#include <mpi.h>
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION < 5
#    include <mpi-ext.h>
#    define INIT(name) MPIX_Neighbor_##name##_init
#else
#    define INIT(name) MPI_Neighbor_##name##_init
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../harness/limit.h"

static inline int my_rank(void)
{
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: [rank %d] not so: %s\n", __FILE__, __LINE__, my_rank(),        \
                    #condition);                                                                   \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

#endif
