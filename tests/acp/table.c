/* SPDX-License-Identifier: Apache-2.0 */
/* What a process keeps of others is found by rank, also once the table has grown. */
#include <stdio.h>
#include <stdlib.h>

#include "../../layers/common/table.h"

enum { RANKS = 1000, STEP = 7919 /* ranks are far from each other */ };

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "FAIL: %s:%d: %s\n", __FILE__, __LINE__, #what);                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct entry {
    uint32_t rank, square;
};

static void add_rank(struct lc_table *table, uint32_t rank)
{
    struct entry *entry = malloc(sizeof(*entry));

    CHECK(entry != NULL);
    *entry = (struct entry){rank, rank * rank};
    CHECK(lc_table_reserve(table));
    lc_table_insert(table, entry);
}

static void check_ranks(const struct lc_table *table, uint32_t num)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        const struct entry *entry = lc_table_find(table, i * STEP);

        CHECK((entry != NULL) == (i < num));
        CHECK(entry == NULL ||
              (entry->rank == i * STEP && entry->square == entry->rank * entry->rank));
    }
}

static void check_all_come_once(const struct lc_table *table)
{
    bool seen[RANKS] = {false};
    const struct entry *entry;
    uint32_t at = 0, num = 0;

    for (; (entry = lc_table_next(table, &at)) != NULL; num++) {
        CHECK(!seen[entry->rank / STEP]);
        seen[entry->rank / STEP] = true;
    }
    CHECK(num == RANKS && table->used == RANKS);
}

int main(void)
{
    struct lc_table table = {0};

    check_ranks(&table, 0);
    for (uint32_t i = 0; i < RANKS; i++) {
        add_rank(&table, i * STEP);
        if (i < 64 || i % 64 == 0)
            check_ranks(&table, i + 1);
    }
    check_ranks(&table, RANKS);
    check_all_come_once(&table);
    CHECK(table.used * 4 <= table.size * 3 && table.used * 8 >= table.size * 3);
    lc_table_close(&table);
    check_ranks(&table, 0);
    CHECK(table.size == 0 && table.used == 0);
    return 0;
}
