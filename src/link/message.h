/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the library. */
#ifndef UT_LINK_MESSAGE_H
#define UT_LINK_MESSAGE_H

#include "link/link.h"

/* Sends a message of the library: copies it, queues it if necessary, and sends it again after a
 * broken connection. `solicited`: wakes the peer if it sleeps. If the copy fails for lack of
 * memory, the link is closed. */
void ut_link_send(struct ut_link *link, const void *data, size_t size, bool solicited);

/* Stores a STADD that the peer announced. `slot` must be less than UT_NUM_ANNOUNCED. If memory is
 * short, the link is closed. */
void ut_link_store_announced(struct ut_link *link, uint32_t slot, utofu_stadd_t stadd);

/* Posts queued messages until the provider's queue is full. */
void ut_link_post_messages(struct ut_link *link);

/* Handles the completion of the message with this cookie. PROV_OK: frees this message and all
 * earlier ones, which have arrived. */
void ut_link_msg_done(struct ut_link *link, uint64_t cookie, enum prov_status status);

#endif
