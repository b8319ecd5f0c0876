/* SPDX-License-Identifier: Apache-2.0 */
/* Memory management for the cache of a peer's STag table. */
#include "link/stag_cache.h"

#include <stdlib.h>
#include <string.h>

/* Doubles the list of chunks until it includes chunk n. False: no memory. */
static bool grow_chunk_list(struct ut_stag_cache *cache, uint32_t n)
{
    uint32_t num = cache->num_chunks ? cache->num_chunks : 2;

    while (num <= n)
        num *= 2;
    if (num == cache->num_chunks)
        return true;
    struct ut_cached_chunk **chunks = calloc(num, sizeof(struct ut_cached_chunk *));
    if (!chunks)
        return false;
    if (cache->chunks)
        memcpy(chunks, cache->chunks, cache->num_chunks * sizeof(struct ut_cached_chunk *));
    free(cache->chunks);
    cache->chunks = chunks;
    cache->num_chunks = num;
    return true;
}

struct ut_cached_chunk *ut_stag_cache_find_or_add_chunk(struct ut_stag_cache *cache, uint32_t index)
{
    uint32_t n = index / UT_STAG_CHUNK;

    if (!grow_chunk_list(cache, n))
        return NULL;
    if (!cache->chunks[n])
        cache->chunks[n] = calloc(1, sizeof(struct ut_cached_chunk));
    return cache->chunks[n];
}

struct ut_cached_stag *ut_stag_cache_find_or_add(struct ut_stag_cache *cache, uint32_t index)
{
    struct ut_cached_chunk *chunk = ut_stag_cache_find_or_add_chunk(cache, index);

    if (!chunk)
        return NULL;
    struct ut_cached_stag **block = &chunk->blocks[index % UT_STAG_CHUNK / UT_CACHED_BLOCK_STAGS];
    if (!*block)
        *block = calloc(UT_CACHED_BLOCK_STAGS, sizeof(**block));
    return *block ? &(*block)[index % UT_CACHED_BLOCK_STAGS] : NULL;
}

static void free_blocks(struct ut_cached_chunk *chunk)
{
    for (uint32_t b = 0; b < UT_CACHED_BLOCKS; b++)
        free(chunk->blocks[b]);
}

void ut_stag_cache_invalidate_chunk(struct ut_stag_cache *cache, uint32_t index)
{
    struct ut_cached_chunk *chunk = ut_stag_cache_find_chunk(cache, index);

    if (!chunk)
        return;
    free_blocks(chunk);
    memset(chunk, 0, sizeof(*chunk));
}

void ut_stag_cache_free(struct ut_stag_cache *cache)
{
    for (uint32_t n = 0; n < cache->num_chunks; n++) {
        if (!cache->chunks[n])
            continue;
        free_blocks(cache->chunks[n]);
        free(cache->chunks[n]);
    }
    free(cache->chunks);
    *cache = (struct ut_stag_cache){.chunks = NULL};
}
