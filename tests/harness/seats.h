/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the processes of a test have in memory that all of them map, and the functions of harness.h
 * that need nothing else: seats.c. For harness.c, which forks the processes, and for
 * tests/soak/board.c, whose processes a script starts.
 */
#ifndef UT_TEST_SEATS_H
#define UT_TEST_SEATS_H

#include <stdarg.h>

#include "harness.h"

/* A process. */
struct ut_seat {
    _Atomic uint64_t pid;
    _Atomic uint64_t barriers; /* entered */
    char step[256];
    char failure[1024];
    uint8_t record[UT_ADDRESS_RECORD_MAX];
};

/* Takes the seat of this rank, and begins its random numbers. */
void ut_seat_take(int rank, int size);
/* Writes the text of a failure into the seat of this process. */
void ut_seat_fail(const char *file, int line, const char *what, const char *format, va_list args);

/* What harness.c and board.c implement: */
struct ut_seat *ut_seat_of(int rank);
_Atomic uint64_t *ut_cells(void);
bool ut_is_dead(int rank);
/* Ends or stops the process if another one has failed. */
void ut_leave_if_failed(void);

#endif
