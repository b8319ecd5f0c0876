/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi_peer OPERATION WINDOW ITERATIONS SIZE...
 *
 * The MPI counterpart of an operation of utofu-perf, with the same names and the same layout of
 * buffers: rank 0 accesses malloc'ed memory of rank 1, in a window made with MPI_Win_create.
 * put-local-lat: MPI_Put and MPI_Win_flush; put-bw and put-rate: WINDOW puts, then one flush, over
 * PEER_BUFFERS buffers (default: one each); get-lat: MPI_Get and flush; armw-lat: MPI_Fetch_and_op
 * and flush. put-lat, which ends with a notice at the target: half of a round trip with MPI_Send
 * and MPI_Recv. With any number of processes: barrier: MPI_Barrier; reduce-uint64 and
 * reduce-double: MPI_Allreduce with MPI_SUM, as many as fit into two seconds at most.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

enum { BUFFER_BYTES = 64 << 20, TRIALS = 5, LEAST = 30, MAX_US = 2000000 };

struct run {
    char *lcl, *sum;
    size_t span;
    long size, window, iterations, buffers;
    int rank;
    MPI_Win win;
};

static size_t buffer_size(long size, long window)
{
    size_t all = (size_t)size * (size_t)window;

    if (all > BUFFER_BYTES)
        all = (size_t)size > BUFFER_BYTES ? (size_t)size : BUFFER_BYTES;
    return (all + 4095) / 4096 * 4096;
}

static void put(const struct run *r)
{
    long apart = (long)(r->span / (size_t)r->size);

    apart = r->buffers < apart ? r->buffers : apart;

    for (long w = 0; w < r->window; w++) {
        long offset = w % apart * r->size;
        MPI_Put(r->lcl + offset, (int)r->size, MPI_BYTE, 1, offset, (int)r->size, MPI_BYTE, r->win);
    }
    MPI_Win_flush(1, r->win);
}

static void get(const struct run *r)
{
    MPI_Get(r->lcl, (int)r->size, MPI_BYTE, 1, 0, (int)r->size, MPI_BYTE, r->win);
    MPI_Win_flush(1, r->win);
}

