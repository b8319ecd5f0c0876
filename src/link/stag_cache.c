/* SPDX-License-Identifier: Apache-2.0 */
/* Memory management for the cache of a peer's STag table. */
#include "link/stag_cache.h"

#include <stdlib.h>
#include <string.h>

/* Doubles the list of chunks until it includes chunk n. */
static bool grow_chunk_list(struct ut_stag_cache *remote, uint32_t n)
{
    uint32_t num = remote->num_chunks ? remote->num_chunks : 2;

    while (num <= n)
        num *= 2;
    if (num == remote->num_chunks)
        return true;
    struct ut_cached_chunk **chunks = calloc(num, sizeof(struct ut_cached_chunk *));
    if (!chunks)
        return false;
    if (remote->chunks)
        memcpy(chunks, remote->chunks, remote->num_chunks * sizeof(struct ut_cached_chunk *));
    free(remote->chunks);
    remote->chunks = chunks;
    remote->num_chunks = num;
    return true;
}

struct ut_cached_chunk *ut_stag_cache_make_chunk(struct ut_stag_cache *remote, uint32_t index)
{
    uint32_t n = index / UT_STAG_CHUNK;

    if (!grow_chunk_list(remote, n))
        return NULL;
    if (!remote->chunks[n])
        remote->chunks[n] = calloc(1, sizeof(struct ut_cached_chunk));
    return remote->chunks[n];
}

struct ut_cached_stag *ut_stag_cache_make(struct ut_stag_cache *remote, uint32_t index)
{
    struct ut_cached_chunk *chunk = ut_stag_cache_make_chunk(remote, index);

    if (!chunk)
        return NULL;
    struct ut_cached_stag **block = &chunk->blocks[index % UT_STAG_CHUNK / UT_CACHED_BLOCK];
    if (!*block)
        *block = calloc(UT_CACHED_BLOCK, sizeof(**block));
    return *block ? &(*block)[index % UT_CACHED_BLOCK] : NULL;
}

static void free_blocks(struct ut_cached_chunk *chunk)
{
    for (uint32_t b = 0; b < UT_CACHED_BLOCKS; b++)
        free(chunk->blocks[b]);
}

void ut_stag_cache_invalidate_chunk(struct ut_stag_cache *remote, uint32_t index)
{
    struct ut_cached_chunk *chunk = ut_stag_cache_find_chunk(remote, index);

    if (!chunk)
        return;
    free_blocks(chunk);
    memset(chunk, 0, sizeof(*chunk));
}

void ut_stag_cache_free(struct ut_stag_cache *remote)
{
    for (uint32_t n = 0; n < remote->num_chunks; n++) {
        if (!remote->chunks[n])
            continue;
        free_blocks(remote->chunks[n]);
        free(remote->chunks[n]);
    }
    free(remote->chunks);
    *remote = (struct ut_stag_cache){.chunks = NULL};
}
