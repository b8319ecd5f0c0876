/* SPDX-License-Identifier: Apache-2.0 */
/* The output of rank 0: a table, or JSON; and the progress on a terminal. */
#include "output.h"
#include "perf.h"
#include "util/host.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rate {
    double messages_per_s, bytes_per_s;
};

/* The CPUs of a process's workers. */
struct cpus {
    uint64_t host;
    int32_t first[PERF_MAX_THREADS], last[PERF_MAX_THREADS];
};

enum {
    OCTAVE = 8,    /* number of buckets per factor of two */
    BUCKETS = 400, /* from a nanosecond to days */
    MOST_KEPT = 1 << 25,
    MOST_COMPARED = 2048, /* maximum number of workers that are compared pairwise */
};

/* A row, at rank 0. Of more than MOST_KEPT samples a random selection is kept. */
static struct {
    float *samples;
    uint64_t kept, room, seen;
    double sum;
    float min, max;
    uint64_t buckets[BUCKETS];
    uint64_t windows; /* of a sample of a window operation */
    char shared[160]; /* processes that shared a CPU; empty: none */
} tally;

static bool progress_shown, sharing_said;

static void clear_progress(void)
{
    if (progress_shown)
        fprintf(stderr, "\r\033[K");
    progress_shown = false;
}

/* A measurement whose figures cannot be written is not continued. */
static void flush_output(void)
{
    int error = tool_output_flush();

    if (error)
        party_fail(1, "cannot write to standard output: %s", strerror(error));
}

static json_t *facts_of_job(void)
{
    uint64_t buffers = perf_options.buffers ? perf_options.buffers : perf_options.window;
    json_t *tnis = json_array();

    for (uint64_t i = 0; i < perf_options.num_tnis; i++)
        json_array_append_new(tnis, json_integer((json_int_t)perf_options.tnis[i]));
    return json_pack("{ss ss sI sI so ss sI sI sI sb}", "tool", PERF_NAME, "version", UT_VERSION,
                     "processes", (json_int_t)party.size, "threads",
                     (json_int_t)perf_options.threads, "tnis", tnis, "launcher", party.launcher,
                     "window", (json_int_t)perf_options.window, "buffers", (json_int_t)buffers,
                     "blocks", (json_int_t)perf_options.blocks, "verified",
                     (int)perf_options.verify);
}

void perf_report_begin(void)
{
    if (party.rank != 0)
        return;
    if (perf_options.json) {
        perf_json_begin(facts_of_job());
        return;
    }
    printf("# %s %s: %u processes (%s), %u thread%s each, %u TNI%s, window %u\n", PERF_NAME,
           UT_VERSION, party.size, party.launcher, (unsigned int)perf_options.threads,
           perf_options.threads == 1 ? "" : "s", (unsigned int)perf_options.num_tnis,
           perf_options.num_tnis == 1 ? "" : "s", (unsigned int)perf_options.window);
    if (perf_options.buffers)
        printf("# windows go over %u buffer%s, again and again\n",
               (unsigned int)perf_options.buffers, perf_options.buffers == 1 ? "" : "s");
    if (perf_options.verify)
        printf("# data are written and compared in between: times are longer than without\n");
    printf("# microseconds for each operation; MB are 10^6 bytes\n");
    printf("# %-14s %9s %9s %9s %9s %9s %9s %10s %9s\n", "operation", "bytes", "min", "p50", "p95",
           "p99", "mean", "MB/s", "Mop/s");
    flush_output();
}

