/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address records in shared memory, by rank, in a memfd whose size cannot change.
 * The rendezvous server writes the records of a job, and the processes on its host read them
 * without a request. The server sends the file descriptor with its answer to a hello, over a unix
 * socket. A receiver of the descriptor can neither write to the memory nor change its size.
 * Launchers that provide no shared memory have a board for each node: its first process creates the
 * memory, the others open it through /proc, and each process writes its own record. If a process
 * cannot open the board, it queries the launcher.
 */
#ifndef UT_BOOTSTRAP_RECORDS_H
#define UT_BOOTSTRAP_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bootstrap/pack.h"

struct ut_job_record_slot;
struct ut_job_board_header;

struct ut_job_records {
    int fd;        /* descriptor, in the process that created the memory; -1: none */
    uint32_t size; /* number of ranks; 0: no memory */
    struct ut_job_record_slot *slots;
    struct ut_job_board_header *header; /* of a board; else NULL */
};

/* Identifies a board. The first process of the node publishes the key. */
struct ut_job_board_key {
    uint32_t pid, fd;
    uint64_t cookie;
};

/* For the server: creates the memory for a job of `size` processes. If it cannot be shared,
 * records->fd is -1. 0 or -ENOMEM. */
int ut_job_records_create(struct ut_job_records *records, uint32_t size);

/* For a process: maps the memory of the server. The caller keeps the descriptor. False:
 * ut_job_records_create() has not made this memory for a job of this size, or it cannot be mapped.
 */
bool ut_job_records_map(struct ut_job_records *records, int fd, uint32_t size);

/* Creates the board of a node of `size` processes. 0 or a negative errno. */
int ut_job_board_create(struct ut_job_records *board, uint32_t size, struct ut_job_board_key *key);

/* Opens a board. 0 or a negative errno: the memory is gone, belongs to another user, or to a job of
 * another size. */
int ut_job_board_open(struct ut_job_records *board, uint32_t size,
                      const struct ut_job_board_key *key);

/* Writes the record of a rank. record NULL: removes it. Nobody else may write this record. */
void ut_job_records_write(struct ut_job_records *records, uint32_t rank, const void *record,
                          uint16_t size);

/* Writes the own record to the board, once. True: now all processes of the node have written their
 * records. */
bool ut_job_board_write(struct ut_job_records *board, uint32_t local_rank, const void *record,
                        uint16_t size);

/* Copies the record of a rank, at most UT_JOB_RECORD_MAX bytes. False: there is no record, or
 * another process is writing it. */
bool ut_job_records_read(const struct ut_job_records *records, uint32_t rank, void *record,
                         size_t *size);

/* Packs all records, by rank. 0 or a negative errno. */
int ut_job_records_pack(const struct ut_job_records *records, struct ut_job_pack *pack);

/* Unmaps the memory, and closes its descriptor. Processes that have mapped the memory can still use
 * it. */
void ut_job_records_free(struct ut_job_records *records);

#endif
