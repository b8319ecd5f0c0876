/* SPDX-License-Identifier: Apache-2.0 */
/* How the processes of the job learn of each other: each gives records, and all others look whether
   they have come. A record is known by the round (the case), its kind, and a step. Two ways: MPI
   (mpi.c, with -DCONFORM_MPI) and a folder (folder.c). No process waits here. */
#ifndef CONFORM_EXCHANGE_H
#define CONFORM_EXCHANGE_H

#include <stddef.h>

enum cf_record { CF_SHARE = 's', CF_CLOSE = 'c', CF_END = 'e' };

/* Sets rank and size. Not 0 if it works; else a message has been printed. */
int cf_exchange_open(int *argc, char ***argv, int *rank, int *size);
void cf_exchange_give(unsigned round, enum cf_record kind, unsigned step, const void *bytes,
                      size_t size);
/* Not 0 if the record of that rank has come; its bytes are there, then. Its size must be 'size'. */
int cf_exchange_have(int rank, unsigned round, enum cf_record kind, unsigned step, void *bytes,
                     size_t size);
void cf_exchange_forget(unsigned round); /* no process asks for records of this round any more */
/* Ends the exchange. After 'lost' the others are not waited for. */
void cf_exchange_close(int lost);

#endif
