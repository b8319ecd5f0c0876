/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kernel whether memory of this process is readable or writable, in less time than a copy
 * by the kernel takes. Unmapped memory is an error and raises no signal, unless another thread
 * unmaps the memory between the check and the copy. The memory is not changed.
 */
#ifndef PROV_PROBE_H
#define PROV_PROBE_H

#include <stdbool.h>
#include <stddef.h>

/* True if the kernel supports these checks. Some sandboxes do not. */
bool prov_probe_is_supported(void);

/* True if every page of the memory is readable (or writable). Makes one system call for each page;
 * `size` is at least 1. Any thread may call this. */
bool prov_probe_read(const void *addr, size_t size);
bool prov_probe_write(void *addr, size_t size);

/* For longer memory, as prov_memory_is_mapped(): true if all of the memory is mapped, and its first
 * and last byte are readable (or writable). */
bool prov_probe_range(const void *addr, size_t size, bool write);

/*
 * Checks of memory before its registration.
 */

/* True if all of the memory is mapped, and its first and last page are readable (or writable). Any
 * thread may call this. */
bool prov_memory_is_mapped(const void *addr, size_t size, bool write);

#endif
