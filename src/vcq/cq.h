/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation of CQs and component ids. The first CQs of a TNI are for ordinary VCQs. Behind them
 * are the CQs for exclusive VCQs, and then those for session mode.
 * Uses util, ident, process.
 */
#ifndef UT_VCQ_CQ_H
#define UT_VCQ_CQ_H

#include "process/process.h"

struct ut_cq_place {
    unsigned int cq_index; /* index into ut_process.cq_ids */
    unsigned int cmp;
};

/* Allocates a CQ and a component id for a VCQ. cmp_id as in utofu_create_vcq_with_cmp_id(), -1:
 * any. Returns 0 or an error, which is logged. The caller holds the lock of the table of VCQs. */
int ut_cq_alloc(const struct ut_process *process, unsigned int tni, int cmp_id, unsigned long flags,
                struct ut_cq_place *place);
void ut_cq_free(unsigned int tni, const struct ut_cq_place *place);

#endif
