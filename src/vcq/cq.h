/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocation of CQs and component ids. Of a TNI's CQs the first are for ordinary VCQs, then
 * come those kept for exclusive ones, then those for session mode.
 *
 * Uses util, ident, process.
 */
#ifndef UT_VCQ_CQ_H
#define UT_VCQ_CQ_H

#include "process/process.h"

struct ut_cq_place {
    unsigned int cq_index; /* into ut_process.cq_ids */
    unsigned int cmp;
};

/* Allocates a CQ and a component id for a VCQ; cmp_id as in utofu_create_vcq_with_cmp_id(), -1:
 * any. 0 or an error, which is logged. Both with the table of VCQs locked. */
int ut_cq_take(const struct ut_process *process, unsigned int tni, int cmp_id, unsigned long flags,
               struct ut_cq_place *place);
void ut_cq_give(unsigned int tni, const struct ut_cq_place *place);

#endif
