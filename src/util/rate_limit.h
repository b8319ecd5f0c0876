/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rate limit of the log: a failing put, a poll or a retried connection can log the same line a
 * hundred thousand times a minute. Equal lines within seconds of each other are counted instead of
 * written. Lines that differ only in their values are counted after the first UT_RATE_LIMIT_BURST.
 */
#ifndef UT_UTIL_RATE_LIMIT_H
#define UT_UTIL_RATE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    UT_RATE_LIMIT_PAUSE_MS = 10000, /* after a pause of this length a line counts as new */
    UT_RATE_LIMIT_BURST = 64,       /* number of lines of one format that are written before
                                     * counting starts */
    UT_RATE_LIMIT_TEXT = 140,       /* number of bytes of a repeated line that are written */
};

/* May the line be written? `fmt` is its constant format. *times is the number of its occurrences, 1
 * for the first. From any thread. */
bool ut_rate_limit_allows(const char *fmt, const char *text, uint64_t now_ms, uint64_t *times);

/* Shortens a line that was already written in full. */
void ut_rate_limit_shorten(char *text);

/* Calls report() for every suppressed line, with its total number of occurrences. */
void ut_rate_limit_for_each(void (*report)(const char *text, uint64_t times));

#endif
