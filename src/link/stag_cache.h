/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache of a peer's STag table: addresses of chunks, from the table's directory, and STag entries
 * in blocks of 16. The first read of an STag allocates its block: most programs use few STags of a
 * peer, with adjacent numbers. Not thread-safe: the lock of the VCQ protects a link.
 */
#ifndef UT_LINK_STAG_CACHE_H
#define UT_LINK_STAG_CACHE_H

#include <stdint.h>

#include "stag/stag.h"

enum { UT_CACHED_BLOCK_STAGS = 16, UT_CACHED_BLOCKS = UT_STAG_CHUNK / UT_CACHED_BLOCK_STAGS };

/* One entry of the peer's STag table, as read last. */
struct ut_cached_stag {
    uint64_t base, size;
    uint32_t rkey;
    uint32_t flags_and_generation; /* ut_stag_entry.info: bit 0: valid, bit 1: writable, bits 8..13:
                                    * generation; 0: was not registered at the last read */
};

struct ut_cached_chunk {
    uint64_t addr; /* address of the peer's chunk; 0: not read, or the peer has no such chunk */
    uint32_t rkey;
    struct ut_cached_stag *blocks[UT_CACHED_BLOCKS]; /* NULL: no STag of this block was read */
};

struct ut_stag_cache {
    struct ut_cached_chunk **chunks; /* NULL: no entry of this chunk was read */
    uint32_t num_chunks;             /* length of the list */
};

/* `index`: result of ut_stag_index(), also in the functions below; no chunk has UT_STAG_NONE. */
static inline struct ut_cached_chunk *ut_stag_cache_find_chunk(const struct ut_stag_cache *cache,
                                                               uint32_t index)
{
    uint32_t n = index / UT_STAG_CHUNK;

    return n < cache->num_chunks ? cache->chunks[n] : NULL;
}

/* Returns the cached STag; NULL: not read. */
static inline struct ut_cached_stag *ut_stag_cache_find(const struct ut_stag_cache *cache,
                                                        uint32_t index)
{
    const struct ut_cached_chunk *chunk = ut_stag_cache_find_chunk(cache, index);
    struct ut_cached_stag *block =
        chunk ? chunk->blocks[index % UT_STAG_CHUNK / UT_CACHED_BLOCK_STAGS] : NULL;

    return block ? &block[index % UT_CACHED_BLOCK_STAGS] : NULL;
}

/* As the functions above, but allocate a missing chunk or STag. NULL: no memory. */
struct ut_cached_chunk *ut_stag_cache_find_or_add_chunk(struct ut_stag_cache *cache,
                                                        uint32_t index);
struct ut_cached_stag *ut_stag_cache_find_or_add(struct ut_stag_cache *cache, uint32_t index);

/* Invalidates the cached entries and the address of a chunk. */
void ut_stag_cache_invalidate_chunk(struct ut_stag_cache *cache, uint32_t index);
/* Invalidates all chunks and frees their memory. */
void ut_stag_cache_free(struct ut_stag_cache *cache);

#endif
