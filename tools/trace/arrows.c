/* SPDX-License-Identifier: Apache-2.0 */
#include "arrows.h"

#include <stdlib.h>

#include "util/hash.h"

enum { FIRST_SIZE = 4096 };

static struct tr_arrow *place(const struct tr_arrows *t, uint64_t id)
{
    size_t i = (size_t)ut_hash_index(id, 44) & (t->size - 1);

    while (t->table[i].id && t->table[i].id != id)
        i = (i + 1) & (t->size - 1);
    return &t->table[i];
}

static bool grow(struct tr_arrows *t)
{
    struct tr_arrows more = {.size = t->size ? t->size * 2 : FIRST_SIZE, .used = t->used};

    more.table = calloc(more.size, sizeof(*more.table));
    if (!more.table)
        return false;
    for (size_t i = 0; i < t->size; i++)
        if (t->table[i].id)
            *place(&more, t->table[i].id) = t->table[i];
    free(t->table);
    *t = more;
    return true;
}

struct tr_arrow *tr_arrows_at(struct tr_arrows *t, uint64_t id)
{
    if (t->used * 4 >= t->size * 3 && !grow(t))
        return NULL;
    struct tr_arrow *a = place(t, id);
    if (!a->id) {
        a->id = id;
        t->used++;
    }
    return a;
}
