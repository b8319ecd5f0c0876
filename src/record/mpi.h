/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPI calls in a recording. libutofu-record-mpi (tools/mpi), which is in front of the MPI library,
 * exports UT_RECORD_MPI_ATTACH. Whoever opens a recording, this library or libutofu-observe, looks
 * for that function, and hands over the functions that write. format.h has the layout.
 * Uses util and the tape.
 */
#ifndef UT_RECORD_MPI_H
#define UT_RECORD_MPI_H

#include <stdbool.h>
#include <stdint.h>

#define UT_RECORD_MPI_ATTACH "utofu_record_mpi_attach"

enum {
    UT_RECORD_MPI_API = 1,      /* of struct ut_record_mpi */
    UT_RECORD_MPI_NUMBERS = 40, /* maximum of a record */
};

struct ut_record_mpi {
    unsigned int api;
    /* A call begins. Returns the time, for the functions below. */
    uint64_t (*begin)(void);
    /* The call is about to return, and has done this: enum ut_record_mpi_kind, and its numbers.
     * same_call: one more record of the same call. */
    void (*write)(uint64_t begin, unsigned int kind, bool same_call, const int64_t *numbers,
                  unsigned int n);
    /* The call is about to return, and has done nothing that is recorded. */
    void (*end)(uint64_t begin);
    /* The same, because what it asked for is not there yet. */
    void (*poll)(uint64_t begin);
};

/* True: the calls of MPI will be recorded. */
typedef bool ut_record_mpi_attach(const struct ut_record_mpi *to);

/* Called once, when the recording is open. */
void ut_record_mpi_open(void);

#endif
