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

/* Reads the two clocks one after the other, several times: the pair with the shortest interval is
 * the most exact. */
int64_t ut_clock_time_of_day_offset(void)
{
    uint64_t min = UINT64_MAX;
    int64_t offset = 0;

    for (int i = 0; i < 16; i++) {
        struct timespec real;
        uint64_t before = ut_clock_ns();
        clock_gettime(CLOCK_REALTIME, &real);
        uint64_t took = ut_clock_ns() - before;
        if (took >= min)
            continue;
        min = took;
        offset = real.tv_sec * 1000000000ll + real.tv_nsec - (int64_t)(before + took / 2);
    }
    return offset;
}
