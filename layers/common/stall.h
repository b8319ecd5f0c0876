/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing waits for long without saying for what. Who waits in a loop asks in each turn whether it
 * is time to say so: the first time after three seconds, then each time that the wait has become
 * twice as long. It begins as {0}. The clock is read in few turns, but in each of a loop that has
 * become so slow that it sleeps; so a short wait costs a count.
 */
#ifndef LC_STALL_H
#define LC_STALL_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum {
    LC_STALL_FIRST_MS = 3000,
    LC_STALL_CLOCK_PERIOD = 128,   /* for each look at the clock, a power of 2 */
    LC_STALL_SLEEPING_LOOP = 8192, /* turns without result, from which on a loop may sleep */
};

struct lc_stall_timer {
    uint64_t since_ns, next_ns, now_ns;
    uint32_t iterations;
};

static inline bool lc_stall_timer_expired(struct lc_stall_timer *p)
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

/* idle: the turns of the loop since something has happened. */
static inline bool lc_stall_report_due(struct lc_stall_timer *p, uint32_t idle)
{
    return (++p->iterations % LC_STALL_CLOCK_PERIOD == 0 || idle >= LC_STALL_SLEEPING_LOOP) &&
           lc_stall_timer_expired(p);
}

/* Seconds that the wait had taken at the last look. */
static inline unsigned long long lc_stall_seconds(const struct lc_stall_timer *p)
{
    return (p->now_ns - p->since_ns) / 1000000000;
}

#endif
