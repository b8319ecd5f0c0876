/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of memory before its registration. */
#ifndef PROV_MEMORY_CHECK_H
#define PROV_MEMORY_CHECK_H

#include <stdbool.h>
#include <stddef.h>

/* True if all of the memory is mapped, and its first and last page are readable (or writable). Any
 * thread may call this. */
bool prov_memory_is_mapped(const void *addr, size_t size, bool write);

#endif
