/* SPDX-License-Identifier: Apache-2.0 */
/* Hash tables: what was inserted and not removed is found, however the table grows. Linked with
 * --wrap=calloc, which fails on request. */
#include <criterion/criterion.h>

#include "util/hash_table.h"

TestSuite(hash_table);

enum { NUM = 1000, STEP = 7919 /* keys are far from each other */ };

struct number {
    int value;
    struct ut_hash_entry entry; /* not the first member */
};

static uint32_t failures; /* number of next calls that fail */

void *__real_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each)
{
    if (failures > 0) {
        failures--;
        return NULL;
    }
    return __real_calloc(n, each);
}

static struct number *find_number(const struct ut_hash_table *table, uint64_t key)
{
    struct number *found;

    return UT_HASH_OBJECT(found, entry, ut_hash_find(table, key));
}

/* Inserts the numbers from 0 to n - 1, each with its own key. */
static void insert_numbers(struct ut_hash_table *table, struct number numbers[], int n)
{
    for (int i = 0; i < n; i++) {
        numbers[i].value = i;
        cr_assert(ut_hash_reserve(table));
        ut_hash_insert(table, &numbers[i].entry, (uint64_t)i * STEP);
    }
}

Test(hash_table, empty_table_finds_nothing)
{
    struct ut_hash_table table = {0};
    struct number other = {.value = 1}, *each;

    cr_assert_null(find_number(&table, 0));
    cr_assert_not(ut_hash_remove(&table, &other.entry));
    UT_HASH_FOREACH_ALL (each, &table, entry)
        cr_assert(false);
    cr_assert_null(each);
    ut_hash_free(&table);
}

Test(hash_table, entries_are_found_while_the_table_grows)
{
    static struct number numbers[NUM];
    struct ut_hash_table table = {0};

    for (int n = 0; n < NUM; n++) {
        numbers[n].value = n;
        cr_assert(ut_hash_reserve(&table));
        ut_hash_insert(&table, &numbers[n].entry, (uint64_t)n * STEP);
        cr_assert_eq(table.used, (uint32_t)n + 1);
        for (int i = 0; i < NUM; i += n < 100 ? 1 : 97)
            cr_assert_eq(find_number(&table, (uint64_t)i * STEP), i <= n ? &numbers[i] : NULL);
    }
    /* the chains stay short, and the buckets few */
    cr_assert_geq(1u << table.bits, NUM);
    cr_assert_lt(1u << table.bits, 2 * NUM + 48);
    ut_hash_free(&table);
    cr_assert_null(find_number(&table, 0));
}

Test(hash_table, removed_entries_are_not_found_and_others_are)
{
    static struct number numbers[NUM];
    struct ut_hash_table table = {0};

    insert_numbers(&table, numbers, NUM);
    for (int i = 0; i < NUM; i += 2) {
        cr_assert(ut_hash_remove(&table, &numbers[i].entry));
        cr_assert_not(ut_hash_remove(&table, &numbers[i].entry));
    }
    cr_assert_eq(table.used, NUM / 2);
    for (int i = 0; i < NUM; i++)
        cr_assert_eq(find_number(&table, (uint64_t)i * STEP), i % 2 ? &numbers[i] : NULL);
    ut_hash_free(&table);
}

Test(hash_table, entries_of_one_key_come_newest_first)
{
    static struct number numbers[8];
    struct ut_hash_table table = {0};
    struct number *each;
    int expected = 8;

    for (int i = 0; i < 8; i++) {
        numbers[i].value = i;
        cr_assert(ut_hash_reserve(&table));
        ut_hash_insert(&table, &numbers[i].entry, 5);
    }
    UT_HASH_FOREACH (each, &table, 5, entry)
        cr_assert_eq(each->value, --expected);
    cr_assert_eq(expected, 0);
    ut_hash_free(&table);
}

Test(hash_table, all_come_once_and_may_be_removed_meanwhile)
{
    static struct number numbers[NUM];
    static int seen[NUM];
    struct ut_hash_table table = {0};
    struct number *each;

    insert_numbers(&table, numbers, NUM);
    UT_HASH_FOREACH_ALL (each, &table, entry) {
        seen[each->value]++;
        cr_assert(ut_hash_remove(&table, &each->entry));
        each->entry = (struct ut_hash_entry){NULL, 0}; /* as if it were freed */
    }
    for (int i = 0; i < NUM; i++)
        cr_assert_eq(seen[i], 1);
    cr_assert_eq(table.used, 0);
    ut_hash_free(&table);
}

Test(hash_table, without_memory_for_more_buckets_entries_are_found)
{
    static struct number numbers[NUM];
    struct ut_hash_table table = {0};

    failures = 1;
    cr_assert_not(ut_hash_reserve(&table));
    insert_numbers(&table, numbers, 1);
    failures = UINT32_MAX;
    insert_numbers(&table, numbers + 1, NUM - 1);
    failures = 0;
    cr_assert_eq(table.bits, UT_HASH_FIRST_BITS);
    for (int i = 0; i + 1 < NUM; i++)
        cr_assert_not_null(find_number(&table, (uint64_t)i * STEP));
    ut_hash_free(&table);
}
