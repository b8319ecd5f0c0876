/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs that hang: lines on standard error about every VCQ, every link and every gate, from
 * a debugger ("call ut_dump()") or on the signal that UTOFU_DUMP_SIGNAL names. Allocates nothing,
 * asks no other process, and waits at most a fraction of a second for a lock.
 *
 * Uses util, process, peers, vcq, link. Gates are written by barrier, through ut_dump_gates.
 */
#ifndef UT_STATS_DUMP_H
#define UT_STATS_DUMP_H

#include <stdbool.h>
#include <stddef.h>

#include "ident/ident.h"

struct ut_vcq;

/* Installs the handler, where a signal is asked for. 0 or a negative errno. */
int ut_dump_open(unsigned int rank);

/* The handler: for who has one of its own for the same signal, which calls it. */
void ut_dump_on_signal(int number);

/* Writes everything, at any time, from any thread. */
void ut_dump(void);

/* One line, with the rank before it. */
void ut_dump_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Writes " rank=R" into buf, or " likely_rank=R" where only the launcher's layout says so, or
 * nothing. R: the process with these coordinates and CQ, or local rank. */
enum { UT_DUMP_RANK = 40 };
const char *ut_dump_rank(char *buf, const struct ut_coords *coords, unsigned int number,
                         bool is_cq);

/* Writes the gates of a VCQ of the library, whose lock is held; NULL: no gate was allocated. */
extern void (*ut_dump_gates)(struct ut_vcq *vcq);

#endif
