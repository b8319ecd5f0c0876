/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clocks that links and providers share: pauses between attempts, each twice as long as the one
 * before, and the time that a closing connection has. Milliseconds. Pure functions.
 */
#ifndef UT_UTIL_RETRY_DELAY_H
#define UT_UTIL_RETRY_DELAY_H

#include <stdint.h>

#include "util/hash.h"

/* A connection that is closed in order waits so long at most for what is outstanding. */
enum { UT_CLOSE_TIMEOUT_MS = 1000 };

/* The pause after one of `before` (0: there was none). */
static inline uint64_t ut_retry_delay_next_ms(uint64_t before, uint64_t first, uint64_t most)
{
    uint64_t ms = before ? before * 2 : first;

    return ms < most ? ms : most;
}

/* The pause after so many pauses. */
static inline uint64_t ut_retry_delay_nth_ms(unsigned int nth, uint64_t first, uint64_t most)
{
    uint64_t ms = nth < 32 ? first << nth : most;

    return ms < most ? ms : most;
}

/* From `ms` to a half more, by a number that differs between processes: those that were refused at
 * the same time do not come again at the same time. */
static inline uint64_t ut_retry_delay_jitter_ms(uint64_t ms, uint64_t number)
{
    return ms + ut_hash_index(number, 32) % (ms / 2 + 1);
}

#endif
