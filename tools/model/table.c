/* SPDX-License-Identifier: Apache-2.0 */
#include "model/table.h"

#include <stdlib.h>

#include "model/fail.h"
#include "util/hash.h"

struct um_table_entry {
    uint64_t a, b;
    uint32_t value;
    bool used;
};

static struct um_table_entry *find_entry(const struct um_table *t, uint64_t a, uint64_t b)
{
    uint64_t h = ut_hash_word(ut_hash_word(UT_HASH_FIRST, a), b);
    size_t i = (size_t)(h ^ h >> 32) & (t->size - 1);

    while (t->entries[i].used && (t->entries[i].a != a || t->entries[i].b != b))
        i = (i + 1) & (t->size - 1);
    return &t->entries[i];
}

static void grow_table(struct um_table *t)
{
    struct um_table old = *t;

    t->size = old.size ? old.size * 2 : 64;
    t->entries = um_calloc(t->size, sizeof(*t->entries));
    for (size_t i = 0; i < old.size; i++) {
        if (old.entries[i].used)
            *find_entry(t, old.entries[i].a, old.entries[i].b) = old.entries[i];
    }
    free(old.entries);
}

uint32_t *um_table_at(struct um_table *t, uint64_t a, uint64_t b, uint32_t first)
{
    if (t->used * 2 >= t->size)
        grow_table(t);
    struct um_table_entry *e = find_entry(t, a, b);
    if (!e->used) {
        *e = (struct um_table_entry){.a = a, .b = b, .value = first, .used = true};
        t->used++;
    }
    return &e->value;
}

void um_table_free(struct um_table *t)
{
    free(t->entries);
    *t = (struct um_table){.entries = NULL};
}
