/* SPDX-License-Identifier: Apache-2.0 */
/* When communications were started, which in session mode is not when they were called. */
#ifndef UM_STARTS_H
#define UM_STARTS_H

#include <stdint.h>

struct um_program;

/* The times at which the communications started, by their numbers; to be freed. Of one that has
 * never started, the largest number. */
uint64_t *um_starts_find(const struct um_program *p);

#endif
