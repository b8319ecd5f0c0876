/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many registrations touch each page of the process, and which pages something was taken of:
 * intervals of addresses, in order.
 */
#ifndef SP_HOLD_H
#define SP_HOLD_H

#include <stdbool.h>
#include <stdint.h>

struct sp_pagerefs;

struct sp_pagerefs *sp_pagerefs_new(void);
void sp_pagerefs_free(struct sp_pagerefs *pagerefs);

/* Of an interval that nobody held before: was any of it taken? */
typedef bool sp_take_fn(void *arg, uint64_t lo, uint64_t hi);
/* Of an interval that nobody holds any more, and of which something was taken: was all of it given
 * back? If not, it is asked again when somebody has held it again. */
typedef bool sp_give_fn(void *arg, uint64_t lo, uint64_t hi);

/* One more for [lo, hi); `take` (may be NULL) for the parts that nobody held. False: no memory,
 * nothing was changed. */
bool sp_pageref(struct sp_pagerefs *pagerefs, uint64_t lo, uint64_t hi, sp_take_fn *take,
                void *arg);

/* One less for an interval that was held; `give` for the parts that were taken and that nobody
 * holds now. */
void sp_release(struct sp_pagerefs *pagerefs, uint64_t lo, uint64_t hi, sp_give_fn *give,
                void *arg);

#endif
