/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that waits for another thread, which will be ready soon: it spins, then yields, and in
 * the end sleeps. A yield does not let a thread of a lower priority run (SCHED_FIFO, SCHED_RR,
 * SCHED_IDLE), whose core this may be; a sleep does. Leaves errno alone, as it is called where the
 * program has the lock of a VCQ already.
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

/* Pauses; `rounds`: 0 before the first pause of a wait. */
void ut_back_off(uint32_t *rounds) __attribute__((cold));

/* The same without spinning: for a wait that polls something meanwhile. */
void ut_back_off_yielding(uint32_t *rounds) __attribute__((cold));

#endif
