/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every long wait logs what it waits for. A loop that waits calls lc_stall_should_log() in each
 * iteration: it returns true after three seconds, and again each time that the duration has
 * doubled. The struct begins as {0}. Few iterations read the clock; those of a loop that sleeps all
 * do, so a short wait costs only a counter.
 */
#ifndef LC_STALL_H
#define LC_STALL_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum {
    LC_STALL_FIRST_MS = 3000,
    LC_STALL_CLOCK_PERIOD = 128,   /* iterations from one clock reading to the next, a power of 2 */
    LC_STALL_SLEEPING_LOOP = 8192, /* idle iterations after which a loop may sleep */
};

struct lc_stall_timer {
    uint64_t since_ns, next_ns, now_ns;
    uint32_t iterations;
};

static inline bool lc_stall_read_clock(struct lc_stall_timer *p)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    p->now_ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
    if (p->since_ns == 0) {
        p->since_ns = p->now_ns;
        p->next_ns = p->now_ns + LC_STALL_FIRST_MS * 1000000ull;
    }
    if (p->now_ns < p->next_ns)
        return false;
    p->next_ns = p->now_ns + (p->now_ns - p->since_ns);
    return true;
}

/* idle: number of iterations since something happened. */
static inline bool lc_stall_should_log(struct lc_stall_timer *p, uint32_t idle)
{
    return (++p->iterations % LC_STALL_CLOCK_PERIOD == 0 || idle >= LC_STALL_SLEEPING_LOOP) &&
           lc_stall_read_clock(p);
}

/* Duration of the wait at the last clock reading. */
static inline unsigned long long lc_stall_seconds(const struct lc_stall_timer *p)
{
    return (p->now_ns - p->since_ns) / 1000000000;
}

#endif
