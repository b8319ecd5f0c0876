/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of global addresses:
 *
 *     rank | color (3 bits) | class (1 bit) | tag | offset
 *
 * The rank has the bits that the number of processes takes, so the rest has 60 less these. Of that
 * a tag has 16 bits in class 0 and 6 in class 1, and the offset all others: with 4 processes
 * regions of 4 TiB, and with a million 65,536 regions of 16 MiB and 64 of 16 GiB. Tag 0 of class 0
 * is never given out, so no GA is 0.
 */
#include "layer.h"

enum { COLOR_BITS = 3, SMALL_TAG_BITS = 16, LARGE_TAG_BITS = 6 };

unsigned int al_address_rank_shift, al_address_offset_bits;
static unsigned int rank_bits, rest_bits;
static uint32_t num_procs;

void al_address_setup(uint32_t procs)
{
    rank_bits = 1;
    while (rank_bits < 31 && (1u << rank_bits) < procs)
        rank_bits++;
    rest_bits = 64 - rank_bits - COLOR_BITS - 1;
    al_address_rank_shift = 64 - rank_bits;
    al_address_offset_bits = rest_bits - SMALL_TAG_BITS;
    num_procs = procs;
}

uint64_t al_address_room(bool large)
{
    return (1ull << (rest_bits - (large ? LARGE_TAG_BITS : SMALL_TAG_BITS))) - 1;
}

/* Tags from AL_SMALL_TAGS on are of class 1. */
acp_ga_t al_address_make(uint32_t rank, uint32_t color, uint32_t tag, uint64_t offset)
{
    uint64_t large = tag >= AL_SMALL_TAGS;
    uint64_t bits = large ? LARGE_TAG_BITS : SMALL_TAG_BITS;
    uint64_t row = large ? tag - AL_SMALL_TAGS : tag;
    uint64_t top = ((uint64_t)rank << COLOR_BITS | color) << 1 | large;

    return top << rest_bits | row << (rest_bits - bits) | offset;
}

bool al_address_split(acp_ga_t ga, struct al_place *place)
{
    uint64_t top = ga >> rest_bits, rest = ga & ((1ull << rest_bits) - 1);
    bool large = top & 1;
    unsigned int offset_bits = rest_bits - (large ? LARGE_TAG_BITS : SMALL_TAG_BITS);

    place->rank = (uint32_t)(top >> (COLOR_BITS + 1));
    place->color = (uint32_t)(top >> 1) & ((1u << COLOR_BITS) - 1);
    place->tag = (uint32_t)(rest >> offset_bits) + (large ? AL_SMALL_TAGS : 0);
    place->offset = rest & ((1ull << offset_bits) - 1);
    return place->rank < num_procs && place->tag != 0 && place->color < al_net_colors();
}
