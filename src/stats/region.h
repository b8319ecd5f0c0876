/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of a program (utofu_profile_start, utofu_profile_stop): their counters cover the time
 * while a thread is inside, and the timeline shows them. Starting a region may be the first call of
 * a program, so this module works before set-up.
 */
#ifndef UT_STATS_REGION_H
#define UT_STATS_REGION_H

#include <stdint.h>
#include <stdio.h>
#include <sys/queue.h>

#include "stats/timeline.h"

enum { UT_REGION_NAME_MAX = 63, UT_REGIONS_MAX = 1000, UT_REGION_DEPTH = 64 };

struct ut_stats_region {
    STAILQ_ENTRY(ut_stats_region) next;
    char name[UT_REGION_NAME_MAX + 1];
    uint64_t calls;
    uint64_t ns;
    uint64_t counted[UT_NUM_COUNTERS];    /* the counters below UT_COUNT_PEERS */
    uint32_t inside;                      /* number of starts without a stop, in all threads */
    uint64_t since;                       /* if inside > 0: time of the first open start */
    uint64_t begun_with[UT_NUM_COUNTERS]; /* the totals at `since` */
};

/* Is a timeline wanted? Belongs to the user of this file, which knows that before the first call.
 */
bool ut_region_is_traced(void);

/* Implement utofu_profile_start() and _stop(), which have checked the name. */
int ut_region_start(const char *name);
int ut_region_stop(const char *name);

/* At the end of the process: ends the open regions, with a warning each. */
void ut_region_end_all(void);
/* Writes the recorded slices of regions to the file of the timeline. */
void ut_region_flush(void);
/* Calls visit() with a copy of each region, in the order of their first starts. Open regions count
 * up to now. */
void ut_stats_region_for_each(void (*visit)(const struct ut_stats_region *region, void *arg),
                              void *arg);
/* Prints one line per region to `out`. */
void ut_region_print(FILE *out, uint32_t rank);

#endif
