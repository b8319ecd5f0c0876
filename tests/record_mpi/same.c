/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of same.F90 in the same order: test_record_mpi.py compares their recordings. 4 ranks.
 */
#include <mpi.h>

#include <utofu.h>

#include "../harness/limit.h"

static int rank, next, prev;

static void finish_requests(void)
{
    double out[8] = {0}, in[8] = {0};
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int done, indices[2], flag, turn;

    for (turn = 1; turn <= 8; turn++) {
        MPI_Irecv(in, 8, MPI_DOUBLE, turn % 2 ? prev : MPI_ANY_SOURCE, turn, MPI_COMM_WORLD,
                  &requests[1]);
        MPI_Isend(out, turn, MPI_DOUBLE, next, turn, MPI_COMM_WORLD, &requests[0]);
        MPI_Wait(&requests[0], &statuses[0]);
        flag = 0;
        switch (turn) {
        case 1:
            MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
            break;
        case 2:
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            break;
        case 3:
            MPI_Waitany(2, requests, &done, MPI_STATUS_IGNORE);
            break;
        case 4:
            MPI_Waitsome(2, requests, &done, indices, MPI_STATUSES_IGNORE);
            break;
        case 5:
            while (!flag)
                MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE);
            break;
        case 6:
            while (!flag)
                MPI_Testall(2, requests, &flag, statuses);
            break;
        case 7:
            while (!flag)
                MPI_Testany(2, requests, &done, &flag, &statuses[0]);
            break;
        default:
            for (done = 0; done == 0;)
                MPI_Testsome(2, requests, &done, indices, statuses);
        }
    }
}

static void point_to_point(void)
{
    double out[8] = {0}, in[8] = {0};
    MPI_Request requests[2];
    MPI_Message message;
    MPI_Status status;
    int flag = 0;

    if (rank == 0)
        MPI_Send(out, 5, MPI_DOUBLE, 1, 9, MPI_COMM_WORLD);
    if (rank == 1)
        MPI_Recv(in, 8, MPI_DOUBLE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(out, 3, MPI_DOUBLE, next, 10, in, 8, MPI_DOUBLE, prev, 10, MPI_COMM_WORLD,
                 &status);
    if (rank == 0) {
        MPI_Send(out, 1, MPI_DOUBLE, 1, 11, MPI_COMM_WORLD);
        MPI_Send(out, 1, MPI_DOUBLE, 1, 12, MPI_COMM_WORLD);
        MPI_Send(out, 1, MPI_DOUBLE, 1, 13, MPI_COMM_WORLD);
    }
    if (rank == 1) {
        MPI_Probe(MPI_ANY_SOURCE, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(in, 8, MPI_DOUBLE, 0, 11, MPI_COMM_WORLD, &status);
        while (!flag)
            MPI_Iprobe(0, 12, MPI_COMM_WORLD, &flag, &status);
        MPI_Recv(in, 8, MPI_DOUBLE, 0, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Mprobe(0, 13, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(in, 8, MPI_DOUBLE, &message, MPI_STATUS_IGNORE);
    }
    MPI_Send_init(out, 2, MPI_DOUBLE, next, 14, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(in, 2, MPI_DOUBLE, prev, 14, MPI_COMM_WORLD, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Start(&requests[0]);
    MPI_Start(&requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void collectives(void)
{
    double out[8] = {0}, in[8] = {0};
    int counts[4] = {1, 2, 3, 2}, displs[4] = {0, 1, 3, 6};
    MPI_Request request;

    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Bcast(out, 3, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    MPI_Reduce(out, in, 4, MPI_DOUBLE, MPI_SUM, 2, MPI_COMM_WORLD);
    MPI_Allreduce(out, in, 5, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Gather(out, 2, MPI_DOUBLE, in, 2, MPI_DOUBLE, 3, MPI_COMM_WORLD);
    MPI_Gatherv(out, counts[rank], MPI_DOUBLE, in, counts, displs, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Scatter(out, 2, MPI_DOUBLE, in, 2, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    MPI_Allgather(out, 2, MPI_DOUBLE, in, 2, MPI_DOUBLE, MPI_COMM_WORLD);
    MPI_Allgatherv(out, counts[rank], MPI_DOUBLE, in, counts, displs, MPI_DOUBLE, MPI_COMM_WORLD);
    MPI_Alltoall(out, 2, MPI_DOUBLE, in, 2, MPI_DOUBLE, MPI_COMM_WORLD);
    MPI_Reduce_scatter(out, in, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Scan(out, in, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Exscan(out, in, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Iallreduce(out, in, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void communicators(void)
{
    double out[8] = {0}, in[8] = {0};
    MPI_Comm half, copy, ring;
    MPI_Win win;
    int dims = 4, periodic = 1;

    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Barrier(half);
    MPI_Comm_dup(half, &copy);
    MPI_Allreduce(out, in, 1, MPI_DOUBLE, MPI_SUM, copy);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &dims, &periodic, 0, &ring);
    MPI_Neighbor_allgather(out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, ring);
    MPI_Comm_free(&ring);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&half);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &half);
    MPI_Barrier(half);
    MPI_Win_create(in, sizeof(in), sizeof(in[0]), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Put(out, 1, MPI_DOUBLE, next, 0, 1, MPI_DOUBLE, win);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    MPI_Comm_free(&half);
}

int main(int argc, char **argv)
{
    uint8_t coords[6];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    next = (rank + 1) % 4;
    prev = (rank + 3) % 4;
    if (utofu_query_my_coords(coords) != UTOFU_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    finish_requests();
    point_to_point();
    collectives();
    communicators();
    MPI_Finalize();
    return 0;
}
