/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Yielding the core after empty polls. At first a thread yields only after many polls, because a
 * system call may take longer than the wait. The duration of a yield shows which thread has run on
 * the core:
 *   no thread            the yield takes no longer than a few system calls
 *   a waiting thread     the yield takes less than a time slice. The thread may belong to the
 * awaited process, which gives the core back. From now on a yield follows after few polls, unless a
 * foreign process has run lately: other programs also have short turns, and each yield after such a
 * turn may cost a time slice. In that case a short yield does not count as "no thread" at once,
 * because the scheduler may have chosen this thread again. a computing thread   the yield takes a
 * time slice or more. If the job has more processes on this host than CPUs, the thread may belong
 * to the job, and yields go on. Otherwise it belongs to a foreign process, and yielding does not
 * help the job: yields become rare.
 */
#ifndef UT_UTIL_IDLE_H
#define UT_UTIL_IDLE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    UT_MIN_SPIN_LIMIT = 3, /* number of polls */
    UT_MAX_SPIN_LIMIT = 512,
    UT_FOREIGN_SPIN_LIMIT = 1 << 20, /* after a foreign process has run: some 20 ms */
    UT_SLICE_NS = 500000,            /* time slices of Linux are longer */
    UT_FOREIGN_YIELDS = 64, /* for how many measured yields a foreign process is remembered */
};

/* What a thread has learnt about its core. */
struct ut_idle {
    uint32_t spin_limit; /* number of polls before the first yield */
    uint32_t yields;
    uint32_t foreign_yields; /* number of measured yields until the last foreign process is
                              * forgotten */
};

/* Called without locks. `polls`: number of empty polls in a row. */
void ut_idle(uint32_t polls);

/* Sets the number of processes of the job on this host, including this one. 0: unknown, treated as
 * many. Called once. */
void ut_idle_set_processes(unsigned int num);

/* Decides whether to spin, to yield, or to yield and measure the duration. */
enum ut_idle_step { UT_IDLE_SPIN, UT_IDLE_YIELD, UT_IDLE_MEASURE };
enum ut_idle_step ut_idle_next(struct ut_idle *idle, uint32_t polls);
/* Learns from a measured yield of `ns`. A yield of more than alone_ns has let another thread run.
 */
void ut_idle_learn(struct ut_idle *idle, uint64_t ns, uint64_t alone_ns, bool oversubscribed);

#endif
