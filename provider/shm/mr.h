/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers and deregisters memory, and looks up a key in a table of memory regions, of this
 * process or of a peer. A key consists of an index and a generation. The state of an entry has the
 * generation, the access and a serial number that no other region has. base, size and ranges are
 * valid only together with the state: the process clears the state before it changes them, and sets
 * it afterwards.
 */
#ifndef SP_MR_H
#define SP_MR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "layout.h"
#include "provider.h"

struct sp_mr {
    struct prov_mr base;
    STAILQ_ENTRY(sp_mr) next_free;
    uint64_t lo, hi; /* the referenced pages: see pageref.h */
};

/* prov_ops.reg() and dereg(): see provider.h. */
int sp_reg(struct prov *prov, unsigned int device, void *addr, size_t size, unsigned int access,
           struct prov_mr **mr);
void sp_dereg(struct prov *prov, struct prov_mr *mr);

#define SP_MR_GENERATION_MASK ((1u << (32 - SP_MR_BITS)) - 1)

/* Returns the entry that the key names, which may belong to another region or none. */
static inline const struct sp_mr_entry *sp_mr_entry_of(const struct sp_mr_entry *table,
                                                       uint32_t key)
{
    return &table[key & (SP_MAX_MRS - 1)];
}

/* Returns the value of sp_mr_entry.state of a valid region. `access`: bits of enum prov_access. */
static inline uint64_t sp_mr_make_state(uint64_t serial, uint32_t generation, unsigned int access)
{
    return serial << 20 | (uint64_t)generation << 8 | (access & 7) << 1 | 1;
}

/* True if the key is valid, and its region contains [addr, addr + length) and allows `access`. */
static inline bool sp_mr_allows(const struct sp_mr_entry *table, uint32_t key, uint64_t addr,
                                uint64_t length, unsigned int access)
{
    const struct sp_mr_entry *entry = sp_mr_entry_of(table, key);
    uint64_t state = __atomic_load_n(&entry->state, __ATOMIC_ACQUIRE);
    uint64_t base = __atomic_load_n(&entry->base, __ATOMIC_ACQUIRE);
    uint64_t size = __atomic_load_n(&entry->size, __ATOMIC_ACQUIRE);
    uint64_t needed = (uint64_t)(key >> SP_MR_BITS) << 8 | access << 1 | 1;

    if ((state & ((uint64_t)SP_MR_GENERATION_MASK << 8 | access << 1 | 1)) != needed)
        return false;
    return addr - base <= size && length <= size - (addr - base) &&
           __atomic_load_n(&entry->state, __ATOMIC_RELAXED) == state;
}

/* True if the CPU of the target must store small writes where the region is not mapped. The key
 * must be valid. */
static inline bool sp_mr_small_writes_need_cpu(const struct sp_mr_entry *table, uint32_t key)
{
    return __atomic_load_n(&sp_mr_entry_of(table, key)->small_writes_need_cpu, __ATOMIC_RELAXED);
}

/* A part of a region that peers may map. */
struct sp_mr_range {
    uint64_t state;  /* of the region */
    uint64_t lo, hi; /* addresses in its process */
};

/* Finds the mappable range that contains `at`, or the next one behind it. False: the key is
 * invalid, or there is none. */
static inline bool sp_mr_find_range(const struct sp_mr_entry *table, uint32_t key, uint64_t at,
                                    struct sp_mr_range *range)
{
    const struct sp_mr_entry *entry = sp_mr_entry_of(table, key);
    uint64_t state = __atomic_load_n(&entry->state, __ATOMIC_ACQUIRE);
    uint64_t first = __atomic_load_n(&entry->base, __ATOMIC_ACQUIRE) >> 12;

    *range = (struct sp_mr_range){.state = state, .lo = UINT64_MAX};
    for (int i = 0; i < SP_MR_RANGES; i++) {
        uint64_t r = __atomic_load_n(&entry->ranges[i], __ATOMIC_ACQUIRE);
        uint64_t lo = (first + (r >> 32)) << 12, hi = lo + ((r & UINT32_MAX) << 12);
        if (hi > lo && hi > at && lo < range->lo) {
            range->lo = lo;
            range->hi = hi;
        }
    }
    return (state >> 8 & SP_MR_GENERATION_MASK) == key >> SP_MR_BITS && (state & 1) &&
           range->hi > 0 && __atomic_load_n(&entry->state, __ATOMIC_RELAXED) == state;
}

#endif
