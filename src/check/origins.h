/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communications of two processes that use the same remote memory. A held communication has not
 * started, so no other process can know of it: two communications that are held at the same moment
 * are not ordered. A process enters its held communications into the table of its node (table.h),
 * and compares each with the entries of other processes there. The first few communications of each
 * place of the program linger, so that those of other processes can meet them.
 *
 * With the lock of the VCQ held, unless a comment says otherwise.
 */
#ifndef UT_CHECK_ORIGINS_H
#define UT_CHECK_ORIGINS_H

#include "check/inner.h"
#include "check/table.h"

/* Opens the table of the node, once it is available. Without locks. */
void ut_origins_open(void);

/* Enters the communication in the slot, which is held from now on, and reports conflicts; `first`:
 * it is among the first few of its place. */
void ut_origins_enter(struct ut_vcq *vcq, const struct ut_slot *slot, bool first);
/* Removes the entry of a communication that is about to start. */
void ut_origins_leave(struct ut_check_op *op);

/* How many of the oldest `most` held communications a poll may start: none after one that
 * lingers. */
uint32_t ut_origins_end_linger(struct ut_vcq *vcq, uint32_t most);
/* The background thread starts a communication that has delayed polls. */
void ut_origins_lingered(void);

#endif
