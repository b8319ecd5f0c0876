/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks above the 16,777,215 bytes of a put, which are split: contiguous ones and packed ones. */
#include "check.h"

#include <string.h>

enum { BLOCK = 40000001, ROUNDS = 3 };

static unsigned char value(int from, int round, size_t i)
{
    return (unsigned char)(from * 37 + round * 11 + (int)(i % 251) + (int)(i >> 20));
}

int main(int argc, char **argv)
{
    int rank, procs, packed[2] = {0, 1};
    MPI_Comm ring;
    MPI_Request request;
    MPI_Datatype apart;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &procs);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &procs, (int[]){0}, 0, &ring);
    MPI_Type_vector(2, BLOCK / 2, BLOCK / 2 + 1, MPI_BYTE, &apart); /* all but one byte */
    MPI_Type_commit(&apart);
    int out_packed = packed[rank % 2];
    unsigned char *out = malloc(BLOCK), *in = malloc(2 * (size_t)BLOCK);
    int count = out_packed ? 1 : BLOCK - 1;
    /* a line of processes: each sends one block to both neighbours, packed or not */
    int in_counts[2] = {BLOCK - 1, BLOCK - 1}, in_displs[2] = {0, BLOCK};
    INIT(allgatherv)
    (out, count, out_packed ? apart : MPI_BYTE, in, in_counts, in_displs, MPI_BYTE, ring,
     MPI_INFO_NULL, &request);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < BLOCK - 1; i++)
            out[out_packed && i >= BLOCK / 2 ? i + 1 : i] = value(rank, round, i);
        memset(in, 0, 2 * (size_t)BLOCK);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int k = 0; k < 2; k++) {
            int from = rank + 2 * k - 1;

            if (from < 0 || from == procs)
                continue;
            for (size_t i = 0; i < BLOCK - 1; i++)
                if (in[k * BLOCK + i] != value(from, round, i))
                    CHECK(in[k * BLOCK + i] == value(from, round, i));
        }
    }
    MPI_Request_free(&request);
    MPI_Type_free(&apart);
    MPI_Comm_free(&ring);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
