/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communications of two processes that use the same remote memory. One that is held back has not
 * begun, so nobody can know of it: if communications of two processes are held at the same moment,
 * nothing orders them. What a process holds stands in the table of its node (table.h); who holds
 * another one looks there for those that it meets. Of each place of the program the first few
 * linger, that others may come.
 *
 * With the lock of the VCQ held, unless it says otherwise.
 */
#ifndef UT_CHECK_ORIGINS_H
#define UT_CHECK_ORIGINS_H

#include "check/inner.h"
#include "check/table.h"

/* The table of the node, if it can be had by now. Without locks. */
void ut_origins_open(void);

/* The communication in the slot is held from now on; `first`: it is among the first few of its
 * place. Reports what it meets. */
void ut_origins_enter(struct ut_vcq *vcq, const struct ut_slot *slot, bool first);
/* It is about to start. */
void ut_origins_leave(struct ut_check_op *op);

/* Of so many of the oldest that are held, how many may be started by a poll: none behind one that
 * lingers. */
uint32_t ut_origins_let_go(struct ut_vcq *vcq, uint32_t most);
/* One that has held up polls is started by the background thread. */
void ut_origins_lingered(void);

#endif
