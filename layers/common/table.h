/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table by rank. A layer allocates the entries; their first member is `uint32_t rank`. Ranks
 * that are not used take no memory.
 */
#ifndef LC_TABLE_H
#define LC_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

enum { LC_TABLE_MIN_SIZE = 16 /* initial number of slots */ };

struct lc_table {
    void **entries; /* open addressing; at most 3/4 full, and at least 3/8 after it has grown */
    uint32_t size, used;
};

void *lc_table_find(const struct lc_table *table, uint32_t rank); /* NULL: not found */
bool lc_table_reserve(struct lc_table *table); /* for one more entry; false: no memory */
/* Requires a preceding lc_table_reserve(), and no entry of this rank. */
void lc_table_insert(struct lc_table *table, void *entry);
void *lc_table_next(const struct lc_table *table,
                    uint32_t *at);           /* iterates over all entries, starting with *at = 0 */
void lc_table_close(struct lc_table *table); /* frees the entries; the table is empty then */

#pragma GCC visibility pop

#endif
