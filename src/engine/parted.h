/* SPDX-License-Identifier: Apache-2.0 */
/* Long puts in parts, as the others on their link see them; parts.h says more of them. */
#ifndef UT_ENGINE_PARTED_H
#define UT_ENGINE_PARTED_H

#include "engine/inner.h"

/* Has it a remote notice or an SPS, that is, something that counts as a message? */
bool ut_slot_notifies_peer(const struct ut_slot *slot);

/* Of a link with rails: is there a put in parts before this slot whose data may not be there, or
 * whose notice is not posted? */
bool ut_parted_is_before(const struct ut_link *link, const struct ut_slot *slot);
/* May the slot be posted in parts? Nothing but puts in parts may be before it, which wait for each
 * other with their notices only. */
bool ut_parted_is_allowed(const struct ut_link *link, const struct ut_slot *slot);
/* Has the slot to wait for puts in parts before it? */
bool ut_parted_must_wait(const struct ut_link *link, const struct ut_slot *slot);

/* The parts of the slot are posted; it is no longer in parts, as it ends, or goes again. */
void ut_parted_begin(struct ut_link *link, struct ut_slot *slot);
void ut_parted_end(struct ut_link *link, struct ut_slot *slot);

/* The link's own connection is down. True: parts of the slot are still out on others, and it waits
 * for them; false: no request of it is posted any more. */
bool ut_parted_rewind(struct ut_link *link, struct ut_slot *slot);
/* The peer's VCQ is another one now: what the old one has received does not count. */
void ut_parted_reset(struct ut_link *link);

#endif
