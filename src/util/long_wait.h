/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines for long waits. A waiting function asks here whether to log: first after
 * UT_LONG_WAIT_MS, then each time that the wait has become twice as long.
 */
#ifndef UT_UTIL_LONG_WAIT_H
#define UT_UTIL_LONG_WAIT_H

#include <stdbool.h>
#include <stdint.h>

enum { UT_LONG_WAIT_MS = 3000 };

struct ut_long_wait {
    uint64_t since_ms, next_ms; /* of any monotonic clock in milliseconds */
};

static inline struct ut_long_wait ut_long_wait_begin(uint64_t now_ms)
{
    return (struct ut_long_wait){.since_ms = now_ms, .next_ms = now_ms + UT_LONG_WAIT_MS};
}

static inline bool ut_long_wait_must_log(struct ut_long_wait *p, uint64_t now_ms)
{
    if (now_ms < p->next_ms)
        return false;
    p->next_ms = now_ms + (now_ms - p->since_ms);
    return true;
}

/* Seconds since the wait began. */
static inline unsigned long long ut_long_wait_seconds(const struct ut_long_wait *p, uint64_t now_ms)
{
    return (now_ms - p->since_ms) / 1000;
}

/* Milliseconds until the next log line is due, at most `ms`. For functions with a timeout. */
static inline int ut_long_wait_timeout_ms(const struct ut_long_wait *p, uint64_t now_ms, int ms)
{
    uint64_t left = p->next_ms > now_ms ? p->next_ms - now_ms : 0;

    return ms < 0 || left < (uint64_t)ms ? (int)left : ms;
}

#endif
