/* SPDX-License-Identifier: Apache-2.0 */
/* Memory management for the cache of a peer's STag table. */
#include "link/stag_cache.h"

#include <stdlib.h>
#include <string.h>

/* Doubles the list of chunks until it includes chunk n. */
static bool grow_chunk_list(struct ut_remote *remote, uint32_t n)
{
    uint32_t num = remote->num_chunks ? remote->num_chunks : 2;

    while (num <= n)
        num *= 2;
    if (num == remote->num_chunks)
        return true;
    struct ut_remote_chunk **chunks = calloc(num, sizeof(struct ut_remote_chunk *));
    if (!chunks)
        return false;
    if (remote->chunks)
        memcpy(chunks, remote->chunks, remote->num_chunks * sizeof(struct ut_remote_chunk *));
    free(remote->chunks);
    remote->chunks = chunks;
    remote->num_chunks = num;
    return true;
}

struct ut_remote_chunk *ut_remote_make_chunk(struct ut_remote *remote, uint32_t index)
{
    uint32_t n = index / UT_STAG_CHUNK;

    if (!grow_chunk_list(remote, n))
        return NULL;
    if (!remote->chunks[n])
        remote->chunks[n] = calloc(1, sizeof(struct ut_remote_chunk));
    return remote->chunks[n];
}

struct ut_remote_stag *ut_remote_make_stag(struct ut_remote *remote, uint32_t index)
{
    struct ut_remote_chunk *chunk = ut_remote_make_chunk(remote, index);

    if (!chunk)
        return NULL;
    struct ut_remote_stag **block = &chunk->blocks[index % UT_STAG_CHUNK / UT_REMOTE_BLOCK];
    if (!*block)
        *block = calloc(UT_REMOTE_BLOCK, sizeof(**block));
    return *block ? &(*block)[index % UT_REMOTE_BLOCK] : NULL;
}

static void free_blocks(struct ut_remote_chunk *chunk)
{
    for (uint32_t b = 0; b < UT_REMOTE_BLOCKS; b++)
        free(chunk->blocks[b]);
}

void ut_remote_invalidate_chunk(struct ut_remote *remote, uint32_t index)
{
    struct ut_remote_chunk *chunk = ut_remote_chunk_of(remote, index);

    if (!chunk)
        return;
    free_blocks(chunk);
    memset(chunk, 0, sizeof(*chunk));
}

void ut_remote_free(struct ut_remote *remote)
{
    for (uint32_t n = 0; n < remote->num_chunks; n++) {
        if (!remote->chunks[n])
            continue;
        free_blocks(remote->chunks[n]);
        free(remote->chunks[n]);
    }
    free(remote->chunks);
    *remote = (struct ut_remote){.chunks = NULL};
}
