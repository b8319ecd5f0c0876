/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within one copy of the kernel stores may come in any order ("rep movsb"); those of two copies
 * stay in order. So a transfer is cut into pieces, one for each line: from the last word of the
 * line before up to, and without, its own last word, which so lands behind the rest of its line.
 * A few bytes are cut as wide.h says where the kernel's copy of each piece is seen as a whole.
 */
#ifndef PROV_CUTS_H
#define PROV_CUTS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "provider.h"
#include "wide.h"

enum { PROV_CUTS = 1024 }; /* pieces: as many as the kernel takes at once */

/* How a transfer is cut: by the addresses that are written to. */
struct prov_cuts {
    uint64_t last_line, last_word, end; /* where these begin; the last word is aligned naturally */
    unsigned int width;                 /* of the pieces that wide.h cuts; 0: it does not */
};

static inline struct prov_cuts prov_cuts_of(uint64_t addr, size_t length)
{
    uint64_t end = addr + length;
    uint64_t aligned = end & -end; /* largest power of two that the end is a multiple of */
    unsigned int width = prov_kernel_width();

    if (aligned > PROV_WORD)
        aligned = PROV_WORD;
    return (struct prov_cuts){.last_line = (end - 1) & ~(uint64_t)(PROV_LINE - 1),
                              .last_word = aligned < length ? end - aligned : addr,
                              .end = end,
                              .width = width > PROV_WORD && prov_is_cut(addr, length) ? width : 0};
}

/* Where the piece that begins at "at" ends. */
static inline uint64_t prov_cut_end(const struct prov_cuts *c, uint64_t at)
{
    if (c->width)
        return at + prov_piece(at, c->end - at, c->width);
    if (at >= c->last_line)
        return at < c->last_word ? c->last_word : c->end;
    /* the piece that holds nothing but the word before the last line ends with that */
    uint64_t next = ((at + PROV_WORD) | (PROV_LINE - 1)) + 1 - PROV_WORD;
    return next < c->last_line ? next : c->last_line;
}

/* Fills in the pieces from the address `at` on, whose bytes are at `lcl`, as many as fit, and
 * returns how many bytes they have. */
static inline size_t prov_cut(struct iovec iov[PROV_CUTS], unsigned int *num, char *lcl,
                              const struct prov_cuts *c, uint64_t at)
{
    const uint64_t from = at;
    unsigned int n = 0;

    while (at < c->end && n < PROV_CUTS) {
        uint64_t to = prov_cut_end(c, at);
        iov[n++] = (struct iovec){.iov_base = lcl + (at - from), .iov_len = to - at};
        at = to;
    }
    *num = n;
    return at - from;
}

#endif
