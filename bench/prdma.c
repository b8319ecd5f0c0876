/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A 1-D halo of three points, as in figures 9 and 10 of the paper on PRDMA-SMCQ: FAST, MRC, auto
 * and MPI's own request in one run, for messages of 0 to 64 KiB.
 *
 *     mpiexec.mpich -n 2 env LD_PRELOAD=libprdma-mpich.so prdma.mpich [--step BYTES] [--most BYTES]
 *         [--offset BYTES] [--svg FILE]
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

enum { BLOCKS = 41, ROUNDS = 50, MOST = 65536, SIZES = 65, PAGE = 4096 };

enum kind { FAST, MRC, AUTO, OWN, KINDS };

static const char *const names[] = {"FAST", "MRC", "auto", "MPI"};
static const char *const colours[] = {"#1b6ca8", "#c8553d", "#3a8f4c", "#555"};

static int rank, offset;
static MPI_Comm ring;
static char *out, *in;
static double table[SIZES][KINDS];
static int bytes_of[SIZES], num_sizes;

static MPI_Request make(enum kind kind, int bytes)
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

static void start(enum kind kind, MPI_Request *request)
{
    if (kind == OWN)
        PMPI_Start(request);
    else
        MPI_Start(request);
}

static void wait(enum kind kind, MPI_Request *request)
{
    if (kind == OWN)
        PMPI_Wait(request, MPI_STATUS_IGNORE);
    else
        MPI_Wait(request, MPI_STATUS_IGNORE);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double decile(double *times, int count)
{
    qsort(times, (size_t)count, sizeof(*times), compare);
    return times[count / 10];
}

static void measure(int bytes, double result[KINDS])
{
    static double times[KINDS][BLOCKS];
    MPI_Request requests[KINDS];

    for (int kind = 0; kind < KINDS; kind++)
        requests[kind] = make(kind, bytes);
    for (int block = 0; block < BLOCKS; block++) {
        for (int kind = 0; kind < KINDS; kind++) {
            PMPI_Barrier(ring);
            double begin = PMPI_Wtime();
            for (int i = 0; i < ROUNDS; i++) {
                start(kind, &requests[kind]);
                wait(kind, &requests[kind]);
            }
            times[kind][block] = (PMPI_Wtime() - begin) / ROUNDS * 1e6;
        }
    }
    for (int kind = 0; kind < KINDS; kind++) {
        result[kind] = decile(times[kind], BLOCKS);
        MPI_Request_free(&requests[kind]);
    }
}

static void compute(double seconds)
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
        MPI_Request request = make(kind, bytes);

        for (int i = 0; i < BLOCKS; i++) {
            PMPI_Barrier(ring);
            start(kind, &request);
            compute(5e-3);
            double begin = PMPI_Wtime();
            wait(kind, &request);
            times[kind][i] = (PMPI_Wtime() - begin) * 1e6;
        }
        MPI_Request_free(&request);
        result[kind] = times[kind][0];
        qsort(times[kind], BLOCKS, sizeof(double), compare);
        result[kind] = times[kind][BLOCKS / 2];
    }
    if (rank == 0)
        printf("MPI_Wait after 5 ms, %d bytes, median: FAST %.2f us, MRC %.2f us, auto %.2f us, "
               "MPI %.2f us\n",
               bytes, result[FAST], result[MRC], result[AUTO], result[OWN]);
}

static void draw(const char *path)
{
    enum { WIDTH = 720, HEIGHT = 420, LEFT = 60, BOTTOM = 380 };
    FILE *f = fopen(path, "w");
    double most = 1;

    if (f == NULL) {
        perror(path);
        return;
    }
    for (int i = 0; i < num_sizes; i++)
        for (int k = 0; k < KINDS; k++)
            most = table[i][k] > most ? table[i][k] : most;
    fprintf(
        f,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
        "font-family=\"sans-serif\" font-size=\"13\">\n"
        "<path d=\"M%d 20V%dH700\" fill=\"none\" stroke=\"black\"/>\n"
        "<text x=\"4\" y=\"24\">%.0f us</text><text x=\"300\" y=\"410\">bytes, 0 to %d</text>\n",
        WIDTH, HEIGHT, LEFT, BOTTOM, most, bytes_of[num_sizes - 1]);
    for (int k = 0; k < KINDS; k++) {
        fprintf(f, "<text x=\"80\" y=\"%d\" fill=\"%s\">%s</text>\n<polyline fill=\"none\" ",
                40 + 18 * k, colours[k], names[k]);
        fprintf(f, "stroke=\"%s\" stroke-width=\"2\" points=\"", colours[k]);
        for (int i = 0; i < num_sizes; i++)
            fprintf(f, "%.1f,%.1f ", LEFT + 640.0 * bytes_of[i] / MOST,
                    BOTTOM - 360.0 * table[i][k] / most);
        fprintf(f, "\"/>\n");
    }
    fprintf(f, "</svg>\n");
    fclose(f);
}

int main(int argc, char **argv)
{
    const char *svg = NULL;
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
        else if (strcmp(argv[i], "--svg") == 0)
            svg = argv[i + 1];
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
    for (int bytes = 0; bytes <= most && num_sizes < SIZES; bytes += step, num_sizes++) {
        double *t = table[num_sizes];

        measure(bytes, t);
        bytes_of[num_sizes] = bytes;
        if (rank == 0)
            printf("%8d %8.2f %8.2f %8.2f %8.2f %9.2f %9.2f %9.2f\n", bytes, t[FAST], t[MRC],
                   t[AUTO], t[OWN], t[MRC] / t[FAST], t[FAST] / t[OWN], t[AUTO] / t[OWN]);
    }
    for (int bytes = 1024; bytes <= most; bytes *= 8)
        measure_offload(bytes);
    if (rank == 0 && svg != NULL)
        draw(svg);
    free(memory[0]);
    free(memory[1]);
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return 0;
}
