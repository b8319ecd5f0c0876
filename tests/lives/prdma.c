/* SPDX-License-Identifier: Apache-2.0 */
/* Lives of persistent requests of MPI's neighbourhood collectives. See lives.h. */
#include "../prdma/check.h"

#include "lives.h"

enum { MOST = 40000 };

static int out[2 * MOST], in[2 * MOST];

static void live(MPI_Comm ring, long life)
{
    int count = life % 2 ? 100 : MOST;
    MPI_Request request;

    if (life % 4 < 2)
        INIT(allgather)(out, count, MPI_INT, in, count, MPI_INT, ring, MPI_INFO_NULL, &request);
    else
        INIT(alltoall)(out, count, MPI_INT, in, count, MPI_INT, ring, MPI_INFO_NULL, &request);
    for (int round = 0; round < 2; round++) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
}

int main(int argc, char **argv)
{
    MPI_Comm ring;
    int procs;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &procs);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &procs, (int[]){1}, 0, &ring);
    struct lives lives = lives_begin("prdma_request", my_rank());
    do {
        live(ring, lives.done);
    } while (lives_next(&lives));
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return lives_end(&lives) ? 0 : 1;
}
