/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs several records into few bytes: the first one in full, the others as differences from it.
 * Records of processes on one host, or of neighbouring ranks, have most bytes in common. A pack may
 * come from another process, so no function reads beyond its end. Pure functions.
 */
#ifndef UT_BOOTSTRAP_PACK_H
#define UT_BOOTSTRAP_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ut_job_pack {
    uint8_t *data; /* NULL: empty */
    size_t size;
};

/* Inserts a record of at most UT_JOB_RECORD_MAX bytes before the record with this index, or at the
 * end. 0; -ENOMEM; -EINVAL: no such index. */
int ut_job_pack_insert(struct ut_job_pack *pack, unsigned int index, const void *record,
                       size_t size);

/* Removes the record with this index, if it exists. */
void ut_job_pack_remove(struct ut_job_pack *pack, unsigned int index);

/* Copies the record with this index, at most UT_JOB_RECORD_MAX bytes. False: no such record. */
bool ut_job_pack_read(const struct ut_job_pack *pack, unsigned int index, void *record,
                      size_t *size);

void ut_job_pack_free(struct ut_job_pack *pack);

#endif
