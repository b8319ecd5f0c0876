/* SPDX-License-Identifier: Apache-2.0 */
/*
 * adjacent ROUNDS: a ring in which each process exchanges blocks of several lengths with both
 * neighbours, and checks every byte of each round, so that a byte of the round before is found.
 */
#include "check.h"

#include <string.h>

enum { MOST = 1000, LENGTHS = 5 };

static int rank, procs;

static unsigned char value_of(int from, int round, int at)
{
    return (unsigned char)(from * 7 + round * 13 + at);
}

static int count_wrong(const unsigned char *block, int from, int round, int length)
{
    int wrong = 0;

    for (int i = 0; i < length; i++)
        wrong += block[i] != value_of(from, round, i);
    return wrong;
}

static int run(MPI_Comm ring, int length, int rounds)
{
    static unsigned char out[2 * MOST], in[2 * MOST];
    int left = (rank + procs - 1) % procs, right = (rank + 1) % procs, wrong_rounds = 0;
    MPI_Request request;

    INIT(alltoall)(out, length, MPI_BYTE, in, length, MPI_BYTE, ring, MPI_INFO_NULL, &request);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < 2 * length; i++)
            out[i] = value_of(rank, round, i % length);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        int wrong =
            count_wrong(in, left, round, length) + count_wrong(in + length, right, round, length);
        wrong_rounds += wrong != 0;
    }
    MPI_Request_free(&request);
    return wrong_rounds;
}

int main(int argc, char **argv)
{
    static const int lengths[LENGTHS] = {56, 120, 200, 500, MOST};
    int rounds = argc > 1 ? atoi(argv[1]) : 200;
    MPI_Comm ring;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &procs);
    rank = my_rank();
    MPI_Cart_create(MPI_COMM_WORLD, 1, &procs, (int[]){1}, 0, &ring);
    for (int i = 0; i < LENGTHS; i++) {
        int wrong = run(ring, lengths[i], rounds);
        if (wrong)
            fprintf(stderr, "rank %d: %d of %d rounds of %d bytes are wrong\n", rank, wrong, rounds,
                    lengths[i]);
        CHECK(wrong == 0);
    }
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return 0;
}
