/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Back-off of a thread that waits for another thread for a short time: it spins, then yields, and
 * finally sleeps. A yield lets no thread of a lower priority run (SCHED_FIFO, SCHED_RR,
 * SCHED_IDLE),
 * and such a thread may need this core; a sleep does. Keeps errno, because callers may be inside a
 * call of the program.
 */
#ifndef UT_UTIL_BACK_OFF_H
#define UT_UTIL_BACK_OFF_H

#include <stdint.h>

enum {
    UT_BACK_OFF_SPINS = 64,
    UT_BACK_OFF_YIELDS = 256,
    UT_BACK_OFF_FIRST_NS = 50000,
    UT_BACK_OFF_LAST_NS = 1000000,
};

/* Pauses once. `rounds`: 0 before the first pause of a wait. */
void ut_back_off(uint32_t *rounds) __attribute__((cold));

/* Does the same without spinning, for a wait that polls something meanwhile. */
void ut_back_off_yielding(uint32_t *rounds) __attribute__((cold));

#endif
