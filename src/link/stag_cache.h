/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cached part of a peer's STag table, in blocks of a few STags. A block is allocated when one
 * of its STags is first read: most programs use few STags of a peer, with adjacent numbers. Not
 * thread-safe: the lock of the VCQ protects a link.
 */
#ifndef UT_LINK_REMOTE_H
#define UT_LINK_REMOTE_H

#include <stdint.h>

#include "stag/stag.h"

enum { UT_REMOTE_BLOCK = 16, UT_REMOTE_BLOCKS = UT_STAG_CHUNK / UT_REMOTE_BLOCK };

/* One STag of the peer, as last read. */
struct ut_remote_stag {
    uint64_t base, size;
    uint32_t rkey;
    uint32_t info; /* as in struct ut_stag_entry; 0: not registered when it was read */
};

struct ut_remote_chunk {
    uint64_t addr; /* of the peer's chunk; 0: not read yet, or there was no chunk */
    uint32_t rkey;
    struct ut_remote_stag *blocks[UT_REMOTE_BLOCKS]; /* NULL: no STag of the block was read */
};

struct ut_remote {
    struct ut_remote_chunk **chunks; /* NULL: nothing of the chunk was read */
    uint32_t num_chunks;             /* up to the last chunk that was read */
};

/* index: of an STag, as ut_stag_index() gives it; also in the functions below. */
static inline struct ut_remote_chunk *ut_remote_chunk_of(const struct ut_remote *remote,
                                                         uint32_t index)
{
    uint32_t n = index / UT_STAG_CHUNK;

    return n < remote->num_chunks ? remote->chunks[n] : NULL;
}

/* The cached STag; NULL: it was not read. */
static inline struct ut_remote_stag *ut_remote_stag_of(const struct ut_remote *remote,
                                                       uint32_t index)
{
    const struct ut_remote_chunk *chunk = ut_remote_chunk_of(remote, index);
    struct ut_remote_stag *block =
        chunk ? chunk->blocks[index % UT_STAG_CHUNK / UT_REMOTE_BLOCK] : NULL;

    return block ? &block[index % UT_REMOTE_BLOCK] : NULL;
}

/* As the functions above, but allocate the chunk or STag if it is missing. NULL: no memory. */
struct ut_remote_chunk *ut_remote_make_chunk(struct ut_remote *remote, uint32_t index);
struct ut_remote_stag *ut_remote_make_stag(struct ut_remote *remote, uint32_t index);

/* Invalidates the cached entries of a chunk, and the address of the chunk. */
void ut_remote_invalidate_chunk(struct ut_remote *remote, uint32_t index);
/* Invalidates all chunks, and frees their memory. */
void ut_remote_free(struct ut_remote *remote);

#endif
