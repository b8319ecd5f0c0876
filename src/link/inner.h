/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this module share: link.c, connect.c, hello.c, read.c, message.c. */
#ifndef UT_LINK_INNER_H
#define UT_LINK_INNER_H

#include "link/link.h"

/* link.c */

/* A new link of the VCQ, in the list of all, and in no bucket. NULL: no memory. */
struct ut_link *ut_link_new(struct ut_vcq *vcq, const struct ut_vcq_ident *peer);
/* The link of the key of an id; NULL: there is none. */
struct ut_link *ut_link_lookup(struct ut_vcq *vcq, uint64_t key);
/* For ut_link_to(): the link found last, and its id. */
void ut_link_remember(struct ut_vcq *vcq, struct ut_link *link, utofu_vcq_id_t id);
/* Forgets what was read of the peer's STag table. */
void ut_link_drop_table(struct ut_link *link);

/* connect.c */

/* Something has happened to the connection: what life.c says is done. */
void ut_link_live(struct ut_link *link, enum ut_life_event event);
/* The same where what waits may fail: `cause` and `seconds`, a timeout or 0, are for
 * utofu_get_last_error(). */
void ut_link_end(struct ut_link *link, enum ut_life_event event, enum ut_cause cause,
                 uint64_t seconds);
/* Of a peer that was given up: may what starts now try again? */
bool ut_link_pause_is_over(const struct ut_link *link);

/* seek.c */

/* UT_LIFE_SEEK: one of the events of looking and asking follows, inside the call. */
void ut_link_seek(struct ut_link *link);
/* The VCQ's endpoint of the provider; NULL: the provider is not in use. */
const struct ut_vcq_ep *ut_link_endpoint(const struct ut_vcq *vcq, const struct prov_ops *ops);
void ut_link_use_endpoint(struct ut_link *link, const struct ut_vcq_ep *e);
/* Memory for STADDs that the peer announces: needed from its first message on. */
bool ut_link_can_receive(struct ut_link *link);

/* hello.c */

void ut_link_fill_hello(const struct ut_link *link, int provider, uint16_t serial,
                        struct ut_hello *hello);
/* Takes over the peer's hello; false: it is not compatible with this process. */
bool ut_link_take_hello(struct ut_link *link, const void *data, size_t size);
/* Before the own hello answers this one. */
void ut_link_expect_hello(struct ut_link *link, const void *data, size_t size);
/* Two requests have crossed, the peer has accepted ours and dropped its own, and its own arrives
 * after its answer. It must not close the connection that is up: messages that arrived there and
 * were not polled yet would be lost. */
bool ut_link_is_outdated(const struct ut_link *link, const void *data, size_t size);

/* message.c */

void ut_link_free_messages(struct ut_link *link);
/* The free buffers. */
void ut_link_free_spares(struct ut_link *link);
/* Messages that arrived before the connection broke are not repeated. The others get new numbers
 * when they are posted: until then others may have the old ones. */
void ut_link_drop_delivered(struct ut_link *link, uint64_t count);

#endif
