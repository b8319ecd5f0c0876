/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The board of a soak: a file that all processes of the job and scripts/soak map. It carries the
 * barriers between the epochs, counts for the line of each minute, and the last operations of each
 * process for the report of a fault. board.c and tests/harness/seats.c implement harness.h with it,
 * so that the functions of tests/harness/ends.h and of the barrier tests run in a job that a
 * launcher has started, also between hosts that share the file.
 *
 * scripts/soak knows the layout: BOARD there.
 */
#ifndef UT_SOAK_BOARD_H
#define UT_SOAK_BOARD_H

#include "seats.h"

enum { SOAK_MAX_PROCS = 16, SOAK_LAST_OPS = 64 };

enum soak_count {
    SOAK_OPS,     /* communications started */
    SOAK_ENTRIES, /* TCQ entries and notices that were read */
    SOAK_BYTES,   /* of their data */
    SOAK_EPOCHS,  /* epochs whose memory and notices were as the model has them */
    SOAK_REFUSED, /* communications with a wrong address, each of which broke something */
    SOAK_LEASES,  /* registrations made and ended under load */
    SOAK_LIVES,   /* VCQs created and freed under load */
    SOAK_ROUNDS,  /* barriers and reductions */
    SOAK_HOPS,    /* puts that session mode has started */
    SOAK_FORKS,
    SOAK_SLEEPS,      /* utofu_wait_vcqs() */
    SOAK_PEER_ERRORS, /* UTOFU_ERR_MRQ_PEER after a process was killed */
    SOAK_NUM_COUNTS
};

/* One of the last operations of a process. */
struct soak_last {
    char what[24];
    uint64_t epoch, number, target, length, flags;
};

struct soak_seat {
    struct ut_seat seat;
    _Atomic uint64_t count[32];
    _Atomic uint64_t num_last;
    struct soak_last last[SOAK_LAST_OPS];
    _Atomic uint64_t gates_stage; /* gates.c */
    uint64_t gates[64];           /* ids of barrier gates */
};
_Static_assert(sizeof(struct soak_seat) == 10272, "scripts/soak knows the layout");

struct soak_board {
    _Atomic uint64_t seed;
    _Atomic uint64_t size;
    _Atomic uint64_t failed; /* a process has failed */
    _Atomic uint64_t stop;   /* by scripts/soak: the next epoch is not begun */
    _Atomic uint64_t dead;   /* by scripts/soak: bits of the ranks that it has killed */
    _Atomic uint64_t ended;  /* by rank 0: one more than the number of epochs to be done */
    _Atomic uint64_t victim; /* by scripts/soak, of host 0: a rank to be killed, plus one */
    _Atomic uint64_t unused[57];
    _Atomic uint64_t cells[UT_NUM_CELLS];
    struct soak_seat seat[SOAK_MAX_PROCS];
};
_Static_assert(offsetof(struct soak_board, seat) == 4608, "scripts/soak knows the layout");

/* Maps the file, which scripts/soak has made, and takes this process's seat. */
void soak_board_open(const char *path, int rank, int size);
struct soak_board *soak_board(void);

void soak_count(enum soak_count what, uint64_t more);
void soak_note(const char *what, uint64_t epoch, uint64_t number, uint64_t target, uint64_t length,
               uint64_t flags);

/* Ranks that were killed: ut_is_dead(). */
bool soak_any_dead(void);
/* A process was killed before it had come to the last barrier of this process. The same in all
 * processes. */
bool soak_missed(void);

#endif
