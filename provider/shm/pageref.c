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

enum { LEVELS = 20 };

struct interval {
    uint64_t at;
    uint32_t count;
    bool remapped;
    uint32_t levels;
    struct interval *next[];
};

struct sp_pagerefs {
    uint64_t random;
    struct interval *head;     /* begins at 0, count 0 */
    struct interval *spare[2]; /* allocated in advance */
};

static struct interval *interval_new(uint32_t levels)
{
    struct interval *b = calloc(1, sizeof(*b) + levels * sizeof(b->next[0]));

    if (b)
        b->levels = levels;
    return b;
}

static uint32_t random_levels(struct sp_pagerefs *h)
{
    uint32_t levels = 1;

    h->random ^= h->random << 13;
    h->random ^= h->random >> 7;
    h->random ^= h->random << 17;
    for (uint64_t bits = h->random; (bits & 3) == 0 && levels < LEVELS; bits >>= 2)
        levels++;
    return levels;
}

struct sp_pagerefs *sp_pagerefs_new(void)
{
    struct sp_pagerefs *h = calloc(1, sizeof(*h));

    if (!h)
        return NULL;
    h->random = UT_HASH_FACTOR; /* any number but 0 */
    h->head = interval_new(LEVELS);
    if (!h->head) {
        free(h);
        return NULL;
    }
    return h;
}

void sp_pagerefs_free(struct sp_pagerefs *h)
{
    if (!h)
        return;
    for (struct interval *b = h->head; b;) {
        struct interval *next = b->next[0];
        free(b);
        b = next;
    }
    free(h->spare[0]);
    free(h->spare[1]);
    free(h);
}

/* For each level finds the last interval that begins below `at`. */
static void find_predecessors(const struct sp_pagerefs *h, uint64_t at,
                              struct interval *before[LEVELS])
{
    struct interval *b = h->head;

    for (int l = LEVELS - 1; l >= 0; l--) {
        while (b->next[l] && b->next[l]->at < at)
            b = b->next[l];
        before[l] = b;
    }
}

static bool reserve_spares(struct sp_pagerefs *h)
{
    for (int i = 0; i < 2; i++) {
        if (!h->spare[i] && !(h->spare[i] = interval_new(random_levels(h))))
            return false;
    }
    return true;
}

/* Returns the interval that begins at `at`; splits an interval if necessary. */
static struct interval *split_interval(struct sp_pagerefs *h, uint64_t at)
{
    struct interval *before[LEVELS];

    find_predecessors(h, at, before);
    struct interval *b = before[0]->next[0];
    if (b && b->at == at)
        return b;
    b = h->spare[h->spare[0] == NULL];
    h->spare[h->spare[0] == NULL] = NULL;
    UT_ASSERT(b != NULL);
    b->at = at;
    b->count = before[0]->count;
    b->remapped = before[0]->remapped;
    for (uint32_t l = 0; l < b->levels; l++) {
        b->next[l] = before[l]->next[l];
        before[l]->next[l] = b;
    }
    return b;
}

/* Merges the interval that begins at `at` with the previous one if they are equal. */
static void merge_intervals(struct sp_pagerefs *h, uint64_t at)
{
    struct interval *before[LEVELS];

    find_predecessors(h, at, before);
    struct interval *b = before[0]->next[0];
    if (!b || b->at != at || b->count != before[0]->count || b->remapped != before[0]->remapped)
        return;
    for (uint32_t l = 0; l < b->levels; l++)
        before[l]->next[l] = b->next[l];
    for (int i = 0; i < 2; i++) {
        if (!h->spare[i]) {
            h->spare[i] = b;
            return;
        }
    }
    free(b);
}

bool sp_pagerefs_get(struct sp_pagerefs *h, uint64_t lo, uint64_t hi, sp_remap_fn *remap, void *arg)
{
    if (!reserve_spares(h))
        return false;
    struct interval *b = split_interval(h, lo);
    split_interval(h, hi);
    for (; b->at < hi; b = b->next[0]) {
        if (b->count++ == 0 && remap && remap(arg, b->at, b->next[0]->at))
            b->remapped = true;
    }
    merge_intervals(h, lo);
    merge_intervals(h, hi);
    return true;
}

void sp_pagerefs_put(struct sp_pagerefs *h, uint64_t lo, uint64_t hi, sp_restore_fn *restore,
                     void *arg)
{
    if (!reserve_spares(h))
        return; /* no memory: references and pages stay */
    struct interval *b = split_interval(h, lo), *next;
    split_interval(h, hi);
    for (; b->at < hi; b = next) {
        next = b->next[0];
        UT_ASSERT(b->count > 0);
        if (--b->count == 0 && b->remapped)
            b->remapped = !restore(arg, b->at, next->at);
        merge_intervals(h, b->at);
    }
    merge_intervals(h, hi);
}
