/* SPDX-License-Identifier: Apache-2.0 */
/* The jobs whose maps this process has, its own one first; and how a call is refused. */
#ifndef JT_JOBS_H
#define JT_JOBS_H

#include <stdbool.h>
#include <stdint.h>

#include "jtofu.h"
#include "map.h"

#pragma GCC visibility push(hidden)

/* Between these two calls the maps stay. The first one returns JTOFU_SUCCESS, or refuses in the
 * name of the function: then the second one must not be called. */
int jt_jobs_lock(const char *function);
void jt_jobs_unlock(void);

/* Once entered. */
const struct jt_map *jt_jobs_own(void);
jtofu_rank_t jt_jobs_rank(void);
/* JTOFU_SUCCESS, or refuses: there is no such job. */
int jt_jobs_find(const char *function, jtofu_job_id_t job_id, const struct jt_map **map);

/* Says why, with the remedy, and returns the code. */
__attribute__((format(printf, 3, 4))) int jt_fail(const char *function, int code,
                                                  const char *format, ...);

#pragma GCC visibility pop

#endif
