/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every long wait logs what it waits for. A loop that waits calls lc_stall_should_log() in each
 * iteration: it returns true after three seconds, and again each time that the duration has
 * doubled. The timer begins as {0}. Few iterations read the clock; those of a loop that sleeps all
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
    uint64_t start_ns, next_log_ns, now_ns; /* now: the last clock reading */
    uint32_t iterations;
};

/* Reads the clock. True if a log line is due. */
static inline bool lc_stall_read_clock(struct lc_stall_timer *timer)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    timer->now_ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
    if (timer->start_ns == 0) {
        timer->start_ns = timer->now_ns;
        timer->next_log_ns = timer->now_ns + LC_STALL_FIRST_MS * 1000000ull;
    }
    if (timer->now_ns < timer->next_log_ns)
        return false;
    timer->next_log_ns = timer->now_ns + (timer->now_ns - timer->start_ns);
    return true;
}

/* idle: number of iterations since something happened; LC_STALL_SLEEPING_LOOP: the loop sleeps. */
static inline bool lc_stall_should_log(struct lc_stall_timer *timer, uint32_t idle)
{
    return (++timer->iterations % LC_STALL_CLOCK_PERIOD == 0 || idle >= LC_STALL_SLEEPING_LOOP) &&
           lc_stall_read_clock(timer);
}

/* Duration of the wait at the last clock reading. */
static inline unsigned long long lc_stall_seconds(const struct lc_stall_timer *timer)
{
    return (timer->now_ns - timer->start_ns) / 1000000000;
}

#endif
