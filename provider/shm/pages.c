/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /proc/self/pagemap, and allocates huge pages of the memfd: see pages.h. */
#include "pages.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util/fd.h"

#ifndef MADV_POPULATE_WRITE
#    define MADV_POPULATE_READ  22
#    define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#    define MADV_COLLAPSE 25
#endif

bool sp_pages_open(struct sp_pages *pages)
{
    pages->fd = ut_fd_above_stdio(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    pages->page_size = (uint64_t)sysconf(_SC_PAGESIZE);
    pages->num = 0;
    return pages->fd >= 0;
}

void sp_pages_close(struct sp_pages *pages)
{
    if (pages->fd >= 0)
        close(pages->fd);
    pages->fd = -1;
}

/* bit 63: present; bit 62: swapped out */
static bool entry_exists(uint64_t entry)
{
    return entry >> 62 != 0;
}

/* Reads entries from page number `page` on, up to `end`. */
static bool fill_buffer(struct sp_pages *pages, uint64_t page, uint64_t end)
{
    uint64_t num = end - page < SP_PAGES_READ ? end - page : SP_PAGES_READ;
    ssize_t got = pread(pages->fd, pages->entries, num * sizeof(pages->entries[0]),
                        (off_t)(page * sizeof(pages->entries[0])));

    pages->first = page;
    pages->num = got > 0 ? (uint64_t)got / sizeof(pages->entries[0]) : 0;
    return pages->num > 0;
}

bool sp_pages_next(struct sp_pages *pages, uint64_t at, uint64_t hi, struct sp_page_run *run)
{
    uint64_t page = at / pages->page_size, end = hi / pages->page_size;

    if (page - pages->first >= pages->num && !fill_buffer(pages, page, end))
        return false;
    const uint64_t *entries = pages->entries + (page - pages->first);
    uint64_t n = 1, left = pages->first + pages->num - page;
    left = left < end - page ? left : end - page;
    run->exist = entry_exists(entries[0]);
    while (n < left && entry_exists(entries[n]) == run->exist)
        n++;
    run->lo = at;
    run->hi = at + n * pages->page_size;
    return true;
}

uint64_t sp_pages_count(uint64_t lo, uint64_t hi, uint64_t limit)
{
    struct sp_pages pages;
    struct sp_page_run run;
    uint64_t bytes = 0;
    bool ok = sp_pages_open(&pages);

    for (uint64_t at = lo; ok && at < hi && bytes <= limit; at = run.hi)
        if ((ok = sp_pages_next(&pages, at, hi, &run)) && run.exist)
            bytes += run.hi - run.lo;
    sp_pages_close(&pages);
    return bytes;
}

bool sp_pages_exists(struct sp_pages *pages, uint64_t at)
{
    uint64_t entry;

    return pread(pages->fd, &entry, sizeof(entry),
                 (off_t)(at / pages->page_size * sizeof(entry))) != (ssize_t)sizeof(entry) ||
           entry_exists(entry);
}

/*
 * Huge pages
 */

/* From <linux/fs.h>, which may be older than the running kernel. */
struct region {
    uint64_t start, end, categories;
};
struct scan {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN    _IOWR('f', 16, struct scan)
#define IS_HUGE (1ull << 6)

enum { MAX_FRAMES = 64 };

/* Returns a bit for each frame of [first, end): set if it is a huge page. */
static uint64_t scan_frames(uint64_t first, uint64_t end)
{
    struct region regions[MAX_FRAMES];
    struct scan s = {.size = sizeof(s),
                     .start = first,
                     .end = end,
                     .vec = (uintptr_t)regions,
                     .vec_len = MAX_FRAMES,
                     .category_mask = IS_HUGE,
                     .return_mask = IS_HUGE};
    uint64_t bits = 0;

    if (first >= end || end - first > MAX_FRAMES * SP_HUGE)
        return 0;
    int fd = ut_fd_above_stdio(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    if (fd < 0)
        return 0;
    int n = ioctl(fd, SCAN, &s);
    close(fd);
    for (int i = 0; i < n; i++)
        for (uint64_t at = regions[i].start; at + SP_HUGE <= regions[i].end; at += SP_HUGE)
            bits |= 1ull << (at - first) / SP_HUGE;
    return bits;
}

struct sp_huge_frames sp_huge_find(uint64_t lo, uint64_t hi)
{
    uint64_t first = (lo + SP_HUGE - 1) & ~(SP_HUGE - 1);

    return (struct sp_huge_frames){.first = first, .bits = scan_frames(first, hi & ~(SP_HUGE - 1))};
}

uint8_t *sp_huge_reserve(uint64_t size, uint64_t at, int prot)
{
    uint8_t *all =
        mmap(NULL, size + SP_HUGE, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (all == MAP_FAILED)
        return NULL;
    uint64_t skip = (at - (uintptr_t)all) & (SP_HUGE - 1);
    if (skip > 0)
        munmap(all, skip);
    munmap(all + skip + size, SP_HUGE - skip);
    return all + skip;
}

/* Returns the number of the last huge page's frame, plus 1. */
static uint64_t num_frames(const struct sp_huge_frames *frames)
{
    return frames->bits ? 64 - (uint64_t)__builtin_clzll(frames->bits) : 0;
}

/* Allocates a huge page of the memfd mapped at `at`. False: there is none. */
static bool allocate_frame(uint8_t *at, bool advised)
{
    if (advised)
        return madvise(at, SP_HUGE, MADV_HUGEPAGE) == 0 &&
               madvise(at, SP_HUGE, MADV_POPULATE_WRITE) == 0;
    return madvise(at, 1, MADV_POPULATE_WRITE) == 0 && /* MADV_COLLAPSE needs an existing page */
           madvise(at, SP_HUGE, MADV_COLLAPSE) == 0;
}

void sp_huge_allocate(struct sp_huge_frames *frames, uint8_t *window, uint64_t lo, bool advised)
{
    for (uint64_t n = 0; n < num_frames(frames); n++) {
        if ((frames->bits >> n & 1) &&
            !allocate_frame(window + (frames->first + n * SP_HUGE - lo), advised))
            frames->bits &= (1ull << n) - 1; /* no huge pages left */
    }
}

void sp_huge_map(const struct sp_huge_frames *frames)
{
    for (uint64_t n = 0; n < num_frames(frames); n++) {
        if (frames->bits >> n & 1)
            madvise((void *)(uintptr_t)(frames->first + n * SP_HUGE), 1, MADV_POPULATE_READ);
    }
}
