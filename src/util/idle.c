/* SPDX-License-Identifier: Apache-2.0 */
/* Yielding; see idle.h. */
#include "util/idle.h"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/self.h"

enum {
    YIELD_EVERY = 8,   /* empty polls before a yield while no other thread uses the core */
    RAN_MIN_NS = 1500, /* a yield that takes longer than this, and longer than RAN_FACTOR system
                        * calls, */
    RAN_FACTOR = 20,   /* has let another thread run */
    CALLS = 8,         /* number of system calls measured */
    MEASURE_EVERY = 4, /* number of yields between measurements while other threads use the core */
    REAL_TIME_POLLS = 1 << 12, /* after this many empty polls, some 0.5 ms, a real-time thread
                                * sleeps */
    REAL_TIME_EVERY = 1024,    /* number of yields between two checks of the scheduling policy */
    NAP_NS = 50000,
};

static UT_THREAD_LOCAL struct {
    struct ut_idle idle;
    bool counted; /* counted in num_waiting */
    bool is_real_time;
    uint16_t yields; /* yields since the last check of the policy */
} own = {.idle.spin_limit = UT_MAX_SPIN_LIMIT};
static struct {
    uint32_t num_processes, num_cpus;
    uint32_t num_waiting;  /* atomic: number of threads that wait */
    uint64_t yield_min_ns; /* atomic: a yield that takes longer has let another thread run; 0: not
                            * measured yet. All threads compute about the same value */
} load;

static uint64_t limit_ns(void)
{
    uint64_t ns = __atomic_load_n(&load.yield_min_ns, __ATOMIC_RELAXED), shortest = UINT64_MAX;

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
    __atomic_store_n(&load.yield_min_ns, ns, __ATOMIC_RELAXED);
    return ns;
}

static uint32_t cpus_of(pid_t pid)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    return sched_getaffinity(pid, sizeof(set), &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 0;
}

/* If a launcher binds each process to CPUs of its own, counts the CPUs of all processes. */
void ut_idle_set_processes(unsigned int num)
{
    uint32_t mine = cpus_of(0), parents = cpus_of(getppid());

    load.num_cpus = mine > parents ? mine : parents;
    load.num_processes = num;
}

/* Assumes that each process has as many waiting threads as this one. */
static bool cpus_are_oversubscribed(void)
{
    if (!own.counted)
        __atomic_add_fetch(&load.num_waiting, 1, __ATOMIC_RELAXED);
    own.counted = true;
    return load.num_processes == 0 ||
           load.num_processes * __atomic_load_n(&load.num_waiting, __ATOMIC_RELAXED) >
               load.num_cpus;
}

enum ut_idle_step ut_idle_next(struct ut_idle *idle, uint32_t polls)
{
    if (polls < idle->spin_limit ||
        (idle->spin_limit >= UT_MAX_SPIN_LIMIT && polls % YIELD_EVERY != 0))
        return UT_IDLE_SPIN;
    return idle->spin_limit == UT_MIN_SPIN_LIMIT && ++idle->yields % MEASURE_EVERY != 0
               ? UT_IDLE_YIELD
               : UT_IDLE_MEASURE;
}

void ut_idle_learn(struct ut_idle *idle, uint64_t ns, uint64_t alone_ns, bool oversubscribed)
{
    uint32_t limit = idle->spin_limit;
    bool lately = idle->foreign_yields > 0 && !oversubscribed;

    if (lately)
        idle->foreign_yields--;
    if (ns > UT_SLICE_NS && ns > alone_ns && !oversubscribed) {
        limit = limit < UT_MAX_SPIN_LIMIT ? UT_MAX_SPIN_LIMIT : limit * 2;
        idle->foreign_yields = UT_FOREIGN_YIELDS;
    } else if (ns > alone_ns) {
        limit = lately ? limit : UT_MIN_SPIN_LIMIT;
    } else if (limit < UT_MAX_SPIN_LIMIT) {
        limit *= 2;
    } else {
        limit = lately && limit > 2 * UT_MAX_SPIN_LIMIT ? limit / 2 : UT_MAX_SPIN_LIMIT;
    }
    idle->spin_limit = limit < UT_FOREIGN_SPIN_LIMIT ? limit : UT_FOREIGN_SPIN_LIMIT;
}

static bool is_real_time(void)
{
    if (own.yields++ % REAL_TIME_EVERY == 0) {
        int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
        own.is_real_time = policy == SCHED_FIFO || policy == SCHED_RR;
    }
    return own.is_real_time;
}

/* Sleeps if this is a real-time thread: its yield lets no thread of a lower priority run, and the
 * awaited thread may be one. */
static bool slept_for_others(uint32_t polls)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};

    if (!is_real_time() || polls < REAL_TIME_POLLS)
        return false;
    clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
    return true;
}

void ut_idle(uint32_t polls)
{
    enum ut_idle_step step = ut_idle_next(&own.idle, polls);

    if (step == UT_IDLE_SPIN || slept_for_others(polls))
        return;
    uint64_t alone = step == UT_IDLE_MEASURE ? limit_ns() : 0;
    uint64_t begin = step == UT_IDLE_MEASURE ? ut_clock_ns() : 0;
    sched_yield();
    if (step == UT_IDLE_MEASURE)
        ut_idle_learn(&own.idle, ut_clock_ns() - begin, alone, cpus_are_oversubscribed());
}
