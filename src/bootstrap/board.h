/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of a node's processes in memory that they share, for launchers that have none: who is
 * on it finds the others without a question. The first process of the node makes it, the others
 * open it through /proc, and each writes its own record. Whoever cannot open it asks the launcher.
 */
#ifndef UT_BOOTSTRAP_BOARD_H
#define UT_BOOTSTRAP_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bootstrap/pack.h"
#include "bootstrap/records.h"

/* Where it is: what the first process publishes. */
struct ut_job_board_key {
    uint32_t pid, fd;
    uint64_t cookie;
};

struct ut_job_board {
    struct ut_job_board_memory *memory; /* NULL: there is none */
    struct ut_job_records records;      /* those in it, by local rank */
    int fd;                             /* of who made it, for the others */
};

/* Makes one for a node of size processes. 0 or a negative errno. */
int ut_job_board_create(struct ut_job_board *board, uint32_t size, struct ut_job_board_key *key);

/* Opens it. 0, or a negative errno: it is gone, or not one of this user for so many processes. */
int ut_job_board_open(struct ut_job_board *board, uint32_t size,
                      const struct ut_job_board_key *key);

/* The own record, once. True: now all processes of the node have written theirs. */
bool ut_job_board_write(struct ut_job_board *board, uint32_t local_rank, const void *record,
                        uint16_t size);

/* Others keep what they have opened. */
void ut_job_board_close(struct ut_job_board *board);

/* Those of all processes, by local rank. 0 or a negative errno. */
int ut_job_board_pack(const struct ut_job_board *board, struct ut_job_pack *pack);

#endif
