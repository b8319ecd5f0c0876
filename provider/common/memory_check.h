/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that memory to be registered exists. */
#ifndef PROV_MEMORY_CHECK_H
#define PROV_MEMORY_CHECK_H

#include <stdbool.h>
#include <stddef.h>

/* Is all of the memory mapped, and are its ends readable, or writable? For any thread. */
bool prov_memory_is_mapped(const void *addr, size_t size, bool write);

#endif
