/* SPDX-License-Identifier: Apache-2.0 */
/* How the data of a message is cut that both sides move: see struct la_assist_request. */
#include "wire.h"

enum {
    SHARES = 8, /* pieces of a message, of */
    LEAST_SHARE = 256 << 10,
    MOST_SHARE = 1 << 20
};

uint64_t la_piece_size(uint64_t len)
{
    uint64_t size = (len / SHARES + LEAST_SHARE - 1) / LEAST_SHARE * LEAST_SHARE;

    if (size < LEAST_SHARE)
        return LEAST_SHARE;
    return size < MOST_SHARE ? size : MOST_SHARE;
}

uint32_t la_pieces(uint64_t len)
{
    return (uint32_t)((len + la_piece_size(len) - 1) / la_piece_size(len));
}
