/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of other tasks. */
#ifndef LA_RECEIVE_H
#define LA_RECEIVE_H

#include "context.h"

#pragma GCC visibility push(hidden)

/*
 * records.c: is a record one of this layer?
 */
bool la_record_is_valid(const struct la_record *rec);
bool la_record_fits_inline(const struct la_record *rec); /* within one line, if it says so */

/*
 * hdr_handlers.c: header handlers, by an index or an address.
 */
void la_hdr_handlers_setup(void);
void *la_hdr_handlers_get(int index);
void la_hdr_handlers_set(int index, void *address);
hdr_hndlr_t *la_hdr_handlers_find(const struct la_record *rec); /* NULL: there is none */
/* An address in the code of the program is sent as what is between it and the program's base. */
bool la_hdr_handlers_encode(uintptr_t address, uint64_t *entry);

/*
 * transfer.c: messages of which something is still to be done.
 */
void la_transfer_setup(void);
struct la_transfer *la_transfer_alloc(void); /* NULL: none is free */
bool la_transfer_has_spare(void);            /* there is one more */
void la_transfer_free(struct la_transfer *in);
void la_transfer_start(struct la_transfer *in); /* fetch the data, or bring it */
/* Of a get of pieces: the list of them is there, or is to be fetched. */
void la_transfer_start_list(struct la_transfer *in, const void *there);
void la_transfer_complete(
    struct la_transfer *in); /* all data is there: handlers, counters, notices */
bool la_transfer_progress(void);
bool la_transfer_busy(void);
void la_transfer_assisted(uint32_t index); /* la.control.helped has it */
void la_transfer_peer_lost(uint32_t rank); /* it is gone, and brings nothing any more */
void la_send_reply(const struct la_record *rec, uint32_t offset, uint64_t value);

/* For a message: what it may need, and what its handler may send. */
static inline bool la_has_room(bool needs_transfer)
{
    return la.requests.num_free >= LA_KEEP_SOME && la.net.port.num_free > 2 &&
           (!needs_transfer || la.transfer.used < LA_TRANSFERS || la_transfer_has_spare());
}

/*
 * receive.c: what a record wants.
 */
void la_receive_record(struct la_record *rec);
/* Of one line, whose flags are LA_INLINE alone: a message or a put. */
void la_receive_inline(struct la_record *rec);

/*
 * inbox.c: the slots of this task.
 */
void la_inbox_setup(void);
uint32_t la_inbox_lanes(void);              /* that are in use */
uint32_t la_inbox_next_slot(uint32_t lane); /* where the record is expected */
bool la_inbox_has_next(uint32_t lane);
void la_inbox_advance(uint32_t lane);    /* that record: the next one is expected */
void la_inbox_mark_taken(uint32_t slot); /* its record has come */
void la_inbox_free(uint32_t slot);
bool la_inbox_free_next(uint32_t lane, uint32_t slot); /* if it is the next to become free */

/*
 * dispatch.c
 */
void la_dispatch_setup(void);
void la_dispatch_arrived(uint32_t slot);
/* Else notices are to be taken: they are not to fill the MRQ. */
static inline bool la_dispatch_may_poll_memory(void)
{
    return la.dispatch.num_early < LA_MAX_EARLY &&
           __atomic_load_n(&la.control.words->lanes, __ATOMIC_RELAXED) > 0;
}
bool la_dispatch_poll_memory(void); /* handles records whose notices have not come yet */
bool la_dispatch_run(void);

#pragma GCC visibility pop

#endif
