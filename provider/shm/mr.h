/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking a key up in a table of memory regions, one's own or a peer's. A key is an index and a
 * generation; an entry's word is (generation << 8) | (access << 1) | valid and is what makes base
 * and size count: it is cleared before they change and set after.
 */
#ifndef SP_MR_H
#define SP_MR_H

#include <stdbool.h>

#include "layout.h"

#define SP_MR_GENERATION_MASK ((1u << (32 - SP_MR_BITS)) - 1)

static inline bool sp_mr_allows(const struct sp_mr_entry *table, uint32_t key, uint64_t addr,
                                uint64_t length, unsigned int access)
{
    const struct sp_mr_entry *e = &table[key & (SP_MAX_MRS - 1)];
    uint64_t word = __atomic_load_n(&e->word, __ATOMIC_ACQUIRE);
    uint64_t base = __atomic_load_n(&e->base, __ATOMIC_ACQUIRE);
    uint64_t size = __atomic_load_n(&e->size, __ATOMIC_ACQUIRE);
    uint64_t needed = (uint64_t)(key >> SP_MR_BITS) << 8 | access << 1 | 1;

    if ((word & (~0xffull | access << 1 | 1)) != needed)
        return false;
    return addr - base <= size && length <= size - (addr - base) &&
           __atomic_load_n(&e->word, __ATOMIC_RELAXED) == word;
}

#endif
