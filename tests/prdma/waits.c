/* SPDX-License-Identifier: Apache-2.0 */
/* waits: rank 1 of two stops before a round, and rank 0 waits for it. tests/acp/waits.sh lets rank
 * 1 continue. */
#include "check.h"

#include <stdbool.h>

#include "../acp/stopped.h"

enum { COUNT = 1000 };

int main(int argc, char **argv)
{
    static int out[COUNT], in[2 * COUNT];
    int procs;
    MPI_Comm ring;
    MPI_Request request;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &procs);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &procs, (int[]){1}, 0, &ring);
    INIT(allgather)(out, COUNT, MPI_INT, in, COUNT, MPI_INT, ring, MPI_INFO_NULL, &request);
    for (int round = 1; round <= 2; round++) {
        for (int i = 0; i < COUNT; i++)
            out[i] = 100 * round + my_rank();
        if (round == 2 && my_rank() == 1)
            stop();
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < 2 * COUNT; i++)
            CHECK(in[i] == 100 * round + 1 - my_rank());
    }
    MPI_Request_free(&request);
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return 0;
}
