/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A skip list of intervals; each ends where the next one begins. An interval has the number of
 * references to its pages, and a flag: some of them are remapped. Neighbouring intervals always
 * differ, and before the first one there are no references. So a registration adds at most two
 * intervals, and none without references is left once all memory is restored.
 */
#include "pageref.h"
#include "util/assert.h"
#include "util/hash.h"

#include <stdlib.h>
#include <string.h>

enum { LEVELS = 20 }; /* of the skip list */

struct interval {
    uint64_t at;     /* first address */
    uint32_t count;  /* references to each of its pages */
    bool remapped;   /* some of its pages are remapped */
    uint32_t levels; /* size of `next` */
    struct interval *next[];
};

struct sp_pagerefs {
    uint64_t random;
    struct interval *head;     /* begins at 0, count 0 */
    struct interval *spare[2]; /* allocated in advance */
};

static struct interval *interval_new(uint32_t levels)
{
    struct interval *interval = calloc(1, sizeof(*interval) + levels * sizeof(interval->next[0]));

    if (interval)
        interval->levels = levels;
    return interval;
}

static uint32_t random_levels(struct sp_pagerefs *pagerefs)
{
    uint32_t levels = 1;

    pagerefs->random ^= pagerefs->random << 13;
    pagerefs->random ^= pagerefs->random >> 7;
    pagerefs->random ^= pagerefs->random << 17;
    for (uint64_t bits = pagerefs->random; (bits & 3) == 0 && levels < LEVELS; bits >>= 2)
        levels++;
    return levels;
}

struct sp_pagerefs *sp_pagerefs_new(void)
{
    struct sp_pagerefs *pagerefs = calloc(1, sizeof(*pagerefs));

    if (!pagerefs)
        return NULL;
    pagerefs->random = UT_HASH_FACTOR; /* any number but 0 */
    pagerefs->head = interval_new(LEVELS);
    if (!pagerefs->head) {
        free(pagerefs);
        return NULL;
    }
    return pagerefs;
}

void sp_pagerefs_free(struct sp_pagerefs *pagerefs)
{
    if (!pagerefs)
        return;
    for (struct interval *interval = pagerefs->head; interval;) {
        struct interval *next = interval->next[0];
        free(interval);
        interval = next;
    }
    free(pagerefs->spare[0]);
    free(pagerefs->spare[1]);
    free(pagerefs);
}

/* For each level finds the last interval that begins below `at`. */
static void find_predecessors(const struct sp_pagerefs *pagerefs, uint64_t at,
                              struct interval *before[LEVELS])
{
    struct interval *interval = pagerefs->head;

    for (int l = LEVELS - 1; l >= 0; l--) {
        while (interval->next[l] && interval->next[l]->at < at)
            interval = interval->next[l];
        before[l] = interval;
    }
}

/* Allocates intervals, so that two splits cannot fail. False: no memory. */
static bool reserve_spares(struct sp_pagerefs *pagerefs)
{
    for (int i = 0; i < 2; i++) {
        if (!pagerefs->spare[i] && !(pagerefs->spare[i] = interval_new(random_levels(pagerefs))))
            return false;
    }
    return true;
}

/* Returns the interval that begins at `at`; splits an interval if necessary. */
static struct interval *split_interval(struct sp_pagerefs *pagerefs, uint64_t at)
{
    struct interval *before[LEVELS];

    find_predecessors(pagerefs, at, before);
    struct interval *interval = before[0]->next[0];
    if (interval && interval->at == at)
        return interval;
    interval = pagerefs->spare[pagerefs->spare[0] == NULL];
    pagerefs->spare[pagerefs->spare[0] == NULL] = NULL;
    UT_ASSERT(interval != NULL);
    interval->at = at;
    interval->count = before[0]->count;
    interval->remapped = before[0]->remapped;
    for (uint32_t l = 0; l < interval->levels; l++) {
        interval->next[l] = before[l]->next[l];
        before[l]->next[l] = interval;
    }
    return interval;
}

/* Merges the interval that begins at `at` with the previous one if they are equal. */
static void merge_intervals(struct sp_pagerefs *pagerefs, uint64_t at)
{
    struct interval *before[LEVELS];

    find_predecessors(pagerefs, at, before);
    struct interval *interval = before[0]->next[0];
    if (!interval || interval->at != at || interval->count != before[0]->count ||
        interval->remapped != before[0]->remapped)
        return;
    for (uint32_t l = 0; l < interval->levels; l++)
        before[l]->next[l] = interval->next[l];
    for (int i = 0; i < 2; i++) {
        if (!pagerefs->spare[i]) {
            pagerefs->spare[i] = interval;
            return;
        }
    }
    free(interval);
}

bool sp_pagerefs_get(struct sp_pagerefs *pagerefs, uint64_t lo, uint64_t hi, sp_remap_fn *remap,
                     void *arg)
{
    if (!reserve_spares(pagerefs))
        return false;
    struct interval *interval = split_interval(pagerefs, lo);
    split_interval(pagerefs, hi);
    for (; interval->at < hi; interval = interval->next[0]) {
        if (interval->count++ == 0 && remap && remap(arg, interval->at, interval->next[0]->at))
            interval->remapped = true;
    }
    merge_intervals(pagerefs, lo);
    merge_intervals(pagerefs, hi);
    return true;
}

void sp_pagerefs_put(struct sp_pagerefs *pagerefs, uint64_t lo, uint64_t hi, sp_restore_fn *restore,
                     void *arg)
{
    if (!reserve_spares(pagerefs))
        return; /* no memory: references and pages stay */
    struct interval *interval = split_interval(pagerefs, lo), *next;
    split_interval(pagerefs, hi);
    for (; interval->at < hi; interval = next) {
        next = interval->next[0];
        UT_ASSERT(interval->count > 0);
        if (--interval->count == 0 && interval->remapped)
            interval->remapped = !restore(arg, interval->at, next->at);
        merge_intervals(pagerefs, interval->at);
    }
    merge_intervals(pagerefs, hi);
}
