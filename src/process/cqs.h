/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which CQs of a TNI this process has, by UTOFU_CQ_MAP, and the numbers that programs see.
 *
 * A CQ has an id that is the same on all TNIs and tells its owner: local rank times the CQs of a
 * process, plus the CQ's place among them, unless UTOFU_CQ_MAP lists others. Programs see that id
 * as its number, too, except with UTOFU_CQ_MAP=fugaku: there the first CQ of each process has the
 * number that Fugaku gives it, which may depend on the TNI, and all others follow the twelve CQs
 * that a TNI of Fugaku has. VCQ ids contain numbers.
 */
#ifndef UT_PROCESS_CQS_H
#define UT_PROCESS_CQS_H

#include <stdint.h>

#include "process/process.h"

/* Fills in the CQs of the process, with its job in place. 0, or UTOFU_ERR_FATAL after an error
 * line. */
int ut_cqs_alloc(struct ut_process *process);
/* Sets CQs aside for exclusive and session-mode VCQs. */
void ut_cqs_reserve(struct ut_process *process);

/* The number of a CQ id on this TNI, and the id of a number; -1: no CQ has that number. */
uint16_t ut_cq_number(const struct ut_process *process, unsigned int tni, unsigned int id);
int32_t ut_cq_of_number(const struct ut_process *process, unsigned int tni, unsigned int number);

#endif
