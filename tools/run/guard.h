/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that kills the job when its launcher dies, even by SIGKILL: the processes of the job
 * have a parent death signal of the kernel, but their children do not.
 *
 * Uses libc only.
 */
#ifndef RUN_GUARD_H
#define RUN_GUARD_H

#include <sys/types.h>

/* Starts the guard, which blocks all signals: 0 or a negative errno. */
int run_guard_start(void);

/* From now on the guard kills this process group when the launcher has ended. */
void run_guard_set_group(pid_t group);

/* Takes the calling process out of a real-time policy (chrt -f) that it was started with; the
 * processes of the job, started before, keep it. wait4() frees the entries of an ended process in
 * /proc, and where a thread of that process is still about to do the same, it spins until that
 * thread has (shrink_dcache_parent() in Linux's fs/dcache.c). With a real-time policy the launcher
 * would not let that thread run on the same core: the two would wait for ever, and not even SIGKILL
 * would end them. Processes that spin on the core would not let the launcher handle --timeout and
 * signals either; an ordinary process gets some of each second. */
void run_leave_real_time(void);

/* The job has ended: the guard exits without killing. */
void run_guard_end(void);

#endif
