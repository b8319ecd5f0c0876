/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many registrations touch each page of the process: intervals of addresses, in order, with a
 * count each.
 */
#ifndef SP_HOLD_H
#define SP_HOLD_H

#include <stdbool.h>
#include <stdint.h>

struct sp_holds;

struct sp_holds *sp_holds_new(void);
void sp_holds_free(struct sp_holds *holds);

/* What changed: called for each interval that nobody held before, or holds any more. */
typedef void sp_hold_fn(void *arg, uint64_t lo, uint64_t hi);

/* One more for [lo, hi); `first` (may be NULL) for the parts that nobody held. False: no memory,
 * nothing was changed. */
bool sp_hold(struct sp_holds *holds, uint64_t lo, uint64_t hi, sp_hold_fn *first, void *arg);

/* One less for an interval that was held; `last` for the parts that nobody holds now. */
void sp_release(struct sp_holds *holds, uint64_t lo, uint64_t hi, sp_hold_fn *last, void *arg);

#endif
