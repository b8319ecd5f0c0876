/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several records in few bytes: the first one in full, of each only what differs from it. Records
 * of the processes of a host, or of neighbouring ranks, have most bytes in common. The bytes of a
 * pack may come from another process: nothing outside of them is read. Pure functions.
 */
#ifndef UT_BOOTSTRAP_PACK_H
#define UT_BOOTSTRAP_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ut_job_pack {
    uint8_t *data; /* NULL: nothing was inserted yet */
    size_t size;
};

/* Inserts a record of at most UT_JOB_RECORD_MAX bytes before the one with this index, or as the
 * last. 0; -ENOMEM; -EINVAL: there is no such place. */
int ut_job_pack_insert(struct ut_job_pack *pack, unsigned int index, const void *record,
                       size_t size);

/* Removes the record with this index, if there is one. */
void ut_job_pack_remove(struct ut_job_pack *pack, unsigned int index);

/* Copies the record with this index: UT_JOB_RECORD_MAX bytes at most. False: there is none. */
bool ut_job_pack_read(const struct ut_job_pack *pack, unsigned int index, void *record,
                      size_t *size);

void ut_job_pack_free(struct ut_job_pack *pack);

#endif
