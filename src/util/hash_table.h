/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hash tables of 64-bit keys. An entry is a member of the object that it finds. Several entries may
 * have the same key: the key of something longer is its hash, and the caller compares the rest. An
 * empty table is all zero. The caller locks. Used by core, providers and layers: this header and
 * hash.h need nothing else of the library.
 */
#ifndef UT_UTIL_HASH_TABLE_H
#define UT_UTIL_HASH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "hash.h"

enum { UT_HASH_FIRST_BITS = 4 /* the first buckets: 2^4 */ };

struct ut_hash_entry {
    struct ut_hash_entry *next; /* in its bucket; the newest entry is the first */
    uint64_t key;
};

struct ut_hash_table {
    struct ut_hash_entry **buckets; /* NULL: no entry was inserted yet */
    uint32_t bits, used;            /* 2^bits buckets, number of entries */
};

static inline struct ut_hash_entry **ut_hash_bucket(const struct ut_hash_table *table, uint64_t key)
{
    return &table->buckets[ut_hash_index(key, table->bits)];
}

static inline struct ut_hash_entry *ut_hash_skip(struct ut_hash_entry *entry, uint64_t key)
{
    while (entry && entry->key != key)
        entry = entry->next;
    return entry;
}

/* The newest entry of a key; NULL: none. */
static inline struct ut_hash_entry *ut_hash_find(const struct ut_hash_table *table, uint64_t key)
{
    return table->buckets ? ut_hash_skip(*ut_hash_bucket(table, key), key) : NULL;
}

/* The next entry of the same key; NULL: none. */
static inline struct ut_hash_entry *ut_hash_next(const struct ut_hash_entry *entry)
{
    return ut_hash_skip(entry->next, entry->key);
}

/* The entry after this one, of any key; `entry` NULL: the first of all. */
static inline struct ut_hash_entry *ut_hash_after(const struct ut_hash_table *table,
                                                  const struct ut_hash_entry *entry)
{
    size_t i = entry ? (size_t)(ut_hash_bucket(table, entry->key) - table->buckets) + 1 : 0;

    if (entry && entry->next)
        return entry->next;
    for (; table->buckets && i < (size_t)1 << table->bits; i++) {
        if (table->buckets[i])
            return table->buckets[i];
    }
    return NULL;
}

static inline void ut_hash_push(struct ut_hash_entry **bucket, struct ut_hash_entry *entry)
{
    entry->next = *bucket;
    *bucket = entry;
}

/* Doubles the number of buckets. Without memory the chains get longer. */
static inline void ut_hash_grow(struct ut_hash_table *table)
{
    struct ut_hash_table more = {.bits = table->buckets ? table->bits + 1 : UT_HASH_FIRST_BITS,
                                 .used = table->used};

    more.buckets = calloc((size_t)1 << more.bits, sizeof(*more.buckets));
    if (!more.buckets)
        return;
    for (struct ut_hash_entry *entry = ut_hash_after(table, NULL), *next; entry; entry = next) {
        next = ut_hash_after(table, entry);
        ut_hash_push(ut_hash_bucket(&more, entry->key), entry);
    }
    free(table->buckets);
    *table = more;
}

/* Makes room for one more entry. False: no memory for the first buckets. */
static inline bool ut_hash_reserve(struct ut_hash_table *table)
{
    if (!table->buckets || table->used >> table->bits)
        ut_hash_grow(table);
    return table->buckets;
}

/* After ut_hash_reserve(). */
static inline void ut_hash_insert(struct ut_hash_table *table, struct ut_hash_entry *entry,
                                  uint64_t key)
{
    entry->key = key;
    ut_hash_push(ut_hash_bucket(table, key), entry);
    table->used++;
}

/* False: the entry is not in the table. */
static inline bool ut_hash_remove(struct ut_hash_table *table, struct ut_hash_entry *entry)
{
    struct ut_hash_entry **at = table->buckets ? ut_hash_bucket(table, entry->key) : NULL;

    while (at && *at && *at != entry)
        at = &(*at)->next;
    if (!at || !*at)
        return false;
    *at = entry->next;
    table->used--;
    return true;
}

/* Frees the buckets, not the objects. */
static inline void ut_hash_free(struct ut_hash_table *table)
{
    free(table->buckets);
    *table = (struct ut_hash_table){NULL, 0, 0};
}

/* The object of an entry; NULL of NULL. */
static inline void *ut_hash_object(struct ut_hash_entry *entry, size_t offset)
{
    return entry ? (char *)entry - offset : NULL;
}

#define UT_HASH_OBJECT(var, member, entry)                                                         \
    ((var) = ut_hash_object(entry, offsetof(__typeof__(*(var)), member)))

/* Lets `var` point to each object of the key, the newest first, and to NULL at the end. */
#define UT_HASH_FOREACH(var, table, key, member)                                                   \
    for (UT_HASH_OBJECT(var, member, ut_hash_find(table, key)); (var);                             \
         UT_HASH_OBJECT(var, member, ut_hash_next(&(var)->member)))

/* The same for all objects. The loop may remove and free `var`, and insert nothing. */
#define UT_HASH_FOREACH_ALL(var, table, member)                                                    \
    for (struct ut_hash_entry *entry_ = ut_hash_after(table, NULL), *next_ = NULL;                 \
         UT_HASH_OBJECT(var, member, entry_) && ((next_ = ut_hash_after(table, entry_)) || true);  \
         entry_ = next_)

#endif
