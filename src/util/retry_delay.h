/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delays that links and providers share: the delay between attempts, which doubles each time, and
 * the
 * timeout of a closing connection. In milliseconds. Pure functions.
 */
#ifndef UT_UTIL_RETRY_DELAY_H
#define UT_UTIL_RETRY_DELAY_H

#include <stdint.h>

#include "util/hash.h"

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
