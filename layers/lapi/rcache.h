/* SPDX-License-Identifier: Apache-2.0 */
/* The registration cache: memory of the program, registered when it is used. */
#ifndef LA_RCACHE_H
#define LA_RCACHE_H

#include "context.h"

#pragma GCC visibility push(hidden)

void la_rcache_setup(void);
void la_rcache_close(void);
/* Finds or registers the region of some memory, and increments its refcount. write: peers write to
 * the memory. *stadd: of address. NULL: out of memory, or registration failed. */
struct la_region *la_rcache_get(const void *address, uint64_t size, bool write,
                                utofu_stadd_t *stadd);
/* As la_rcache_get(), but the caller calls la_rcache_is_current() before the memory is used. */
struct la_region *la_rcache_get_unchecked(const void *address, uint64_t size, bool write,
                                          utofu_stadd_t *stadd);
bool la_rcache_is_current(struct la_region *region); /* false: other memory was mapped meanwhile */
void la_rcache_put(struct la_region *region);        /* decrements the refcount */
/* True if all whole pages belong to files: processes of this host can map them. */
bool la_rcache_is_file_backed(const struct la_region *region);

#pragma GCC visibility pop

#endif
