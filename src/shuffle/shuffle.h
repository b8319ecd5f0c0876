/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shuffle mode, UTOFU_SHUFFLE: uses the freedoms that the uTofu manual leaves to the hardware,
 * so that a program that relies on more than it promises fails in its tests. docs/guide/check.md
 * lists the freedoms.
 *
 * Most of it is a provider around the one in use, so that without the mode nothing is different: it
 * holds operations back, hands them over in another order and in pieces, and tells of completions
 * and arrivals late. It knows the TOQ slot behind an operation, and takes from it what binds the
 * operation to others.
 *
 * Uses link (the kinds of cookies), vcq, wire, desc, util and provider.h.
 */
#ifndef UT_SHUFFLE_SHUFFLE_H
#define UT_SHUFFLE_SHUFFLE_H

#include <stdbool.h>
#include <stdint.h>

#include "provider.h"

struct ut_vcq;

/* The mode is on. Set by ut_shuffle_open(), before there is any VCQ. */
extern bool ut_shuffle_on;

/* Reads UTOFU_SHUFFLE with its level; `warns`: a line on standard error says that the mode
 * is on. Once, by set-up. */
void ut_shuffle_open(bool warns);

/* A provider around `inner`, which owns it; NULL: no memory or no descriptor, and `inner` is as it
 * was. `wake` is that of struct prov_config. */
struct prov *ut_shuffle_wrap(struct prov *inner, void (*wake)(void *owner));

/* How many entries the TOQ of a new VCQ admits to have, of those that it has: see
 * ut_shuffle_toq_room(). */
uint32_t ut_shuffle_toq_limit(const struct ut_vcq *vcq);

/* With the VCQ's lock held: n descriptors do not fit below the limit of the TOQ. If nothing is in
 * the TOQ, as there would be nothing to wait for, sets a new limit that they fit below, and returns
 * true. */
bool ut_shuffle_toq_room(struct ut_vcq *vcq, uint32_t n);

/* With the VCQ's lock held: is a communication with DELAY_START started at once? */
bool ut_shuffle_starts(struct ut_vcq *vcq);

/* With the VCQ's lock held: does what the check mode holds wait until what has started before it is
 * complete? Never without the shuffle mode. */
bool ut_shuffle_holds(const struct ut_vcq *vcq);

#endif
