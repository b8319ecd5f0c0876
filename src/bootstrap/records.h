/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of a job in shared memory: the rendezvous server writes them, and the processes of
 * its host read them without asking it. The server hands out the file descriptor with its answer to
 * a hello, over a unix socket; whoever has it can neither write to the memory nor change its size.
 */
#ifndef UT_BOOTSTRAP_RECORDS_H
#define UT_BOOTSTRAP_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ut_job_record_slot;

struct ut_job_records {
    int fd;        /* of the server; -1: there is no such memory */
    uint32_t size; /* of the job; 0: there is no such memory */
    struct ut_job_record_slot *slots;
};

/* So many slots in memory of the caller, which is zero at first. */
size_t ut_job_records_bytes(uint32_t size);
struct ut_job_records ut_job_records_at(void *memory, uint32_t size);

/* For the server: makes the memory for a job of size processes, or says in records->fd that there
 * is none. */
void ut_job_records_create(struct ut_job_records *records, uint32_t size);

/* The record of a rank; size 0: it has none any more. One thread writes. */
void ut_job_records_write(struct ut_job_records *records, uint32_t rank, const void *record,
                          uint16_t size);

/* For a process: maps what the server has made. The descriptor stays the caller's. False: it is not
 * what ut_job_records_create() makes for a job of this size, or cannot be mapped. */
bool ut_job_records_map(struct ut_job_records *records, int fd, uint32_t size);

/* Copies the record of a rank: at most UT_JOB_RECORD_MAX bytes. False: it is not there, or is being
 * written. */
bool ut_job_records_read(const struct ut_job_records *records, uint32_t rank, void *record,
                         size_t *size);

void ut_job_records_free(struct ut_job_records *records);

#endif
