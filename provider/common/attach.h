/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving bytes to and from other processes in an order that a program that watches their target can
 * rely on: of each line of 256 bytes (a cache line of the machine this API comes from) the last
 * word lands behind all else of the line, the last line behind all others, and the last naturally
 * aligned word behind that.
 */
#ifndef PROV_ATTACH_H
#define PROV_ATTACH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* To and from another process, or this one: then memory that is not there is an error and no
 * signal. 0; -ESRCH: it is gone; -EPERM: forbidden; -EFAULT. */
int prov_cma_write(pid_t pid, const void *lcl, uint64_t rmt, size_t length);
int prov_cma_read(pid_t pid, void *lcl, uint64_t rmt, size_t length);

/* Is this memory (of another process or our own) readable, all of it? */
int prov_cma_readable(pid_t pid, uint64_t addr, size_t length);

#endif
