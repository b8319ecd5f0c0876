/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of a program (utofu_profile_start, utofu_profile_stop): counted while a thread is in
 * them, and shown in the timeline. They may be the program's first calls, so they work before
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
    uint64_t counted[UT_NUM_COUNTERS];    /* those below UT_COUNT_PEERS */
    uint32_t inside;                      /* starts without a stop, of all threads */
    uint64_t since;                       /* inside > 0: when the first of them started, */
    uint64_t begun_with[UT_NUM_COUNTERS]; /* and the totals then */
};

/* Behind utofu_profile_start() and _stop(), which have checked the name. */
int ut_region_start(const char *name);
int ut_region_stop(const char *name);

/* At the end of the process: open regions end here, with a warning each. */
void ut_region_end_all(void);
/* Writes the recorded slices of regions to the file of the timeline. */
void ut_region_flush(void);
/* Visits a copy of each region, in the order of their first starts, with what runs included. */
void ut_stats_region_for_each(void (*visit)(const struct ut_stats_region *region, void *arg),
                              void *arg);
/* A line for each of them to `out`. */
void ut_region_print(FILE *out, uint32_t rank);

#endif
