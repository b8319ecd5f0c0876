/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kernel whether memory of this process can be read or written, in less time than the
 * kernel takes to copy it: missing memory is an error and raises no signal, unless another thread
 * unmaps the memory between the question and the copy. Nothing is changed.
 */
#ifndef PROV_PROBE_H
#define PROV_PROBE_H

#include <stdbool.h>
#include <stddef.h>

/* Does the kernel answer these questions? Some sandboxes do not. */
bool prov_probe_is_supported(void);

/* Can every page of the memory be read, or written? One system call for each page; at least one
 * byte. For any thread. */
bool prov_probe_read(const void *addr, size_t size);
bool prov_probe_write(void *addr, size_t size);

/* For longer memory, as prov_memory_is_mapped(): is all of it mapped, and can its ends be read, or
 * written? */
bool prov_probe_range(const void *addr, size_t size, bool write);

#endif
