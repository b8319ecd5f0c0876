/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the comparison programs: the clock, percentiles, and one line per result in the columns
 * of utofu-perf: operation bytes min p50 p95 p99 mean MB/s Mop/s.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double bench_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static inline int bench_compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static inline double bench_percentile(const float *sorted, size_t n, double part)
{
    size_t i = (size_t)ceil(part * (double)n);

    return (double)sorted[i ? i - 1 : 0];
}

/* Samples in microseconds; `us`: total time of `messages` of `size` bytes. */
static inline void bench_print(const char *operation, size_t size, float *samples, size_t n,
                               double messages, double us)
{
    double mean = 0;

    qsort(samples, n, sizeof(*samples), bench_compare);
    for (size_t i = 0; i < n; i++)
        mean += (double)samples[i];
    printf("%-16s %9zu %9.3f %9.3f %9.3f %9.3f %9.3f %10.1f %9.4f\n", operation, size,
           (double)samples[0], bench_percentile(samples, n, 0.5),
           bench_percentile(samples, n, 0.95), bench_percentile(samples, n, 0.99), mean / (double)n,
           messages * (double)size / us, messages / us);
    fflush(stdout);
}

static inline long bench_number(const char *program, const char *text, long min, long max)
{
    char *end;
    long n = strtol(text, &end, 10);

    if (*text == '\0' || *end || n < min || n > max) {
        fprintf(stderr, "%s: '%s' is not a number from %ld to %ld\n", program, text, min, max);
        exit(2);
    }
    return n;
}

#endif
