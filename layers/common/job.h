/* SPDX-License-Identifier: Apache-2.0 */
/* What the launcher says of this process, numbers from variables, and the clock. */
#ifndef LC_JOB_H
#define LC_JOB_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

void lc_job_find(uint32_t *rank, uint32_t *procs);
uint32_t lc_env_number(const char *name, uint32_t value_unless_set);
uint64_t lc_now_ns(void);

#pragma GCC visibility pop

#endif
