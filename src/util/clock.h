/* SPDX-License-Identifier: Apache-2.0 */
/* Milliseconds of the monotonic clock; cheap, a few milliseconds coarse. */
#ifndef UT_UTIL_CLOCK_H
#define UT_UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t ut_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

#endif
