/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi_put lat|bw WINDOW ITERATIONS SIZE...
 *
 * MPI_Put and MPI_Win_flush from rank 0 to malloc'ed memory of rank 1 in a window made with
 * MPI_Win_create. lat: one put and its flush; bw: WINDOW puts, then one flush. To be compared with
 * put-local-lat and put-bw of utofu-perf, which lay out their buffers in the same way.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

enum { BUFFER_BYTES = 64 << 20 };

static size_t buffer_size(long size, long window)
{
    size_t all = (size_t)size * (size_t)window;

    if (all > BUFFER_BYTES)
        all = (size_t)size > BUFFER_BYTES ? (size_t)size : BUFFER_BYTES;
    return (all + 4095) / 4096 * 4096;
}

static void measure(const char *name, const char *lcl, size_t span, long size, long window,
                    long iterations, MPI_Win win)
{
    float *samples = malloc((size_t)iterations * sizeof(*samples));
    long warmup = iterations / 10 < 1 ? 1 : iterations / 10 > 1000 ? 1000 : iterations / 10;
    double begin = bench_now(), first = begin;
    long apart = (long)(span / (size_t)size);

    if (!samples)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (long i = 0; i < warmup + iterations; i++) {
        if (i == warmup)
            first = begin;
        for (long w = 0; w < window; w++) {
            long offset = w % apart * size;
            MPI_Put(lcl + offset, (int)size, MPI_BYTE, 1, offset, (int)size, MPI_BYTE, win);
        }
        MPI_Win_flush(1, win);
        double end = bench_now();
        if (i >= warmup)
            samples[i - warmup] = (float)((end - begin) / (double)window);
        begin = end;
    }
    bench_print(name, (size_t)size, samples, (size_t)iterations, (double)(iterations * window),
                begin - first);
    free(samples);
}

int main(int argc, char **argv)
{
    int rank, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2 || argc < 5 || (strcmp(argv[1], "lat") != 0 && strcmp(argv[1], "bw") != 0)) {
        if (rank == 0)
            fprintf(stderr, "usage, with 2 processes: mpi_put lat|bw WINDOW ITERATIONS SIZE...\n");
        MPI_Finalize();
        return 2;
    }
    int lat = strcmp(argv[1], "lat") == 0;
    long window = lat ? 1 : bench_number("mpi_put", argv[2], 1, 1024);
    long iterations = bench_number("mpi_put", argv[3], 1, 100000000);

    for (int a = 4; a < argc; a++) {
        long size = bench_number("mpi_put", argv[a], 1, 1 << 30);
        size_t span = buffer_size(size, window);
        char *lcl = malloc(span), *rmt = malloc(span);
        MPI_Win win;
        if (!lcl || !rmt)
            MPI_Abort(MPI_COMM_WORLD, 1);
        memset(lcl, 1, span);
        memset(rmt, 0, span);
        MPI_Win_create(rmt, (MPI_Aint)span, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_lock_all(0, win);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0)
            measure(lat ? "put-local-lat" : "put-bw", lcl, span, size, window, iterations, win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_unlock_all(win);
        MPI_Win_free(&win);
        free(lcl);
        free(rmt);
    }
    MPI_Finalize();
    return 0;
}
