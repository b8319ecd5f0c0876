/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many registrations refer to each page of the process, and which pages were remapped for them:
 * intervals of addresses, in order.
 */
#ifndef SP_PAGEREF_H
#define SP_PAGEREF_H

#include <stdbool.h>
#include <stdint.h>

struct sp_pagerefs;

struct sp_pagerefs *sp_pagerefs_new(void);
void sp_pagerefs_free(struct sp_pagerefs *pagerefs);

/* For an interval that had no reference before: was any of it remapped? */
typedef bool sp_take_fn(void *arg, uint64_t lo, uint64_t hi);
/* For an interval that has no reference any more, and of which something was remapped: was all of
 * it given back? If not, it is called again when the interval's next reference goes. */
typedef bool sp_give_fn(void *arg, uint64_t lo, uint64_t hi);

/* One reference more for [lo, hi); calls `take` (may be NULL) for the parts that had none. False:
 * no memory, nothing was changed. */
bool sp_pageref(struct sp_pagerefs *pagerefs, uint64_t lo, uint64_t hi, sp_take_fn *take,
                void *arg);

/* One reference less for an interval that sp_pageref() got; calls `give` for the parts that were
 * remapped and have no reference now. */
void sp_release(struct sp_pagerefs *pagerefs, uint64_t lo, uint64_t hi, sp_give_fn *give,
                void *arg);

#endif
