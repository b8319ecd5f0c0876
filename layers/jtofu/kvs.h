/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A board that all processes of the job can reach, in the memory of the first one: a slot for what
 * each process says, and counters. No function but the first waits for other processes.
 */
#ifndef JT_KVS_H
#define JT_KVS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/job.h"

#pragma GCC visibility push(hidden)

enum { JT_SLOT = 4096 };

/* In the order in which they stand in memory. */
enum jt_counter { JT_FENCES, JT_LEAVERS, JT_NUM_COUNTERS };

/* Waits for the first process, within UTOFU_JOB_TIMEOUT. *name: a number of this job. false, here
 * and below: a line says why. */
bool jt_kvs_open(const struct lc_job *job, uint64_t *name);
void jt_kvs_close(void);
/* This process's slot, the first `size` bytes. */
bool jt_kvs_write(const void *text, size_t size);
bool jt_kvs_read(uint32_t rank, void *text);
bool jt_kvs_increment(enum jt_counter counter);
bool jt_kvs_read_counter(enum jt_counter counter, uint64_t *value);

#pragma GCC visibility pop

#endif
