/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the registrations of each page of the process, and records which pages are remapped: a
 * sorted list of address intervals.
 */
#ifndef SP_PAGEREF_H
#define SP_PAGEREF_H

#include <stdbool.h>
#include <stdint.h>

struct sp_pagerefs;

/* Returns NULL if there is no memory. */
struct sp_pagerefs *sp_pagerefs_new(void);
void sp_pagerefs_free(struct sp_pagerefs *pagerefs);

/* Called for an interval that had no references; returns true if any part of it was remapped. */
typedef bool sp_remap_fn(void *arg, uint64_t lo, uint64_t hi);
/* Called for a remapped interval without references; returns true if all of it was restored.
 * Otherwise the function is called again after the next release. */
typedef bool sp_restore_fn(void *arg, uint64_t lo, uint64_t hi);

/* Adds a reference to [lo, hi); calls `remap` (may be NULL) for each part that had none. False: no
 * memory, nothing has changed. */
bool sp_pagerefs_get(struct sp_pagerefs *pagerefs, uint64_t lo, uint64_t hi, sp_remap_fn *remap,
                     void *arg);

/* Drops the reference of one sp_pagerefs_get(); calls `restore` for parts without references. */
void sp_pagerefs_put(struct sp_pagerefs *pagerefs, uint64_t lo, uint64_t hi, sp_restore_fn *restore,
                     void *arg);

#endif
