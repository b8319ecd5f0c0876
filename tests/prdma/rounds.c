/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rounds ROUNDS [RANK PREFIX]: a ring, and many rounds of one number each, by two requests that are
 * both active. With RANK that process ends halfway, and the others get an error of MPI and write it
 * to the file PREFIX plus their rank.
 */
#include "check.h"

#include <signal.h>

int main(int argc, char **argv)
{
    int rank, procs, code = MPI_SUCCESS;
    MPI_Comm ring;
    MPI_Request requests[2];
    long long out[2], in[4];

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &procs);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    long long rounds = argc > 1 ? atoll(argv[1]) : 1000;
    int victim = argc > 3 ? atoi(argv[2]) : -1;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &procs, (int[]){1}, 0, &ring);
    MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
    for (int k = 0; k < 2; k++)
        INIT(allgather)
    (&out[k], 8, MPI_BYTE, &in[2 * k], 8, MPI_BYTE, ring, MPI_INFO_NULL, &requests[k]);
    int last = (rank + procs - 1) % procs, next = (rank + 1) % procs;
    for (long long i = 0; i < rounds; i++) {
        for (int k = 0; k < 2; k++) {
            out[k] = i * 100 + rank * 2 + k;
            MPI_Start(&requests[k]);
        }
        if (rank == victim && i == rounds / 2)
            raise(SIGKILL);
        for (int k = 1; k >= 0 && code == MPI_SUCCESS; k--) {
            code = MPI_Wait(&requests[k], MPI_STATUS_IGNORE);
            if (code != MPI_SUCCESS)
                break;
            CHECK(in[2 * k] == i * 100 + last * 2 + k);
            CHECK(in[2 * k + 1] == i * 100 + next * 2 + k);
        }
        if (code != MPI_SUCCESS)
            break;
    }
    if (victim >= 0) {
        char path[4096];
        int class;

        CHECK(code != MPI_SUCCESS);
        MPI_Error_class(code, &class);
        snprintf(path, sizeof(path), "%s%d", argv[3], rank);
        FILE *f = fopen(path, "w");
        CHECK(f != NULL && fprintf(f, "%s\n", class == MPI_ERR_OTHER ? "other" : "wrong") > 0 &&
              fclose(f) == 0);
        _Exit(0); /* MPI_Finalize would wait for the dead */
    }
    CHECK(code == MPI_SUCCESS);
    for (int k = 0; k < 2; k++)
        MPI_Request_free(&requests[k]);
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return 0;
}
