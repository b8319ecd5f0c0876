/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of other tasks. */
#ifndef LA_RECEIVE_H
#define LA_RECEIVE_H

#include "context.h"

#pragma GCC visibility push(hidden)

/*
 * records.c: is a record one of this layer?
 */
bool la_record_is_good(const struct la_record *rec);
bool la_record_is_in_line(const struct la_record *rec); /* within one line, if it says so */

/*
 * entries.c: header handlers, by an index or an address.
 */
void la_entries_setup(void);
void *la_receive_address(int index);
void la_receive_set_address(int index, void *address);
hdr_hndlr_t *la_entry_of(const struct la_record *rec); /* NULL: there is none */
/* An address in the code of the program is sent as what is between it and the program's base. */
bool la_entry_in_program(uintptr_t address, uint64_t *entry);

/*
 * transfer.c: messages of which something is still to be done.
 */
void la_transfer_setup(void);
struct la_in *la_in_take(void); /* NULL: none is free */
bool la_in_spare(void);         /* there is one more */
void la_in_drop(struct la_in *in);
void la_transfer_start(struct la_in *in); /* fetch the data, or bring it */
/* Of a get of pieces: the list of them is there, or is to be fetched. */
void la_transfer_start_list(struct la_in *in, const void *there);
void la_transfer_ended(struct la_in *in); /* all data is there: handlers, counters, notices */
bool la_transfer_step(void);
bool la_transfer_busy(void);
void la_transfer_helped(uint32_t index); /* la.control.helped has it */
void la_transfer_lost(uint32_t rank);    /* it is gone, and brings nothing any more */
void la_return(const struct la_record *rec, uint32_t offset, uint64_t value);

/* For a message: what it may need, and what its handler may send. */
static inline bool la_has_room(bool needs_in)
{
    return la.requests.num_free >= LA_KEEP_SOME && la.net.port.num_free > 2 &&
           (!needs_in || la.transfer.used < LA_INS || la_in_spare());
}

/*
 * receive.c: what a record wants.
 */
void la_receive_record(struct la_record *rec);
/* Of one line, whose flags are LA_ONE_LINE alone: a message or a put. */
void la_receive_line(struct la_record *rec);

/*
 * inbox.c: the slots of this task.
 */
void la_inbox_setup(void);
uint32_t la_inbox_lanes(void);              /* that are in use */
uint32_t la_inbox_next_slot(uint32_t lane); /* where the record is expected */
bool la_inbox_has_next(uint32_t lane);
void la_inbox_pass(uint32_t lane); /* that record: the next one is expected */
void la_inbox_take(uint32_t slot); /* its record has come */
void la_inbox_free(uint32_t slot);
bool la_inbox_free_next(uint32_t lane, uint32_t slot); /* if it is the next to become free */

/*
 * dispatch.c
 */
void la_receive_setup(void);
void la_receive_arrived(uint32_t slot);
/* Else notices are to be taken: they are not to fill the MRQ. */
static inline bool la_receive_may_look(void)
{
    return la.dispatch.num_early < LA_MOST_EARLY &&
           __atomic_load_n(&la.control.words->lanes, __ATOMIC_RELAXED) > 0;
}
bool la_receive_look(void); /* handles records whose notices have not come yet */
bool la_dispatch(void);

#pragma GCC visibility pop

#endif
