/* SPDX-License-Identifier: Apache-2.0 */
/* The page table of this process, as /proc/self/pagemap shows it: which pages exist. Uses the stack
 * and system calls only. */
#ifndef SP_PAGES_H
#define SP_PAGES_H

#include <stdbool.h>
#include <stdint.h>

enum { SP_PAGES_READ = 512 }; /* entries that are read at once */

struct sp_pages {
    int fd;
    uint64_t page_size;
    uint64_t first, num; /* the entries in the buffer: page numbers */
    uint64_t entries[SP_PAGES_READ];
};

/* Consecutive pages that all exist, in memory or swapped out, or none of which does. */
struct sp_page_run {
    uint64_t lo, hi;
    bool exist;
};

/* False: the kernel does not show it. Close it in any case. */
bool sp_pages_open(struct sp_pages *pages);
void sp_pages_close(struct sp_pages *pages);

/* The run that begins at `at` and ends at `hi` or before, both multiples of the page size. A long
 * run may be reported as two. False: an error. */
bool sp_pages_next(struct sp_pages *pages, uint64_t at, uint64_t hi, struct sp_page_run *run);

/* Bytes of existing pages in [lo, hi); stops to count above `limit`. */
uint64_t sp_pages_count(struct sp_pages *pages, uint64_t lo, uint64_t hi, uint64_t limit);

/* Does the page exist? */
bool sp_pages_exists(struct sp_pages *pages, uint64_t at);

/*
 * Huge pages. A frame is an aligned range of the size of a huge page.
 */

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
