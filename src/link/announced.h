/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Announced STADDs of a link, in one direction. Remote STADDs that puts repeat are announced once
 * and then named by the number of a slot, in the immediate of the put. The sender chooses the slot
 * by a hash of the STADD, and overwrites what it has announced there before; the receiver keeps
 * what came last for each slot. Both begin small and double: the sender when it would overwrite,
 * the receiver when a larger number comes. Not thread-safe: the lock of the VCQ protects a link.
 */
#ifndef UT_LINK_ANNOUNCED_H
#define UT_LINK_ANNOUNCED_H

#include <stdbool.h>
#include <stdint.h>

#include "util/hash.h"
#include "wire/wire.h"

enum { UT_FIRST_ANNOUNCED = 64 }; /* slots of the first table; UT_NUM_ANNOUNCED of the last */

struct ut_announced {
    utofu_stadd_t *stadds; /* by slot; the sender's may be UT_NOT_ANNOUNCED */
    uint32_t mask;         /* number of slots - 1; 0: there is no memory yet */
    uint32_t slots;        /* the receiver's, that an immediate may name */
};

#define UT_NOT_ANNOUNCED UINT64_MAX

/* Without memory, as it begins and ends. table: zeroed, or in use. */
void ut_announced_clear(struct ut_announced *table);

/* The sender's. */

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

/* The slot in which it is announced next. The table grows where that is another one's. */
unsigned int ut_announced_choose(struct ut_announced *table, utofu_stadd_t stadd);

/* The peer has been told, or will be before any immediate that follows. */
static inline void ut_announced_tell(struct ut_announced *table, unsigned int slot,
                                     utofu_stadd_t stadd)
{
    if (table->mask)
        table->stadds[slot] = stadd;
}

/* The peer knows none of them any more. */
void ut_announced_forget(struct ut_announced *table);

/* The receiver's. False: no memory. */

/* Before the link is up. */
bool ut_announced_begin(struct ut_announced *table);
/* slot: less than UT_NUM_ANNOUNCED. */
bool ut_announced_keep(struct ut_announced *table, unsigned int slot, utofu_stadd_t stadd);

/* False: it was never announced. */
static inline bool ut_announced_knows(const struct ut_announced *table, unsigned int slot)
{
    return slot < table->slots;
}

/* From now on none is known, for good. */
static inline void ut_announced_stop(struct ut_announced *table)
{
    table->slots = 0;
}

static inline bool ut_announced_is_stopped(const struct ut_announced *table)
{
    return table->slots == 0;
}

#endif
