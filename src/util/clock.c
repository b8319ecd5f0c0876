/* SPDX-License-Identifier: Apache-2.0 */
/* The exact clock. Tests replace this function. */
#include "clock.h"

uint64_t ut_clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

struct timespec ut_clock_after(clockid_t clock, uint64_t ms)
{
    struct timespec t;

    clock_gettime(clock, &t);
    t.tv_sec += (time_t)(ms / 1000);
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}
