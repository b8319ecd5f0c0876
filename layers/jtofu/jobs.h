/* SPDX-License-Identifier: Apache-2.0 */
/* The jobs whose maps this process has, its own job first; and errors of calls. */
#ifndef JT_JOBS_H
#define JT_JOBS_H

#include <stdbool.h>
#include <stdint.h>

#include "jtofu.h"
#include "map.h"

#pragma GCC visibility push(hidden)

/* The maps are not freed between these two calls. jt_jobs_lock() makes the default map if
 * jtofu_initialize() was not called. It returns JTOFU_SUCCESS, or logs an error for the function;
 * after an error, jt_jobs_unlock() must not be called. */
int jt_jobs_lock(const char *function);
void jt_jobs_unlock(void);

/* Called with the lock. */
const struct jt_map *jt_jobs_own(void);
jtofu_rank_t jt_jobs_rank(void);
/* Finds the map of a job. JTOFU_SUCCESS, or an error that is logged: no such job. */
int jt_jobs_find(const char *function, jtofu_job_id_t job_id, const struct jt_map **map);

/* Logs an error and its remedy, and returns the code. */
__attribute__((format(printf, 3, 4))) int jt_fail(const char *function, int code,
                                                  const char *format, ...);

#pragma GCC visibility pop

#endif
