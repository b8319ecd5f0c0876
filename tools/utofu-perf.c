/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utofu-perf [options] OPERATION...
 *
 * Measures communication between the processes of a job. The table below lists the operations; this
 * file runs the selected ones.
 */
#include "output.h"
#include "perf/perf.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define KI ((size_t)1024)
#define MI ((size_t)1048576)

static const struct perf_op operations[] = {
    {.name = "put-lat",
     .help = "put, notified by the remote notice: half a round trip",
     .counterparts = "MPI_Send and MPI_Recv; ucp_am_lat; ib_send_lat",
     .ping = &perf_by_notice,
     .parts = 2,
     .max_size = PERF_MAX_MESSAGE,
     .default_from = 8,
     .default_to = MI},
    {.name = "ping-pong",
     .help = "the same there and back: a whole round trip",
     .ping = &perf_by_notice,
     .parts = 1,
     .max_size = PERF_MAX_MESSAGE,
     .default_from = 8,
     .default_to = 8},
    {.name = "put-mem-lat",
     .help = "put, seen by watching the last byte: half a round trip",
     .counterparts = "ucp_put_lat; ib_write_lat",
     .prepare = perf_put_memory_prepare,
     .ping = &perf_by_memory,
     .parts = 2,
     .min_size = 1,
     .max_size = PERF_MAX_MESSAGE,
     .default_from = 8,
     .default_to = MI},
    {.name = "put-local-lat",
     .help = "put until its local notice",
     .counterparts = "MPI_Put and MPI_Win_flush",
     .check = PERF_PUT,
     .once = perf_put_once,
     .max_size = PERF_MAX_MESSAGE,
     .default_from = 8,
     .default_to = MI},
    {.name = "get-lat",
     .help = "get until its local notice",
     .counterparts = "MPI_Get and MPI_Win_flush; ucp_get; ib_read_lat",
     .check = PERF_GET,
     .once = perf_get_once,
     .max_size = PERF_MAX_MESSAGE,
     .default_from = 8,
     .default_to = MI},
    {.name = "piggyback-lat",
     .help = "put of data in the descriptor, remote notice: half of it",
     .ping = &perf_by_piggyback,
     .parts = 2,
     .max_size = PERF_MAX_PIGGYBACK,
     .default_from = 8,
     .default_to = PERF_MAX_PIGGYBACK},
    {.name = "armw-lat",
     .help = "8-byte atomic add until its local notice",
     .counterparts = "MPI_Fetch_and_op and MPI_Win_flush; ucp_fadd; ib_atomic_lat",
     .check = PERF_ADD,
     .once = perf_armw_once,
     .fixed = true,
     .default_to = 8},
    {.name = "connect",
     .help = "first put of a new VCQ until its local notice",
     .check = PERF_WORD,
     .fixed = true,
     .default_to = 8,
     .most_iterations = 500},
    {.name = "put-bw",
     .help = "windows of puts with TCQ entries, the last with a notice",
     .counterparts = "MPI_Puts, one MPI_Win_flush; ucp_put_bw; ib_write_bw",
     .windowed = true,
     .check = PERF_PUT,
     .once = perf_window_once,
     .max_size = PERF_MAX_MESSAGE,
     .default_from = 8,
     .default_to = 4 * MI},
    {.name = "put-bibw",
     .help = "the same from both sides at once",
     .windowed = true,
     .both_measure = true,
     .check = PERF_PUT,
     .once = perf_window_once,
     .max_size = PERF_MAX_MESSAGE,
     .default_from = 8,
     .default_to = 4 * MI},
    {.name = "put-rate",
     .help = "put-bw for small sizes: messages in a second",
     .counterparts = "the same",
     .windowed = true,
     .check = PERF_PUT,
     .once = perf_window_once,
     .max_size = PERF_MAX_MESSAGE,
     .default_from = 8,
     .default_to = 8},
    {.name = "stride",
     .help = "puts of --blocks blocks in one call, each with a local notice",
     .windowed = true,
     .check = PERF_STRIDE,
     .once = perf_stride_once,
     .max_size = 64 * KI,
     .default_from = 8,
     .default_to = 4 * KI},
    {.name = "session-chain",
     .help = "a put that goes round all processes by session mode: one hop",
     .kind = PERF_ALL,
     .set_up = perf_chain_set_up,
     .run = perf_chain_run,
     .tear_down = perf_chain_tear_down,
     .max_size = PERF_MAX_PUT,
     .default_from = 8,
     .default_to = 8},
    {.name = "relay-chain",
     .help = "the same, handed on by programs that poll and then put",
     .kind = PERF_ALL,
     .set_up = perf_relay_set_up,
     .run = perf_relay_run,
     .tear_down = perf_chain_tear_down,
     .max_size = PERF_MAX_PUT,
     .default_from = 8,
     .default_to = 8},
    {.name = "barrier",
     .help = "barrier of all processes",
     .counterparts = "MPI_Barrier",
     .kind = PERF_ALL,
     .set_up = perf_circuit_set_up,
     .run = perf_barrier_run,
     .tear_down = perf_circuit_tear_down,
     .fixed = true},
    {.name = "reduce-uint64",
     .help = "sum of 1 to 6 uint64_t values of all processes",
     .counterparts = "MPI_Allreduce with MPI_SUM",
     .kind = PERF_ALL,
     .set_up = perf_circuit_set_up,
     .run = perf_reduce_uint64_run,
     .tear_down = perf_circuit_tear_down,
     .min_size = 8,
     .max_size = 48,
     .size_step = 8,
     .default_from = 8,
     .default_to = 8},
    {.name = "reduce-double",
     .help = "sum of 1 to 3 doubles of all processes",
     .counterparts = "MPI_Allreduce with MPI_SUM",
     .kind = PERF_ALL,
     .set_up = perf_circuit_set_up,
     .run = perf_reduce_double_run,
     .tear_down = perf_circuit_tear_down,
     .min_size = 8,
     .max_size = 24,
     .size_step = 8,
     .default_from = 8,
     .default_to = 8},
};
static pthread_barrier_t gate; /* synchronizes the workers of this process */

