/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes: of bytes (FNV-1a, starts with UT_HASH_FIRST), and of words by multiplication, where the
 * upper bits are the best. layers/common/hash.h is the same for the layers.
 */
#ifndef UT_UTIL_HASH_H
#define UT_UTIL_HASH_H

#include <stddef.h>
#include <stdint.h>

#define UT_HASH_FIRST 0xcbf29ce484222325ull

static inline uint64_t ut_hash(uint64_t hash, const void *data, size_t size)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3ull;
    return hash;
}

/* Odd numbers with irregular bits: 2^64 divided by the golden ratio, and another one for a second
 * word. */
#define UT_HASH_FACTOR   0x9e3779b97f4a7c15ull
#define UT_HASH_FACTOR_2 0xc2b2ae3d27d4eb4full

/* The index of a key in a table of 2^bits entries; `bits` is from 1 to 64. */
static inline uint64_t ut_hash_index(uint64_t key, unsigned int bits)
{
    return key * UT_HASH_FACTOR >> (64 - bits);
}

/* Adds a word to a hash. If a caller uses the lower bits, it should fold the upper bits into them.
 */
static inline uint64_t ut_hash_word(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * UT_HASH_FACTOR;
}

#endif
