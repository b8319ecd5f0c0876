/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Global addresses (GAs). From the most significant bit: rank, color, class, tag, offset. The
 * number of processes determines the bits of the rank. Regions of class 1 are larger and fewer.
 */
#ifndef AL_ADDRESS_H
#define AL_ADDRESS_H

#include "ctx.h"

#pragma GCC visibility push(hidden)

struct al_place {
    uint32_t rank, color;
    uint32_t tag; /* index in the region table of the owner */
    uint64_t offset;
};

void al_address_setup(uint32_t procs, uint32_t colors);
acp_ga_t al_address_pack(uint32_t rank, uint32_t color, uint32_t tag, uint64_t offset);
bool al_address_unpack(acp_ga_t ga, struct al_place *place); /* false: not a GA of this job */
uint64_t al_address_max_offset(bool large);                  /* largest offset in a region */

/* For a GA that al_address_unpack() accepts. */
static inline uint32_t al_rank_of(acp_ga_t ga)
{
    return (uint32_t)(ga >> al.address.rank_shift);
}

static inline uint32_t al_color_of(acp_ga_t ga)
{
    return (uint32_t)(ga >> (al.address.rank_shift - 3)) & 7;
}

static inline bool al_is_mine(acp_ga_t ga)
{
    return al_rank_of(ga) == al.job.rank;
}

#pragma GCC visibility pop

#endif
