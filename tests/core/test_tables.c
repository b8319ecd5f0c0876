/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of a link that grow with use: announced STADDs, at both ends, and the entries read
 * from a peer's STag table. Linked with --wrap=calloc, which fails on request.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "link/announced.h"
#include "link/stag_cache.h"

TestSuite(tables);

static uint32_t callocs, failures; /* number of calls; number of next ones that fail */
static size_t bytes;               /* of all successful calls */

void *__real_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each)
{
    callocs++;
    if (failures > 0) {
        failures--;
        return NULL;
    }
    bytes += n * each;
    return __real_calloc(n, each);
}

static uint64_t draw(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15ull;
    uint64_t x = *state;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/*
 * Announced STADDs
 */

struct pair {
    struct ut_announced tx, rx;
    uint32_t announcements;
};

static void open_pair(struct pair *pair)
{
    *pair = (struct pair){.announcements = 0};
    ut_announced_clear(&pair->tx);
    ut_announced_clear(&pair->rx);
    cr_assert(ut_announced_alloc(&pair->rx));
    callocs = 0;
}

static void close_pair(struct pair *pair)
{
    ut_announced_clear(&pair->tx);
    ut_announced_clear(&pair->rx);
}

/* As in a put with a remote notice. False: the receiver has no memory. */
static bool notify(struct pair *pair, utofu_stadd_t stadd)
{
    unsigned int slot = ut_announced_slot(&pair->tx, stadd);

    if (ut_announced_has(&pair->tx, slot, stadd)) {
        cr_assert(ut_announced_is_valid(&pair->rx, slot));
        cr_assert_eq(pair->rx.stadds[slot], stadd);
        return true;
    }
    slot = ut_announced_reserve_slot(&pair->tx, stadd);
    cr_assert_lt(slot, UT_NUM_ANNOUNCED);
    ut_announced_set(&pair->tx, slot, stadd);
    pair->announcements++;
    return ut_announced_store(&pair->rx, slot, stadd);
}

static utofu_stadd_t stadd_of(uint64_t n)
{
    return 0x1000ull << 40 | (64 + 8 * n);
}

static uint32_t slots_of(const struct ut_announced *table)
{
    return table->mask ? table->mask + 1 : 0;
}

Test(tables, few_stadds_take_the_first_table_and_are_announced_once)
{
    struct pair pair;

    open_pair(&pair);
    cr_assert_eq(slots_of(&pair.tx), 0);
    for (int i = 0; i < 1000; i++)
        cr_assert(notify(&pair, stadd_of(i % 3)));
    cr_assert_eq(pair.announcements, 3);
    cr_assert_eq(slots_of(&pair.tx), UT_ANNOUNCED_INITIAL_SLOTS);
    cr_assert_eq(slots_of(&pair.rx), UT_ANNOUNCED_INITIAL_SLOTS);
    close_pair(&pair);
}

/* Two STADDs with the same slot, for all positions of the difference. */
Test(tables, table_is_as_large_as_two_stadds_make_it)
{
    for (uint32_t slots = UT_ANNOUNCED_INITIAL_SLOTS; slots <= UT_NUM_ANNOUNCED; slots *= 2) {
        struct ut_announced half = {.mask = slots / 2 - 1}, full = {.mask = slots - 1};
        utofu_stadd_t first = stadd_of(0), second;
        struct pair pair;
        uint64_t n = 1;

        do
            second = stadd_of(n++);
        while (ut_announced_slot(&half, first) != ut_announced_slot(&half, second) ||
               ut_announced_slot(&full, first) == ut_announced_slot(&full, second));
        open_pair(&pair);
        for (int i = 0; i < 100; i++)
            cr_assert(notify(&pair, first) && notify(&pair, second));
        cr_assert_eq(slots_of(&pair.tx), slots);
        cr_assert_leq(slots_of(&pair.rx), slots);
        cr_assert_leq(pair.announcements, 2 + 4 * 2);
        close_pair(&pair);
    }
}

static uint32_t num_known(const struct pair *pair, uint64_t n)
{
    uint32_t known = 0;

    for (uint64_t i = 0; i < n; i++)
        known +=
            ut_announced_has(&pair->tx, ut_announced_slot(&pair->tx, stadd_of(i)), stadd_of(i));
    return known;
}

Test(tables, half_of_those_announced_need_no_announcement_when_the_table_grows)
{
    struct pair pair;
    uint64_t n = 0;

    open_pair(&pair);
    for (uint32_t slots = UT_ANNOUNCED_INITIAL_SLOTS; slots < UT_NUM_ANNOUNCED; slots *= 2) {
        uint32_t known = 0;
        do
            known = num_known(&pair, n);
        while (notify(&pair, stadd_of(n++)) && slots_of(&pair.tx) <= slots);
        cr_assert_eq(slots_of(&pair.tx), 2 * slots);
        cr_assert_gt(num_known(&pair, n), known / 4);
    }
    close_pair(&pair);
}

/* The announcements of a table that has the maximum size from the start. */
static uint32_t announced_at_best(const uint64_t *picks, size_t n)
{
    static utofu_stadd_t table[UT_NUM_ANNOUNCED];
    struct ut_announced full = {.stadds = table, .mask = UT_NUM_ANNOUNCED - 1};
    uint32_t announcements = 0;

    ut_announced_invalidate(&full);
    for (size_t i = 0; i < n; i++) {
        unsigned int slot = ut_announced_slot(&full, stadd_of(picks[i]));
        announcements += !ut_announced_has(&full, slot, stadd_of(picks[i]));
        ut_announced_set(&full, slot, stadd_of(picks[i]));
    }
    return announcements;
}

Test(tables, many_stadds_cost_no_more_than_in_a_large_table)
{
    static const uint64_t numbers[] = {10, 50, 64, 100, 300, 512, 1000, 5000, 100000};
    static uint64_t picks[50000];
    uint64_t state = 1;

    for (size_t k = 0; k < sizeof(numbers) / sizeof(*numbers); k++) {
        struct pair pair;

        open_pair(&pair);
        for (size_t i = 0; i < 50000; i++) {
            picks[i] = i < numbers[k] ? i : draw(&state) % numbers[k];
            cr_assert(notify(&pair, stadd_of(picks[i])));
        }
        /* some at each of three growths, and half of the table after it again */
        cr_assert_leq(pair.announcements,
                      announced_at_best(picks, 50000) + UT_NUM_ANNOUNCED / 2 + 3);
        cr_assert_leq(callocs, 4 + 3);
        close_pair(&pair);
    }
}

Test(tables, sender_without_memory_announces_more_often_and_nothing_wrong)
{
    static const uint32_t limits[] = {0, UT_ANNOUNCED_INITIAL_SLOTS, 2 * UT_ANNOUNCED_INITIAL_SLOTS,
                                      4 * UT_ANNOUNCED_INITIAL_SLOTS};
    uint64_t state = 2;

    for (size_t k = 0; k < sizeof(limits) / sizeof(*limits); k++) {
        struct pair pair;

        open_pair(&pair);
        for (int i = 0; i < 3000; i++) {
            utofu_stadd_t stadd = stadd_of(draw(&state) % 700);
            unsigned int slot = ut_announced_slot(&pair.tx, stadd);
            if (ut_announced_has(&pair.tx, slot, stadd)) {
                cr_assert_eq(pair.rx.stadds[slot], stadd);
                continue;
            }
            failures = slots_of(&pair.tx) == limits[k];
            slot = ut_announced_reserve_slot(&pair.tx, stadd);
            failures = 0;
            ut_announced_set(&pair.tx, slot, stadd);
            cr_assert(ut_announced_store(&pair.rx, slot, stadd));
        }
        cr_assert_eq(slots_of(&pair.tx), limits[k]);
        for (uint64_t i = 0; i < 5000; i++) /* now there is memory */
            cr_assert(notify(&pair, stadd_of(i % 700)));
        cr_assert_eq(slots_of(&pair.tx), UT_NUM_ANNOUNCED);
        close_pair(&pair);
    }
}

Test(tables, receiver_without_memory_says_so_and_keeps_what_it_has)
{
    struct ut_announced rx = {.mask = 0};

    ut_announced_clear(&rx);
    failures = 1;
    cr_assert_not(ut_announced_alloc(&rx));
    cr_assert(ut_announced_alloc(&rx));
    cr_assert(ut_announced_store(&rx, 1, 11));
    cr_assert(ut_announced_store(&rx, UT_ANNOUNCED_INITIAL_SLOTS - 1, 12));
    for (uint32_t slot = UT_ANNOUNCED_INITIAL_SLOTS; slot < UT_NUM_ANNOUNCED; slot = 2 * slot) {
        failures = 1;
        cr_assert_not(ut_announced_store(&rx, slot, 13));
        cr_assert_eq(slots_of(&rx), slot);
        cr_assert(ut_announced_store(&rx, slot, 13));
        cr_assert_eq(slots_of(&rx), 2 * slot);
        cr_assert_eq(rx.stadds[1], 11);
        cr_assert_eq(rx.stadds[UT_ANNOUNCED_INITIAL_SLOTS - 1], 12);
        cr_assert_eq(rx.stadds[slot], 13);
        cr_assert(ut_announced_is_valid(&rx, 2 * slot - 1));
        cr_assert_not(ut_announced_is_valid(&rx, 2 * slot));
    }
    cr_assert_eq(slots_of(&rx), UT_NUM_ANNOUNCED);
    ut_announced_disable(&rx);
    cr_assert_not(ut_announced_is_valid(&rx, 0));
    ut_announced_clear(&rx);
    cr_assert_eq(slots_of(&rx), 0);
    cr_assert_eq(rx.stadds[0], UT_NOT_ANNOUNCED);
}

/* A sender with a table of another size. */
Test(tables, largest_slot_may_come_first)
{
    struct ut_announced rx = {.mask = 0};

    ut_announced_clear(&rx);
    cr_assert(ut_announced_alloc(&rx));
    cr_assert(ut_announced_store(&rx, UT_NUM_ANNOUNCED - 1, 7));
    cr_assert_eq(slots_of(&rx), UT_NUM_ANNOUNCED);
    cr_assert_eq(rx.stadds[UT_NUM_ANNOUNCED - 1], 7);
    ut_announced_clear(&rx);
}

Test(tables, nothing_is_announced_to_who_has_forgotten)
{
    struct pair pair;

    open_pair(&pair);
    for (uint64_t i = 0; i < 200; i++)
        cr_assert(notify(&pair, stadd_of(i)));
    uint32_t slots = slots_of(&pair.tx), before = pair.announcements;
    ut_announced_invalidate(&pair.tx);
    cr_assert_eq(slots_of(&pair.tx), slots);
    for (uint64_t i = 0; i < 200; i++)
        cr_assert(notify(&pair, stadd_of(i)));
    cr_assert_eq(pair.announcements, before + 200);
    close_pair(&pair);
}

/*
 * STags
 */

enum { INDICES = UT_STAG_CHUNK * UT_STAG_CHUNKS };

/* info of random STags; 0: missing, as is one whose block is missing. */
Test(tables, stags_are_those_that_were_read)
{
    static uint32_t model[INDICES];
    struct ut_stag_cache remote = {.chunks = NULL};
    uint64_t state = 3;

    for (int i = 0; i < 30000; i++) {
        uint64_t x = draw(&state);
        uint32_t index = (uint32_t)(x >> 32) % (x % 3 == 0 ? INDICES : 2000);
        if (x >> 16 & 1) {
            struct ut_cached_stag *stag = ut_stag_cache_find_or_add(&remote, index);
            cr_assert(stag);
            cr_assert_eq(stag->flags_and_generation, model[index]);
            stag->flags_and_generation = model[index] = (uint32_t)i + 1;
        } else {
            const struct ut_cached_stag *stag = ut_stag_cache_find(&remote, index);
            cr_assert_eq(stag ? stag->flags_and_generation : 0, model[index]);
        }
        if (x % 512 == 0) {
            ut_stag_cache_invalidate_chunk(&remote, index);
            memset(&model[index - index % UT_STAG_CHUNK], 0, UT_STAG_CHUNK * sizeof(*model));
            const struct ut_cached_chunk *chunk = ut_stag_cache_find_chunk(&remote, index);
            cr_assert(!chunk || (chunk->addr == 0 && chunk->rkey == 0));
        }
    }
    for (uint32_t index = 0; index < INDICES; index++) {
        const struct ut_cached_stag *stag = ut_stag_cache_find(&remote, index);
        cr_assert_eq(stag ? stag->flags_and_generation : 0, model[index]);
    }
    ut_stag_cache_free(&remote);
    for (uint32_t index = 0; index < INDICES; index++)
        cr_assert_null(ut_stag_cache_find_chunk(&remote, index));
    ut_stag_cache_free(&remote);
}

Test(tables, one_stag_of_a_peer_takes_little_memory)
{
    static const uint32_t indices[] = {0, UT_STAG_CHUNK - 1, UT_STAG_CHUNK, UT_STAG_CHUNK + 100};

    for (size_t i = 0; i < sizeof(indices) / sizeof(*indices); i++) {
        struct ut_stag_cache remote = {.chunks = NULL};
        bytes = 0;
        cr_assert(ut_stag_cache_find_or_add(&remote, indices[i]));
        cr_assert_leq(bytes, 640);
        ut_stag_cache_free(&remote);
    }
}

Test(tables, stag_without_memory_is_not_there)
{
    for (uint32_t which = 1; which <= 3; which++) { /* the list, the chunk, the block */
        struct ut_stag_cache remote = {.chunks = NULL};

        if (which > 1)
            cr_assert(ut_stag_cache_find_or_add_chunk(&remote, which == 2 ? 0 : UT_STAG_CHUNK));
        failures = 1;
        cr_assert_null(ut_stag_cache_find_or_add(&remote, UT_STAG_CHUNK + 5));
        cr_assert_null(ut_stag_cache_find(&remote, UT_STAG_CHUNK + 5));
        cr_assert_eq(failures, 0);
        cr_assert(ut_stag_cache_find_or_add(&remote, UT_STAG_CHUNK + 5));
        cr_assert(ut_stag_cache_find(&remote, UT_STAG_CHUNK + 5));
        failures = 1; /* of a longer list */
        cr_assert_null(ut_stag_cache_find_or_add_chunk(&remote, INDICES - 1));
        cr_assert(ut_stag_cache_find(&remote, UT_STAG_CHUNK + 5));
        ut_stag_cache_free(&remote);
    }
}
