/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failed communications: the cause, which is kept until the program takes the TCQ entry or the MRQ
 * notice, and the text for utofu_get_last_error(). Not on the fast path, and without allocation:
 * slots and MRQ entries have fields for the cause.
 */
#ifndef UT_ENGINE_FAILURE_H
#define UT_ENGINE_FAILURE_H

#include "link/link.h"
#include "util/last_error.h"
#include "vcq/vcq.h"

/* The slot ends with this code, which utofu_poll_tcq() or utofu_poll_mrq() returns. */
void ut_slot_set_failed(struct ut_link *link, struct ut_slot *slot, int rc) __attribute__((cold));

/* Writes the local MRQ notice of a failed slot. */
void ut_mrq_push_failed(struct ut_link *link, struct ut_slot *slot) __attribute__((cold));

/* The program takes a failed entry: keeps the failure for utofu_get_last_error(), and returns its
 * code. `entry` may be the notice itself. */
int ut_tcq_take_failed(const struct ut_vcq *vcq, const struct ut_slot *slot) __attribute__((cold));
int ut_mrq_take_failed(const struct ut_vcq *vcq, const struct utofu_mrq_notice *entry,
                       struct utofu_mrq_notice *notice) __attribute__((cold));

/* The code of an entry in the MRQ, or 0. */
int ut_mrq_code(const struct utofu_mrq_notice *entry);

/* The TOQ is full: returns UTOFU_ERR_BUSY. Keeps just the VCQ, as programs try again in a loop. */
static inline int ut_toq_full(const struct ut_vcq *vcq)
{
    ut_last_error_busy = vcq->handle;
    return UTOFU_ERR_BUSY;
}
/* If ut_toq_full() was the last failure of this thread, formats its text. */
void ut_toq_full_describe(void);

#endif
