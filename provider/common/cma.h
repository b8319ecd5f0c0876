/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies to and from other processes by cross-memory attach (CMA), in an order on which a polling
 * program can rely: the last word of each line of 256 bytes (a cache line of the Tofu machines) is
 * written after the rest of the line, the last line after all other lines, and the last naturally
 * aligned word after all other bytes. `waits_for_notice`: the program waits for a notice instead of
 * polling the memory, so in transfers of more than 4 KiB only the last line is in order.
 */
#ifndef PROV_CMA_H
#define PROV_CMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Copy to or from another process, or this process. Unmapped memory is an error and raises no
 * signal. Returns 0; -ESRCH: the process has ended; -EPERM: forbidden; -EFAULT. */
int prov_cma_write(pid_t pid, const void *lcl, uint64_t rmt, size_t length, bool waits_for_notice);
int prov_cma_read(pid_t pid, void *lcl, uint64_t rmt, size_t length, bool waits_for_notice);

/* Returns 0 if all of this memory of the process is readable; otherwise -errno. */
int prov_cma_readable(pid_t pid, uint64_t addr, size_t length);

#endif
