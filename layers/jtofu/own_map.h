/* SPDX-License-Identifier: Apache-2.0 */
/* The map of the job that the launcher has started, from what uTofu says of its processes. */
#ifndef JT_OWN_MAP_H
#define JT_OWN_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/job.h"

#pragma GCC visibility push(hidden)

/* Rank and number of processes. false, after a line that says why: there is no job. */
bool jt_own_job(struct lc_job *job);
/* The map in bytes, which stay: made at the first call that succeeds. JTOFU_SUCCESS, or an error
 * after a line that says why. Any thread. */
int jt_own_map(const void **bytes, size_t *size, uint32_t *procs);

#pragma GCC visibility pop

#endif
