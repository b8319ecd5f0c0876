/* SPDX-License-Identifier: Apache-2.0 */
/* Multiplicative hashes of words; the upper bits are the best. */
#ifndef LC_HASH_H
#define LC_HASH_H

#include <stdint.h>

/* 2^64 divided by the golden ratio, made odd. */
#define LC_HASH_FACTOR 0x9e3779b97f4a7c15ull

/* The index of a key in a table of 2^bits entries; `bits` is from 1 to 64. */
static inline uint64_t lc_hash_index(uint64_t key, unsigned int bits)
{
    return key * LC_HASH_FACTOR >> (64 - bits);
}

/* Adds a word to a hash. */
static inline uint64_t lc_hash_word(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * LC_HASH_FACTOR;
}

#endif
