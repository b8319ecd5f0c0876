/* SPDX-License-Identifier: Apache-2.0 */
#include "huge.h"

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

/* From <linux/fs.h>, which may be older than the kernel. */
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

/* The frames of [first, end), as bits, that are huge pages. */
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
    int fd = ut_fd_high(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    if (fd < 0)
        return 0;
    int n = ioctl(fd, SCAN, &s);
    close(fd);
    for (int i = 0; i < n; i++)
        for (uint64_t at = regions[i].start; at + SP_HUGE <= regions[i].end; at += SP_HUGE)
            bits |= 1ull << (at - first) / SP_HUGE;
    return bits;
}

struct sp_frames sp_huge_find(uint64_t lo, uint64_t hi)
{
    uint64_t first = (lo + SP_HUGE - 1) & ~(SP_HUGE - 1);

    return (struct sp_frames){.first = first, .bits = scan_frames(first, hi & ~(SP_HUGE - 1))};
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

static uint64_t num_frames(const struct sp_frames *f)
{
    return f->bits ? 64 - (uint64_t)__builtin_clzll(f->bits) : 0;
}

static bool allocate_frame(uint8_t *at, bool advised)
{
    if (advised)
        return madvise(at, SP_HUGE, MADV_HUGEPAGE) == 0 &&
               madvise(at, SP_HUGE, MADV_POPULATE_WRITE) == 0;
    return madvise(at, 1, MADV_POPULATE_WRITE) == 0 && /* MADV_COLLAPSE needs a page */
           madvise(at, SP_HUGE, MADV_COLLAPSE) == 0;
}

void sp_huge_allocate(struct sp_frames *f, uint8_t *window, uint64_t lo, bool advised)
{
    for (uint64_t n = 0; n < num_frames(f); n++) {
        if ((f->bits >> n & 1) && !allocate_frame(window + (f->first + n * SP_HUGE - lo), advised))
            f->bits &= (1ull << n) - 1; /* no huge page is left */
    }
}

void sp_huge_map(const struct sp_frames *f)
{
    for (uint64_t n = 0; n < num_frames(f); n++) {
        if (f->bits >> n & 1)
            madvise((void *)(uintptr_t)(f->first + n * SP_HUGE), 1, MADV_POPULATE_READ);
    }
}
