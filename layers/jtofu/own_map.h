/* SPDX-License-Identifier: Apache-2.0 */
/* The map of the job that the launcher has started. */
#ifndef JT_OWN_MAP_H
#define JT_OWN_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/job.h"

#pragma GCC visibility push(hidden)

/* Rank and number of processes. False: there is no job; the reason is logged. */
bool jt_own_job(struct lc_job *job);
/* Returns the serialized map, which is never freed. The first successful call creates it.
 * JTOFU_SUCCESS, or an error that is logged. For any thread. */
int jt_own_map(const void **bytes, size_t *size, uint32_t *procs);

#pragma GCC visibility pop

#endif
