/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a thread with empty polls yields its core. At first after many polls: a system call may cost
 * more than the wait. Once a yield took so long that another thread has run on the core, the
 * process that is waited for may be there, too, and yields follow after few polls, until one is
 * short.
 */
#ifndef UT_UTIL_IDLE_H
#define UT_UTIL_IDLE_H

#include <stdint.h>

enum { UT_LEAST_SPIN_LIMIT = 3, UT_MOST_SPIN_LIMIT = 512 }; /* polls */

/* Call it with no lock held; `polls`: the number of empty polls in a row. */
void ut_idle(uint32_t polls);

#endif
