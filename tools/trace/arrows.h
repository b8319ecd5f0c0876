/* SPDX-License-Identifier: Apache-2.0 */
/* The arrows of all timelines: who sent when, who received when. */
#ifndef UT_TRACE_ARROWS_H
#define UT_TRACE_ARROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_end {
    int64_t at;    /* ns, of the host's own clock */
    uint32_t host; /* number */
    uint32_t seen; /* how many such ends there are */
};

struct tr_arrow {
    uint64_t id; /* 0: this place of the table is free */
    struct tr_end sent, received;
};

struct tr_arrows {
    struct tr_arrow *table;
    size_t size, used; /* size: a power of two */
};

/* The arrow with this id, made if there is none yet; NULL: no memory. */
struct tr_arrow *tr_arrows_at(struct tr_arrows *arrows, uint64_t id);

static inline bool tr_arrow_whole(const struct tr_arrow *a)
{
    return a->sent.seen > 0 && a->received.seen > 0;
}

#endif
