/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stencil solver with MPI's persistent neighbourhood collectives: 2-D with five points or 3-D
 * with 27, on a torus. The halo is exchanged while the inner points are computed. The program
 * itself does not use uTofu; with libprdma preloaded (docs/guide/prdma.md) the halo exchange needs
 * no progress by MPI. The computation is repeated with messages, and both results must be equal to
 * the last bit.
 *
 *     mpicc -o stencil_mpi stencil_mpi.c
 *     mpirun -n 4 prdma-run ./stencil_mpi 3
 */
#include <mpi.h>
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION < 5
#    include <mpi-ext.h>
#    define MPI_Neighbor_alltoallw_init MPIX_Neighbor_alltoallw_init
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 24, ROW = N + 2, POINTS = ROW * ROW * ROW, STEPS = 30, DIRECTIONS_MAX = 26 };

static int dims, rank, procs;
static int num_directions;
static int directions[DIRECTIONS_MAX][3];
static int to[DIRECTIONS_MAX], from[DIRECTIONS_MAX]; /* from: the process on the opposite side */
static MPI_Datatype edges[DIRECTIONS_MAX], halos[DIRECTIONS_MAX];
static MPI_Comm torus, graph;

static size_t place(int x, int y, int z)
{
    return ((size_t)x * ROW + (size_t)y) * ROW + (size_t)z;
}

/* With 2 dimensions the faces of a plane, with 3 all 26 neighbours of a cube. */
static void list_directions(void)
{
    for (int x = dims == 3 ? -1 : 0; x <= (dims == 3 ? 1 : 0); x++)
        for (int y = -1; y <= 1; y++)
            for (int z = -1; z <= 1; z++) {
                int steps = abs(x) + abs(y) + abs(z);

                if (steps == 0 || (dims == 2 && steps != 1))
                    continue;
                int *d = directions[num_directions++];
                d[0] = x;
                d[1] = y;
                d[2] = z;
            }
}

static int neighbour(const int *direction, int sign)
{
    int at[3], result;

    MPI_Cart_coords(torus, rank, 3, at);
    for (int i = 0; i < 3; i++)
        at[i] += sign * direction[i];
    MPI_Cart_rank(torus, at, &result);
    return result;
}

