/* SPDX-License-Identifier: Apache-2.0 */
/* Yielding; see idle.h. */
#include "util/idle.h"

#include <sched.h>
#include <time.h>

enum {
    YIELD_EVERY = 8,        /* so many polls, as long as nobody else wants the core */
    SOMEBODY_RAN_NS = 1500, /* a yield that took longer than it does alone */
    LOOK_EVERY = 4,         /* yields of a thread that others run beside */
};

static __thread uint32_t patience = UT_MOST_PATIENCE;
static __thread uint32_t yields;

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void ut_idle(uint32_t polls)
{
    if (polls < patience || (patience == UT_MOST_PATIENCE && polls % YIELD_EVERY != 0))
        return;
    if (patience == UT_LEAST_PATIENCE && ++yields % LOOK_EVERY != 0) {
        sched_yield();
        return;
    }
    uint64_t begin = now_ns();
    sched_yield();
    if (now_ns() - begin > SOMEBODY_RAN_NS)
        patience = UT_LEAST_PATIENCE;
    else if (patience < UT_MOST_PATIENCE)
        patience *= 2;
}
