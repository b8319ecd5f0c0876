/* SPDX-License-Identifier: Apache-2.0 */
/* State of long puts in parts, for other communications of the link. parts.h posts the parts. */
#ifndef UT_ENGINE_PARTED_H
#define UT_ENGINE_PARTED_H

#include "engine/inner.h"

/* True if the slot has a remote notice or an SPS, which counts as a message. */
bool ut_slot_notifies_peer(const struct ut_slot *slot);

/* For a link with rails: true if a put in parts precedes this slot, and its data may be incomplete,
 * or its notice is not posted. */
bool ut_parted_is_before(const struct ut_link *link, const struct ut_slot *slot);
/* True if the slot may be posted in parts: only puts in parts may precede it, whose notices wait
 * for each other. */
bool ut_parted_is_allowed(const struct ut_link *link, const struct ut_slot *slot);
/* True if the slot must wait for puts in parts before it. */
bool ut_parted_must_wait(const struct ut_link *link, const struct ut_slot *slot);

/* ut_parted_begin(): the parts of the slot are posted. ut_parted_end(): the slot is no longer in
 * parts, because it ends or is repeated as a whole. */
void ut_parted_begin(struct ut_link *link, struct ut_slot *slot);
void ut_parted_end(struct ut_link *link, struct ut_slot *slot);

/* The link's own connection is down. True: other connections still transfer parts of the slot, and
 * the slot waits for them. False: no request of the slot is outstanding. */
bool ut_parted_rewind(struct ut_link *link, struct ut_slot *slot);
/* The peer has a new VCQ: forgets what the old VCQ has received. */
void ut_parted_reset(struct ut_link *link);

#endif
