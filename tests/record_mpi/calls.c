/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of MPI, of which test_record_mpi.py knows what is recorded; with one call of uTofu. 4
 * ranks. */
#include <mpi.h>
#include <stdlib.h>

#include <utofu.h>

#include "../harness/limit.h"

static int rank, size, next, prev;

static void point_to_point(void)
{
    double out[100] = {0}, in[100];
    int ints[10] = {0}, got, flag = 0;
    MPI_Request requests[2];

    if (rank == 0)
        MPI_Send(ints, 10, MPI_INT, 1, 1, MPI_COMM_WORLD);
    if (rank == 1)
        MPI_Recv(ints, 10, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Isend(out, 100, MPI_DOUBLE, next, 2, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(in, 100, MPI_DOUBLE, prev, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Sendrecv(ints, 1, MPI_INT, next, 3, &got, 1, MPI_INT, prev, 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Send(ints, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Irecv(in, 100, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, requests);
        MPI_Wait(requests, MPI_STATUS_IGNORE);
    } else if (rank == 2) {
        MPI_Ssend(out, 1, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Irecv(in, 100, MPI_DOUBLE, 1, 10, MPI_COMM_WORLD, requests);
        while (!flag)
            MPI_Test(requests, &flag, MPI_STATUS_IGNORE);
        MPI_Probe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(in, 1, MPI_DOUBLE, 3, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank != 2) {
        MPI_Ssend(out, 1, MPI_DOUBLE, 0, rank == 1 ? 10 : 9, MPI_COMM_WORLD);
    }
}

static void persistent(void)
{
    double out[2] = {0}, in[2];
    MPI_Request requests[2];
    int index;

    MPI_Send_init(out, 2, MPI_DOUBLE, next, 4, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(in, 2, MPI_DOUBLE, prev, 4, MPI_COMM_WORLD, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Start(&requests[0]);
    MPI_Start(&requests[1]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

/* Persistent collectives, and MPI_Isendrecv, of MPI 4. */
static void mpi_4(void)
{
#if MPI_VERSION >= 4
    double one = rank, sum;
    MPI_Request requests[2];

    MPI_Isendrecv(&one, 1, MPI_DOUBLE, next, 5, &sum, 1, MPI_DOUBLE, prev, 5, MPI_COMM_WORLD,
                  requests);
    MPI_Wait(requests, MPI_STATUS_IGNORE);

    MPI_Allreduce_init(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &requests[0]);
    MPI_Bcast_init_c(&one, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    for (int i = 0; i < 2; i++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
#endif
}

static void collectives(void)
{
    double one = rank, sum, many[4], sums[2] = {1, 2};
    int ints[3] = {0};
    MPI_Request request;

    MPI_Bcast(ints, 3, MPI_INT, 1, MPI_COMM_WORLD);
    MPI_Reduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, 2, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Gather(&one, 1, MPI_DOUBLE, many, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Allgather(&one, 1, MPI_DOUBLE, many, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    MPI_Scan(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Iallreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void communicators(void)
{
    MPI_Comm half, copy, ring;
    int periodic = 1;
    double one = rank, two[2];

    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Barrier(half);
    MPI_Comm_dup(half, &copy);
    MPI_Allreduce(&one, two, 1, MPI_DOUBLE, MPI_SUM, copy);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring);
    MPI_Neighbor_allgather(&one, 1, MPI_DOUBLE, two, 1, MPI_DOUBLE, ring);
    MPI_Comm_free(&ring);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&half);
}

static void one_sided(void)
{
    double out = rank, memory = 0;
    MPI_Win win;

    MPI_Win_create(&memory, sizeof(memory), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Put(&out, 1, MPI_DOUBLE, next, 0, 1, MPI_DOUBLE, win);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    utofu_tni_id_t *tnis;
    size_t num;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;
    prev = (rank + size - 1) % size;
    if (utofu_get_onesided_tnis(&tnis, &num) != UTOFU_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    free(tnis);
    MPI_Barrier(MPI_COMM_WORLD);
    point_to_point();
    persistent();
    collectives();
    communicators();
    one_sided();
    mpi_4();
    MPI_Finalize();
    return 0;
}
