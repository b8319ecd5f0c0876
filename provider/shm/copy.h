/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving bytes in address order as far as a program that watches the target can tell: everything
 * before the last line of 256 bytes (the target's cache line on the machine this API comes from)
 * lands before that line, and that line before its last naturally aligned word.
 */
#ifndef SP_COPY_H
#define SP_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* To and from another process. 0; -ESRCH: it is gone; -EPERM: forbidden; -EFAULT. */
int sp_cma_write(pid_t pid, const void *lcl, uint64_t rmt, size_t length);
int sp_cma_read(pid_t pid, void *lcl, uint64_t rmt, size_t length);

/* Is this memory (of another process or our own) readable, all of it? */
int sp_cma_readable(pid_t pid, uint64_t addr, size_t length);

/* Within the process. */
void sp_copy_ordered(void *to, const void *from, size_t length);

#endif
