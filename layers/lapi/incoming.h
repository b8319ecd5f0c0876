/* SPDX-License-Identifier: Apache-2.0 */
/* Incomplete messages of other tasks. */
#ifndef LA_INCOMING_H
#define LA_INCOMING_H

#include "context.h"

#pragma GCC visibility push(hidden)

void la_incoming_setup(void);
struct la_incoming *la_incoming_alloc(void); /* NULL: none is free */
/* Allocates a spare entry if there is none and a completion handler waits. True: there is one. */
bool la_incoming_reserve_spare(void);
void la_incoming_free(struct la_incoming *msg);
void la_incoming_start(struct la_incoming *msg); /* starts to fetch or put the data */
/* The same for LA_GETV. list: of segments, if it is in the record. */
void la_incoming_start_getv(struct la_incoming *msg, const void *list);
/* All data are here: runs the completion handler, increments the counter, and replies CMPL. */
void la_incoming_complete(struct la_incoming *msg);
bool la_incoming_progress(void);                       /* true: the data of a message have ended */
bool la_incoming_in_use(void);                         /* true: some messages are incomplete */
void la_incoming_handle_assist_report(uint32_t index); /* la.control.assist_reports[index] */
void la_incoming_peer_gone(uint32_t rank); /* the task is gone and puts no more chunks */
/* flag: the flag of the record that the reply is for, LA_WANTS_FIN or LA_WANTS_CMPL. value:
 * the word that the reply puts, see struct la_reply_area. */
void la_send_reply(const struct la_record *rec, uint8_t flag, uint64_t value);

/* True if the resources suffice to execute a record, and for the messages that its handler may
 * send. needs_incoming: the record needs a struct la_incoming. */
static inline bool la_can_execute(bool needs_incoming)
{
    return la.requests.num_free >= LA_MIN_REQS_PER_HANDLER && la.net.port.num_free > 2 &&
           (!needs_incoming || la.incoming.used < LA_NUM_INCOMING || la_incoming_reserve_spare());
}

#pragma GCC visibility pop

#endif
