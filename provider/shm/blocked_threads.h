/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out whether all other threads of this process are blocked, so that none of them uses the
 * program's memory while this thread replaces pages.
 */
#ifndef SP_BLOCKED_THREADS_H
#define SP_BLOCKED_THREADS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Returns true if each other thread belongs to this library, or is blocked in one of these ways,
 * with its stack outside [lo, hi):
 *
 * - it waits, without a timeout, for a lock or condition (futex) private to this process, or for
 *   the end of a thread: only a thread of this process can wake it;
 * - it is a helper thread of an MPI library, PMIx, UCX or libfabric, blocked in a system call.
 *
 * Takes about 10 us for each thread of the program. If a thread runs, retries for a millisecond, as
 * a helper thread may be about to block; each retry decrements *retries_left, and none is made at
 * 0.
 */
bool sp_threads_are_blocked(uint64_t lo, uint64_t hi, unsigned int *retries_left);

#endif
