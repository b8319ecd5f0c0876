/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other side of mapped registration: reaching a peer's remapped memory through mappings of its
 * memfd. Each connection has its own mappings, so that no lock is needed; they are made where they
 * are first used, and the one not used for longest goes when there are too many bytes of them.
 */
#ifndef SP_MAP_H
#define SP_MAP_H

#include "conn_types.h"
#include "mr.h"

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