static unsigned int list_sizes(const struct perf_op *op, size_t sizes[PERF_MAX_SIZES])
{
    unsigned int n = perf_list_sizes(op, sizes);

    if (!op->fixed && perf_options.num_sizes == 0)
        for (size_t size = op->default_from; size <= op->default_to; size *= 2)
            sizes[n++] = size;
    return n;
}

static uint64_t clamp(uint64_t n, uint64_t min, uint64_t max)
{
    return n < min ? min : n > max ? max : n;
}

/* At most a GiB in a window, unless the user sets the window. */
static uint64_t window_of(size_t size)
{
    uint64_t fit = size ? PERF_MAX_MESSAGE / size : PERF_MAX_WINDOW;

    return perf_options.has_window ? perf_options.window : clamp(fit, 1, perf_options.window);
}

/* If a row has a time limit, it begins with one iteration, as its duration is not known. */
static struct perf_run plan(const struct perf_op *op, size_t size)
{
    bool timed = perf_row_us() > 0;
    struct perf_run run = {.op = op,
                           .size = size,
                           .iterations = timed ? 1 : perf_options.iterations,
                           .window = window_of(size)};

    if (perf_options.has_warmup)
        run.warmup = perf_options.warmup;
    else if (!timed) /* otherwise the first rounds warm up */
        run.warmup = clamp(run.iterations / 10, 1, 1000);
    return run;
}

static void measure(struct perf_worker *w)
{
    const struct perf_op *op = w->run.op;

    w->num_samples = w->messages = w->bytes = 0;
    w->seconds = 0;
    pthread_barrier_wait(&gate);
    w->first_cpu = sched_getcpu();
    double begin = perf_now();
    if (op->kind == PERF_ALL)
        op->run(w);
    else
        perf_pairs_run(w);
    w->round_us = perf_now() - begin;
    w->last_cpu = sched_getcpu();
}

