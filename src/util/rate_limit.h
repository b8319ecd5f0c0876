/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rate limit of the log: a failing put, a poll or a retried connection can log the same line a
 * hundred thousand times a minute. Equal lines within seconds of each other are counted instead of
 * written, and so are lines that differ only in their values, after the first UT_RATE_LIMIT_BURST.
 */
#ifndef UT_UTIL_RATE_LIMIT_H
#define UT_UTIL_RATE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    UT_RATE_LIMIT_PAUSE_MS = 10000, /* a line counts as new after a pause this long */
    UT_RATE_LIMIT_BURST = 64,       /* lines of one format written before they are counted */
    UT_RATE_LIMIT_TEXT = 140,       /* bytes of a repeated line that are written */
};

/* May a line be written? `fmt` is its constant format. *times is the number of its occurrences, 1
 * for the first. For any thread. */
bool ut_rate_limit_allows(const char *fmt, const char *text, uint64_t now_ms, uint64_t *times);

/* Shortens a line that was written in full before. */
void ut_rate_limit_shorten(char *text);

/* Reports every line that was suppressed at least once, with the total number of occurrences. */
void ut_rate_limit_for_each(void (*report)(const char *text, uint64_t times));

#endif
