/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that kills the job when its launcher dies, even by SIGKILL: the processes of the job
 * ask the kernel for that themselves, but what they start in turn does not.
 *
 * Uses libc alone.
 */
#ifndef RUN_GUARD_H
#define RUN_GUARD_H

#include <sys/types.h>

/* Starts the guard, which blocks all signals: 0 or a negative errno. */
int run_guard_start(void);

/* From here on it kills this process group when the launcher is gone. */
void run_guard_set_group(pid_t group);

/* The job has ended: the guard goes, and kills nothing. */
void run_guard_end(void);

#endif
