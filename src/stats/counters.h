/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters of UTOFU_STATS, which totals.h names, and how a line shows them. Uses util. For the
 * library and for tools/observe.
 */
#ifndef UT_STATS_COUNTERS_H
#define UT_STATS_COUNTERS_H

#include <stdint.h>
#include <stdio.h>

/* The kinds of communications that are counted separately. */
enum ut_stats_kind { UT_STATS_PUT, UT_STATS_GET, UT_STATS_ARMW, UT_STATS_NOP, UT_STATS_KINDS };

/* The counters: totals.h. */
enum ut_counter {
#define COUNTER(id, ...) UT_COUNT_##id,
#include "stats/totals.h"
#undef COUNTER
    UT_NUM_COUNTERS
};

/* The objects that have a counter. */
enum {
    UT_COUNTS_VCQ = 1,
    UT_COUNTS_PEER = 2,
    UT_COUNTS_BOTH = UT_COUNTS_VCQ | UT_COUNTS_PEER,
    UT_COUNTS_GATE = 4,
    UT_COUNTS_JOB = 8
};
enum { UT_COUNTS_SUM, UT_COUNTS_TIME, UT_COUNTS_MOST };

struct ut_counter_entry {
    const char *line, *total; /* name in a line, and in a summary; NULL: not printed there */
    uint8_t holders, how;
};
extern const struct ut_counter_entry ut_counters[UT_NUM_COUNTERS];

/* Adds n to a counter; a high-water mark becomes the larger of both. */
void ut_counter_add(uint64_t *into, enum ut_counter counter, uint64_t n);

/* Adds the counters of a VCQ, peer or gate to the row of the whole process, times in us. If both a
 * VCQ and its peers have a counter, that of the VCQ counts. */
void ut_counters_add(uint64_t totals[UT_NUM_COUNTERS], const uint64_t n[UT_NUM_COUNTERS],
                     unsigned int holder);

/* Prints " name=value" for each counter of the holders that is not 0; times are in ns. */
void ut_counters_print(FILE *out, const uint64_t n[UT_NUM_COUNTERS], unsigned int holders);

/* The counters of the whole process, as one row of numbers. Times in us. */
void ut_stats_totals(uint64_t totals[UT_NUM_COUNTERS]);

#endif