static void ping(const struct run *r)
{
    if (r->rank == 0)
        MPI_Send(r->lcl, (int)r->size, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(r->sum, (int)r->size, MPI_BYTE, 1 - r->rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (r->rank == 1)
        MPI_Send(r->lcl, (int)r->size, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
}

static void add(const struct run *r)
{
    uint64_t one = 1, old;

    MPI_Fetch_and_op(&one, &old, MPI_UINT64_T, 1, 0, MPI_SUM, r->win);
    MPI_Win_flush(1, r->win);
}

static void barrier(const struct run *r)
{
    (void)r;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void sum_uint64(const struct run *r)
{
    MPI_Allreduce(r->lcl, r->sum, (int)(r->size / 8), MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
}

static void sum_double(const struct run *r)
{
    MPI_Allreduce(r->lcl, r->sum, (int)(r->size / 8), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static const struct operation {
    const char *name;
    void (*once)(const struct run *r);
    int windowed, all; /* all: every rank takes part */
    long bytes;        /* of every row; 0: use the sizes */
    int parts;         /* the time is divided by this number; 0: it is not */
} operations[] = {
    {"put-lat", ping, 0, 1, 0, 2},
    {"put-local-lat", put, 0, 0, 0, 0},
    {"put-bw", put, 1, 0, 0, 0},
    {"put-rate", put, 1, 0, 0, 0},
    {"get-lat", get, 0, 0, 0, 0},
    {"armw-lat", add, 0, 0, 8, 0},
    {"barrier", barrier, 0, 1, -1, 0},
    {"reduce-uint64", sum_uint64, 0, 1, 0, 0},
    {"reduce-double", sum_double, 0, 1, 0, 0},
};

/* Iterations for the time limit: a library that does not yield is slow on shared cores. */
static long affordable(const struct operation *op, const struct run *r)
{
    double begin = bench_now();
    long n = r->iterations;

    for (int i = 0; i < TRIALS; i++)
        op->once(r);
    double each = (bench_now() - begin) / TRIALS;
    if (each * (double)n > MAX_US)
        n = MAX_US / each > LEAST ? (long)(MAX_US / each) : n < LEAST ? n : LEAST;
    MPI_Bcast(&n, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    return n;
}

struct repeated {
    const struct operation *op;
    const struct run *run;
};

static void do_once(void *arg)
{
    const struct repeated *r = arg;

    r->op->once(r->run);
}

/* As long as ITERATIONS windows take, but some samples of several windows in any case. */
static long samples_of(long iterations, long windows)
{
    long n = iterations / windows, least = iterations < LEAST ? iterations : LEAST;

    return n < least ? least : n;
}

static void measure(const struct operation *op, const struct run *r, int rank)
{
    struct repeated repeated = {op, r};
    uint64_t windows =
        op->windowed ? bench_count_windows(do_once, &repeated, (size_t)(r->window * r->size)) : 1;
    double messages = (double)windows * (double)r->window * (op->parts ? op->parts : 1);
    long n = samples_of(r->iterations, (long)windows);
    float *samples = malloc((size_t)n * sizeof(*samples));
    long warmup = n / 10 < 1 ? 1 : n / 10 > 1000 ? 1000 : n / 10;
    double begin = bench_now(), first = begin;

    if (!samples)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (long i = 0; i < warmup + n; i++) {
        if (i == warmup)
            first = begin;
        for (uint64_t w = 0; w < windows; w++)
            op->once(r);
        double end = bench_now();
        if (i >= warmup)
            samples[i - warmup] = (float)((end - begin) / messages);
        begin = end;
    }
    if (rank == 0)
        bench_print(op->name, op->bytes ? (size_t)(op->bytes > 0 ? op->bytes : 0) : (size_t)r->size,
                    samples, (size_t)n, (double)n * messages, begin - first);
    free(samples);
}

static void run_size(const struct operation *op, struct run *r, int rank)
{
    r->span = buffer_size(r->size, r->window);
    char *rmt = malloc(r->span);
    r->lcl = malloc(r->span);
    if (!r->lcl || !rmt)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(r->lcl, 1, r->span);
    memset(rmt, 0, r->span);
    if (op->all) {
        r->sum = rmt;
        r->iterations = affordable(op, r);
        measure(op, r, rank);
        free(r->lcl);
        free(rmt);
        return;
    }
    MPI_Win_create(rmt, (MPI_Aint)r->span, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &r->win);
    MPI_Win_lock_all(0, r->win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        measure(op, r, rank);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(r->win);
    MPI_Win_free(&r->win);
    free(r->lcl);
    free(rmt);
}

int main(int argc, char **argv)
{
    const struct operation *op = NULL;
    int rank, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (size_t i = 0; argc > 1 && i < sizeof(operations) / sizeof(operations[0]); i++)
        if (strcmp(argv[1], operations[i].name) == 0)
            op = &operations[i];
    if (argc < 5 || !op || ranks < 2 || (ranks > 2 && (!op->all || op->parts))) {
        if (rank == 0)
            fprintf(stderr,
                    "usage, with 2 processes: mpi_peer OPERATION WINDOW ITERATIONS SIZE...\n");
        MPI_Finalize();
        return 2;
    }
    long window = bench_number("mpi_peer", argv[2], 1, 1024);
    const char *buffers = getenv("PEER_BUFFERS");
    struct run r = {.window = op->windowed ? window : 1,
                    .rank = rank,
                    .buffers =
                        buffers && *buffers ? bench_number("mpi_peer", buffers, 1, 1024) : window,
                    .iterations = bench_number("mpi_peer", argv[3], 1, 100000000)};
    for (int a = 4; a < argc; a++) {
        r.size = bench_number("mpi_peer", argv[a], 1, 1 << 30);
        run_size(op, &r, rank);
    }
    MPI_Finalize();
    return 0;
}
