/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Announced STADDs of a link, in one direction. A remote STADD that puts repeat is announced once;
 * later puts name it by the number of a slot, in their immediate data. The sender chooses the slot
 * by a hash of the STADD and overwrites the STADD announced there; the receiver keeps the last
 * STADD of each slot. Both tables begin small and double: the sender's before it would overwrite,
 * the receiver's when a larger number arrives. The lock of the VCQ protects a link's tables.
 */
#ifndef UT_LINK_ANNOUNCED_H
#define UT_LINK_ANNOUNCED_H

#include <stdbool.h>
#include <stdint.h>

#include "util/hash.h"
#include "wire/wire.h"

enum { UT_FIRST_ANNOUNCED = 64 }; /* slots of the first table; UT_NUM_ANNOUNCED of the last */

struct ut_announced {
    utofu_stadd_t *stadds; /* by slot; in the sender's table possibly UT_NOT_ANNOUNCED */
    uint32_t mask;         /* number of slots - 1; 0: no memory yet */
    uint32_t slots;        /* receiver's table: slots that an immediate may name */
};

#define UT_NOT_ANNOUNCED UINT64_MAX

/* Releases the memory of the table. table: zeroed, or in use. */
void ut_announced_clear(struct ut_announced *table);

/* Sender's table. */

static inline unsigned int ut_announced_slot(const struct ut_announced *table, utofu_stadd_t stadd)
{
    enum { BITS = 9 };
    _Static_assert(UT_NUM_ANNOUNCED == 1 << BITS, "of the largest table");

    return (unsigned int)ut_hash_index(stadd, BITS) & table->mask;
}

static inline bool ut_announced_has(const struct ut_announced *table, unsigned int slot,
                                    utofu_stadd_t stadd)
{
    return table->stadds[slot] == stadd;
}

/* The slot in which the STADD is announced next. The table grows if another STADD has the slot. */
unsigned int ut_announced_reserve_slot(struct ut_announced *table, utofu_stadd_t stadd);

/* The peer has been told of the STADD, or will be before any immediate that follows. */
static inline void ut_announced_set(struct ut_announced *table, unsigned int slot,
                                    utofu_stadd_t stadd)
{
    if (table->mask)
        table->stadds[slot] = stadd;
}

/* The peer knows none of the announced STADDs any more. */
void ut_announced_invalidate(struct ut_announced *table);

/* Receiver's table. The functions return false if there is no memory. */

/* Called before the link is up. */
bool ut_announced_alloc(struct ut_announced *table);
/* slot: less than UT_NUM_ANNOUNCED. */
bool ut_announced_store(struct ut_announced *table, unsigned int slot, utofu_stadd_t stadd);

/* False: no STADD was announced for this slot. */
static inline bool ut_announced_is_valid(const struct ut_announced *table, unsigned int slot)
{
    return slot < table->slots;
}

/* From now on the table knows no STADD, for good. */
static inline void ut_announced_disable(struct ut_announced *table)
{
    table->slots = 0;
}

static inline bool ut_announced_is_disabled(const struct ut_announced *table)
{
    return table->slots == 0;
}

#endif
