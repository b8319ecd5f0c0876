/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cause of a failed communication, and its text for utofu_get_last_error(). The cause is stored
 * in the slot or in the MRQ entry until the program takes the TCQ entry or the MRQ notice. Nothing
 * here is on the fast path or allocates memory.
 */
#ifndef UT_ENGINE_FAILURE_H
#define UT_ENGINE_FAILURE_H

#include "link/link.h"
#include "util/last_error.h"
#include "vcq/vcq.h"

/* Ends the slot with this code, which utofu_poll_tcq() or utofu_poll_mrq() returns. */
void ut_slot_set_failed(struct ut_link *link, struct ut_slot *slot, int rc) __attribute__((cold));

/* Writes the local MRQ notice of a failed slot. */
void ut_mrq_push_failed(struct ut_link *link, struct ut_slot *slot) __attribute__((cold));

/* Store the failure of an entry that the program takes, for utofu_get_last_error(). Return the
 * code. `entry` may be the notice itself. */
int ut_tcq_take_failed(const struct ut_vcq *vcq, const struct ut_slot *slot) __attribute__((cold));
int ut_mrq_take_failed(const struct ut_vcq *vcq, const struct utofu_mrq_notice *entry,
                       struct utofu_mrq_notice *notice) __attribute__((cold));

/* Writes the name of the code and the cause of the oldest failed entry that the program has not
 * taken from this queue. False: there is none. The caller holds the lock of the VCQ. */
enum { UT_UNREAD_ERROR_TEXT = 640 };
bool ut_describe_unread_error(struct ut_vcq *vcq, enum ut_queue queue, char *buf, size_t size)
    __attribute__((cold));
/* Warns of such an entry, for a program that polls only the other queue. */
void ut_warn_of_unread_error(struct ut_vcq *vcq, enum ut_queue queue) __attribute__((cold));

/* Returns the code of an MRQ entry, or 0. */
int ut_mrq_code(const struct utofu_mrq_notice *entry);

/* Returns UTOFU_ERR_BUSY for a full TOQ. Stores only the handle, because programs try again in a
 * loop. */
static inline int ut_toq_full(const struct ut_vcq *vcq)
{
    ut_last_error_busy = vcq->handle;
    return UTOFU_ERR_BUSY;
}
/* Formats the text, if ut_toq_full() was the last failure of this thread. */
void ut_toq_full_describe(void);

#endif
