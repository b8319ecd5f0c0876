/* SPDX-License-Identifier: Apache-2.0 */
/* When a thread that waits gives its core away: util/idle.h. Counted, not timed. */
#include "util/idle.h"

#include <criterion/criterion.h>
#include <sched.h>

#include "../harness/fake_clock.h"

TestSuite(idle);

enum { ALONE_NS = 2000, NOBODY_NS = 300, WAITS_NS = 20000, COMPUTES_NS = 4000000 };

/* Waits for `polls` empty polls; each yield takes so long. Returns the number of yields. */
static unsigned int wait_for(struct ut_idle *idle, uint32_t polls, uint64_t ns, bool crowded)
{
    unsigned int yields = 0;

    for (uint32_t i = 1; i <= polls; i++) {
        enum ut_idle_step step = ut_idle_next(idle, i);
        yields += step != UT_IDLE_SPIN;
        if (step == UT_IDLE_MEASURE)
            ut_idle_learn(idle, ns, ALONE_NS, crowded);
    }
    return yields;
}

Test(idle, short_waits_take_no_yield)
{
    struct ut_idle idle = {.spin_limit = UT_MAX_SPIN_LIMIT};

    for (int i = 0; i < 1000; i++)
        cr_assert_eq(wait_for(&idle, UT_MAX_SPIN_LIMIT - 1, COMPUTES_NS, false), 0);
    cr_assert_eq(wait_for(&idle, UT_MAX_SPIN_LIMIT, NOBODY_NS, false), 1);
}

Test(idle, who_waits_on_the_same_core_gets_it_soon)
{
    struct ut_idle idle = {.spin_limit = UT_MAX_SPIN_LIMIT};

    cr_assert_eq(wait_for(&idle, UT_MAX_SPIN_LIMIT, WAITS_NS, false), 1);
    cr_assert_eq(idle.spin_limit, UT_MIN_SPIN_LIMIT);
    cr_assert_eq(wait_for(&idle, 100, WAITS_NS, false), 98);
}

Test(idle, strangers_do_not_get_the_core_of_a_job_that_has_enough)
{
    struct ut_idle idle = {.spin_limit = UT_MIN_SPIN_LIMIT};
    unsigned int yields = 0;

    for (int i = 0; i < 1000; i++)
        yields += wait_for(&idle, 10000, COMPUTES_NS, false);
    cr_assert_leq(yields, 20, "%u yields", yields);
}

Test(idle, a_job_without_enough_goes_on_to_yield)
{
    struct ut_idle idle = {.spin_limit = UT_MAX_SPIN_LIMIT};

    wait_for(&idle, UT_MAX_SPIN_LIMIT, COMPUTES_NS, true);
    cr_assert_eq(wait_for(&idle, 1000, COMPUTES_NS, true), 998);
}

Test(idle, a_core_that_is_free_again_is_noticed)
{
    struct ut_idle idle = {.spin_limit = UT_MAX_SPIN_LIMIT};

    while (idle.spin_limit < UT_FOREIGN_SPIN_LIMIT)
        wait_for(&idle, idle.spin_limit, COMPUTES_NS, false);
    for (uint32_t limit = UT_FOREIGN_SPIN_LIMIT; limit > UT_MAX_SPIN_LIMIT; limit /= 2)
        cr_assert_eq(wait_for(&idle, limit, NOBODY_NS, false), 1);
    cr_assert_eq(idle.spin_limit, UT_MAX_SPIN_LIMIT);
    while (idle.spin_limit < UT_FOREIGN_SPIN_LIMIT)
        wait_for(&idle, idle.spin_limit, COMPUTES_NS, false);
    for (int i = 0; i < UT_FOREIGN_YIELDS; i++)
        wait_for(&idle, idle.spin_limit, NOBODY_NS, false);
    cr_assert_geq(wait_for(&idle, UT_MAX_SPIN_LIMIT + 100, WAITS_NS, false), 90);
}

/* Compilers beside the job, say: most of the other programs' turns are short, some are not. */
Test(idle, strangers_with_short_turns_do_not_get_the_core)
{
    struct ut_idle idle = {.spin_limit = UT_MAX_SPIN_LIMIT};

    wait_for(&idle, UT_MAX_SPIN_LIMIT, COMPUTES_NS, false);
    uint32_t limit = idle.spin_limit;
    for (int i = 1; i < UT_FOREIGN_YIELDS; i++) {
        cr_assert_eq(wait_for(&idle, limit, WAITS_NS, false), 1);
        cr_assert_eq(idle.spin_limit, limit);
    }
    cr_assert_eq(wait_for(&idle, limit, COMPUTES_NS, false), 1);
    cr_assert_eq(wait_for(&idle, limit, WAITS_NS, false), 0);
}

