/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of this module share. Each file uses only files listed before it:
 * link.c; unacked.c, stag_read.c and rail_setup.c; hello.c; owner.c; connect.c; message.c;
 * rails.c. */
#ifndef UT_LINK_INNER_H
#define UT_LINK_INNER_H

#include <stdlib.h>

#include "link/link.h"

/* link.c */

/* Creates a link and adds it to the VCQ's list of links, but to no hash bucket. NULL: no memory. */
struct ut_link *ut_link_new(struct ut_vcq *vcq, const struct ut_vcq_ident *peer);
/* Returns the link for the key of an id; NULL: there is no such link. */
struct ut_link *ut_link_lookup(struct ut_vcq *vcq, uint64_t key);
/* Caches a link and its id for ut_link_to(). */
void ut_link_remember(struct ut_vcq *vcq, struct ut_link *link, utofu_vcq_id_t id);
/* Drops the cached part of the peer's STag table. */
void ut_link_drop_stag_cache(struct ut_link *link);

/* owner.c */

/* An event for the state machine, and the cause for communications that fail because of the
 * event. */
struct ut_link_outcome {
    enum ut_fsm_event event;
    struct ut_failure why;
};

/* Looks up the owner of the peer's VCQ and sends it a connect request. */
struct ut_link_outcome ut_link_connect_to_owner(struct ut_link *link);
/* Returns the VCQ's endpoint of the provider; NULL: this process does not use the provider. */
const struct ut_vcq_ep *ut_link_find_endpoint(const struct ut_vcq *vcq, const struct prov_ops *ops);
void ut_link_use_endpoint(struct ut_link *link, const struct ut_vcq_ep *e);
/* Allocates memory for STADDs that the peer announces. Its first message may already announce
 * one. */
bool ut_link_alloc_rx_announced(struct ut_link *link);

/* unacked.c */

enum {
    UT_MSG_SMALL = 104, /* size of the message buffers that are reused */
    UT_MSG_SPARES =
        96, /* maximum number of free buffers of a link: providers signal one send in 64 */
};

/* Frees the oldest unacknowledged message after its arrival. Reuses buffers of small messages, so
 * that most packets and replies need no malloc. */
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
/* Frees the messages that arrived before the connection broke; they are not sent again. The other
 * messages get new numbers when they are posted again: until then newer messages may have their old
 * numbers. */
void ut_link_ack_upto(struct ut_link *link, uint64_t count);

/* hello.c */

void ut_link_fill_hello(const struct ut_link *link, int provider, uint16_t serial,
                        struct ut_hello *hello);
/* Processes the peer's hello. False: the peer is not compatible with this process. */
bool ut_link_process_hello(struct ut_link *link, const void *data, size_t size);
/* Reads from the peer's hello what this side's reply needs. */
void ut_link_peek_hello(struct ut_link *link, const void *data, size_t size);
/* True for a connect request that is no longer valid: both requests crossed, the peer accepted
 * this side's request and dropped its own, which arrives after the peer's reply. Such a request
 * must not close the connection that is up, since messages that arrived and were not polled
 * would be lost. */
bool ut_link_is_outdated(const struct ut_link *link, const void *data, size_t size);

/* connect.c */

/* True if the pause after a silent peer is over, so that new communications may connect again. */
bool ut_link_pause_is_over(const struct ut_link *link);

#endif
