/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The board of a node: the address records of its processes in shared memory, for launchers that
 * provide
 * no shared memory. With it, processes of the node find each other without a query to the launcher.
 * The
 * first process of the node creates the memory, the others open it through /proc, and each process
 * writes its own record. If a process cannot open the memory, it queries the launcher.
 */
#ifndef UT_BOOTSTRAP_BOARD_H
#define UT_BOOTSTRAP_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bootstrap/pack.h"
#include "bootstrap/records.h"

/* Identifies the memory. The first process publishes the key. */
struct ut_job_board_key {
    uint32_t pid, fd;
    uint64_t cookie;
};

struct ut_job_board {
    struct ut_job_board_memory *memory; /* NULL: no memory */
    struct ut_job_records records;      /* the records in the memory, by local rank */
    int fd;                             /* descriptor, in the process that created the memory */
};

/* Creates the memory for a node of size processes. 0 or a negative errno. */
int ut_job_board_create(struct ut_job_board *board, uint32_t size, struct ut_job_board_key *key);

/* Opens the memory. 0 or a negative errno: the memory is gone, belongs to another user, or to a job
 * of another size. */
int ut_job_board_open(struct ut_job_board *board, uint32_t size,
                      const struct ut_job_board_key *key);

/* Writes the own record, once. True: now all processes of the node have written their records. */
bool ut_job_board_write(struct ut_job_board *board, uint32_t local_rank, const void *record,
                        uint16_t size);

/* Closes the memory for new processes. Processes that have opened it can still use it. */
void ut_job_board_close(struct ut_job_board *board);

/* Packs the records of all processes, by local rank. 0 or a negative errno. */
int ut_job_board_pack(const struct ut_job_board *board, struct ut_job_pack *pack);

#endif
