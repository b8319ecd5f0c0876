/* SPDX-License-Identifier: Apache-2.0 */
/* Posts long puts in parts over several connections: see parts.c. */
#ifndef UT_ENGINE_PARTS_H
#define UT_ENGINE_PARTS_H

#include "engine/parted.h"
#include "engine/posting.h"

/* The provider has returned -EMSGSIZE for the put. True: *outcome is the result, for instance that
 * the put is posted in parts. False: the link's own connection has to post the whole put. */
bool ut_parts_post(struct ut_link *link, struct ut_slot *slot, struct prov_xfer *x,
                   enum ut_outcome *outcome);
/* The last outstanding part has ended: ends the put, repeats it, or posts its notice. */
void ut_parts_end(struct ut_link *link, struct ut_slot *slot);
/* Ends a put in parts, with success or an error. */
void ut_parts_finish(struct ut_link *link, struct ut_slot *slot);

#endif
