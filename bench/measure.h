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
#include <string.h>
#include <time.h>

/*
 * The clock. On x86-64 it is the CPU's time stamp counter, where the kernel itself keeps time by
 * it: ucx_perftest reads it, too (ucs_arch_read_hres_clock() in UCX's src/ucs/arch/x86_64/cpu.h),
 * in a third of the time of clock_gettime(), which is longer than a put of 8 bytes.
 */
struct bench_counter {
    double us; /* of one count; 0: not known yet; less than 0: there is no such counter */
    uint64_t first;
};
/* one object, however many files of a program include this */
__attribute__((weak)) struct bench_counter bench_counter;

static inline double bench_system_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static inline uint64_t bench_count(void)
{
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

static inline int bench_keeps_time_by_counter(void)
{
    char name[16] = "";
    FILE *f = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");

    if (f) {
        if (!fgets(name, sizeof(name), f))
            name[0] = '\0';
        fclose(f);
    }
    return strcmp(name, "tsc\n") == 0 && bench_count() != 0;
}

/* How long a count takes, found in 20 ms; of several tries the one that was not interrupted between
 * the two clocks. A program calls it once, before it has threads. */
static inline void bench_find_counter(void)
{
    enum { PERIOD_US = 20000, TRIES = 8 };
    double at[2] = {0, 0};
    uint64_t count[2] = {0, 0};

    bench_counter.us = -1;
    if (!bench_keeps_time_by_counter())
        return;
    for (int i = 0; i < 2; i++) {
        uint64_t least = UINT64_MAX;
        for (int t = 0; t < TRIES; t++) {
            uint64_t before = bench_count();
            double now = bench_system_now();
            uint64_t took = bench_count() - before;
            if (took < least) {
                least = took;
                at[i] = now;
                count[i] = before + took / 2;
            }
        }
        while (i == 0 && bench_system_now() - at[0] < PERIOD_US)
            ;
    }
    if (count[1] <= count[0])
        return;
    bench_counter.first = count[0];
    bench_counter.us = (at[1] - at[0]) / (double)(count[1] - count[0]);
}

/* In microseconds; only differences have a meaning. */
static inline double bench_now(void)
{
    if (__builtin_expect(bench_counter.us == 0, 0))
        bench_find_counter();
    if (__builtin_expect(bench_counter.us < 0, 0))
        return bench_system_now();
    return (double)(int64_t)(bench_count() - bench_counter.first) * bench_counter.us;
}

/*
 * A window of 64 puts of 8 bytes takes some microseconds, and there are clocks that tick every
 * 10 ns: a sample of a window operation is as many windows as take a thousand such ticks.
 */
enum {
    BENCH_SAMPLE_US = 10,
    BENCH_MAX_WINDOWS = 4096,      /* of a sample */
    BENCH_LONG_WINDOW = 1024 << 10 /* bytes that take a sample's time anyway */
};

/* The number of windows of a sample, by the fastest of some trials; the first call of once(), which
 * may connect, is not timed. */
static inline uint64_t bench_count_windows(void (*once)(void *arg), void *arg, size_t bytes)
{
    enum { TRIALS = 3 };
    uint64_t n = 1;

    if (bytes >= BENCH_LONG_WINDOW)
        return 1;
    once(arg);
    for (; n < BENCH_MAX_WINDOWS; n *= 2) {
        double fastest = BENCH_SAMPLE_US;
        for (int t = 0; t < TRIALS; t++) {
            double begin = bench_now();
            for (uint64_t i = 0; i < n; i++)
                once(arg);
            double took = bench_now() - begin;
            fastest = took < fastest ? took : fastest;
        }
        if (fastest >= BENCH_SAMPLE_US)
            break;
    }
    return n;
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

static inline int bench_compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts the times; the one behind a part of them. */
static inline double bench_quantile(double *times, int n, double part)
{
    qsort(times, (size_t)n, sizeof(*times), bench_compare_doubles);
    return times[(int)(part * n)];
}

/* Ends the program unless the return code is 0. */
static inline void bench_check(int rc, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "%s: error %d\n", what, rc);
    exit(1);
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
