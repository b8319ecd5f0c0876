/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The known records, by rank. A record takes 30 to 40 bytes if neighbouring ranks are known, too.
 * In a job with all-to-all communication each process has the records of all processes. Memory
 * grows with the number of records, not with the size of the job. The caller holds a lock.
 */
#ifndef UT_BOOTSTRAP_STORE_H
#define UT_BOOTSTRAP_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ut_job_group;

struct ut_job_store {
    struct ut_job_group **groups; /* a hash table; NULL: empty place */
    uint32_t num_groups, room;
    uint32_t num_records;
};

/* Adds a record, or replaces an earlier one. 0, -ENOMEM or -EINVAL (too long). */
int ut_job_store_add(struct ut_job_store *store, uint32_t rank, const void *record, size_t size);

/* Copies the record of a rank, at most UT_JOB_RECORD_MAX bytes. False: no record. */
bool ut_job_store_read(const struct ut_job_store *store, uint32_t rank, void *record, size_t *size);

/* Iterates over the ranks, in the order of the table. *place is 0 at first, and is advanced. -1:
 * the end. */
int64_t ut_job_store_next(const struct ut_job_store *store, uint64_t *place);

/* The number of bytes in use, including the overhead of malloc(). */
size_t ut_job_store_bytes(const struct ut_job_store *store);

void ut_job_store_free(struct ut_job_store *store);

#endif
