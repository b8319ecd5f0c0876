/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A monotonic clock that the test moves, for programs of one process: nothing waits for a time
 * limit, and no load of the machine reaches one. The clock moves by fake_clock_pass_ms(), and by a
 * microsecond when it is read, so that no loop waits for a deadline for ever. It replaces the C
 * library's function in the including program and in the libraries that it uses; sleeps and
 * timeouts of system calls take real time. To be included once. A program that waits for ever ends
 * by limit.h.
 */
#ifndef UT_TEST_FAKE_CLOCK_H
#define UT_TEST_FAKE_CLOCK_H

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "limit.h"

enum { FAKE_CLOCK_START_S = 1000, FAKE_CLOCK_TICK_NS = 1000 };

static uint64_t fake_clock_ns = FAKE_CLOCK_START_S * UINT64_C(1000000000);

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *t)
{
    if (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, t);
    uint64_t ns = __atomic_add_fetch(&fake_clock_ns, FAKE_CLOCK_TICK_NS, __ATOMIC_RELAXED);

    t->tv_sec = (time_t)(ns / 1000000000);
    t->tv_nsec = (long)(ns % 1000000000);
    return 0;
}

static inline uint64_t fake_clock_ms(void)
{
    return __atomic_load_n(&fake_clock_ns, __ATOMIC_RELAXED) / 1000000;
}

static inline void fake_clock_pass_ms(uint64_t ms)
{
    __atomic_add_fetch(&fake_clock_ns, ms * 1000000, __ATOMIC_RELAXED);
}

/* Moves the clock to the next whole millisecond, so that the microseconds of its readers do not end
 * the millisecond that a test looks at. */
static inline void fake_clock_align(void)
{
    uint64_t ns = __atomic_load_n(&fake_clock_ns, __ATOMIC_RELAXED);

    __atomic_store_n(&fake_clock_ns, (ns / 1000000 + 1) * 1000000, __ATOMIC_RELAXED);
}

#endif