/* Threads created later inherit the affinity. */
static void go_to_cpu(unsigned int thread)
{
    /* without a launcher, each process has its own list */
    unsigned int first = perf_options.listen || perf_options.connect ? 0 : party.rank;
    uint64_t cpu = perf_options.cpus[(first + thread) % perf_options.num_cpus];
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0)
        party_fail(PARTY_USAGE, "--cpus: CPU %u: %s", (unsigned int)cpu, strerror(errno));
}

static void *thread_main(void *worker)
{
    if (perf_options.num_cpus)
        go_to_cpu(((struct perf_worker *)worker)->number);
    measure(worker);
    return NULL;
}

/* Returns rank 0's number in all processes. */
static uint64_t as_rank_0_says(uint64_t number)
{
    uint64_t *all = malloc(party.size * sizeof(*all));

    if (!all)
        party_fail(1, "no memory");
    party_gather(&number, sizeof(number), all, false);
    number = all[0];
    free(all);
    return number;
}

/* The samples of a round that ends before warm_at are dropped. */
static bool run_round(const struct perf_run *run, struct perf_worker *workers, unsigned int n,
                      double warm_at)
{
    pthread_t threads[PERF_MAX_THREADS];

    for (unsigned int t = 0; t < n; t++) {
        workers[t].run = *run;
        workers[t].samples = malloc(run->iterations * sizeof(float));
        if (!workers[t].samples)
            party_fail(1, "no memory for %llu samples", (unsigned long long)run->iterations);
        if (run->op->prepare)
            run->op->prepare(&workers[t]);
    }
    pthread_barrier_init(&gate, NULL, n);
    party_barrier();
    for (unsigned int t = 1; t < n; t++)
        if (pthread_create(&threads[t], NULL, thread_main, &workers[t]) != 0)
            party_fail(1, "cannot start thread %u", t);
    measure(&workers[0]);
    for (unsigned int t = 1; t < n; t++)
        pthread_join(threads[t], NULL);
    pthread_barrier_destroy(&gate);
    bool counts = as_rank_0_says(perf_now() >= warm_at);
    if (counts)
        perf_report_round(workers, n);
    for (unsigned int t = 0; t < n; t++)
        free(workers[t].samples);
    return counts;
}

/* The time from which the samples of a row count, and the end of its time. */
struct times {
    double warm_at, end;
};

/* The number of the next iterations, which rank 0 derives from the duration of the last round; 0:
 * the time is over, or the number was fixed. A round is never ended early, and if processes share a
 * core an iteration may suddenly take a thousand times as long, a time slice: so a round is limited
 * to what takes seconds in that case. */
static uint64_t next_iterations(const struct perf_run *run, const struct perf_worker *worker,
                                struct times times)
{
    enum { ROUND_US = 250000, MOST = 1024 };
    uint64_t next = 0, most = run->op->most_iterations ? run->op->most_iterations : MOST;
    double now = perf_now(), left = (now < times.warm_at ? times.warm_at : times.end) - now;

    if (perf_row_us() <= 0)
        return 0;
    if (left > 0) {
        double each = worker->round_us / (double)(run->iterations + run->warmup);
        double wanted = (left < ROUND_US ? left : ROUND_US) / (each > 1e-3 ? each : 1e-3);
        next = wanted < 1 ? 1 : wanted > (double)most ? most : (uint64_t)wanted;
    }
    if (run->op->most_iterations && !perf_options.duration_ms) /* the user has not asked for more */
        next = clamp(next, 0, most - clamp(run->counted, 0, most));
    if (run->counted == 0) /* at least one round */
        next = clamp(next, 1, most);
    return as_rank_0_says(next);
}

