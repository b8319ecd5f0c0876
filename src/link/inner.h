/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this module share. Each uses those above it: link.c; kept.c and read.c;
 * hello.c; seek.c; connect.c; message.c. */
#ifndef UT_LINK_INNER_H
#define UT_LINK_INNER_H

#include <stdlib.h>

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

/* seek.c */

/* What has happened to a connection, and where what waits for it may fail, why. */
struct ut_link_news {
    enum ut_life_event event;
    struct ut_why why;
};

/* Looks for the owner of the peer's VCQ, and asks it for a connection. */
struct ut_link_news ut_link_seek(struct ut_link *link);
/* The VCQ's endpoint of the provider; NULL: the provider is not in use. */
const struct ut_vcq_ep *ut_link_endpoint(const struct ut_vcq *vcq, const struct prov_ops *ops);
void ut_link_use_endpoint(struct ut_link *link, const struct ut_vcq_ep *e);
/* Memory for STADDs that the peer announces: needed from its first message on. */
bool ut_link_can_receive(struct ut_link *link);

/* kept.c */

enum {
    UT_MSG_SMALL = 104, /* bytes of a message whose buffer is reused */
    UT_MSG_SPARES = 96, /* free buffers that a link keeps: providers signal one send in 64 */
};

/* The oldest message has arrived. Buffers of small messages are reused: most packets and answers
 * need no malloc. */
static inline void ut_link_drop_first(struct ut_link *link)
{
    struct ut_link_msg *m = link->msg_first;

    link->msg_first = m->next;
    if (!link->msg_first)
        link->msg_last = &link->msg_first;
    if (__builtin_expect(m->size > UT_MSG_SMALL || link->num_spare >= UT_MSG_SPARES, 0)) {
        free(m);
        return;
    }
    m->next = link->msg_spare;
    link->msg_spare = m;
    link->num_spare++;
}

void ut_link_free_messages(struct ut_link *link);
/* The free buffers. */
void ut_link_free_spares(struct ut_link *link);
/* Messages that arrived before the connection broke are not repeated. The others get new numbers
 * when they are posted: until then others may have the old ones. */
void ut_link_drop_delivered(struct ut_link *link, uint64_t count);

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

/* connect.c */

/* Of a peer that was given up: may what starts now try again? */
bool ut_link_pause_is_over(const struct ut_link *link);

#endif
