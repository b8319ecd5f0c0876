/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forms [BYTES]: every function that makes a request, on carts with and without ends and on carts
 * of extent 1 and 2, where both neighbours are one process. The expected data are those of the
 * sender's rank.
 */
#include "check.h"

#include <stdbool.h>
#include <string.h>

enum { IN_MAX = 4, ROUNDS = 3 };

static int rank, procs, degree, count; /* count: ints in a block */
static int ranks[IN_MAX];
static MPI_Comm comm;
static int *out, *in;
static int counts[IN_MAX], displs[IN_MAX];
static MPI_Aint byte_displs[IN_MAX];
static MPI_Datatype types[IN_MAX];

static int value(int from, int block, int i, int round)
{
    return from * 1000003 + block * 10007 + i * 31 + round;
}

static void fill(int round)
{
    for (int k = 0; k < degree; k++)
        for (int i = 0; i < count; i++)
            out[k * count + i] = value(rank, k, i, round);
    for (int i = 0; i < degree * count; i++)
        in[i] = -1;
}

/* The neighbour's block that arrives as block k. MPICH pairs the k-th edges of two processes. */
static int partner(int k)
{
#ifdef OPEN_MPI
    return k ^ 1;
#else
    bool parallel = ranks[k] == ranks[k ^ 1];
    return parallel ? k : k ^ 1;
#endif
}

static void check(int round, bool gathered)
{
    for (int k = 0; k < degree; k++)
        for (int i = 0; i < count; i++)
            CHECK(in[k * count + i] ==
                  (ranks[k] == MPI_PROC_NULL
                       ? -1
                       : value(ranks[k], gathered ? 0 : partner(k), i, round)));
}

static void run(MPI_Request request, bool gathered)
{
    MPI_Status status;
    int flag, n;

    for (int round = 0; round < ROUNDS; round++) {
        fill(round);
        MPI_Start(&request);
        if (round == 1) {
            do
                MPI_Request_get_status(request, &flag, &status);
            while (!flag);
            check(round, gathered);
        }
        MPI_Wait(&request, &status);
        check(round, gathered);
        CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG);
        MPI_Get_count(&status, MPI_BYTE, &n);
        MPI_Test_cancelled(&status, &flag);
        CHECK(n == 0 && !flag);
        MPI_Wait(&request, &status); /* inactive */
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        CHECK(flag);
    }
    MPI_Request_free(&request);
    CHECK(request == MPI_REQUEST_NULL);
}

static void run_forms(void)
{
    MPI_Request r;

    INIT(alltoallw)
    (out, counts, byte_displs, types, in, counts, byte_displs, types, comm, MPI_INFO_NULL, &r);
    run(r, false);
    INIT(alltoallv)
    (out, counts, displs, MPI_INT, in, counts, displs, MPI_INT, comm, MPI_INFO_NULL, &r);
    run(r, false);
    INIT(alltoall)(out, count, MPI_INT, in, count, MPI_INT, comm, MPI_INFO_NULL, &r);
    run(r, false);
    INIT(allgather)(out, count, MPI_INT, in, count, MPI_INT, comm, MPI_INFO_NULL, &r);
    run(r, true);
    INIT(allgatherv)(out, count, MPI_INT, in, counts, displs, MPI_INT, comm, MPI_INFO_NULL, &r);
    run(r, true);
}

#if MPI_VERSION >= 4
static void run_large_forms(void)
{
    MPI_Count c[IN_MAX];
    MPI_Aint d[IN_MAX];
    MPI_Request r;

    for (int k = 0; k < IN_MAX; k++) {
        c[k] = count;
        d[k] = displs[k];
    }
    MPI_Neighbor_alltoallw_init_c(out, c, byte_displs, types, in, c, byte_displs, types, comm,
                                  MPI_INFO_NULL, &r);
    run(r, false);
    MPI_Neighbor_alltoallv_init_c(out, c, d, MPI_INT, in, c, d, MPI_INT, comm, MPI_INFO_NULL, &r);
    run(r, false);
    MPI_Neighbor_alltoall_init_c(out, count, MPI_INT, in, count, MPI_INT, comm, MPI_INFO_NULL, &r);
    run(r, false);
    MPI_Neighbor_allgather_init_c(out, count, MPI_INT, in, count, MPI_INT, comm, MPI_INFO_NULL, &r);
    run(r, true);
    MPI_Neighbor_allgatherv_init_c(out, count, MPI_INT, in, c, d, MPI_INT, comm, MPI_INFO_NULL, &r);
    run(r, true);
}
#endif

static void run_cart(int dims, const int *extents, const int *periods)
{
    MPI_Cart_create(MPI_COMM_WORLD, dims, extents, periods, 0, &comm);
    MPI_Comm_rank(comm, &rank);
    degree = 2 * dims;
    for (int i = 0; i < dims; i++)
        MPI_Cart_shift(comm, i, 1, &ranks[2 * i], &ranks[2 * i + 1]);
    run_forms();
#if MPI_VERSION >= 4
    run_large_forms();
#endif
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &procs);
    count = (argc > 1 ? atoi(argv[1]) : 400) / (int)sizeof(int);
    out = malloc(IN_MAX * sizeof(int) * (size_t)count);
    in = malloc(IN_MAX * sizeof(int) * (size_t)count);
    for (int k = 0; k < IN_MAX; k++) {
        counts[k] = count;
        displs[k] = k * count;
        byte_displs[k] = (MPI_Aint)(k * count) * (MPI_Aint)sizeof(int);
        types[k] = MPI_INT;
    }
    run_cart(1, (int[]){procs}, (int[]){0});
    run_cart(1, (int[]){procs}, (int[]){1});
    run_cart(2, (int[]){procs, 1}, (int[]){1, 1});
    run_cart(2, (int[]){1, procs}, (int[]){0, 1});
    if (procs % 2 == 0)
        run_cart(2, (int[]){procs / 2, 2}, (int[]){1, 1});
    if (my_rank() == 0)
        printf("all forms, %d processes, blocks of %d bytes\n", procs, count * (int)sizeof(int));
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
