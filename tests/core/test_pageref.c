/* SPDX-License-Identifier: Apache-2.0 */
/* Page references: random, overlapping intervals compared with an array of counts. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "shm/pageref.h"

enum { CELLS = 64, LIVE = 12, ROUNDS = 20000 };

static struct {
    unsigned int count[CELLS];
    bool taken[CELLS];
    bool fails; /* sometimes giving back fails */
    unsigned int num_calls;
    uint32_t random;
} model;

static uint32_t random_below(uint32_t bound)
{
    model.random = model.random * 1664525 + 1013904223;
    return (model.random >> 8) % bound;
}

static bool take(void *arg, uint64_t lo, uint64_t hi)
{
    bool takes = random_below(3) > 0;

    (void)arg;
    model.num_calls++;
    cr_assert(lo < hi && hi <= CELLS);
    for (uint64_t c = lo; c < hi; c++) {
        cr_assert_eq(model.count[c], 1, "cell %d was held", (int)c);
        model.taken[c] |= takes;
    }
    return takes;
}

static bool give(void *arg, uint64_t lo, uint64_t hi)
{
    bool fails = model.fails && random_below(4) == 0;

    (void)arg;
    model.num_calls++;
    cr_assert(lo < hi && hi <= CELLS);
    for (uint64_t c = lo; c < hi; c++) {
        cr_assert(model.count[c] == 0 && model.taken[c], "cell %d is not to be given", (int)c);
        model.taken[c] = fails;
    }
    return !fails;
}

struct interval {
    uint64_t lo, hi;
};

static void release(struct sp_pagerefs *h, struct interval *i)
{
    for (uint64_t c = i->lo; c < i->hi; c++)
        model.count[c]--;
    sp_pagerefs_put(h, i->lo, i->hi, give, NULL);
    for (uint64_t c = i->lo; c < i->hi && !model.fails; c++)
        cr_assert(model.count[c] > 0 || !model.taken[c], "cell %d was not given", (int)c);
    i->hi = i->lo = 0;
}

static void hold(struct sp_pagerefs *h, struct interval *i, uint64_t lo, uint64_t hi, bool takes)
{
    *i = (struct interval){lo, hi};
    for (uint64_t c = lo; c < hi; c++)
        model.count[c]++;
    cr_assert(sp_pagerefs_get(h, lo, hi, takes ? take : NULL, NULL));
}

static void release_all(struct sp_pagerefs *h, struct interval live[LIVE])
{
    struct interval all;

    for (int k = 0; k < LIVE; k++) {
        if (live[k].hi)
            release(h, &live[k]);
    }
    model.fails = false;
    hold(h, &all, 0, CELLS, false);
    release(h, &all); /* earlier failures are given back now */
    /* no references are left: all is one interval */
    model.num_calls = 0;
    hold(h, &all, 0, CELLS, true);
    cr_assert_eq(model.num_calls, 1);
    release(h, &all);
}

static void hold_at_random(bool fails)
{
    struct interval live[LIVE] = {0};
    struct sp_pagerefs *h = sp_pagerefs_new();

    cr_assert(h);
    model.random = 1;
    for (int round = 1; round <= ROUNDS; round++) {
        struct interval *i = &live[random_below(LIVE)];
        model.fails = fails;
        if (i->hi) {
            release(h, i);
        } else {
            uint64_t lo = random_below(CELLS), length = random_below(CELLS - (uint32_t)lo);
            hold(h, i, lo, lo + 1 + length, random_below(4) > 0);
        }
        if (round % 1000 == 0)
            release_all(h, live);
    }
    sp_pagerefs_free(h);
}

Test(hold, what_was_taken_is_given_when_the_last_one_lets_go)
{
    hold_at_random(false);
}

Test(hold, what_could_not_be_given_is_given_later)
{
    hold_at_random(true);
}
