/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was read of a peer's STag table, kept in blocks of a few STags, which are made when one of
 * them is first read: most programs use few of a peer, whose numbers are next to each other. Not
 * thread-safe: the lock of the VCQ protects a link.
 */
#ifndef UT_LINK_REMOTE_H
#define UT_LINK_REMOTE_H

#include <stdint.h>

#include "stag/stag.h"

enum { UT_REMOTE_BLOCK = 16, UT_REMOTE_BLOCKS = UT_STAG_CHUNK / UT_REMOTE_BLOCK };

/* One STag of the peer, as read last. */
struct ut_remote_stag {
    uint64_t base, size;
    uint32_t rkey;
    uint32_t info; /* as in struct ut_stag_entry; 0: not registered when it was read */
};

struct ut_remote_chunk {
    uint64_t addr; /* of the peer's chunk; 0: not read yet, or there was none */
    uint32_t rkey;
    struct ut_remote_stag *blocks[UT_REMOTE_BLOCKS]; /* NULL: none of them was read */
};

struct ut_remote {
    struct ut_remote_chunk **chunks; /* NULL: nothing of the chunk was read */
    uint32_t num_chunks;             /* up to the last one that was */
};

/* index: of an STag, as ut_stag_index() gives it, here and below. */
static inline struct ut_remote_chunk *ut_remote_chunk_of(const struct ut_remote *remote,
                                                         uint32_t index)
{
    uint32_t n = index / UT_STAG_CHUNK;

    return n < remote->num_chunks ? remote->chunks[n] : NULL;
}

/* NULL: it was not read. */
static inline struct ut_remote_stag *ut_remote_stag_of(const struct ut_remote *remote,
                                                       uint32_t index)
{
    const struct ut_remote_chunk *chunk = ut_remote_chunk_of(remote, index);
    struct ut_remote_stag *block =
        chunk ? chunk->blocks[index % UT_STAG_CHUNK / UT_REMOTE_BLOCK] : NULL;

    return block ? &block[index % UT_REMOTE_BLOCK] : NULL;
}

/* The same, with memory if there is none yet. NULL: no memory. */
struct ut_remote_chunk *ut_remote_make_chunk(struct ut_remote *remote, uint32_t index);
struct ut_remote_stag *ut_remote_make_stag(struct ut_remote *remote, uint32_t index);

/* What was read of a chunk holds no longer, and where it is neither. */
void ut_remote_forget_chunk(struct ut_remote *remote, uint32_t index);
/* The same for all, whose memory is given back. */
void ut_remote_forget(struct ut_remote *remote);

#endif
