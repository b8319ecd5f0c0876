/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CQs of a TNI that this process has (UTOFU_CQ_MAP), and the numbers that programs see. A CQ
 * has an id, which is the same on all TNIs and identifies its owner: the local rank times the
 * number of CQs per process, plus the index of the CQ in its process, unless UTOFU_CQ_MAP lists
 * other ids. The id is also the number that programs see, except with UTOFU_CQ_MAP=fugaku. Then the
 * first CQ of each process has its number on Fugaku, which may depend on the TNI, and all other CQs
 * follow the twelve CQs of a TNI of Fugaku. VCQ ids contain numbers.
 */
#ifndef UT_PROCESS_CQS_H
#define UT_PROCESS_CQS_H

#include <stdint.h>

#include "process/process.h"

/* Fills in the CQs of the process, whose job is known. 0, or UTOFU_ERR_FATAL after an error line.
 */
int ut_cqs_alloc(struct ut_process *process);
/* Reserves CQs for exclusive and session-mode VCQs. */
void ut_cqs_reserve(struct ut_process *process);

/* ut_cq_number(): the number of a CQ id on this TNI. ut_cq_of_number(): the id of a number; -1: no
 * CQ has that number. */
uint16_t ut_cq_number(const struct ut_process *process, unsigned int tni, unsigned int id);
int32_t ut_cq_of_number(const struct ut_process *process, unsigned int tni, unsigned int number);

#endif
