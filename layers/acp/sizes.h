/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and limits of the ACP basic layer. */
#ifndef AL_SIZES_H
#define AL_SIZES_H

#include <stddef.h>
#include <stdint.h>

#include "../common/exchange.h"

#pragma GCC visibility push(hidden)

enum {
    AL_MAX_COLORS = 8, /* a color has three bits in a GA */
    AL_MAX_PARTNERS = LC_MAX_PARTNERS,
    AL_QUEUE = 4096,      /* incomplete GMAs of this process */
    AL_OPS = 256,         /* operations in flight of a port; EDATA is their index */
    AL_BOUNCE = 64,       /* bytes of the bounce buffer of an op */
    AL_POLLS = 4,         /* polls directly after an issue, while they find something */
    AL_RING = 128,        /* slots of the command ring of a process */
    AL_EXECUTORS = 64,    /* commands that a process executes at a time */
    AL_OUTSTANDING = 256, /* outstanding commands of this process; each answer takes an entry of the
                             MRQ, which has at least 2,048 */
    AL_COMP_WORK = 7,     /* component id of the VCQs of the layer */
    AL_COMP_EXCHANGE = 6, /* component id of the VCQ of the exchange in acp_init() */
    AL_STAG_CONTROL = 0,  /* of struct al_control */
    AL_STAG_STARTER =
        1, /* starter memory of the user; the next two: of the channels and of the data library */
    AL_STAG_REGIONS = 16, /* first of the chunks of the region table */
    AL_STARTERS = 3,
    AL_SMALL_TAGS = 1 << 16, /* regions of class 0 of a color */
    AL_LARGE_TAGS = 1 << 6,  /* regions of class 1 */
    AL_CHUNK = 1024,         /* rows of the region table in a chunk */
};

/* Memory of the layer, without that of uTofu and the starter memory. Each file adds its own. */
struct al_usage {
    size_t fixed;        /* independent of use */
    size_t region_bytes; /* for registered regions */
    size_t peer_bytes;   /* for processes in use */
    uint32_t regions, peers;
};

#pragma GCC visibility pop

#endif
