/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The origin's side of mapped registration: a peer's remapped memory, reached through mappings of
 * its memfd. Each connection has its own mappings, so that no lock is needed; they are made when
 * they are first used, and the least recently used one is unmapped when the limit of UTOFU_SHM_MAP
 * is reached: that of the connection that asks for another, else of one on the same endpoint.
 */
#ifndef SP_MAP_H
#define SP_MAP_H

#include "conn_types.h"
#include "mr.h"

/* Part of a transfer: its size, and its address in this process; NULL: it is not mapped. */
struct sp_piece {
    uint8_t *at;
    uint64_t size;
};

/* The first piece of [at, at + size), size > 0, in a region for which the key is valid. */
struct sp_piece sp_map_piece(struct sp_conn *conn, uint32_t rkey, uint64_t at, uint64_t size);

/* Before a copy of at least SP_MAP_BLOCK bytes to or from a piece, which is at `at` for the peer:
 * the first time it would take a page fault for each page. */
enum { SP_MAP_BLOCK = 1 << 16 };
void sp_map_prefault(struct sp_conn *conn, uint64_t at, uint64_t size);

/* Is all of it mapped? */
bool sp_map_covers(struct sp_conn *conn, uint32_t rkey, uint64_t at, uint64_t size);

void sp_map_free(struct sp_conn *conn);

#endif
