/* SPDX-License-Identifier: Apache-2.0 */
/* Yielding; see idle.h. */
#include "util/clock.h"
#include "util/idle.h"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    YIELD_EVERY = 8,   /* empty polls before a yield while no other thread uses the core */
    RAN_MIN_NS = 1500, /* a longer yield, that is also longer than */
    RAN_FACTOR = 20,   /* this many system calls, has let another thread run */
    CALLS = 8,         /* number of system calls measured */
    MEASURE_EVERY = 4, /* number of yields between measurements while other threads use the core */
};

static __thread uint32_t spin_limit = UT_MOST_SPIN_LIMIT;
static __thread uint32_t yields;

static uint64_t limit_ns(void)
{
    static uint64_t limit; /* atomic: all threads compute about the same */
    uint64_t ns = __atomic_load_n(&limit, __ATOMIC_RELAXED), shortest = UINT64_MAX;

    if (ns)
        return ns;
    for (int i = 0; i < CALLS; i++) {
        uint64_t begin = ut_clock_ns();
        syscall(SYS_getppid);
        ns = ut_clock_ns() - begin;
        if (ns < shortest)
            shortest = ns;
    }
    ns = shortest * RAN_FACTOR > RAN_MIN_NS ? shortest * RAN_FACTOR : RAN_MIN_NS;
    __atomic_store_n(&limit, ns, __ATOMIC_RELAXED);
    return ns;
}

void ut_idle(uint32_t polls)
{
    if (polls < spin_limit || (spin_limit == UT_MOST_SPIN_LIMIT && polls % YIELD_EVERY != 0))
        return;
    if (spin_limit == UT_LEAST_SPIN_LIMIT && ++yields % MEASURE_EVERY != 0) {
        sched_yield();
        return;
    }
    uint64_t limit = limit_ns(), begin = ut_clock_ns();
    sched_yield();
    if (ut_clock_ns() - begin > limit)
        spin_limit = UT_LEAST_SPIN_LIMIT;
    else if (spin_limit < UT_MOST_SPIN_LIMIT)
        spin_limit *= 2;
}
