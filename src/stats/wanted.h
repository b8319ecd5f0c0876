/* SPDX-License-Identifier: Apache-2.0 */
/* What is wanted before the first call. Uses util. */
#ifndef UT_STATS_WANTED_H
#define UT_STATS_WANTED_H

#include <stdbool.h>

/* Is a timeline wanted? */
bool ut_stats_is_traced(void);

#endif
