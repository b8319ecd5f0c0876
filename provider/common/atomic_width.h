/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single-copy atomicity: the number of bytes that this machine makes visible at once, and the split
 * of a short transfer into naturally aligned pieces of that size, in ascending order. A reader that
 * sees a byte of a piece sees the whole piece and all earlier pieces, so any byte may serve as a
 * flag.
 *
 * An aligned store is atomic for 8 bytes, and for 16 bytes with AVX (Intel SDM volume 3,
 * "Guaranteed Atomic Operations"; AMD APM volume 2, "Access Atomicity"). 32 bytes are one write to
 * the level-1 cache if the core's store path is 32 bytes wide. Other cores make two writes in an
 * unspecified order, and so use smaller pieces.
 */
#ifndef PROV_ATOMIC_WIDTH_H
#define PROV_ATOMIC_WIDTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PROV_WORD = 8,
    PROV_MAX_ATOMIC_WIDTH = 32, /* maximum size of a piece */
    PROV_CPU_LINE = 64 /* bytes; only transfers within one such line are split into pieces */
};

struct prov_atomic_widths {
    uint8_t store;  /* bytes that one aligned store of this CPU makes visible at once */
    uint8_t kernel; /* bytes that one copy by the kernel makes visible at once */
};

extern struct prov_atomic_widths prov_atomic_widths; /* 0: not detected yet */
void prov_detect_atomic_widths(void);

static inline unsigned int prov_store_width(void)
{
    unsigned int width = __atomic_load_n(&prov_atomic_widths.store, __ATOMIC_RELAXED);

    if (__builtin_expect(width != 0, 1))
        return width;
    prov_detect_atomic_widths();
    return prov_atomic_widths.store;
}

static inline unsigned int prov_kernel_width(void)
{
    unsigned int width = __atomic_load_n(&prov_atomic_widths.kernel, __ATOMIC_RELAXED);

    if (__builtin_expect(width != 0, 1))
        return width;
    prov_detect_atomic_widths();
    return prov_atomic_widths.kernel;
}

/* True if the transfer is split into pieces, of at least 8 bytes each. */
static inline bool prov_needs_atomic_pieces(uint64_t at, size_t size)
{
    return ((at | size) & (PROV_WORD - 1)) == 0 && size > PROV_WORD &&
           (at & (PROV_CPU_LINE - 1)) + size <= PROV_CPU_LINE;
}

/* Returns the size of the piece at `at`, with `size` > 0 bytes left. */
static inline size_t prov_piece_size(uint64_t at, size_t size, unsigned int width)
{
    uint64_t aligned = (at | width) & -(at | width);
    uint64_t fits = UINT64_C(1) << (63 - __builtin_clzll(size));

    return aligned < fits ? aligned : fits;
}

/* True if the transfer is a single piece, or a naturally aligned word. */
static inline bool prov_is_piece(uint64_t at, size_t size, unsigned int width)
{
    return size <= width && ((at | size) & (size - 1)) == 0;
}

#endif
