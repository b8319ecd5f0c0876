/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many bytes this machine makes visible at once, and how a few bytes are cut so that most of
 * them are: into naturally aligned pieces, in ascending order. Who sees a byte of a piece sees the
 * whole piece and all before it, so a mark need not be the last word.
 *
 * What the architecture promises for an aligned store: 8 bytes, and 16 where there is AVX (Intel
 * SDM volume 3, "Guaranteed Atomic Operations"; AMD APM volume 2, "Access Atomicity"). 32 bytes are
 * one write of the level-1 cache where the core's store path is as wide; others make two of it,
 * whose order nobody promises, so those do without.
 */
#ifndef PROV_WIDE_H
#define PROV_WIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PROV_WORD = 8,
    PROV_WIDEST = 32,  /* bytes of the largest piece */
    PROV_CPU_LINE = 64 /* bytes: within these few bytes are cut into pieces */
};

struct prov_widths {
    uint8_t store;  /* bytes that an aligned store of this CPU makes visible at once */
    uint8_t kernel; /* bytes, aligned, of which the same is true of one copy by the kernel */
};

extern struct prov_widths prov_widths; /* 0: not known yet, see prov_widths_find() */
void prov_widths_find(void);

static inline unsigned int prov_store_width(void)
{
    unsigned int width = __atomic_load_n(&prov_widths.store, __ATOMIC_RELAXED);

    if (__builtin_expect(width != 0, 1))
        return width;
    prov_widths_find();
    return prov_widths.store;
}

static inline unsigned int prov_kernel_width(void)
{
    unsigned int width = __atomic_load_n(&prov_widths.kernel, __ATOMIC_RELAXED);

    if (__builtin_expect(width != 0, 1))
        return width;
    prov_widths_find();
    return prov_widths.kernel;
}

/* Is it cut into pieces? They have 8 bytes at least. */
static inline bool prov_is_cut(uint64_t at, size_t size)
{
    return ((at | size) & (PROV_WORD - 1)) == 0 && size > PROV_WORD &&
           (at & (PROV_CPU_LINE - 1)) + size <= PROV_CPU_LINE;
}

/* The size of the piece at `at`, with `size` > 0 bytes still to come. */
static inline size_t prov_piece(uint64_t at, size_t size, unsigned int width)
{
    uint64_t aligned = (at | width) & -(at | width);
    uint64_t fits = UINT64_C(1) << (63 - __builtin_clzll(size));

    return aligned < fits ? aligned : fits;
}

/* One such piece, or a naturally aligned word. */
static inline bool prov_is_piece(uint64_t at, size_t size, unsigned int width)
{
    return size <= width && ((at | size) & (size - 1)) == 0;
}

#endif
