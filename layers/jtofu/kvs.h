/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key-value space (KVS) of a job, in memory of rank 0: a slot for each process, and counters.
 * Only jt_kvs_open() waits for other processes.
 */
#ifndef JT_KVS_H
#define JT_KVS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/job.h"

#pragma GCC visibility push(hidden)

enum { JT_SLOT = 4096 };

/* In the order of their memory. */
enum jt_counter { JT_FENCES, JT_LEAVERS, JT_NUM_COUNTERS };

/* Waits for rank 0, at most UTOFU_JOB_TIMEOUT. *name: a random number of this job. False, here and
 * below: an error is logged. */
bool jt_kvs_open(const struct lc_job *job, uint64_t *name);
void jt_kvs_close(void);
/* Writes the first `size` bytes of the slot of this process. */
bool jt_kvs_write(const void *text, size_t size);
bool jt_kvs_read(uint32_t rank, void *text);
bool jt_kvs_increment(enum jt_counter counter);
bool jt_kvs_read_counter(enum jt_counter counter, uint64_t *value);

#pragma GCC visibility pop

#endif
