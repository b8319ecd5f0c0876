/* SPDX-License-Identifier: Apache-2.0 */
/* A table from keys of two words to numbers. */
#ifndef UM_TABLE_H
#define UM_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct um_table {
    struct um_table_entry *entries;
    size_t used, size;
};

/* The place of a key's number: a new key has `first`. Valid until the next call. */
uint32_t *um_table_at(struct um_table *table, uint64_t a, uint64_t b, uint32_t first);
void um_table_free(struct um_table *table);

#endif
