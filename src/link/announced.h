/* SPDX-License-Identifier: Apache-2.0 */
/*
 * STADDs that one end of a link has announced to the other. The sender announces a remote STADD
 * once; later puts name the STADD by a slot number in their immediate data. The sender computes the
 * slot by a hash and overwrites the STADD announced there before. The receiver stores the last
 * STADD of each slot. Both tables start small and double: the sender's table before it overwrites a
 * STADD, the receiver's table when a larger slot number arrives. The lock of the VCQ protects the
 * tables.
 */
#ifndef UT_LINK_ANNOUNCED_H
#define UT_LINK_ANNOUNCED_H

#include <stdbool.h>
#include <stdint.h>

#include "util/hash.h"
#include "wire/wire.h"

/* Number of slots of the first table. The largest table has UT_NUM_ANNOUNCED. */
enum { UT_ANNOUNCED_INITIAL_SLOTS = 64 };

struct ut_announced {
    utofu_stadd_t
        *stadds;    /* indexed by slot; UT_NOT_ANNOUNCED in free slots of the sender's table */
    uint32_t mask;  /* number of slots - 1; 0: no memory allocated */
    uint32_t slots; /* receiver's table: number of slots that an immediate may name */
};

#define UT_NOT_ANNOUNCED UINT64_MAX

/* Frees the memory of the table. The table must be zeroed or in use. */
void ut_announced_clear(struct ut_announced *table);

/* Sender's table */

/* Returns the slot of the STADD in a table of this size. */
static inline unsigned int ut_announced_slot(const struct ut_announced *table, utofu_stadd_t stadd)
{
    enum { BITS = 9 };
    _Static_assert(UT_NUM_ANNOUNCED == 1 << BITS, "bits of the largest slot number");

    return (unsigned int)ut_hash_index(stadd, BITS) & table->mask;
}

/* True if the STADD is announced in its slot. */
static inline bool ut_announced_has(const struct ut_announced *table, unsigned int slot,
                                    utofu_stadd_t stadd)
{
    return table->stadds[slot] == stadd;
}

/* Returns the slot to announce the STADD in. If another STADD has the slot, doubles the table
 * before, unless the table is the largest or memory is short. */
unsigned int ut_announced_reserve_slot(struct ut_announced *table, utofu_stadd_t stadd);

/* Records that the peer knows the STADD, or will know it before any immediate that follows. */
static inline void ut_announced_set(struct ut_announced *table, unsigned int slot,
                                    utofu_stadd_t stadd)
{
    if (table->mask)
        table->stadds[slot] = stadd;
}

/* Removes all announcements: the peer does not know them any more. */
void ut_announced_invalidate(struct ut_announced *table);

/* Receiver's table. The functions return false if memory is short. */

/* Allocates the first table if the link has none. Call before the link is up. */
bool ut_announced_alloc(struct ut_announced *table);
/* Stores the STADD that the peer announced for this slot. Grows the table if necessary. `slot` must
 * be less than UT_NUM_ANNOUNCED. */
bool ut_announced_store(struct ut_announced *table, unsigned int slot, utofu_stadd_t stadd);

/* False: the peer announced no STADD for this slot. */
static inline bool ut_announced_is_valid(const struct ut_announced *table, unsigned int slot)
{
    return slot < table->slots;
}

/* Rejects every slot from now on. */
static inline void ut_announced_disable(struct ut_announced *table)
{
    table->slots = 0;
}

static inline bool ut_announced_is_disabled(const struct ut_announced *table)
{
    return table->slots == 0;
}

#endif
