/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the registrations for each page of the process, and notes which pages were remapped:
 * intervals of addresses, in order.
 */
#ifndef SP_PAGEREF_H
#define SP_PAGEREF_H

#include <stdbool.h>
#include <stdint.h>

struct sp_pagerefs;

struct sp_pagerefs *sp_pagerefs_new(void);
void sp_pagerefs_free(struct sp_pagerefs *pagerefs);

/* For an interval without earlier references: was any part of it remapped? */
typedef bool sp_remap_fn(void *arg, uint64_t lo, uint64_t hi);
/* For a partly remapped interval without references: was all of it given back? If not, the function
 * is called again when the next last reference is dropped. */
typedef bool sp_restore_fn(void *arg, uint64_t lo, uint64_t hi);

/* Adds a reference for [lo, hi); calls `take` (may be NULL) for the parts without earlier
 * references. False: no memory, and no change. */
bool sp_pagerefs_get(struct sp_pagerefs *pagerefs, uint64_t lo, uint64_t hi, sp_remap_fn *remap,
                     void *arg);

/* Drops a reference for an interval of sp_pagerefs_get(); calls `give` for the remapped parts
 * without references. */
void sp_pagerefs_put(struct sp_pagerefs *pagerefs, uint64_t lo, uint64_t hi, sp_restore_fn *restore,
                     void *arg);

#endif
