/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other side of mapped registration: reaching a peer's adopted memory through mappings of its
 * memfd. Each connection has its own mappings, so that no lock is needed; they are made where they
 * are first used, and the one not used for longest goes when there are too many bytes of them.
 */
#ifndef SP_MAP_H
#define SP_MAP_H

#include "mr.h"
#include "sp.h"

/* [at, at + size) of the owner's addresses as addresses of this process, if all of it is in the
 * piece and the region has not changed; else NULL. */
static inline uint8_t *sp_hot_at(const struct sp_hot *hot, uint32_t key, uint64_t at, uint32_t size)
{
    if (__builtin_expect(key == hot->key && at - hot->base < hot->size &&
                             size <= hot->size - (at - hot->base) &&
                             __atomic_load_n(hot->word, __ATOMIC_ACQUIRE) == hot->valid,
                         1))
        return (uint8_t *)(uintptr_t)(at + hot->delta);
    return NULL;
}

/* Part of a transfer: its length, and where it can be reached. NULL: not by way of a mapping. */
struct sp_piece {
    uint8_t *at;
    uint64_t size;
};

/* The first piece of [at, at + size), size > 0, in a region that the key was found good for. */
struct sp_piece sp_map_piece(struct sp_conn *conn, uint32_t rkey, uint64_t at, uint64_t size);

/* Before a copy of at least SP_MAP_BLOCK bytes to or from a piece, which is at `at` for the peer:
 * so that it does not take a fault for each page the first time. */
enum { SP_MAP_BLOCK = 1 << 16 };
void sp_map_prefault(struct sp_conn *conn, uint64_t at, uint64_t size);

/* Is all of it mapped? */
bool sp_map_covers(struct sp_conn *conn, uint32_t rkey, uint64_t at, uint64_t size);

void sp_map_free(struct sp_conn *conn);

#endif
