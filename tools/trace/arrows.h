/* SPDX-License-Identifier: Apache-2.0 */
/* The arrows of all timelines: the times of sending and receiving. */
#ifndef UT_TRACE_ARROWS_H
#define UT_TRACE_ARROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_end {
    int64_t at;    /* ns, of the host's own clock */
    uint32_t host; /* number */
    uint32_t seen; /* number of such ends */
};

struct tr_arrow {
    uint64_t id; /* 0: free entry of the table */
    struct tr_end sent, received;
};

struct tr_arrows {
    struct tr_arrow *table;
    size_t size, used; /* size: a power of two */
};

/* The arrow with this id, created if necessary; NULL: no memory. */
struct tr_arrow *tr_arrows_at(struct tr_arrows *arrows, uint64_t id);

static inline bool tr_arrow_whole(const struct tr_arrow *a)
{
    return a->sent.seen > 0 && a->received.seen > 0;
}

#endif