static size_t bucket_of(double us)
{
    double ns = us * 1000;
    size_t bucket = ns < 1 ? 0 : (size_t)(log2(ns) * OCTAVE) + 1;

    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static double bucket_begin(size_t bucket)
{
    return bucket == 0 ? 0 : exp2((double)(bucket - 1) / OCTAVE) / 1000;
}

/* xorshift: the random index of a sample to replace. */
static uint64_t any_below(uint64_t n)
{
    static uint64_t state = 88172645463325252ull;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % n;
}

static void add_sample(float us)
{
    uint64_t place = tally.kept;

    if (tally.seen == 0 || us < tally.min)
        tally.min = us;
    if (tally.seen == 0 || us > tally.max)
        tally.max = us;
    tally.seen++;
    tally.sum += (double)us;
    tally.buckets[bucket_of((double)us)]++;
    if (tally.kept == MOST_KEPT && (place = any_below(tally.seen)) >= MOST_KEPT)
        return;
    if (tally.kept == tally.room) {
        tally.room = tally.room ? 2 * tally.room : 4096;
        tally.samples = realloc(tally.samples, tally.room * sizeof(*tally.samples));
        if (!tally.samples)
            party_fail(1, "no memory for %llu samples", (unsigned long long)tally.room);
    }
    tally.samples[place] = us;
    if (place == tally.kept)
        tally.kept++;
}

/* Collects the samples of all workers of all processes at rank 0. */
static void collect(const struct perf_worker *workers, unsigned int num_workers)
{
    enum { CHUNK = PARTY_RECORD_MAX / sizeof(float) };
    static float chunk[CHUNK];
    uint64_t mine = 0, most = 0, *counts = calloc(party.size, sizeof(*counts));
    float *chunks = party.rank == 0 ? malloc(party.size * sizeof(chunk)) : NULL;

    for (unsigned int t = 0; t < num_workers; t++)
        mine += workers[t].num_samples;
    float *own = malloc((mine + 1) * sizeof(*own));
    if (!own || !counts || (party.rank == 0 && !chunks))
        party_fail(1, "no memory for samples");
    mine = 0;
    for (unsigned int t = 0; t < num_workers; t++) {
        memcpy(own + mine, workers[t].samples, workers[t].num_samples * sizeof(*own));
        mine += workers[t].num_samples;
    }
    party_gather(&mine, sizeof(mine), counts, false);
    for (uint32_t r = 0; r < party.size; r++)
        most = counts[r] > most ? counts[r] : most;
    for (uint64_t from = 0; from < most; from += CHUNK) {
        size_t n = most - from < CHUNK ? (size_t)(most - from) : CHUNK;
        if (from < mine)
            memcpy(chunk, own + from, (mine - from < n ? mine - from : n) * sizeof(*own));
        party_gather(chunk, n * sizeof(*own), chunks, true);
        for (uint32_t r = 0; r < party.size && party.rank == 0; r++) {
            uint64_t left = counts[r] > from ? counts[r] - from : 0;
            for (uint64_t i = 0; i < left && i < n; i++)
                add_sample(chunks[r * n + i]);
        }
    }
    free(own);
    free(counts);
    free(chunks);
}

/* A number that is equal for the processes of one kernel. */
static uint32_t host(void)
{
    struct ut_host here;

    (void)ut_host_read(&here); /* without the boot id all processes seem to be on one host */
    return here.boot;
}

static int32_t common_cpu(const struct cpus *a, unsigned int i, const struct cpus *b,
                          unsigned int j)
{
    if (a->host != b->host || a->first[i] < 0 || b->first[j] < 0)
        return -1;
    if (a->first[i] == b->first[j])
        return a->first[i];
    return a->last[i] == b->last[j] ? a->last[i] : -1;
}

/* Finds two workers that shared a CPU at the beginning or the end of a round. */
static void look_for_sharing(const struct perf_worker *workers, unsigned int num_workers)
{
    static struct cpus mine;
    struct cpus *all = malloc(party.size * sizeof(*all));
    unsigned int n = num_workers;

    if (!all)
        party_fail(1, "no memory");
    mine.host = host();
    for (unsigned int t = 0; t < n; t++) {
        mine.first[t] = workers[t].first_cpu;
        mine.last[t] = workers[t].last_cpu;
    }
    party_gather(&mine, sizeof(mine), all, true);
    uint32_t many = party.rank == 0 ? party.size * n : 0;
    for (uint32_t a = 0; a < many && a < MOST_COMPARED && !*tally.shared; a++)
        for (uint32_t b = 0; b < a && !*tally.shared; b++) {
            uint32_t x = b / n, y = a / n;
            int32_t cpu = common_cpu(&all[x], b % n, &all[y], a % n);
            if (cpu >= 0 && x == y)
                snprintf(tally.shared, sizeof(tally.shared),
                         "two threads of rank %u were on CPU %d", x, cpu);
            else if (cpu >= 0)
                snprintf(tally.shared, sizeof(tally.shared), "ranks %u and %u were on CPU %d", x, y,
                         cpu);
        }
    free(all);
}

static json_t *list_buckets(void)
{
    json_t *all = json_array();

    for (size_t b = 0; b < BUCKETS; b++)
        if (tally.buckets[b] > 0)
            json_array_append_new(all, json_pack("{so so sI}", "from_us",
                                                 perf_json_real(bucket_begin(b), 6), "to_us",
                                                 perf_json_real(bucket_begin(b + 1), 6), "count",
                                                 (json_int_t)tally.buckets[b]));
    return all;
}

/* For the table: two rows per factor of two. */
static void draw_histogram(double p50, double p90, double p99, double p999)
{
    enum { STEP = OCTAVE / 2, WIDTH = 40 };
    uint64_t largest = 1, count[BUCKETS / STEP] = {0};

    for (size_t b = 1; b < BUCKETS; b++)
        count[(b - 1) / STEP] += tally.buckets[b];
    count[0] += tally.buckets[0];
    for (size_t c = 0; c < BUCKETS / STEP; c++)
        largest = count[c] > largest ? count[c] : largest;
    printf("#   p50 %.3f, p90 %.3f, p99 %.3f, p99.9 %.3f, max %.3f us\n", p50, p90, p99, p999,
           (double)tally.max);
    for (size_t c = 0; c < BUCKETS / STEP; c++) {
        if (count[c] == 0)
            continue;
        printf("# %10.3f us %10llu %7.3f%% ", c ? bucket_begin(c * STEP + 1) : 0.0,
               (unsigned long long)count[c], 100.0 * (double)count[c] / (double)tally.seen);
        for (uint64_t i = 0; i < (count[c] * WIDTH + largest - 1) / largest; i++)
            putchar('*');
        putchar('\n');
    }
}

/* p: the percentiles 50, 90, 95, 99 and 99.9. */
static void write_row(const struct perf_run *run, const struct rate *sum, const double p[5],
                      double mean)
{
    const struct {
        const char *name;
        double value;
        int digits;
    } numbers[] = {
        {"min_us", (double)tally.min, 4},
        {"p50_us", p[0], 4},
        {"p95_us", p[2], 4},
        {"p99_us", p[3], 4},
        {"mean_us", mean, 4},
        {"mb_per_s", sum->bytes_per_s * 1e-6, 3},
        {"ops_per_s", sum->messages_per_s, 1},
        {"p90_us", p[1], 4},
        {"p999_us", p[4], 4},
        {"max_us", (double)tally.max, 4},
    };
    json_t *row =
        json_pack("{ss sI sI sI}", "operation", run->op->name, "bytes", (json_int_t)run->size,
                  "iterations", (json_int_t)run->counted, "samples", (json_int_t)tally.seen);

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        json_object_set_new(row, numbers[i].name,
                            perf_json_real(numbers[i].value, numbers[i].digits));
    json_object_set_new(row, "shared_cpu", json_boolean(*tally.shared != '\0'));
    if (run->op->windowed && run->op->check != PERF_STRIDE)
        json_object_set_new(row, "window", json_integer((json_int_t)run->window));
    if (tally.windows > 0)
        json_object_set_new(row, "windows_per_sample", json_integer((json_int_t)tally.windows));
    if (perf_options.histogram)
        json_object_set_new(row, "histogram", list_buckets());
    perf_json_row(row);
}

static void print_row(const struct perf_run *run, const struct rate *sum)
{
    double mean = tally.sum / (double)tally.seen, part[] = {0.5, 0.9, 0.95, 0.99, 0.999}, p[5];

    qsort(tally.samples, tally.kept, sizeof(*tally.samples), bench_compare);
    for (int i = 0; i < 5; i++)
        p[i] = bench_percentile(tally.samples, tally.kept, part[i]);
    clear_progress();
    if (!perf_options.json) {
        printf("%-16s %9zu %9.3f %9.3f %9.3f %9.3f %9.3f %10.1f %9.4f\n", run->op->name, run->size,
               (double)tally.min, p[0], p[2], p[3], mean, sum->bytes_per_s * 1e-6,
               sum->messages_per_s * 1e-6);
        if (perf_options.histogram)
            draw_histogram(p[0], p[1], p[3], p[4]);
        if (*tally.shared && !sharing_said)
            printf(
                "# %s: the times include waiting for the CPU;\n"
                "# give each one of its own: utofurun --bind core, mpirun --bind-to core, --cpus\n",
                tally.shared);
        sharing_said |= *tally.shared != '\0';
        return;
    }
    write_row(run, sum, p, mean);
}

void perf_report_start(struct perf_worker *workers, unsigned int num_workers)
{
    free(tally.samples);
    memset(&tally, 0, sizeof(tally));
    for (unsigned int t = 0; t < num_workers; t++) {
        memset(&workers[t].total, 0, sizeof(workers[t].total));
        workers[t].windows = 0;
    }
}

void perf_report_round(struct perf_worker *workers, unsigned int num_workers)
{
    for (unsigned int t = 0; t < num_workers; t++) {
        struct perf_worker *w = &workers[t];
        if (w->num_samples == 0)
            continue;
        w->total.seconds += w->seconds;
        w->total.messages += w->messages;
        w->total.bytes += w->bytes;
    }
    collect(workers, num_workers);
    look_for_sharing(workers, num_workers);
}

void perf_report_row(const struct perf_run *run, const struct perf_worker *workers,
                     unsigned int num_workers)
{
    struct rate mine = {0}, sum = {0}, *rates = calloc(party.size, sizeof(*rates));

    if (!rates)
        party_fail(1, "no memory");
    for (unsigned int t = 0; t < num_workers; t++) {
        const struct perf_worker *w = &workers[t];
        if (w->total.seconds > 0) {
            mine.messages_per_s += (double)w->total.messages / w->total.seconds;
            mine.bytes_per_s += (double)w->total.bytes / w->total.seconds;
        }
    }
    party_gather(&mine, sizeof(mine), rates, true);
    for (uint32_t r = 0; r < party.size && party.rank == 0; r++) {
        sum.messages_per_s += rates[r].messages_per_s;
        sum.bytes_per_s += rates[r].bytes_per_s;
    }
    tally.windows = workers[0].windows;
    if (party.rank == 0)
        print_row(run, &sum);
    flush_output();
    free(rates);
}

void perf_report_progress(const struct perf_run *run, unsigned int row, unsigned int rows)
{
    if (party.rank != 0 || perf_options.no_progress || !isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r\033[K[%u/%u] %s, %zu bytes, ", row, rows, run->op->name, run->size);
    if (perf_row_us() > 0)
        fprintf(stderr, "%g s", perf_row_us() * 1e-6);
    else
        fprintf(stderr, "%llu iterations", (unsigned long long)run->iterations);
    fflush(stderr);
    progress_shown = true;
}

void perf_report_end(void)
{
    clear_progress();
    if (party.rank == 0 && perf_options.json)
        perf_json_end();
    flush_output();
}
