/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Split of a transfer that the kernel copies. The order of stores within one copy by the kernel is
 * undefined ("rep movsb"), but separate copies are in order. So a transfer is split into one piece
 * per line. A piece begins with the last word of the previous line and ends before the last word of
 * its own line, which is so written after the rest of its line. A short transfer is split as
 * described in atomic_width.h, if the kernel makes each copy visible at once.
 *
 * For the overhead of a piece of 256 bytes the kernel takes longer than for its bytes. So a
 * transfer of more than PROV_SPLIT_MAX bytes is only split at its last line, if the program has
 * asked for a notice of its end and need not look at each line.
 */
#ifndef PROV_SPLIT_H
#define PROV_SPLIT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "provider.h"
#include "atomic_width.h"

enum {
    PROV_MAX_PIECES = 1024, /* the kernel's maximum number of pieces */
    PROV_SPLIT_MAX = 4096,
};

/* Split of a transfer, according to the destination addresses. */
struct prov_split {
    uint64_t last_line, last_word, end; /* addresses; the last word is naturally aligned */
    unsigned int width; /* maximum size of the pieces of atomic_width.h; 0: not used */
    bool whole;         /* one piece up to the last line */
};

static inline struct prov_split prov_split_of(uint64_t addr, size_t length)
{
    uint64_t end = addr + length;
    uint64_t aligned = end & -end; /* largest power of two that divides the end */
    unsigned int width = prov_kernel_width();

    if (aligned > PROV_WORD)
        aligned = PROV_WORD;
    return (struct prov_split){
        .last_line = (end - 1) & ~(uint64_t)(PROV_TOFU_LINE - 1),
        .last_word = aligned < length ? end - aligned : addr,
        .end = end,
        .width = width > PROV_WORD && prov_needs_atomic_pieces(addr, length) ? width : 0};
}

/* Returns the end of the piece that begins at `at`. */
static inline uint64_t prov_split_piece_end(const struct prov_split *c, uint64_t at)
{
    if (c->width)
        return at + prov_piece_size(at, c->end - at, c->width);
    if (at >= c->last_line)
        return at < c->last_word ? c->last_word : c->end;
    if (c->whole)
        return c->last_line;
    /* a piece with only the word before the last line ends at that line */
    uint64_t next = ((at + PROV_WORD) | (PROV_TOFU_LINE - 1)) + 1 - PROV_WORD;
    return next < c->last_line ? next : c->last_line;
}

/* Fills in the pieces from address `at` on, as many as fit, for the local bytes `lcl`. Returns
 * their number of bytes. */
static inline size_t prov_split_next(struct iovec iov[PROV_MAX_PIECES], unsigned int *num,
                                     char *lcl, const struct prov_split *c, uint64_t at)
{
    const uint64_t from = at;
    unsigned int n = 0;

    while (at < c->end && n < PROV_MAX_PIECES) {
        uint64_t to = prov_split_piece_end(c, at);
        iov[n++] = (struct iovec){.iov_base = lcl + (at - from), .iov_len = to - at};
        at = to;
    }
    *num = n;
    return at - from;
}

#endif
