/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this module share. Each file uses the files listed before it: link.c;
 * unacked.c, stag_read.c and rail_setup.c; hello.c; owner.c; connect.c; message.c; rails.c. */
#ifndef UT_LINK_INNER_H
#define UT_LINK_INNER_H

#include <stdlib.h>

#include "link/link.h"

/* link.c */

/* A new link of the VCQ, in the list of all links and in no hash bucket. NULL: no memory. */
struct ut_link *ut_link_new(struct ut_vcq *vcq, const struct ut_vcq_ident *peer);
/* The link for the key of an id; NULL: there is none. */
struct ut_link *ut_link_lookup(struct ut_vcq *vcq, uint64_t key);
/* Remembers the link found last and its id, for ut_link_to(). */
void ut_link_remember(struct ut_vcq *vcq, struct ut_link *link, utofu_vcq_id_t id);
/* Forgets the cached part of the peer's STag table. */
void ut_link_drop_stag_cache(struct ut_link *link);

/* owner.c */

/* An event of the connection, with the cause for communications that fail because of it. */
struct ut_link_outcome {
    enum ut_fsm_event event;
    struct ut_failure why;
};

/* Looks for the owner of the peer's VCQ, and asks it for a connection. */
struct ut_link_outcome ut_link_connect_to_owner(struct ut_link *link);
/* The VCQ's endpoint of the provider; NULL: the provider is not in use. */
const struct ut_vcq_ep *ut_link_find_endpoint(const struct ut_vcq *vcq, const struct prov_ops *ops);
void ut_link_use_endpoint(struct ut_link *link, const struct ut_vcq_ep *e);
/* Allocates memory for STADDs that the peer announces, which its first message may do. */
bool ut_link_alloc_rx_announced(struct ut_link *link);

/* unacked.c */

enum {
    UT_MSG_SMALL = 104, /* bytes of a message whose buffer is reused */
    UT_MSG_SPARES = 96, /* free buffers that a link keeps: providers signal one send in 64 */
};

/* The oldest message has arrived. Buffers of small messages are reused, so most packets and answers
 * need no malloc. */
static inline void ut_link_free_oldest_unacked(struct ut_link *link)
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

void ut_link_free_unacked(struct ut_link *link);
void ut_link_free_spare_buffers(struct ut_link *link);
/* Drops the messages that arrived before the connection broke: they are not repeated. The other
 * messages get new numbers when they are posted, and until then their old numbers may be in use
 * again. */
void ut_link_ack_upto(struct ut_link *link, uint64_t count);

/* hello.c */

void ut_link_fill_hello(const struct ut_link *link, int provider, uint16_t serial,
                        struct ut_hello *hello);
/* Takes over the peer's hello; false: the peer is not compatible with this process. */
bool ut_link_process_hello(struct ut_link *link, const void *data, size_t size);
/* Takes what is needed of the peer's hello before this side's hello answers it. */
void ut_link_peek_hello(struct ut_link *link, const void *data, size_t size);
/* Is this an outdated request? Two requests crossed: the peer accepted this side's request and
 * dropped its own, which arrives after the peer's answer. An outdated request must not close the
 * connection that is up: messages that arrived on it and were not polled yet would be lost. */
bool ut_link_is_outdated(const struct ut_link *link, const void *data, size_t size);

/* connect.c */

/* The peer was given up: may a new communication try to connect again? */
bool ut_link_pause_is_over(const struct ut_link *link);

#endif
