/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A skip list of borders. A border has the number of references to the addresses up to the next
 * border, and whether any of them were remapped; two neighbouring borders always differ, and before
 * the first one there are no references. So a registration adds at most two borders, and without
 * references no border is left once all memory is given back.
 */
#include "pageref.h"
#include "util/assert.h"
#include "util/hash.h"

#include <stdlib.h>
#include <string.h>

enum { LEVELS = 20 };

struct border {
    uint64_t at;
    uint32_t count;
    bool taken;
    uint32_t levels;
    struct border *next[];
};

struct sp_pagerefs {
    uint64_t random;
    struct border *head;     /* at 0, count 0 */
    struct border *spare[2]; /* allocated before any change */
};

static struct border *border_new(uint32_t levels)
{
    struct border *b = calloc(1, sizeof(*b) + levels * sizeof(b->next[0]));

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
    h->head = border_new(LEVELS);
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
    for (struct border *b = h->head; b;) {
        struct border *next = b->next[0];
        free(b);
        b = next;
    }
    free(h->spare[0]);
    free(h->spare[1]);
    free(h);
}

/* For each level the last border below `at`. */
static void find_borders(const struct sp_pagerefs *h, uint64_t at, struct border *before[LEVELS])
{
    struct border *b = h->head;

    for (int l = LEVELS - 1; l >= 0; l--) {
        while (b->next[l] && b->next[l]->at < at)
            b = b->next[l];
        before[l] = b;
    }
}

static bool make_spares(struct sp_pagerefs *h)
{
    for (int i = 0; i < 2; i++) {
        if (!h->spare[i] && !(h->spare[i] = border_new(random_levels(h))))
            return false;
    }
    return true;
}

/* The border at `at`, created if necessary. */
static struct border *border_at(struct sp_pagerefs *h, uint64_t at)
{
    struct border *before[LEVELS];

    find_borders(h, at, before);
    struct border *b = before[0]->next[0];
    if (b && b->at == at)
        return b;
    b = h->spare[h->spare[0] == NULL];
    h->spare[h->spare[0] == NULL] = NULL;
    UT_ASSERT(b != NULL);
    b->at = at;
    b->count = before[0]->count;
    b->taken = before[0]->taken;
    for (uint32_t l = 0; l < b->levels; l++) {
        b->next[l] = before[l]->next[l];
        before[l]->next[l] = b;
    }
    return b;
}

/* Removes the border at `at` if it is equal to the previous one. */
static void merge_intervals(struct sp_pagerefs *h, uint64_t at)
{
    struct border *before[LEVELS];

    find_borders(h, at, before);
    struct border *b = before[0]->next[0];
    if (!b || b->at != at || b->count != before[0]->count || b->taken != before[0]->taken)
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

bool sp_pageref(struct sp_pagerefs *h, uint64_t lo, uint64_t hi, sp_take_fn *take, void *arg)
{
    if (!make_spares(h))
        return false;
    struct border *b = border_at(h, lo);
    border_at(h, hi);
    for (; b->at < hi; b = b->next[0]) {
        if (b->count++ == 0 && take && take(arg, b->at, b->next[0]->at))
            b->taken = true;
    }
    merge_intervals(h, lo);
    merge_intervals(h, hi);
    return true;
}

void sp_release(struct sp_pagerefs *h, uint64_t lo, uint64_t hi, sp_give_fn *give, void *arg)
{
    if (!make_spares(h))
        return; /* no memory: the references are kept, and so are the pages */
    struct border *b = border_at(h, lo), *next;
    border_at(h, hi);
    for (; b->at < hi; b = next) {
        next = b->next[0];
        UT_ASSERT(b->count > 0);
        if (--b->count == 0 && b->taken)
            b->taken = !give(arg, b->at, next->at);
        merge_intervals(h, b->at);
    }
    merge_intervals(h, hi);
}
