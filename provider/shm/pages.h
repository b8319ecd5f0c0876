/* SPDX-License-Identifier: Apache-2.0 */
/* The page table of this process (/proc/self/pagemap): which pages exist, and which are huge. Uses
 * the stack and system calls only. */
#ifndef SP_PAGES_H
#define SP_PAGES_H

#include <stdbool.h>
#include <stdint.h>

enum { SP_PAGES_READ = 512 }; /* entries read at a time */

/* Use one for ascending addresses: sp_pages_open(), sp_pages_next()..., sp_pages_close(). */
struct sp_pages {
    int fd; /* /proc/self/pagemap */
    uint64_t page_size;
    uint64_t first, num; /* page numbers in the buffer: [first, first + num) */
    uint64_t entries[SP_PAGES_READ];
};

/* A range of pages that all exist (in memory or swapped out), or all do not. */
struct sp_page_run {
    uint64_t lo, hi;
    bool exist;
};

/* False: the kernel hides the page table. Requires sp_pages_close() in any case. */
bool sp_pages_open(struct sp_pages *pages);
void sp_pages_close(struct sp_pages *pages);

/* Finds the longest uniform range from `at` up to `hi`, both multiples of the page size. A long
 * range may come in parts. False: an error. */
bool sp_pages_next(struct sp_pages *pages, uint64_t at, uint64_t hi, struct sp_page_run *run);

/* Returns the bytes of existing pages in [lo, hi); stops counting above `limit`, or where the page
 * table cannot be read. */
uint64_t sp_pages_count(uint64_t lo, uint64_t hi, uint64_t limit);

/* True if the page exists, or that is not known. */
bool sp_pages_exists(struct sp_pages *pages, uint64_t at);

/*
 * Huge pages: remapping and restoring preserves them. A frame is an aligned range of the size of a
 * huge page.
 */

#define SP_HUGE (2ull << 20)

/* Up to 64 consecutive frames, some of which are huge pages. */
struct sp_huge_frames {
    uint64_t first; /* address of the first frame */
    uint64_t bits;  /* one bit per frame: huge page */
};

/* Finds the frames of [lo, hi) that are mapped as huge pages; none if the kernel (before 6.7)
 * cannot report them. */
struct sp_huge_frames sp_huge_find(uint64_t lo, uint64_t hi);

/* Reserves addresses with the same offset in a huge page as `at`. NULL: no address space. */
uint8_t *sp_huge_reserve(uint64_t size, uint64_t at, int prot);

/*
 * Allocates huge pages of the memfd for these frames. `window`: a mapping of the memfd that begins
 * with the page of address `lo`. The content is undefined. `advised`: madvise(MADV_HUGEPAGE) works
 * on this system; else small pages are collapsed (MADV_COLLAPSE), which needs no system setting.
 * Removes frames that get no huge page.
 */
void sp_huge_allocate(struct sp_huge_frames *frames, uint8_t *window, uint64_t lo, bool advised);

/* Maps the memfd's huge pages of these frames with huge page-table entries. */
void sp_huge_map(const struct sp_huge_frames *frames);

#endif