static void run_row(struct perf_run run, struct perf_worker *workers, unsigned int n)
{
    static uint64_t serial;
    double begin = perf_now(), us = perf_row_us();
    struct times times = {perf_options.has_warmup ? begin : begin + us / 10, begin + us};
    uint64_t next;

    perf_report_start(workers, n);
    do {
        run.serial = ++serial;
        if (run_round(&run, workers, n, times.warm_at))
            run.counted += run.iterations;
        next = next_iterations(&run, workers, times);
        run.iterations = next;
        run.warmup = 0;
    } while (next > 0);
    perf_report_row(&run, workers, n);
}

static void run_operation(const struct perf_op *op, struct perf_worker *pair_workers,
                          unsigned int *row, unsigned int rows)
{
    struct perf_worker single = {.number = 0};
    size_t sizes[PERF_MAX_SIZES];
    unsigned int num_sizes = list_sizes(op, sizes);

    if (op->set_up)
        op->set_up();
    for (unsigned int s = 0; s < num_sizes; s++) {
        struct perf_run run = plan(op, sizes[s]);
        perf_report_progress(&run, ++*row, rows);
        if (op->kind == PERF_ALL)
            run_row(run, &single, 1);
        else
            run_row(run, pair_workers, (unsigned int)perf_options.threads);
    }
    party_barrier();
    if (op->tear_down)
        op->tear_down();
}

static bool any_pairs(void)
{
    for (uint64_t o = 0; o < perf_options.num_ops; o++)
        if (perf_ops[perf_options.ops[o]].kind == PERF_PAIRS)
            return true;
    return false;
}

/* All processes must have the same options. */
static void compare_options(void)
{
    if (perf_options.listen || perf_options.connect)
        return; /* both processes have the same ones */
    uint64_t mine = perf_options_hash(), *all = malloc(party.size * sizeof(*all));
    uint32_t other = 0;

    if (!all)
        party_fail(1, "no memory");
    party_gather(&mine, sizeof(mine), all, false);
    for (uint32_t r = 1; r < party.size && !other; r++)
        if (all[r] != all[0])
            other = r;
    free(all);
    if (!other)
        return;
    party_barrier();
    if (party.rank == 0)
        party_fail(PARTY_USAGE,
                   "rank %u was given other options than rank 0; give all processes "
                   "the same",
                   other);
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL); /* rank 0 reports the error */
    exit(PARTY_USAGE);
}

int main(int argc, char **argv)
{
    unsigned int row = 0, rows = 0;
    size_t sizes[PERF_MAX_SIZES];

    tool_output_open(PERF_NAME);
    party_set_name(PERF_NAME);
    perf_ops = operations;
    perf_num_ops = sizeof(operations) / sizeof(operations[0]);
    perf_read_options(argc, argv);
    if (perf_options.plot)
        return perf_plot(perf_options.plot, perf_options.files, perf_options.num_files);
    if (perf_options.peers)
        return perf_peers();
    perf_meet();
    if (perf_options.num_cpus) {
        party_find(PERF_NAME, 2, perf_options.timeout);
        go_to_cpu(0);
    }
    party_open(PERF_NAME, 2, perf_options.timeout);
    perf_meet_options();
    compare_options();
    if (any_pairs()) {
        if (party.size % 2)
            party_fail(PARTY_USAGE, "pairs take an even number of processes, not %u", party.size);
        perf_pairs_open();
    }
    for (uint64_t o = 0; o < perf_options.num_ops; o++)
        rows += list_sizes(&perf_ops[perf_options.ops[o]], sizes);
    perf_report_begin();
    for (uint64_t o = 0; o < perf_options.num_ops; o++)
        run_operation(&perf_ops[perf_options.ops[o]], perf_pairs_workers(), &row, rows);
    party_barrier();
    if (any_pairs())
        perf_pairs_close();
    perf_report_end();
    party_close();
    return 0;
}
