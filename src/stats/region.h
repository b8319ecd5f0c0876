/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of a program (utofu_profile_start, utofu_profile_stop): counted while a thread is in one,
 * and shown in the timeline. A region may be the program's first call, so this module works before
 * set-up.
 */
#ifndef UT_STATS_REGION_H
#define UT_STATS_REGION_H

#include <stdint.h>

#include "stats/stats.h"

enum { UT_REGION_NAME_MAX = 63, UT_REGIONS_MAX = 1000, UT_REGION_DEPTH = 64 };

struct ut_stats_region {
    struct ut_stats_region *next;
    char name[UT_REGION_NAME_MAX + 1];
    uint64_t calls;
    uint64_t ns;
    uint64_t counted[UT_NUM_COUNTERS];    /* the counters below UT_COUNT_PEERS */
    uint32_t inside;                      /* starts without a stop, in all threads */
    uint64_t since;                       /* if inside > 0: time of the first open start, */
    uint64_t begun_with[UT_NUM_COUNTERS]; /* and the totals at that time */
};

/* Implement utofu_profile_start() and _stop(), which have checked the name. */
int ut_region_start(const char *name);
int ut_region_stop(const char *name);

/* At the end of the process: ends open regions, with a warning each. */
void ut_region_end_all(void);
/* Writes the recorded slices of regions to the timeline's file. */
void ut_region_flush(void);
/* Visits a copy of each region, by their first starts; open regions count up to now. */
void ut_stats_region_for_each(void (*visit)(const struct ut_stats_region *region, void *arg),
                              void *arg);
/* A line for each of them to `out`. */
void ut_region_print(FILE *out, uint32_t rank);

#endif
