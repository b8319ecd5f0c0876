/* SPDX-License-Identifier: Apache-2.0 */
/* The list of unacknowledged messages of a link, and its spare message buffers. */
#ifndef UT_LINK_UNACKED_H
#define UT_LINK_UNACKED_H

#include <stdlib.h>

#include "link/link.h"

enum {
    UT_MSG_BUFFER_SIZE = 104, /* size of the message buffers that are reused */
    UT_MSG_MAX_SPARES = 96,   /* maximum number of free buffers: providers signal one send in 64 */
};

/* Frees the oldest unacknowledged message after its arrival. Reuses buffers of small messages, so
 * that most packets and replies need no malloc. */
static inline void ut_link_free_oldest_unacked(struct ut_link *link)
{
    struct ut_link_msg *m = link->unacked_first;

    link->unacked_first = m->next;
    if (!link->unacked_first)
        link->unacked_last = &link->unacked_first;
    if (__builtin_expect(m->size > UT_MSG_BUFFER_SIZE || link->num_spare >= UT_MSG_MAX_SPARES, 0)) {
        free(m);
        return;
    }
    m->next = link->msg_spare;
    link->msg_spare = m;
    link->num_spare++;
}

/* Frees all unacknowledged messages, queued ones too. */
void ut_link_free_unacked(struct ut_link *link);
void ut_link_free_spare_buffers(struct ut_link *link);
/* Frees the messages with numbers up to `count`, which arrived before the connection broke. Queues
 * the other messages to be posted again, with new sequence numbers: their old numbers may go to
 * newer messages. */
void ut_link_ack_and_requeue(struct ut_link *link, uint64_t count);

#endif
