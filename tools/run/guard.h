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

/* The job has ended: the guard exits without killing. */
void run_guard_end(void);

#endif
