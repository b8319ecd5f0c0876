/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registering and deregistering memory, and looking a key up in a table of memory regions, this
 * process's or a peer's. A key is an index and a generation. An entry's word has the generation,
 * the access and a serial number that no other region has; base, size and runs are valid only
 * together with the word, which is cleared before they change and set afterwards.
 */
#ifndef SP_MR_H
#define SP_MR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"
#include "provider.h"

struct sp_mr {
    struct prov_mr base;
    struct sp_mr *next_free;
    uint64_t lo, hi; /* the counted pages that it touches */
};

int sp_reg(struct prov *prov, unsigned int device, void *addr, size_t size, unsigned int access,
           struct prov_mr **mr);
void sp_dereg(struct prov *prov, struct prov_mr *mr);

#define SP_MR_GENERATION_MASK ((1u << (32 - SP_MR_BITS)) - 1)

static inline const struct sp_mr_entry *sp_mr_entry_of(const struct sp_mr_entry *table,
                                                       uint32_t key)
{
    return &table[key & (SP_MAX_MRS - 1)];
}

static inline uint64_t sp_mr_word(uint64_t serial, uint32_t generation, unsigned int access)
{
    return serial << 20 | (uint64_t)generation << 8 | (access & 7) << 1 | 1;
}

static inline bool sp_mr_allows(const struct sp_mr_entry *table, uint32_t key, uint64_t addr,
                                uint64_t length, unsigned int access)
{
    const struct sp_mr_entry *e = sp_mr_entry_of(table, key);
    uint64_t word = __atomic_load_n(&e->word, __ATOMIC_ACQUIRE);
    uint64_t base = __atomic_load_n(&e->base, __ATOMIC_ACQUIRE);
    uint64_t size = __atomic_load_n(&e->size, __ATOMIC_ACQUIRE);
    uint64_t needed = (uint64_t)(key >> SP_MR_BITS) << 8 | access << 1 | 1;

    if ((word & ((uint64_t)SP_MR_GENERATION_MASK << 8 | access << 1 | 1)) != needed)
        return false;
    return addr - base <= size && length <= size - (addr - base) &&
           __atomic_load_n(&e->word, __ATOMIC_RELAXED) == word;
}

/* Does the owner store a few bytes itself, where the region is not mapped? The key is valid. */
static inline bool sp_mr_owner_stores_small(const struct sp_mr_entry *table, uint32_t key)
{
    return __atomic_load_n(&sp_mr_entry_of(table, key)->owner_stores_small, __ATOMIC_RELAXED);
}

/* A part of a region that may be mapped. */
struct sp_mr_range {
    uint64_t word;
    uint64_t lo, hi;
};

/* The part with the address `at`, or the next one behind it. */
static inline bool sp_mr_find_range(const struct sp_mr_entry *table, uint32_t key, uint64_t at,
                                    struct sp_mr_range *run)
{
    const struct sp_mr_entry *e = sp_mr_entry_of(table, key);
    uint64_t word = __atomic_load_n(&e->word, __ATOMIC_ACQUIRE);
    uint64_t first = __atomic_load_n(&e->base, __ATOMIC_ACQUIRE) >> 12;

    *run = (struct sp_mr_range){.word = word, .lo = UINT64_MAX};
    for (int i = 0; i < SP_MR_RANGES; i++) {
        uint64_t r = __atomic_load_n(&e->runs[i], __ATOMIC_ACQUIRE);
        uint64_t lo = (first + (r >> 32)) << 12, hi = lo + ((r & UINT32_MAX) << 12);
        if (hi > lo && hi > at && lo < run->lo) {
            run->lo = lo;
            run->hi = hi;
        }
    }
    return (word >> 8 & SP_MR_GENERATION_MASK) == key >> SP_MR_BITS && (word & 1) && run->hi > 0 &&
           __atomic_load_n(&e->word, __ATOMIC_RELAXED) == word;
}

#endif
