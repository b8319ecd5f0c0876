/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address records of a node's processes in shared memory, for launchers that provide no shared
 * memory: processes of the node find each other without a question to the launcher. The first
 * process of the node creates the memory, the others open it through /proc, and each process writes
 * its own record. A process that cannot open the memory asks the launcher.
 */
#ifndef UT_BOOTSTRAP_BOARD_H
#define UT_BOOTSTRAP_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bootstrap/pack.h"
#include "bootstrap/records.h"

/* Identifies the memory; published by the first process. */
struct ut_job_board_key {
    uint32_t pid, fd;
    uint64_t cookie;
};

struct ut_job_board {
    struct ut_job_board_memory *memory; /* NULL: no memory */
    struct ut_job_records records;      /* the records in the memory, by local rank */
    int fd;                             /* of the process that created the memory */
};

/* Creates the memory for a node of size processes. 0 or a negative errno. */
int ut_job_board_create(struct ut_job_board *board, uint32_t size, struct ut_job_board_key *key);

/* Opens the memory. 0, or a negative errno: it is gone, another user's, or of another job size. */
int ut_job_board_open(struct ut_job_board *board, uint32_t size,
                      const struct ut_job_board_key *key);

/* Writes the own record, once. True: all processes of the node have now written theirs. */
bool ut_job_board_write(struct ut_job_board *board, uint32_t local_rank, const void *record,
                        uint16_t size);

/* Processes that have opened the memory can go on using it. */
void ut_job_board_close(struct ut_job_board *board);

/* Packs the records of all processes, by local rank. 0 or a negative errno. */
int ut_job_board_pack(const struct ut_job_board *board, struct ut_job_pack *pack);

#endif
