/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Back-off of a thread that waits for another thread for a short time: it spins, then yields, and
 * finally sleeps. A yield lets no thread of a lower priority run (SCHED_FIFO, SCHED_RR,
 * SCHED_IDLE), and such a thread may need this core; a sleep does. Keeps errno, because callers may
 * be inside a call of the program.
 */
#ifndef UT_UTIL_BACK_OFF_H
#define UT_UTIL_BACK_OFF_H

#include <stdint.h>

#include "util/hash.h"

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

/*
 * Delays that links and providers share: the delay between attempts, which doubles each time, and
 * the timeout of a closing connection. In milliseconds. Pure functions.
 */

/* Maximum time that an orderly close waits for outstanding operations. */
enum { UT_CLOSE_TIMEOUT_MS = 1000 };

/* The delay after a delay of `before`; 0: this is the first one. */
static inline uint64_t ut_retry_delay_next_ms(uint64_t before, uint64_t first, uint64_t max)
{
    uint64_t ms = before ? before * 2 : first;

    return ms < max ? ms : max;
}

/* The delay after `nth` delays. */
static inline uint64_t ut_retry_delay_nth_ms(unsigned int nth, uint64_t first, uint64_t max)
{
    uint64_t ms = nth < 32 ? first << nth : max;

    return ms < max ? ms : max;
}

/* From `ms` to half more, by a number that differs between processes: processes that were refused
 * at the same time do not retry at the same time. */
static inline uint64_t ut_retry_delay_jitter_ms(uint64_t ms, uint64_t number)
{
    return ms + ut_hash_index(number, 32) % (ms / 2 + 1);
}

#endif
