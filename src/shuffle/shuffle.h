/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shuffle mode, UTOFU_SHUFFLE: uses the freedoms that the uTofu manual leaves to the hardware.
 * So a program that relies on more than the manual promises fails in its tests. docs/guide/check.md
 * lists the freedoms.
 * Most of the mode is a provider around the one in use, so that nothing changes without the mode.
 * The wrapping provider delays operations, issues them in another order and in pieces, and reports
 * completions and arrivals late. It reads the TOQ slot of an operation, which defines the required
 * order. Uses link (the kinds of cookies), vcq, wire, desc, util and provider.h.
 */
#ifndef UT_SHUFFLE_SHUFFLE_H
#define UT_SHUFFLE_SHUFFLE_H

#include <stdbool.h>
#include <stdint.h>

#include "provider.h"

struct ut_vcq;

/* True if the mode is on: from ut_shuffle_open() on, which is called before any VCQ exists. */
bool ut_shuffle_is_on(void);

/* Reads the level from UTOFU_SHUFFLE. `warns`: logs that the mode is on. Called once, by set-up. */
void ut_shuffle_open(bool warns);

/* Wraps `inner` in a provider that owns it. NULL: no memory or no descriptor, and `inner` is
 * unchanged. `wake` is that of struct prov_config. */
struct prov *ut_shuffle_wrap(struct prov *inner, void (*wake)(void *owner));

/* The number of TOQ entries that a new VCQ uses: see ut_shuffle_toq_room(). */
uint32_t ut_shuffle_toq_limit(const struct ut_vcq *vcq);

/* Called with the lock of the VCQ: n descriptors do not fit below the limit of the TOQ. If the TOQ
 * is empty, waiting would not help: sets a higher limit, and returns true. */
bool ut_shuffle_toq_room(struct ut_vcq *vcq, uint32_t n);

/* Called with the lock of the VCQ: does a communication with DELAY_START start immediately? */
bool ut_shuffle_starts(struct ut_vcq *vcq);

/* Called with the lock of the VCQ: do communications held by the check mode wait until all earlier
 * ones are complete? Never without the shuffle mode. */
bool ut_shuffle_holds(const struct ut_vcq *vcq);

#endif
