/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Yielding the core after empty polls. At first only after many polls, as a system call may take
 * longer than the wait. How long a yield takes tells who has run on the core:
 *
 *   nobody           it takes no longer than a few system calls
 *   one who waits    it takes less than a time slice: perhaps the awaited process, which gives the
 *                    core back. A yield follows after few polls from now on, but not where a
 *                    stranger has been seen lately: other programs have short turns, too, and each
 *                    yield after one of them may be a stranger's time slice. Then nobody is not
 *                    believed at once, either: the scheduler may have chosen this thread again.
 *   one who computes it takes a time slice or more. Where the processes of the job on this host are
 *                    more than their CPUs, that may be one of them, and yields go on. Otherwise it
 *                    is a stranger, whom a yield helps and not the job: yields become rare.
 */
#ifndef UT_UTIL_IDLE_H
#define UT_UTIL_IDLE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    UT_MIN_SPIN_LIMIT = 3, /* polls */
    UT_MAX_SPIN_LIMIT = 512,
    UT_FOREIGN_SPIN_LIMIT = 1 << 20, /* among strangers: some 20 ms */
    UT_SLICE_NS = 500000,            /* Linux's time slices are longer */
    UT_FOREIGN_YIELDS = 64,          /* measured yields for which a stranger is remembered */
};

/* What a thread has learnt. */
struct ut_idle {
    uint32_t spin_limit; /* polls before the first yield */
    uint32_t yields;
    uint32_t foreign_yields; /* measured yields until the last stranger is forgotten */
};

/* Called without locks; `polls`: the number of empty polls in a row. */
void ut_idle(uint32_t polls);

/* Of the job on this host, including this one; 0: not known, taken for many. Called once. */
void ut_idle_set_processes(unsigned int num);

/* The rules. Is this the time for a yield, and how long it takes to be measured? */
enum ut_idle_step { UT_IDLE_SPIN, UT_IDLE_YIELD, UT_IDLE_MEASURE };
enum ut_idle_step ut_idle_next(struct ut_idle *idle, uint32_t polls);
/* A measured yield took so long; one of more than alone_ns has let another thread run. */
void ut_idle_learn(struct ut_idle *idle, uint64_t ns, uint64_t alone_ns, bool oversubscribed);

#endif
