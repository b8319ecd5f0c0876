/* SPDX-License-Identifier: Apache-2.0 */
/* FNV-1a: of bytes, one after the other; begins with UT_HASH_FIRST. */
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

#endif
