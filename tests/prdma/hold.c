/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hold [MS]: one process after the other calls MPI_Start late. Until then its buffers are
 * unchanged, and the other processes' buffers hold nothing of its new round.
 */
#include "check.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

enum { BIG = 40000, SMALL = 100 };

static int rank, procs;
static int *out, *in[2];

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static bool all_are(const int *block, int count, int value)
{
    for (int i = 0; i < count; i++)
        if (block[i] != value)
            return false;
    return true;
}

static void set(int *block, int count, int value)
{
    for (int i = 0; i < count; i++)
        block[i] = value;
}

/* Waits until the others have started, slept and checked: time for a forbidden transfer. */
static void hear_from_others(void)
{
    for (int i = 1; i < procs; i++)
        MPI_Recv(NULL, 0, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void run(MPI_Comm ring, int count, long ms)
{
    int last = (rank + procs - 1) % procs, next = (rank + 1) % procs, flag;
    MPI_Request request;

    INIT(allgather)(out, count, MPI_INT, in[0], count, MPI_INT, ring, MPI_INFO_NULL, &request);
    in[1] = in[0] + count;
    for (int late = 0; late < procs; late++) {
        set(out, count, rank * 100 + late);
        set(in[0], 2 * count, -late - 1);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == late) {
            hear_from_others();
            CHECK(all_are(in[0], 2 * count, -late - 1));
        }
        MPI_Start(&request);
        if (rank != late) {
            sleep_ms(ms);
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            for (int k = 0; k < 2; k++)
                if ((k == 0 ? last : next) == late)
                    CHECK(!flag && all_are(in[k], count, -late - 1));
            MPI_Send(NULL, 0, MPI_INT, late, 1, MPI_COMM_WORLD);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(all_are(in[0], count, last * 100 + late));
        CHECK(all_are(in[1], count, next * 100 + late));
        set(out, count, -1); /* the buffer is the program's again */
    }
    MPI_Request_free(&request);
}

int main(int argc, char **argv)
{
    MPI_Comm ring;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &procs);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    long ms = argc > 1 ? atol(argv[1]) : 1000;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &procs, (int[]){1}, 0, &ring);
    out = malloc(BIG * sizeof(int));
    in[0] = malloc(2 * BIG * sizeof(int));
    run(ring, SMALL, ms);
    run(ring, BIG, ms);
    free(out);
    free(in[0]);
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return 0;
}
