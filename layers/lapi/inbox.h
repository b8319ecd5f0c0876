/* SPDX-License-Identifier: Apache-2.0 */
/* The slots of this task, in which other tasks put records. */
#ifndef LA_INBOX_H
#define LA_INBOX_H

#include "context.h"

#pragma GCC visibility push(hidden)

void la_inbox_setup(void);
uint32_t la_inbox_lanes(void);              /* number of lanes in use */
uint32_t la_inbox_next_slot(uint32_t lane); /* the slot of the next record of the lane */
bool la_inbox_has_next(uint32_t lane);
void la_inbox_advance(uint32_t lane);      /* advances to the next slot of the lane */
void la_inbox_mark_handled(uint32_t slot); /* the record of the slot was executed or queued */
void la_inbox_free(uint32_t slot);
bool la_inbox_free_next(uint32_t lane,
                        uint32_t slot); /* only if the slot is the next one to become free */

#pragma GCC visibility pop

#endif
