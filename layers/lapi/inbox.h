/* SPDX-License-Identifier: Apache-2.0 */
/* The slots of this task, in which other tasks put records. */
#ifndef LA_INBOX_H
#define LA_INBOX_H

#include "context.h"

#pragma GCC visibility push(hidden)

void la_inbox_setup(void);
uint32_t la_inbox_num_lanes(void);          /* private lanes in use */
uint32_t la_inbox_next_slot(uint32_t lane); /* the slot of the next record of the lane */
bool la_inbox_has_next(uint32_t lane);      /* the next record is inline, and has arrived */
void la_inbox_advance(uint32_t lane);       /* consumes the next record */
/* Consumes the record of any slot, also out of order. Does nothing for slots of the shared lane. */
void la_inbox_mark_consumed(uint32_t slot);
void la_inbox_free(uint32_t slot); /* the origin may use the slot again */
/* Fast path of la_inbox_free(). False: the slot is not the next one to become free. */
bool la_inbox_free_next(uint32_t lane, uint32_t slot);

#pragma GCC visibility pop

#endif
