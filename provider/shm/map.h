/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The origin's side: accesses memory of a peer that the peer has remapped at registration through
 * mappings of its memfd. Each connection has its own mappings, created at first use, so that no
 * lock is needed. At the limit (limit=MIB of UTOFU_SHM_MAP) the least recently used mapping of the
 * connection is unmapped, or else one of another connection of the same endpoint.
 */
#ifndef SP_MAP_H
#define SP_MAP_H

#include "mr.h"
#include "types.h"

/* A part of a transfer that is mapped as a whole, or not at all. */
struct sp_piece {
    uint8_t *at; /* address in this process; NULL: not mapped */
    uint64_t size;
};

/* Returns the first piece of [at, at + size), size > 0, in a region with this valid key. */
struct sp_piece sp_map_piece(struct sp_conn *conn, uint32_t rkey, uint64_t at, uint64_t size);

/* Prefaults a piece at the peer's address `at` before a copy of at least SP_MAP_BLOCK bytes:
 * otherwise the first copy takes a page fault for each page. */
enum { SP_MAP_BLOCK = 1 << 16 };
void sp_map_prefault(struct sp_conn *conn, uint64_t at, uint64_t size);

/* True if one mappable part of the region contains the whole range. */
bool sp_map_covers(struct sp_conn *conn, uint32_t rkey, uint64_t at, uint64_t size);

/* Unmaps all windows of the connection. */
void sp_map_free(struct sp_conn *conn);

#endif
