/* SPDX-License-Identifier: Apache-2.0 */
/* Bad input: MPI error classes, through the error handler of the communicator. */
#include "check.h"

#include <stdbool.h>
#include <string.h>

static int rank, procs, handled, last_class;

static void handle(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    handled++;
    MPI_Error_class(*code, &last_class);
}

/* The handler was called once, with the class of the code. */
static void expect(int code, int class)
{
    int own;

    MPI_Error_class(code, &own);
    CHECK(own == class);
    CHECK(handled == 1 && last_class == class);
    handled = 0;
}

static MPI_Comm make_ring(void)
{
    MPI_Comm ring;
    MPI_Errhandler handler;

    MPI_Cart_create(MPI_COMM_WORLD, 1, &procs, (int[]){1}, 0, &ring);
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(ring, handler);
    MPI_Errhandler_free(&handler);
    return ring;
}

static void check_round(MPI_Request *request, int *out, int *in)
{
    *out = rank;
    in[0] = in[1] = -1;
    CHECK(MPI_Start(request) == MPI_SUCCESS);
    CHECK(MPI_Wait(request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(in[0] == (rank + procs - 1) % procs && in[1] == (rank + 1) % procs);
}

static void active_requests(MPI_Comm ring)
{
    int out = rank, in[2];
    MPI_Request request, copy;

    INIT(allgather)(&out, 1, MPI_INT, in, 1, MPI_INT, ring, MPI_INFO_NULL, &request);
    copy = request;
    CHECK(MPI_Start(&request) == MPI_SUCCESS);
    expect(MPI_Start(&request), MPI_ERR_REQUEST);
    expect(MPI_Startall(1, &request), MPI_ERR_REQUEST);
    expect(MPI_Request_free(&request), MPI_ERR_REQUEST);
    CHECK(request == copy);
    expect(MPI_Cancel(&request), MPI_ERR_REQUEST);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    check_round(&request, &out, in);
    CHECK(MPI_Request_free(&request) == MPI_SUCCESS);
    CHECK(handled == 0);
}

/* MPI refuses the arguments of one process; the other processes get a request and can free it. */
static void bad_arguments(MPI_Comm ring)
{
    int out = rank, in[2], class;
    MPI_Request request = MPI_REQUEST_NULL;
    bool bad = rank == procs - 1;
    int code = INIT(allgather)(&out, bad ? -1 : 1, MPI_INT, in, bad ? -1 : 1, MPI_INT, ring,
                               MPI_INFO_NULL, &request);

    if (bad) {
        MPI_Error_class(code, &class);
        CHECK(class == MPI_ERR_COUNT && handled == 1);
        handled = 0;
    } else {
        CHECK(code == MPI_SUCCESS && handled == 0);
        MPI_Request_free(&request);
    }
}

/* The communicator is freed first; its error handler stays in force. */
static void freed_comm(void)
{
    MPI_Comm ring = make_ring();
    int out = rank, in[2];
    MPI_Request request;

    INIT(allgather)(&out, 1, MPI_INT, in, 1, MPI_INT, ring, MPI_INFO_NULL, &request);
    MPI_Comm_free(&ring);
    check_round(&request, &out, in);
    MPI_Start(&request);
    expect(MPI_Start(&request), MPI_ERR_REQUEST);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &procs);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm ring = make_ring();
    active_requests(ring);
    bad_arguments(ring);
    active_requests(ring); /* they still work */
    freed_comm();
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return 0;
}
