/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of GA ranges used last, and their STADDs: for direct.c. The files below direct.c fill and
 * clear it.
 */
#ifndef AL_RANGES_H
#define AL_RANGES_H

#include "net.h"
#include "remote.h"

#include "../common/hash.h"

#pragma GCC visibility push(hidden)

enum { AL_REMOTE_RANGES = 16 };

/* A range of GAs. The STADD of a GA is the GA plus `shift`. */
struct al_range {
    acp_ga_t begin;
    uint64_t size; /* 0: empty */
    uint64_t shift;
};

struct al_ranges {
    struct {
        struct al_range range;
        struct lc_port *port;
    } own; /* the range of this process that was used last */
    struct al_remote_range {
        struct al_range range;
        utofu_vcq_id_t id;
    } remotes[AL_REMOTE_RANGES];
    /* The current run: consecutive puts to one region on one VCQ that are still in flight. A
     * further put with ACP_HANDLE_CONT joins the run without waiting if nothing else is pending,
     * because the strong order of uTofu keeps the order. */
    struct {
        uint64_t first, last; /* handles; 0: no run */
        acp_ga_t region;
        const struct lc_port *port;
    } run;
};

/* The cache entry by rank, color and tag. A region of class 1 uses several entries. */
static inline __attribute__((always_inline)) struct al_remote_range *al_ranges_at(
    struct al_ranges *ranges, unsigned int offset_bits, acp_ga_t ga)
{
    return &ranges->remotes[ut_hash_index(ga >> offset_bits, 4)];
}

static inline __attribute__((always_inline)) bool al_range_has(const struct al_range *range,
                                                               acp_ga_t ga, uint64_t size)
{
    uint64_t offset = ga - range->begin;

    return offset < range->size && size <= range->size - offset;
}

void al_ranges_cache(acp_ga_t own_ga, const struct al_extent *own_extent, utofu_stadd_t mine,
                     acp_ga_t remote_ga, const struct al_target *target);
void al_ranges_drop(acp_ga_t ga); /* of another process */
void al_ranges_drop_all(void);

#pragma GCC visibility pop

#endif