Test(idle, short_turns_count_again_when_strangers_are_gone)
{
    struct ut_idle idle = {.spin_limit = UT_MAX_SPIN_LIMIT};

    wait_for(&idle, UT_MAX_SPIN_LIMIT, COMPUTES_NS, false);
    for (int i = 0; i < UT_FOREIGN_YIELDS; i++)
        wait_for(&idle, idle.spin_limit, WAITS_NS, false);
    wait_for(&idle, idle.spin_limit, WAITS_NS, false);
    cr_assert_eq(idle.spin_limit, UT_MIN_SPIN_LIMIT);
}

/* The awaited process may be one of those that have short turns. */
Test(idle, short_turns_count_in_a_job_without_enough)
{
    struct ut_idle idle = {.spin_limit = UT_MAX_SPIN_LIMIT};

    wait_for(&idle, UT_MAX_SPIN_LIMIT, COMPUTES_NS, false);
    wait_for(&idle, idle.spin_limit, WAITS_NS, true);
    cr_assert_eq(idle.spin_limit, UT_MIN_SPIN_LIMIT);
}

/* The C library's function: a yield takes so long, by the clock of this test. */
static uint64_t yield_ns;
static unsigned int num_yields;

int sched_yield(void)
{
    num_yields++;
    fake_clock_ns += yield_ns;
    return 0;
}

/* The number of yields of this thread in so many empty polls. */
static unsigned int idle_for(uint32_t polls, uint64_t ns)
{
    num_yields = 0;
    yield_ns = ns;
    for (uint32_t i = 1; i <= polls; i++)
        ut_idle(i);
    return num_yields;
}

/* A yield that takes some times as long as a system call, which takes a tick of the clock here, has
 * let another thread run. */
Test(idle, yield_is_compared_with_a_system_call)
{
    ut_idle_set_processes(1);
    cr_assert_eq(idle_for(UT_MAX_SPIN_LIMIT, 0), 1);
    cr_assert_eq(idle_for(UT_MAX_SPIN_LIMIT, 0), 1, "nobody else");
    cr_assert_eq(idle_for(UT_MAX_SPIN_LIMIT, WAITS_NS), 1);
    cr_assert_eq(idle_for(100, WAITS_NS), 98, "it let another one run");
}

static int own_cpus, parents_cpus;

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    CPU_ZERO_S(size, set);
    for (int i = 0; i < (pid ? parents_cpus : own_cpus); i++)
        CPU_SET_S((size_t)i, size, set);
    return 0;
}

/* Processes that a launcher binds to CPUs have those of all of them. If they are more than the
 * CPUs, a thread that computes on the same CPU counts as one of the job, otherwise as one of
 * another job. */
Test(idle, processes_that_are_bound_have_the_cpus_of_their_parent)
{
    static const struct {
        unsigned int processes;
        int own, parents;
        bool crowded;
    } cases[] = {{1, 1, 1, false}, {2, 1, 1, true}, {2, 2, 1, false}, {3, 2, 1, true},
                 {4, 1, 4, false}, {5, 1, 4, true}, {0, 1, 1, true}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        own_cpus = cases[i].own;
        parents_cpus = cases[i].parents;
        ut_idle_set_processes(cases[i].processes);
        idle_for(UT_MAX_SPIN_LIMIT, WAITS_NS); /* the least limit */
        idle_for(100, COMPUTES_NS);
        unsigned int yields = idle_for(100, COMPUTES_NS);
        cr_expect_eq(yields, cases[i].crowded ? 98 : 0, "case %zu: %u yields", i, yields);
    }
}

/* The C library's functions, for a thread whose yields let no others run. */
static int policy = SCHED_OTHER;
static unsigned int num_naps;
static long nap_ns;

int sched_getscheduler(pid_t pid)
{
    cr_assert_eq(pid, 0);
    return policy;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *t, struct timespec *left)
{
    cr_assert(clock == CLOCK_MONOTONIC && flags == 0 && t->tv_sec == 0 && !left);
    num_naps++;
    nap_ns = t->tv_nsec;
    return 0;
}

Test(idle, only_a_real_time_thread_sleeps_and_after_many_polls)
{
    idle_for(4096, 0);
    cr_assert_eq(num_naps, 0);
    policy = SCHED_FIFO;
    idle_for(1024 * 512, 0); /* the policy is asked for again */
    num_naps = 0;
    idle_for(4095, 0);
    cr_assert_eq(num_naps, 0);
    idle_for(4096, 0);
    cr_assert_eq(num_naps, 1);
    cr_assert_eq(nap_ns, 50000);
}
