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
/* A vector get: `there` is its list of pieces, unless the list has to be fetched. */
void la_transfer_start_list(struct la_transfer *in, const void *there);
/* The data are complete: runs the handler, counts, and replies. */
void la_transfer_complete(struct la_transfer *in);
bool la_transfer_progress(void);
bool la_transfer_busy(void);
void la_transfer_assisted(uint32_t index); /* the origin has written la.control.assisted[index] */
void la_transfer_peer_lost(uint32_t rank); /* the task is gone and puts no more pieces */
void la_send_reply(const struct la_record *rec, uint32_t offset, uint64_t value);

/* Are there enough resources to execute a record, and for what its handler may send? */
static inline bool la_has_room(bool needs_transfer)
{
    return la.requests.num_free >= LA_RESERVED_PER_HANDLER && la.net.port.num_free > 2 &&
           (!needs_transfer || la.transfer.used < LA_TRANSFERS || la_transfer_has_spare());
}

#pragma GCC visibility pop

#endif
