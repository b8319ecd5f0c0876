/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether all other threads of this process sleep, so that none of them uses the program's memory
 * while a call of this thread replaces its pages.
 */
#ifndef SP_BLOCKED_THREADS_H
#define SP_BLOCKED_THREADS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Returns true if each other thread is one of this library's, or
 *   - waits without a time limit for a lock or a condition (futex) that is not shared with other
 *     processes, or for the end of a thread: only a thread of this process can end that; or
 *   - is a helper thread of an MPI library, PMIx, UCX or libfabric that sleeps in a system call,
 * and has its stack outside [lo, hi). Takes about 10 us for each thread of the program. If a thread
 * runs, looks again for a millisecond, but only as long as *looks, which it decrements, is not 0: a
 * helper thread may just be going to sleep.
 */
bool sp_threads_are_blocked(uint64_t lo, uint64_t hi, unsigned int *retries_left);

#endif
