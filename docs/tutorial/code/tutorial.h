/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the steps of the tutorial share. exchange.c has these functions with uTofu alone,
 * exchange_mpi.c with MPI.
 */
#ifndef TUTORIAL_H
#define TUTORIAL_H

#include <stdint.h>

#include <utofu.h>

enum { MAX_PROCESSES = 64 };

/* Ends the program unless the call succeeded: CALL(utofu_free_vcq(vcq)); */
#define CALL(call) check_call((call), #call)
void check_call(int rc, const char *what);

/* Rank of this process and number of processes. */
int my_rank(void);
int num_processes(void);

/* Every process gives a number, and has the numbers of all, in order of rank, when this returns. No
 * process returns before all have called it: so it is a barrier, too. */
void exchange(uint64_t mine, uint64_t all[MAX_PROCESSES]);

/* Ends the program unless there are enough processes. */
void need_processes(int minimum);

/* Waits for the next notice in the MRQ. */
struct utofu_mrq_notice wait_notice(utofu_vcq_hdl_t vcq);

/* Waits for the next entry of the TCQ: what a put reads may be written again. */
void wait_sent(utofu_vcq_hdl_t vcq);

/* Waits until a word that others write has this value. */
void wait_word(const uint64_t *word, uint64_t value);

/* Zeroed memory that begins at a page. */
void *new_memory(size_t size);

#endif
