/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and numbers that several files of the ACP basic layer keep to. */
#ifndef AL_SIZES_H
#define AL_SIZES_H

#include <stddef.h>
#include <stdint.h>

#include "../common/exchange.h"

#pragma GCC visibility push(hidden)

enum {
    AL_MAX_COLORS = 8, /* three bits of a GA */
    AL_MAX_FINGERS = LC_MAX_FINGERS,
    AL_QUEUE = 4096,      /* GMAs of this process that are not complete */
    AL_OPS = 256,         /* uTofu communications in flight of a port: EDATA is their number */
    AL_BOUNCE = 64,       /* bytes of registered memory of each of these */
    AL_POLLS = 4,         /* just behind a start, while they find something */
    AL_RING = 128,        /* commands for this process, from all others together */
    AL_EXECUTORS = 64,    /* commands that this process executes at a time */
    AL_OUTSTANDING = 256, /* commands of this process that others have; each answer takes an entry
                      of the MRQ: 2,048 at least */
    AL_COMP_WORK = 7,     /* component id of the VCQs of the layer */
    AL_COMP_EXCHANGE = 6, /* of that on which processes meet in acp_init() */
    AL_STAG_CONTROL = 0,  /* struct al_control */
    AL_STAG_STARTER = 1,  /* starter memory: of the user, the channels, the data library */
    AL_STAG_REGIONS = 16, /* on: the chunks of the table of regions */
    AL_STARTERS = 3,
    AL_SMALL_TAGS = 1 << 16, /* regions of class 0 of a color */
    AL_LARGE_TAGS = 1 << 6,  /* of class 1 */
    AL_CHUNK = 1024,         /* rows of the table of regions that are registered together */
};

/* Memory that the layer takes, besides uTofu's and the starter memory. Each file adds its own. */
struct al_usage {
    size_t fixed;        /* whatever is done */
    size_t region_bytes; /* on top, for the regions that are registered */
    size_t peer_bytes;   /* on top, for the processes that are used */
    uint32_t regions, peers;
};

#pragma GCC visibility pop

#endif
