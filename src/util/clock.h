/* SPDX-License-Identifier: Apache-2.0 */
/* The monotonic clock: either cheap with a resolution of a few milliseconds, or exact. */
#ifndef UT_UTIL_CLOCK_H
#define UT_UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Cheap, with a resolution of a few milliseconds. */
static inline uint64_t ut_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Exact. */
uint64_t ut_clock_ns(void);

/* CLOCK_REALTIME minus CLOCK_MONOTONIC. */
int64_t ut_clock_time_of_day_offset(void);

/* The time `ms` milliseconds from now on this clock, for functions with an absolute deadline. */
struct timespec ut_clock_after(clockid_t clock, uint64_t ms);

static inline uint64_t ut_clock_us(void)
{
    return ut_clock_ns() / 1000;
}

static inline uint64_t ut_clock_ms(void)
{
    return ut_clock_ns() / 1000000;
}

#endif
