/* SPDX-License-Identifier: Apache-2.0 */
/* What rank 0 prints: a table for people, or JSON; and how far it has come, on a terminal. */
#include "perf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rate {
    double messages_per_s, bytes_per_s;
    uint64_t num_samples;
};

static unsigned int rows_printed;
static bool progress_shown;

static void clear_progress(void)
{
    if (progress_shown)
        fprintf(stderr, "\r\033[K");
    progress_shown = false;
}

void perf_report_begin(void)
{
    if (party.rank != 0)
        return;
    if (perf_options.json) {
        printf("{\"tool\": \"%s\", \"version\": \"%s\", \"processes\": %u, \"threads\": %u, "
               "\"tnis\": [",
               PERF_NAME, UT_VERSION, party.size, (unsigned int)perf_options.threads);
        for (uint64_t i = 0; i < perf_options.num_tnis; i++)
            printf("%s%u", i ? ", " : "", (unsigned int)perf_options.tnis[i]);
        printf("], \"launcher\": \"%s\", \"window\": %u, \"blocks\": %u, \"results\": [",
               party.launcher, (unsigned int)perf_options.window,
               (unsigned int)perf_options.blocks);
        return;
    }
    printf("# %s %s: %u processes (%s), %u thread%s each, %u TNI%s, window %u\n", PERF_NAME,
           UT_VERSION, party.size, party.launcher, (unsigned int)perf_options.threads,
           perf_options.threads == 1 ? "" : "s", (unsigned int)perf_options.num_tnis,
           perf_options.num_tnis == 1 ? "" : "s", (unsigned int)perf_options.window);
    printf("# microseconds for each operation; MB are 10^6 bytes\n");
    printf("# %-14s %9s %9s %9s %9s %9s %9s %10s %9s\n", "operation", "bytes", "min", "p50", "p95",
           "p99", "mean", "MB/s", "Mop/s");
    fflush(stdout);
}

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* The smallest sample that at least this part of all samples do not exceed. */
static double percentile(const float *sorted, uint64_t n, double part)
{
    uint64_t i = (uint64_t)ceil(part * (double)n);

    return sorted[i ? i - 1 : 0];
}

/* Brings the samples of all workers of all processes to rank 0. */
static float *collect(const struct perf_worker *workers, unsigned int num_workers,
                      const struct rate *rates, uint64_t *total)
{
    enum { CHUNK = PARTY_RECORD_MAX / sizeof(float) };
    static float chunk[CHUNK];
    float *all = NULL, *chunks = NULL;
    uint64_t most = 0, mine = 0;

    *total = 0;
    for (uint32_t r = 0; r < party.size; r++) {
        *total += rates[r].num_samples;
        if (rates[r].num_samples > most)
            most = rates[r].num_samples;
    }
    if (party.rank == 0) {
        all = malloc((*total + 1) * sizeof(*all));
        chunks = malloc(party.size * sizeof(chunk));
        if (!all || !chunks)
            party_fail(1, "no memory for %llu samples", (unsigned long long)*total);
    }
    float *own = malloc((rates[party.rank].num_samples + 1) * sizeof(*own));
    if (!own)
        party_fail(1, "no memory for samples");
    for (unsigned int t = 0; t < num_workers; t++) {
        memcpy(own + mine, workers[t].samples, workers[t].num_samples * sizeof(*own));
        mine += workers[t].num_samples;
    }
    *total = 0;
    for (uint64_t from = 0; from < most; from += CHUNK) {
        size_t n = most - from < CHUNK ? (size_t)(most - from) : CHUNK;
        if (from < mine)
            memcpy(chunk, own + from, (mine - from < n ? mine - from : n) * sizeof(*own));
        party_gather(chunk, n * sizeof(*own), chunks, true);
        for (uint32_t r = 0; r < party.size && party.rank == 0; r++) {
            uint64_t left = rates[r].num_samples > from ? rates[r].num_samples - from : 0;
            uint64_t take = left < n ? left : n;
            memcpy(all + *total, chunks + r * n, take * sizeof(*all));
            *total += take;
        }
    }
    free(own);
    free(chunks);
    return all;
}

static void print_row(const struct perf_run *run, float *samples, uint64_t n,
                      const struct rate *sum)
{
    double mean = 0;

    qsort(samples, n, sizeof(*samples), compare);
    for (uint64_t i = 0; i < n; i++)
        mean += samples[i];
    mean /= (double)n;
    double p50 = percentile(samples, n, 0.5), p95 = percentile(samples, n, 0.95);
    double p99 = percentile(samples, n, 0.99);
    clear_progress();
    if (perf_options.json)
        printf("%s\n  {\"operation\": \"%s\", \"bytes\": %zu, \"samples\": %llu, \"min_us\": %.4f, "
               "\"p50_us\": %.4f, \"p95_us\": %.4f, \"p99_us\": %.4f, \"mean_us\": %.4f, "
               "\"mb_per_s\": %.3f, \"ops_per_s\": %.1f}",
               rows_printed ? "," : "", run->op->name, run->size, (unsigned long long)n,
               (double)samples[0], p50, p95, p99, mean, sum->bytes_per_s * 1e-6,
               sum->messages_per_s);
    else
        printf("%-16s %9zu %9.3f %9.3f %9.3f %9.3f %9.3f %10.1f %9.4f\n", run->op->name, run->size,
               (double)samples[0], p50, p95, p99, mean, sum->bytes_per_s * 1e-6,
               sum->messages_per_s * 1e-6);
    fflush(stdout);
    rows_printed++;
}

void perf_report_row(const struct perf_run *run, const struct perf_worker *workers,
                     unsigned int num_workers)
{
    struct rate mine = {0}, sum = {0}, *rates = calloc(party.size, sizeof(*rates));
    uint64_t n;

    if (!rates)
        party_fail(1, "no memory");
    for (unsigned int t = 0; t < num_workers; t++) {
        const struct perf_worker *w = &workers[t];
        mine.num_samples += w->num_samples;
        if (w->num_samples && w->seconds > 0) {
            mine.messages_per_s += (double)w->messages / w->seconds;
            mine.bytes_per_s += (double)w->bytes / w->seconds;
        }
    }
    party_gather(&mine, sizeof(mine), rates, false);
    float *samples = collect(workers, num_workers, rates, &n);
    for (uint32_t r = 0; r < party.size; r++) {
        sum.messages_per_s += rates[r].messages_per_s;
        sum.bytes_per_s += rates[r].bytes_per_s;
    }
    if (party.rank == 0)
        print_row(run, samples, n, &sum);
    free(samples);
    free(rates);
}

void perf_report_progress(const struct perf_run *run, unsigned int row, unsigned int rows)
{
    if (party.rank != 0 || perf_options.no_progress || !isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r\033[K[%u/%u] %s, %zu bytes, %llu iterations", row, rows, run->op->name,
            run->size, (unsigned long long)run->iterations);
    fflush(stderr);
    progress_shown = true;
}

void perf_report_end(void)
{
    clear_progress();
    if (party.rank == 0 && perf_options.json)
        printf("\n]}\n");
    fflush(stdout);
}
