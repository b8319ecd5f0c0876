/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing waits for long without saying for what. Who waits in a loop asks in each turn whether it
 * is time to say so: the first time after three seconds, then each time that the wait has become
 * twice as long. It begins as {0}. The clock is read in few turns, but in each of a loop that has
 * become so slow that it sleeps; so a short wait costs a count.
 */
#ifndef LC_PATIENCE_H
#define LC_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum {
    LC_PATIENCE_MS = 3000,
    LC_PATIENCE_TURNS = 128,        /* for each look at the clock, a power of 2 */
    LC_PATIENCE_SLEEPS_FROM = 8192, /* turns without result, from which on a loop may sleep */
};

struct lc_patience {
    uint64_t since_ns, next_ns, now_ns;
    uint32_t turns;
};

static inline bool lc_patience_look(struct lc_patience *p)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    p->now_ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
    if (p->since_ns == 0) {
        p->since_ns = p->now_ns;
        p->next_ns = p->now_ns + LC_PATIENCE_MS * 1000000ull;
    }
    if (p->now_ns < p->next_ns)
        return false;
    p->next_ns = p->now_ns + (p->now_ns - p->since_ns);
    return true;
}

/* idle: the turns of the loop since something has happened. */
static inline bool lc_patience_ends(struct lc_patience *p, uint32_t idle)
{
    return (++p->turns % LC_PATIENCE_TURNS == 0 || idle >= LC_PATIENCE_SLEEPS_FROM) &&
           lc_patience_look(p);
}

/* Seconds that the wait had taken at the last look. */
static inline unsigned long long lc_patience_seconds(const struct lc_patience *p)
{
    return (p->now_ns - p->since_ns) / 1000000000;
}

#endif
