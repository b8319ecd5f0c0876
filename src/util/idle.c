/* SPDX-License-Identifier: Apache-2.0 */
/* Yielding; see idle.h. */
#include "util/idle.h"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    YIELD_EVERY = 8,        /* so many polls, as long as nobody else wants the core */
    SOMEBODY_RAN_NS = 1500, /* a yield that took longer than it does alone; at least, and */
    SOMEBODY_RAN = 20,      /* so many times the shortest system call: emulated CPUs are slow */
    CALLS = 8,              /* to find out how long that takes */
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

static uint64_t limit_ns(void)
{
    static uint64_t limit; /* atomic; all threads find out the same */
    uint64_t ns = __atomic_load_n(&limit, __ATOMIC_RELAXED), shortest = UINT64_MAX;

    if (ns)
        return ns;
    for (int i = 0; i < CALLS; i++) {
        uint64_t begin = now_ns();
        syscall(SYS_getppid);
        ns = now_ns() - begin;
        if (ns < shortest)
            shortest = ns;
    }
    ns = shortest * SOMEBODY_RAN > SOMEBODY_RAN_NS ? shortest * SOMEBODY_RAN : SOMEBODY_RAN_NS;
    __atomic_store_n(&limit, ns, __ATOMIC_RELAXED);
    return ns;
}

void ut_idle(uint32_t polls)
{
    if (polls < patience || (patience == UT_MOST_PATIENCE && polls % YIELD_EVERY != 0))
        return;
    if (patience == UT_LEAST_PATIENCE && ++yields % LOOK_EVERY != 0) {
        sched_yield();
        return;
    }
    uint64_t limit = limit_ns(), begin = now_ns();
    sched_yield();
    if (now_ns() - begin > limit)
        patience = UT_LEAST_PATIENCE;
    else if (patience < UT_MOST_PATIENCE)
        patience *= 2;
}
