/* SPDX-License-Identifier: Apache-2.0 */
/* The registered memory that peers write to and read. */
#ifndef LA_CONTROL_H
#define LA_CONTROL_H

#include "context.h"

#pragma GCC visibility push(hidden)

bool la_control_setup(void);
void la_control_close(void);
/* STADD of the word at this offset in the control memory of the task with this VCQ. */
static inline utofu_stadd_t la_control_stadd(utofu_vcq_id_t id, uint64_t offset)
{
    return lc_control_stadd(&la.control.base, id, offset);
}
/* For puts to partners: the port of net.c, and this memory. */
static inline struct lc_partner_context la_partner_context(void)
{
    return (struct lc_partner_context){&la.job, &la.net.port, &la.control.base};
}
/* The STADDs of a slot, a reply area and an assist report of the task with this VCQ. */
utofu_stadd_t la_slot_stadd(utofu_vcq_id_t id, uint32_t slot);
utofu_stadd_t la_reply_stadd(utofu_vcq_id_t id, uint32_t req_index, uint32_t offset);
utofu_stadd_t la_assist_report_stadd(utofu_vcq_id_t id, uint32_t incoming_index);
/* Finds which part of the control memory a put has written. put_end: STADD one past the last byte
 * of the put, from its notice. *index: number of the slot (LA_IN_SLOT), index of the request
 * (LA_IN_REPLY), or index in la.control.assist_reports (LA_IN_ASSIST_REPORTS). *end: set for
 * LA_IN_REPLY only: put_end as an offset in the reply area. */
enum la_control_part { LA_IN_OTHER, LA_IN_SLOT, LA_IN_REPLY, LA_IN_ASSIST_REPORTS };
enum la_control_part la_control_find_part(utofu_stadd_t put_end, uint32_t *index, uint32_t *end);

#pragma GCC visibility pop

#endif
