/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs that hang: prints every VCQ, link and gate to standard error, when a debugger calls
 * ut_dump() or on the signal of UTOFU_DUMP_SIGNAL. Allocates nothing, asks no other process, and
 * waits at most a fraction of a second for a lock.
 * Uses util, process, peers, vcq, link. barrier prints the gates: see ut_dump_set_gates().
 */
#ifndef UT_STATS_DUMP_H
#define UT_STATS_DUMP_H

#include <stdbool.h>
#include <stddef.h>

#include "ident/ident.h"

struct ut_vcq;

/* Installs the handler, if a signal is set. 0 or a negative errno. */
int ut_dump_open(unsigned int rank);

/* The handler. If the program has its own handler for the signal, that handler calls this one. */
void ut_dump_on_signal(int number);

/* Prints everything, at any time, from any thread. */
void ut_dump(void);

/* Prints a line. */
typedef void ut_dump_print(const char *fmt, ...);

/* From now on dumps, and a process that aborts, have the lines of the shuffle mode. An earlier
 * handler of SIGABRT runs after that. */
void ut_dump_on_abort(void (*shuffle)(ut_dump_print *print));

/* Prints one line, preceded by the rank. */
void ut_dump_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Writes " rank=R" into buf; " likely_rank=R" if only the launcher's layout gives R; nothing if R
 * is -1. */
enum { UT_DUMP_RANK = 40 };
const char *ut_dump_rank(char *buf, int64_t rank, bool certain);

/* From now on dumps have the gates of the VCQs of the library. print_gates() is called with the
 * lock of the VCQ held. */
void ut_dump_set_gates(void (*print_gates)(struct ut_vcq *vcq));

#endif
