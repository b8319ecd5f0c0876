/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of a job in shared memory. The rendezvous server writes them, and the processes on
 * its host
 * read them without a request. The server sends the file descriptor with its answer to a hello,
 * over a
 * unix socket. A receiver of the descriptor can neither write to the memory nor change its size.
 */
#ifndef UT_BOOTSTRAP_RECORDS_H
#define UT_BOOTSTRAP_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ut_job_record_slot;

struct ut_job_records {
    int fd;        /* descriptor, in the server; -1: no memory */
    uint32_t size; /* size of the job; 0: no memory */
    struct ut_job_record_slot *slots;
};

/* The number of bytes for `size` records, and the records in memory of the caller, which must be
 * zeroed. */
size_t ut_job_records_bytes(uint32_t size);
struct ut_job_records ut_job_records_at(void *memory, uint32_t size);

/* For the server: creates the memory for a job of `size` processes. If it cannot be shared,
 * records->fd is -1. 0 or -ENOMEM. */
int ut_job_records_create(struct ut_job_records *records, uint32_t size);

/* Writes the record of a rank. size 0: removes it. For one thread. */
void ut_job_records_write(struct ut_job_records *records, uint32_t rank, const void *record,
                          uint16_t size);

/* For a process: maps the memory of the server. The caller keeps the descriptor. False:
 * ut_job_records_create() has not made this memory for a job of this size, or it cannot be mapped.
 */
bool ut_job_records_map(struct ut_job_records *records, int fd, uint32_t size);

/* Copies the record of a rank, at most UT_JOB_RECORD_MAX bytes. False: there is no record, or the
 * server is writing it. */
bool ut_job_records_read(const struct ut_job_records *records, uint32_t rank, void *record,
                         size_t *size);

void ut_job_records_free(struct ut_job_records *records);

#endif
