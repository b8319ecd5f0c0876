/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every name of compat/mpi-ext.h, in a program that is C and C++: three processes on one node.
 */
#include <stdio.h>

#include <mpi-ext.h>
#include <utofu_ext.h>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("FAILED: line %d: %s\n", __LINE__, #condition);                                 \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

static int rank, size;

static void topology(void)
{
    int dimension, x, y, z, at[6], n, ranks[8];
    uint8_t mine[6];

    EXPECT(FJMPI_Topology_get_dimension(&dimension) == MPI_SUCCESS && dimension == 1);
    EXPECT(FJMPI_Topology_get_shape(&x, &y, &z) == MPI_SUCCESS && x == 1 && y == 1 && z == 1);
    EXPECT(utofu_query_my_coords(mine) == UTOFU_SUCCESS);
    for (int r = 0; r < size; r++) {
        EXPECT(FJMPI_Topology_get_coords(MPI_COMM_WORLD, r, FJMPI_TOFU_SYS, 6, at) == MPI_SUCCESS);
        for (int i = 0; i < 6; i++)
            EXPECT(at[i] == mine[i]);
        EXPECT(FJMPI_Topology_get_coords(MPI_COMM_WORLD, r, FJMPI_TOFU_REL, 6, at) == MPI_SUCCESS);
        EXPECT(FJMPI_Topology_get_coords(MPI_COMM_WORLD, r, FJMPI_LOGICAL, 1, at) == MPI_SUCCESS);
        EXPECT(at[0] == 0);
    }
    EXPECT(FJMPI_Topology_get_ranks(MPI_COMM_WORLD, FJMPI_LOGICAL, at, 8, &n, ranks) ==
           MPI_SUCCESS);
    EXPECT(n == 3 && ranks[0] == 0 && ranks[1] == 1 && ranks[2] == 2);
    EXPECT(FJMPI_Topology_get_ranks(MPI_COMM_WORLD, FJMPI_LOGICAL, at, 2, &n, ranks) ==
           MPI_SUCCESS);
    EXPECT(n == 2 && ranks[0] == 0 && ranks[1] == 1);
}

static void other_communicator(void)
{
    int at[6], n, ranks[8], r;
    MPI_Comm back;

    MPI_Comm_split(MPI_COMM_WORLD, rank == 1, -rank, &back);
    if (rank != 1) {
        MPI_Comm_rank(back, &r);
        EXPECT(r == (rank == 0));
        EXPECT(FJMPI_Topology_get_coords(back, r, FJMPI_TOFU_SYS, 6, at) == MPI_SUCCESS);
        EXPECT(FJMPI_Topology_get_ranks(back, FJMPI_TOFU_SYS, at, 8, &n, ranks) == MPI_SUCCESS);
        EXPECT(n == 2);
        EXPECT(FJMPI_Topology_get_coords(back, 2, FJMPI_TOFU_SYS, 6, at) == MPI_ERR_RANK);
    }
    MPI_Comm_free(&back);
}

static void bad(void)
{
    int at[6] = {99, 0, 0, 0, 0, 0}, n, ranks[8];

    uint32_t node;
    uint8_t coords[6];

    EXPECT(utofu_query_job(NULL) == UTOFU_ERR_INVALID_POINTER);
    EXPECT(utofu_query_rank_node(3, &node, coords) == UTOFU_ERR_INVALID_NUMBER);
    EXPECT(utofu_query_rank_node(0, NULL, coords) == UTOFU_ERR_INVALID_POINTER);
    EXPECT(utofu_query_rank_node(0, &node, NULL) == UTOFU_ERR_INVALID_POINTER);
    EXPECT(FJMPI_Topology_get_dimension(NULL) == MPI_ERR_ARG);
    EXPECT(FJMPI_Topology_get_shape(&n, NULL, &n) == MPI_ERR_ARG);
    EXPECT(FJMPI_Topology_get_coords(MPI_COMM_WORLD, 3, FJMPI_LOGICAL, 1, ranks) == MPI_ERR_RANK);
    EXPECT(FJMPI_Topology_get_coords(MPI_COMM_WORLD, -1, FJMPI_LOGICAL, 1, ranks) == MPI_ERR_RANK);
    EXPECT(FJMPI_Topology_get_coords(MPI_COMM_WORLD, 0, FJMPI_LOGICAL, 1, NULL) == MPI_ERR_ARG);
    EXPECT(FJMPI_Topology_get_coords(MPI_COMM_WORLD, 0, 7, 6, ranks) == MPI_ERR_ARG);
    EXPECT(FJMPI_Topology_get_coords(MPI_COMM_WORLD, 0, FJMPI_TOFU_SYS, 5, ranks) ==
           FJMPI_ERR_TOPOLOGY_INVALID_DIMENSION);
    EXPECT(FJMPI_Topology_get_ranks(MPI_COMM_WORLD, FJMPI_LOGICAL, at, 8, &n, ranks) ==
           FJMPI_ERR_TOPOLOGY_NO_PROCESS);
    EXPECT(FJMPI_Topology_get_ranks(MPI_COMM_WORLD, FJMPI_LOGICAL, at, 0, &n, ranks) ==
           MPI_ERR_ARG);
}

static void requests(void)
{
    int out = rank, in = -1, sum = -1;
    MPI_Request r[2];
    MPI_Status done[2];

    FJMPI_Prequest_recv_init(&in, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, &r[0]);
    FJMPI_Prequest_send_init(&out, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD, &r[1]);
    FJMPI_Prequest_startall(2, r);
    MPI_Waitall(2, r, done);
    EXPECT(in == (rank + size - 1) % size);
    FJMPI_Prequest_start(&r[0]);
    FJMPI_Prequest_start(&r[1]);
    MPI_Waitall(2, r, done);
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
    EXPECT(FJMPI_Progress_start() == MPI_SUCCESS && FJMPI_Progress_stop() == MPI_SUCCESS);
    EXPECT(MPIX_Allreduce_init(&out, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                               &r[0]) == MPI_SUCCESS);
    MPI_Start(&r[0]);
    MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    EXPECT(sum == 3);
    MPI_Request_free(&r[0]);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    EXPECT(size == 3);
    topology();
    other_communicator();
    bad();
    requests();
    MPI_Finalize();
    return 0;
}
