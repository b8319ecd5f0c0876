/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Huge pages: memory with huge pages keeps them when it is remapped and when it is given back. A
 * frame is an aligned range of the size of a huge page. Uses system calls only.
 */
#ifndef SP_HUGE_H
#define SP_HUGE_H

#include <stdbool.h>
#include <stdint.h>

#define SP_HUGE (2ull << 20)

/* The frames of a range of at most 64 frames. */
struct sp_frames {
    uint64_t first; /* address of the first one */
    uint64_t bits;  /* the frames that are huge pages */
};

/* The frames of [lo, hi) that are mapped as huge pages; none if the kernel (before 6.7) cannot
 * tell. */
struct sp_frames sp_huge_find(uint64_t lo, uint64_t hi);

/* Reserves addresses with the same alignment in a huge page as `at`. NULL: none left. */
uint8_t *sp_huge_reserve(uint64_t size, uint64_t at, int prot);

/*
 * Allocates huge pages at these frames in a mapping of the memfd, which begins at `window` with the
 * page of address `lo`. Their content is undefined. `advised`: madvise(MADV_HUGEPAGE) allocates
 * them on this system; else small pages are collapsed (MADV_COLLAPSE), which needs no setting of
 * the system. Frames that get none are removed.
 */
void sp_huge_allocate(struct sp_frames *frames, uint8_t *window, uint64_t lo, bool advised);

/* Maps the memfd's huge pages at these frames with huge page-table entries. */
void sp_huge_map(const struct sp_frames *frames);

#endif
