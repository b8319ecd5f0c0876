/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying to and from other processes in an order that a polling program can rely on: of each line
 * of 256 bytes (a cache line of the Tofu machines) the last word is written after the rest of the
 * line, the last line after all other lines, and the last naturally aligned word after all other
 * bytes.
 */
#ifndef PROV_CMA_H
#define PROV_CMA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* To and from another process, or this one: unmapped memory is an error and raises no signal. 0;
 * -ESRCH: the process has ended; -EPERM: forbidden; -EFAULT. */
int prov_cma_write(pid_t pid, const void *lcl, uint64_t rmt, size_t length);
int prov_cma_read(pid_t pid, void *lcl, uint64_t rmt, size_t length);

/* Is all of this memory (of another process or of this one) readable? */
int prov_cma_readable(pid_t pid, uint64_t addr, size_t length);

#endif
