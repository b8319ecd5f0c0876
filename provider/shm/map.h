/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The origin's side of mapped registration: accessing a peer's remapped memory through mappings of
 * its memfd. Each connection has its own mappings, so that no lock is needed. They are created at
 * first use. At the limit of UTOFU_SHM_MAP the least recently used mapping of the connection that
 * needs another one is unmapped, or else one of another connection on the same endpoint.
 */
#ifndef SP_MAP_H
#define SP_MAP_H

#include "mr.h"
#include "types.h"

/* Part of a transfer: its size, and its address in this process; NULL: not mapped. */
struct sp_piece {
    uint8_t *at;
    uint64_t size;
};

/* The first piece of [at, at + size), size > 0, in a region of this valid key. */
struct sp_piece sp_map_piece(struct sp_conn *conn, uint32_t rkey, uint64_t at, uint64_t size);

/* Called before a copy of at least SP_MAP_BLOCK bytes to or from a piece, which has the peer's
 * address `at`: the first copy would take a page fault for each page. */
enum { SP_MAP_BLOCK = 1 << 16 };
void sp_map_prefault(struct sp_conn *conn, uint64_t at, uint64_t size);

/* Is the whole range in one part that may be mapped? */
bool sp_map_covers(struct sp_conn *conn, uint32_t rkey, uint64_t at, uint64_t size);

void sp_map_free(struct sp_conn *conn);

#endif