/* The points to send in a direction, or with `outside` the points to receive from it. */
static MPI_Datatype slice(const int *direction, int outside)
{
    static const int sizes[3] = {ROW, ROW, ROW};
    int counts[3], starts[3];
    MPI_Datatype type;

    for (int i = 0; i < 3; i++) {
        int d = direction[i];

        counts[i] = d == 0 ? (i == 0 && dims == 2 ? 1 : N) : 1;
        starts[i] = d == 0 ? 1 : d > 0 ? (outside ? N + 1 : N) : (outside ? 0 : 1);
    }
    MPI_Type_create_subarray(3, sizes, counts, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

/* The data sent in direction d arrive from the opposite side: both lists are in the order of d. The
 * torus has the ranks of MPI_COMM_WORLD; a graph of its own communicator has a grid's number of
 * neighbours in Open MPI 5.0. */
static void set_up(void)
{
    int extents[3] = {dims == 2, 0, 0}, periods[3] = {1, 1, 1}, opposite[3];
    int weights[DIRECTIONS_MAX];

    MPI_Dims_create(procs, 3, extents);
    MPI_Cart_create(MPI_COMM_WORLD, 3, extents, periods, 0, &torus);
    MPI_Comm_rank(torus, &rank);
    list_directions();
    for (int i = 0; i < num_directions; i++) {
        for (int k = 0; k < 3; k++)
            opposite[k] = -directions[i][k];
        to[i] = neighbour(directions[i], 1);
        from[i] = neighbour(directions[i], -1);
        edges[i] = slice(directions[i], 0);
        halos[i] = slice(opposite, 1);
        weights[i] = 1;
    }
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, num_directions, from, weights, num_directions,
                                   to, weights, MPI_INFO_NULL, 0, &graph);
}

static void start_values(double *u)
{
    memset(u, 0, POINTS * sizeof(*u));
    for (int x = 1; x <= (dims == 3 ? N : 1); x++)
        for (int y = 1; y <= N; y++)
            for (int z = 1; z <= N; z++)
                u[place(x, y, z)] = 1.0 / (1 + (rank * 7919 + x * 97 + y * 31 + z) % 1009);
}

static double new_value(const double *u, int x, int y, int z)
{
    double sum = u[place(x, y, z)];

    for (int i = 0; i < num_directions; i++)
        sum += u[place(x + directions[i][0], y + directions[i][1], z + directions[i][2])] / (i + 2);
    return sum / 4;
}

/* Computes the inner points, which need no halo, or the others. */
static void compute(const double *u, double *next, int inner)
{
    for (int x = 1; x <= (dims == 3 ? N : 1); x++)
        for (int y = 1; y <= N; y++)
            for (int z = 1; z <= N; z++) {
                int rim = y == 1 || y == N || z == 1 || z == N || (dims == 3 && (x == 1 || x == N));

                if (rim != inner)
                    next[place(x, y, z)] = new_value(u, x, y, z);
            }
}

static MPI_Request make_request(double *u)
{
    static int counts[DIRECTIONS_MAX];
    static MPI_Aint displs[DIRECTIONS_MAX];
    MPI_Request request;

    for (int i = 0; i < num_directions; i++)
        counts[i] = 1;
    MPI_Neighbor_alltoallw_init(u, counts, displs, edges, u, counts, displs, halos, graph,
                                MPI_INFO_NULL, &request);
    return request;
}

static void solve_persistent(double *u[2])
{
    MPI_Request requests[2] = {make_request(u[0]), make_request(u[1])};

    for (int step = 0; step < STEPS; step++) {
        int now = step % 2;

        MPI_Start(&requests[now]);
        compute(u[now], u[1 - now], 1);
        MPI_Wait(&requests[now], MPI_STATUS_IGNORE);
        compute(u[now], u[1 - now], 0);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void solve_messages(double *u[2])
{
    MPI_Request requests[2 * DIRECTIONS_MAX];
    MPI_Status statuses[2 * DIRECTIONS_MAX];

    for (int step = 0; step < STEPS; step++) {
        int now = step % 2, n = 0;

        for (int i = 0; i < num_directions; i++)
            MPI_Irecv(u[now], 1, halos[i], from[i], i, torus, &requests[n++]);
        for (int i = 0; i < num_directions; i++)
            MPI_Isend(u[now], 1, edges[i], to[i], i, torus, &requests[n++]);
        MPI_Waitall(n, requests, statuses);
        compute(u[now], u[1 - now], 1);
        compute(u[now], u[1 - now], 0);
    }
}

int main(int argc, char **argv)
{
    double *u[2], *v[2];
    int same = 1, all_same;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &procs);
    dims = argc > 1 && strcmp(argv[1], "3") == 0 ? 3 : 2;
    set_up();
    for (int i = 0; i < 2; i++) {
        u[i] = malloc(POINTS * sizeof(double));
        v[i] = malloc(POINTS * sizeof(double));
        if (u[i] == NULL || v[i] == NULL)
            MPI_Abort(MPI_COMM_WORLD, 1);
        start_values(u[i]);
        start_values(v[i]);
    }
    solve_persistent(u);
    solve_messages(v);
    for (int i = 0; i < 2; i++)
        same = same && memcmp(u[i], v[i], POINTS * sizeof(double)) == 0;
    MPI_Allreduce(&same, &all_same, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d processes, %d steps with %d neighbours: %s\n", procs, STEPS, num_directions,
               all_same ? "the same as with messages" : "NOT the same as with messages");
    for (int i = 0; i < 2; i++) {
        free(u[i]);
        free(v[i]);
    }
    MPI_Finalize();
    return all_same ? 0 : 1;
}
