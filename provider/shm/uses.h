/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When it pays to map memory of a peer. A copy by cross-memory attach or through the rings costs
 * more than one to mapped memory; making memory mappable costs the peer about a microsecond for
 * each KiB, with giving it back. So an origin adds up what its copies have cost, for each part of
 * the peer's memory that it uses, and asks the peer to exchange the pages of this part when the sum
 * has reached the price. Memory that is used seldom is never exchanged, and nobody pays more than
 * twice of what would have been the least.
 */
#ifndef SP_USES_H
#define SP_USES_H

#include <stdbool.h>
#include <stdint.h>

#include "conn_types.h"

enum {
    SP_USE_NS = 500,          /* what a copy costs more than one to mapped memory... */
    SP_USE_BYTES_PER_NS = 16, /* ...and its bytes */
    SP_PAGE_NS = 4200,        /* what exchanging a page costs, and giving it back */
    SP_USE_PART = 64 << 10,   /* parts that are exchanged: in whole ones of these... */
    SP_USE_BLOCK = 2 << 20,   /* ...and within one of these */
};

/* Notes a copy to or from [at, at + size) of the peer, which is not mapped. True: mapping [*lo,
 * *hi) pays, and the caller asks the peer for it. */
bool sp_uses_note(struct sp_conn *conn, uint32_t rkey, uint64_t at, uint64_t size, uint64_t *lo,
                  uint64_t *hi);
/* May these bytes, which are not mapped, be mapped later? Not if the peer was asked several times
 * and did not exchange them. */
bool sp_uses_may_map(const struct sp_conn *conn, uint32_t rkey, uint64_t at, uint64_t size);
void sp_uses_free(struct sp_conn *conn);

#endif
