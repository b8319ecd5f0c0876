/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a thread that polls in vain offers its core to others. A core of its own is kept for long: a
 * system call may cost more than the wait. Where a yield shows that others run there, whoever is
 * waited for may be one of them, and the next ones come soon, until one shows nobody.
 */
#ifndef UT_UTIL_IDLE_H
#define UT_UTIL_IDLE_H

#include <stdint.h>

enum { UT_LEAST_PATIENCE = 3, UT_MOST_PATIENCE = 512 }; /* polls */

/* Call it, with no lock held, after so many polls in vain one after the other. */
void ut_idle(uint32_t polls);

#endif
