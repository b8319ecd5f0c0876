/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranges of GAs that were used last, and where they lie: a cache for direct.c, which the files
 * below it fill and clear.
 */
#ifndef AL_RANGES_H
#define AL_RANGES_H

#include "net.h"
#include "remote.h"

#include "../common/hash.h"

#pragma GCC visibility push(hidden)

enum { AL_REMOTE_RANGES = 16 };

/* A range of GAs, and where it lies. The STADD of a GA is the GA plus `shift`. */
struct al_range {
    acp_ga_t begin;
    uint64_t size; /* 0: none */
    uint64_t shift;
};

struct al_ranges {
    struct {
        struct al_range range;
        struct lc_port *port;
    } own; /* of this process, used last */
    struct al_remote_range {
        struct al_range range;
        utofu_vcq_id_t id;
    } remotes[AL_REMOTE_RANGES];
    /* The puts that were issued last, one behind the other, are on their way to one region on one
     * VCQ. One more with ACP_HANDLE_CONT need not wait for them, where nothing else is pending:
     * uTofu's strong order has the same effect. */
    struct {
        uint64_t first, last; /* handles; 0: none */
        acp_ga_t region;
        const struct lc_port *port;
    } run;
};

/* By rank, color and tag; a region of class 1 has several places. */
static inline __attribute__((always_inline)) struct al_remote_range *al_ranges_at(
    struct al_ranges *ranges, unsigned int offset_bits, acp_ga_t ga)
{
    return &ranges->remotes[lc_hash_index(ga >> offset_bits, 4)];
}

static inline __attribute__((always_inline)) bool al_range_has(const struct al_range *range,
                                                               acp_ga_t ga, uint64_t size)
{
    uint64_t offset = ga - range->begin;

    return offset < range->size && size <= range->size - offset;
}

void al_ranges_cache(acp_ga_t own_ga, const struct al_extent *own_extent, utofu_stadd_t mine,
                     acp_ga_t remote_ga, const struct al_target *target);
void al_ranges_drop(acp_ga_t ga); /* a region of another process */
void al_ranges_drop_all(void);

#pragma GCC visibility pop

#endif
