/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of other tasks that are not complete. */
#ifndef LA_TRANSFER_H
#define LA_TRANSFER_H

#include "context.h"

#pragma GCC visibility push(hidden)

void la_transfer_setup(void);
struct la_transfer *la_transfer_alloc(void); /* NULL: none is free */
bool la_transfer_has_spare(void);            /* can one more be allocated? */
void la_transfer_free(struct la_transfer *in);
void la_transfer_start(struct la_transfer *in); /* fetches or puts the data */
/* The same for LA_GETV. list: of segments, unless the list has to be fetched. */
void la_transfer_start_getv(struct la_transfer *in, const void *list);
/* The data are complete: runs the handler, counts, and replies. */
void la_transfer_complete(struct la_transfer *in);
bool la_transfer_progress(void);                       /* true: a transfer has ended */
bool la_transfer_busy(void);                           /* some are not complete */
void la_transfer_handle_assist_report(uint32_t index); /* la.control.assist_reports[index] */
void la_transfer_peer_gone(uint32_t rank); /* the task is gone and puts no more chunks */
/* flag: the flag of the record that the reply is for, LA_WANTS_FIN or LA_WANTS_CMPL. */
void la_send_reply(const struct la_record *rec, uint8_t flag, uint64_t value);

/* True if the resources suffice for a record, and for the messages that its handler may send. */
static inline bool la_can_execute(bool needs_transfer)
{
    return la.requests.num_free >= LA_REQS_PER_HANDLER && la.net.port.num_free > 2 &&
           (!needs_transfer || la.transfer.used < LA_NUM_TRANSFERS || la_transfer_has_spare());
}

#pragma GCC visibility pop

#endif
