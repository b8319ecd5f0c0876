/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters of one or more processes, for UTOFU_STATS=job: for each counter, of the whole
 * program and of each region, the sum, the minimum and maximum, and their ranks.
 */
#ifndef UT_STATS_RECORD_H
#define UT_STATS_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "stats/stats.h"

struct ut_record;

/* Creates an empty record for a job of `size` processes. NULL: no memory. */
struct ut_record *ut_record_new(uint32_t size);
void ut_record_free(struct ut_record *record);
/* The packed counters of this process since `opened_at`. The caller frees them. NULL: no memory. */
void *ut_record_own(const struct ut_job_info *job, uint64_t opened_at, size_t *size);
void *ut_record_pack(const struct ut_record *record, size_t *size);
/* Adds the packed counters of another process. False: the bytes are damaged, or the process was
 * merged already. */
bool ut_record_merge(struct ut_record *record, const void *bytes, size_t size);
/* Have all processes reported? */
bool ut_record_complete(const struct ut_record *record);
/* Prints the summary to standard error or the file of UTOFU_STATS, as text or JSON. */
void ut_record_print(const struct ut_record *record, uint32_t rank);

#endif
