/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records that are known, by rank: some 30 to 40 bytes for each where neighbouring ranks are
 * known too, as a job in which everybody talks to everybody has as many of them as processes.
 * Memory grows with the records in it, not with the job. The caller has a lock.
 */
#ifndef UT_BOOTSTRAP_STORE_H
#define UT_BOOTSTRAP_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ut_job_group;

struct ut_job_store {
    struct ut_job_group **groups; /* a hash table, NULL where it is empty */
    uint32_t num_groups, room;
    uint32_t num_records;
};

/* 0, -ENOMEM or -EINVAL (too long); replaces an earlier record of the rank. */
int ut_job_store_add(struct ut_job_store *store, uint32_t rank, const void *record, size_t size);

/* Copies the record of a rank: at most UT_JOB_RECORD_MAX bytes. False: it is not there. */
bool ut_job_store_read(const struct ut_job_store *store, uint32_t rank, void *record, size_t *size);

/* The first rank in order of the table from *place on, which is 0 at first and moves on; -1: there
 * is none. */
int64_t ut_job_store_next(const struct ut_job_store *store, uint64_t *place);

/* Its bytes of memory, with what malloc() adds. */
size_t ut_job_store_bytes(const struct ut_job_store *store);

void ut_job_store_free(struct ut_job_store *store);

#endif
