/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table by rank. */
#include "table.h"

#include <stdlib.h>

#include "hash.h"

static uint32_t rank_of(const void *entry)
{
    return *(const uint32_t *)entry;
}

/* The slot of a rank: where its entry is, or would be inserted. */
static void **find_slot(const struct lc_table *table, uint32_t rank)
{
    uint32_t i = (uint32_t)ut_hash_index(rank, 32);

    while (table->entries[i & (table->size - 1)] != NULL &&
           rank_of(table->entries[i & (table->size - 1)]) != rank)
        i++;
    return &table->entries[i & (table->size - 1)];
}

void *lc_table_find(const struct lc_table *table, uint32_t rank)
{
    return table->size == 0 ? NULL : *find_slot(table, rank);
}

bool lc_table_reserve(struct lc_table *table)
{
    struct lc_table more = {.size = table->size == 0 ? LC_TABLE_MIN_SIZE : 2 * table->size,
                            .used = table->used};
    uint32_t at = 0;
    void *entry;

    if (4 * (table->used + 1) <= 3 * table->size)
        return true;
    more.entries = calloc(more.size, sizeof(*more.entries));
    if (more.entries == NULL)
        return false;
    while ((entry = lc_table_next(table, &at)) != NULL)
        *find_slot(&more, rank_of(entry)) = entry;
    free(table->entries);
    *table = more;
    return true;
}

void lc_table_insert(struct lc_table *table, void *entry)
{
    *find_slot(table, rank_of(entry)) = entry;
    table->used++;
}

void *lc_table_next(const struct lc_table *table, uint32_t *at)
{
    while (*at < table->size)
        if (table->entries[(*at)++] != NULL)
            return table->entries[*at - 1];
    return NULL;
}

void lc_table_close(struct lc_table *table)
{
    for (uint32_t i = 0; i < table->size; i++)
        free(table->entries[i]);
    free(table->entries);
    *table = (struct lc_table){0};
}
