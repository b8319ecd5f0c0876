/* SPDX-License-Identifier: Apache-2.0 */
/* The registered memory that peers write to and read. */
#ifndef LA_CONTROL_H
#define LA_CONTROL_H

#include "context.h"

#pragma GCC visibility push(hidden)

bool la_control_setup(void);
void la_control_close(void);
static inline utofu_stadd_t la_control_stadd(utofu_vcq_id_t id, uint64_t offset)
{
    return lc_control_stadd(&la.control.area, id, offset);
}
/* For puts to partners: the port of net.c, and this memory. */
static inline struct lc_partner_context la_partner_context(void)
{
    return (struct lc_partner_context){&la.job, &la.net.port, &la.control.area};
}
utofu_stadd_t la_slot_stadd(utofu_vcq_id_t id, uint32_t slot);
utofu_stadd_t la_reply_stadd(utofu_vcq_id_t id, uint32_t req, uint32_t offset);
utofu_stadd_t la_assisted_stadd(utofu_vcq_id_t id, uint32_t in);
/* Finds the area of a notice, whose address is one past the last byte. offset: within a reply area.
 * */
enum la_area { LA_IN_OTHER, LA_IN_SLOT, LA_IN_REPLY, LA_IN_ASSISTED };
enum la_area la_control_classify(utofu_stadd_t stadd, uint32_t *index, uint32_t *offset);

#pragma GCC visibility pop

#endif
