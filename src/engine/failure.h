/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communications that fail: the cause, kept until the program takes the TCQ entry or the MRQ
 * notice, and the text that utofu_get_last_error() then gives. None of it is on the fast path, and
 * nothing is allocated: slots and MRQ entries have fields for the cause.
 */
#ifndef UT_ENGINE_FAILURE_H
#define UT_ENGINE_FAILURE_H

#include "link/link.h"
#include "util/last_error.h"
#include "vcq/vcq.h"

/* The slot ends with this code, of utofu_poll_tcq() or utofu_poll_mrq(). */
void ut_slot_fails(struct ut_link *link, struct ut_slot *slot, int rc) __attribute__((cold));

/* Its local MRQ notice. */
void ut_mrq_push_failed(struct ut_link *link, struct ut_slot *slot) __attribute__((cold));

/* The program takes a failed entry: keep the failure for utofu_get_last_error(), and return its
 * code. `entry` may be the notice itself. */
int ut_tcq_failed(const struct ut_vcq *vcq, const struct ut_slot *slot) __attribute__((cold));
int ut_mrq_failed(const struct ut_vcq *vcq, const struct utofu_mrq_notice *entry,
                  struct utofu_mrq_notice *notice) __attribute__((cold));

/* The code of an entry that is still in the MRQ, or 0. */
int ut_mrq_code(const struct utofu_mrq_notice *entry);

/* The TOQ is full. Only the VCQ is kept, as programs try again in a loop. UTOFU_ERR_BUSY. */
static inline int ut_toq_full(const struct ut_vcq *vcq)
{
    ut_last_error_busy = vcq->handle;
    return UTOFU_ERR_BUSY;
}
/* If ut_toq_full() was the last failure of this thread, formats its text. */
void ut_toq_full_describe(void);

#endif
