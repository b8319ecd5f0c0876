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

struct al_extent {   /* position of a GA within its region */
    uint64_t before; /* bytes of the region before the GA */
    uint64_t size;
};

struct al_published {    /* a row of the region table, as peers read it */
    utofu_stadd_t stadd; /* 0: no region */
    uint64_t size;
    uint64_t color;
};
#define AL_STADD_CHANGES                                                                           \
    UINT64_MAX /* value of stadd: the row is changing, and must be read again */

/* The private half of a row. Offsets count from the multiple of 8 before the region, so a GA has
 * the alignment of its address. */
struct al_region {
    char *addr;     /* the multiple of 8 before the region; NULL: free row */
    uint32_t count; /* number of registrations; in a free row: the next free tag */
    uint8_t color;
    bool merged;    /* contains several registrations, adjacent or overlapping */
    bool has_holes; /* merged, and some registrations ended since the region was registered with
                       uTofu */
    uint8_t skew;   /* bytes from addr to the region */
};

enum { AL_CHUNKS = (AL_SMALL_TAGS + AL_LARGE_TAGS + AL_CHUNK - 1) / AL_CHUNK };
struct al_memory {
    struct al_chunk {
        struct al_region *rows;
        struct al_published *published; /* in pages of its own */
        utofu_stadd_t stadd;
    } chunks[AL_CHUNKS];
    /* Free tags, in FIFO order, so that the GA of an unregistered region is not reused soon. */
    struct {
        uint32_t first, last; /* freed tags */
        uint32_t fresh, end;  /* tags that were never used */
    } free_tags[2];
    uint32_t *sorted, num_sorted, room_sorted; /* tags sorted by address */
    size_t starter_mapped;
    char *starter;
};

bool al_memory_setup(void);
void al_memory_close(void);
/* The address of a GA of this process. NULL: the bytes are not within one region. stadd may be
 * NULL. */
void *al_memory_find(acp_ga_t ga, uint64_t size, utofu_stadd_t *stadd);
struct al_extent al_memory_extent(acp_ga_t ga); /* of a GA that al_memory_find() accepts */

void al_memory_count_usage(struct al_usage *usage);

#pragma GCC visibility pop

#endif
