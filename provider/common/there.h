/* SPDX-License-Identifier: Apache-2.0 */
/* Whether memory that is to be registered exists. */
#ifndef PROV_THERE_H
#define PROV_THERE_H

#include <stdbool.h>
#include <stddef.h>

/* Is all of it mapped, and are its ends readable, or writable? By any thread. */
bool prov_memory_is_there(const void *addr, size_t size, bool write);

#endif
