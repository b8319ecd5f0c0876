/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process keeps of others, by their ranks: entries of the layer's own type, each allocated,
 * whose first member is `uint32_t rank`. Nothing is kept of those that are not used.
 */
#ifndef LC_TABLE_H
#define LC_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

enum { LC_TABLE_FIRST = 16 /* entries it has room for, when there is the first one */ };

struct lc_table {
    void **entries; /* open addressing; 3/4 full at most, and 3/8 at least once it has grown */
    uint32_t size, used;
};

void *lc_table_find(const struct lc_table *table, uint32_t rank); /* NULL: it is not there */
bool lc_table_reserve(struct lc_table *table); /* for one more; false: no memory */
/* There is room, and no entry of its rank yet. */
void lc_table_insert(struct lc_table *table, void *entry);
void *lc_table_next(const struct lc_table *table, uint32_t *at); /* all, beginning with *at = 0 */
void lc_table_close(struct lc_table *table);                     /* it is empty then */

#pragma GCC visibility pop

#endif
