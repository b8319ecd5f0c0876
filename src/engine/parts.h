/* SPDX-License-Identifier: Apache-2.0 */
/* Long puts in parts, by several connections: see parts.c. */
#ifndef UT_ENGINE_PARTS_H
#define UT_ENGINE_PARTS_H

#include "engine/parted.h"
#include "engine/posting.h"

/* The provider returned -EMSGSIZE for the put. True: *outcome says what became of it, for instance
 * that it is posted in parts. False: the link's own connection returned *rc for the whole put. */
bool ut_parts_post(struct ut_link *link, struct ut_slot *slot, struct prov_xfer *x, int *rc,
                   enum ut_outcome *outcome);
/* No part is out any more: the put ends, goes again, or its notice is next. */
void ut_parts_end(struct ut_link *link, struct ut_slot *slot);
/* The put in parts has ended, with success or an error. */
void ut_parts_finish(struct ut_link *link, struct ut_slot *slot);

#endif
