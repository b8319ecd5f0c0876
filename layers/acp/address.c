/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of global addresses (GAs):
 *
 *     rank | color (3 bits) | class (1 bit) | tag | offset
 *
 * The rank has as many bits as the number of processes requires; tag and offset share the other 60
 * bits. The tag has 16 bits in class 0 and 6 bits in class 1. With 4 processes, regions of class 0
 * have up to 4 TiB; with a million processes, there are 65,536 regions of 16 MiB and 64 regions of
 * 16 GiB. Tag 0 of class 0 is never used, so no GA is 0.
 */
#include "address.h"

enum { COLOR_BITS = 3, SMALL_TAG_BITS = 16, LARGE_TAG_BITS = 6 };

void al_address_setup(uint32_t procs, uint32_t colors)
{
    unsigned int rank_bits = 1;

    while (rank_bits < 31 && (1u << rank_bits) < procs)
        rank_bits++;
    al.address.rest_bits = 64 - rank_bits - COLOR_BITS - 1;
    al.address.rank_shift = 64 - rank_bits;
    al.address.offset_bits = al.address.rest_bits - SMALL_TAG_BITS;
    al.address.procs = procs;
    al.address.colors = colors;
}

uint64_t al_address_max_offset(bool large)
{
    return (1ull << (al.address.rest_bits - (large ? LARGE_TAG_BITS : SMALL_TAG_BITS))) - 1;
}

/* Tags from AL_SMALL_TAGS on belong to class 1. */
acp_ga_t al_address_pack(uint32_t rank, uint32_t color, uint32_t tag, uint64_t offset)
{
    uint64_t large = tag >= AL_SMALL_TAGS;
    uint64_t bits = large ? LARGE_TAG_BITS : SMALL_TAG_BITS;
    uint64_t row = large ? tag - AL_SMALL_TAGS : tag;
    uint64_t top = ((uint64_t)rank << COLOR_BITS | color) << 1 | large;

    return top << al.address.rest_bits | row << (al.address.rest_bits - bits) | offset;
}

bool al_address_unpack(acp_ga_t ga, struct al_place *place)
{
    uint64_t top = ga >> al.address.rest_bits, rest = ga & ((1ull << al.address.rest_bits) - 1);
    bool large = top & 1;
    unsigned int offset_bits = al.address.rest_bits - (large ? LARGE_TAG_BITS : SMALL_TAG_BITS);

    place->rank = (uint32_t)(top >> (COLOR_BITS + 1));
    place->color = (uint32_t)(top >> 1) & ((1u << COLOR_BITS) - 1);
    place->tag = (uint32_t)(rest >> offset_bits) + (large ? AL_SMALL_TAGS : 0);
    place->offset = rest & ((1ull << offset_bits) - 1);
    return place->rank < al.address.procs && place->tag != 0 && place->color < al.address.colors;
}
