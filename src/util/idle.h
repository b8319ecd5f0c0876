/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Yielding the core after empty polls. At first only after many polls, as a system call may take
 * longer than the wait. A long yield shows that another thread has run on the core, which may be
 * the awaited process: then a yield follows after few polls, until a yield is short again.
 */
#ifndef UT_UTIL_IDLE_H
#define UT_UTIL_IDLE_H

#include <stdint.h>

enum { UT_LEAST_SPIN_LIMIT = 3, UT_MOST_SPIN_LIMIT = 512 }; /* polls */

/* Called without locks; `polls`: the number of empty polls in a row. */
void ut_idle(uint32_t polls);

#endif
