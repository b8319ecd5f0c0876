/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory of this process. */
#ifndef AL_MEMORY_H
#define AL_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <utofu.h>

#include "acp.h"
#include "sizes.h"

#pragma GCC visibility push(hidden)

struct al_extent {   /* of the region that a GA is in */
    uint64_t before; /* bytes of it that are before the GA */
    uint64_t size;
};

struct al_published {    /* a row of the table, as peers read it */
    utofu_stadd_t stadd; /* 0: no region */
    uint64_t size;
    uint64_t color;
};
#define AL_STADD_CHANGES UINT64_MAX /* in a row: it is to be read again */

/* A row as this process alone has it. Offsets count from the multiple of 8 before the region: a GA
 * is aligned as its address is. */
struct al_region {
    char *addr;     /* that multiple of 8; NULL: free */
    uint32_t count; /* registrations. Free: the next free tag. */
    uint8_t color;
    bool merged;    /* of several registrations, one behind or across the end of the other */
    bool has_holes; /* merged, and some were ended since uTofu has it */
    uint8_t skew;   /* from addr to the region */
};

enum { AL_CHUNKS = (AL_SMALL_TAGS + AL_LARGE_TAGS + AL_CHUNK - 1) / AL_CHUNK };
struct al_memory {
    struct al_chunk {
        struct al_region *rows;
        struct al_published *published; /* of pages of its own */
        utofu_stadd_t stadd;
    } chunks[AL_CHUNKS];
    /* Tags that are free: the one that was freed first is used first, so that a GA of a region that
     * is gone does not soon name another. */
    struct {
        uint32_t first, last; /* freed ones */
        uint32_t fresh, end;  /* never used ones */
    } free_tags[2];
    uint32_t *sorted, num_sorted, room_sorted; /* tags, by address */
    size_t starter_mapped;
    char *starter;
};

bool al_memory_setup(void);
void al_memory_close(void);
/* The address of size bytes from ga on, which is one of this process; NULL: they are not all in one
 * region. stadd may be NULL. */
void *al_memory_find(acp_ga_t ga, uint64_t size, utofu_stadd_t *stadd);
struct al_extent al_memory_extent(acp_ga_t ga); /* of one that was found */

void al_memory_count_usage(struct al_usage *usage);

#pragma GCC visibility pop

#endif
