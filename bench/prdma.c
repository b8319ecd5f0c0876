/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A 1-D halo of three points, as in figures 9 and 10 of the paper on PRDMA-SMCQ: FAST, MRC, auto
 * and MPI's own request in one run, for messages of 0 to 64 KiB.
 *
 *     mpiexec.mpich -n 2 env LD_PRELOAD=libprdma-mpich.so prdma.mpich [--step BYTES] [--most BYTES]
 *         [--offset BYTES]
 *
 * With --offset the blocks begin at this offset from the beginning of a page.
 *
 * A time is that of MPI_Start and MPI_Wait: the first decile of the blocks, which alternate, so
 * that other load on the machine counts little. MPI's own requests are called through PMPI. The
 * last lines show the time of MPI_Wait after 5 ms of computing between MPI_Start and MPI_Wait.
 */
#include <mpi.h>
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION < 5
#    include <mpi-ext.h>
#    define INIT(prefix) prefix##X_Neighbor_alltoallw_init
#else
#    define INIT(prefix) prefix##_Neighbor_alltoallw_init
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

enum { BLOCKS = 41, ROUNDS = 50, MOST = 65536, PAGE = 4096 };

enum kind { FAST, MRC, AUTO, OWN, KINDS };

static int rank, offset;
static MPI_Comm ring;
static char *out, *in;

static MPI_Request make_request(enum kind kind, int bytes)
{
    static int counts[2];
    static MPI_Aint displs[2];
    static MPI_Datatype types[2];
    MPI_Info info;
    MPI_Request request;

    for (int i = 0; i < 2; i++) {
        counts[i] = bytes;
        displs[i] = (MPI_Aint)i * (MOST + PAGE) + offset;
        types[i] = MPI_BYTE;
    }
    if (kind == OWN) {
        INIT(PMPI)
        (out, counts, displs, types, in, counts, displs, types, ring, MPI_INFO_NULL, &request);
        return request;
    }
    MPI_Info_create(&info);
    MPI_Info_set(info, "prdma_method", kind == FAST ? "fast" : kind == MRC ? "mrc" : "auto");
    INIT(MPI)
    (out, counts, displs, types, in, counts, displs, types, ring, info, &request);
    MPI_Info_free(&info);
    return request;
}

static void start_request(enum kind kind, MPI_Request *request)
{
    if (kind == OWN)
        PMPI_Start(request);
    else
        MPI_Start(request);
}

static void wait_request(enum kind kind, MPI_Request *request)
{
    if (kind == OWN)
        PMPI_Wait(request, MPI_STATUS_IGNORE);
    else
        MPI_Wait(request, MPI_STATUS_IGNORE);
}

static void measure_requests(int bytes, double result[KINDS])
{
    static double times[KINDS][BLOCKS];
    MPI_Request requests[KINDS];

    for (int kind = 0; kind < KINDS; kind++)
        requests[kind] = make_request(kind, bytes);
    for (int block = 0; block < BLOCKS; block++) {
        for (int kind = 0; kind < KINDS; kind++) {
            PMPI_Barrier(ring);
            double begin = PMPI_Wtime();
            for (int i = 0; i < ROUNDS; i++) {
                start_request(kind, &requests[kind]);
                wait_request(kind, &requests[kind]);
            }
            times[kind][block] = (PMPI_Wtime() - begin) / ROUNDS * 1e6;
        }
    }
    for (int kind = 0; kind < KINDS; kind++) {
        result[kind] = bench_quantile(times[kind], BLOCKS, 0.1);
        MPI_Request_free(&requests[kind]);
    }
}

static void compute_for(double seconds)
{
    double end = PMPI_Wtime() + seconds;

    while (PMPI_Wtime() < end)
        ;
}

static void measure_offload(int bytes)
{
    static double times[KINDS][BLOCKS];
    double result[KINDS];

    for (int kind = 0; kind < KINDS; kind++) {
        MPI_Request request = make_request(kind, bytes);

        for (int i = 0; i < BLOCKS; i++) {
            PMPI_Barrier(ring);
            start_request(kind, &request);
            compute_for(5e-3);
            double begin = PMPI_Wtime();
            wait_request(kind, &request);
            times[kind][i] = (PMPI_Wtime() - begin) * 1e6;
        }
        MPI_Request_free(&request);
        result[kind] = bench_quantile(times[kind], BLOCKS, 0.5);
    }
    if (rank == 0)
        printf("MPI_Wait after 5 ms, %d bytes, median: FAST %.2f us, MRC %.2f us, auto %.2f us, "
               "MPI %.2f us\n",
               bytes, result[FAST], result[MRC], result[AUTO], result[OWN]);
}

int main(int argc, char **argv)
{
    int step = 1024, most = MOST, procs;
    void *memory[2];

    MPI_Init(&argc, &argv);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--step") == 0)
            step = atoi(argv[i + 1]) < 1 ? 1 : atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--most") == 0)
            most = atoi(argv[i + 1]) < MOST ? atoi(argv[i + 1]) : MOST;
        else if (strcmp(argv[i], "--offset") == 0)
            offset = atoi(argv[i + 1]) & (PAGE - 1);
    }
    MPI_Comm_size(MPI_COMM_WORLD, &procs);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &procs, (int[]){1}, 0, &ring);
    MPI_Comm_rank(ring, &rank);
    for (int i = 0; i < 2; i++) {
        if (posix_memalign(&memory[i], PAGE, 2 * (MOST + PAGE) + PAGE) != 0)
            return 1;
        memset(memory[i], 1, 2 * (MOST + PAGE) + PAGE);
    }
    out = memory[0];
    in = memory[1];
    if (rank == 0)
        printf("%d processes\n%8s %8s %8s %8s %8s %9s %9s %9s\n", procs, "bytes", "FAST", "MRC",
               "auto", "MPI", "MRC/FAST", "FAST/MPI", "auto/MPI");
    for (int bytes = 0; bytes <= most; bytes += step) {
        double t[KINDS];

        measure_requests(bytes, t);
        if (rank == 0)
            printf("%8d %8.2f %8.2f %8.2f %8.2f %9.2f %9.2f %9.2f\n", bytes, t[FAST], t[MRC],
                   t[AUTO], t[OWN], t[MRC] / t[FAST], t[FAST] / t[OWN], t[AUTO] / t[OWN]);
    }
    for (int bytes = 1024; bytes <= most; bytes *= 8)
        measure_offload(bytes);
    free(memory[0]);
    free(memory[1]);
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return 0;
}
