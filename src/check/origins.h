/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communications of two processes that use the same remote memory. No other process can know of a
 * held communication, because it has not started: two communications that are held at the same
 * moment are not ordered. A process enters its held communications into the table of its node
 * (table.h), and compares each with the entries of other processes. The first few communications of
 * each call site linger, that is, they are held longer, so that communications of other processes
 * overlap with them. The caller holds the lock of the VCQ, unless a comment says otherwise.
 */
#ifndef UT_CHECK_ORIGINS_H
#define UT_CHECK_ORIGINS_H

#include "check/inner.h"
#include "check/table.h"

/* Opens the table of the node, once it exists. Needs no lock. */
void ut_origins_open(void);

/* Enters a communication that is held from now on, and reports conflicts. `first`: one of the first
 * few of its call site. */
void ut_origins_enter(struct ut_vcq *vcq, const struct ut_slot *slot, bool first);
/* Removes the entry of a communication that is about to start. */
void ut_origins_leave(struct ut_check_op *op);

/* How many of the oldest `max` held communications a poll may start: those before the first
 * lingering one. */
uint32_t ut_origins_count_startable(struct ut_vcq *vcq, uint32_t max);
/* The background thread starts a communication that has delayed polls. */
void ut_origins_lingered(void);

#endif
