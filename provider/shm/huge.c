/* SPDX-License-Identifier: Apache-2.0 */
/* See huge.h. */
#include "huge.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#    define MADV_POPULATE_READ  22
#    define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#    define MADV_COLLAPSE 25
#endif

/* Of <linux/fs.h>, which may be older than the kernel. */
struct region {
    uint64_t start, end, categories;
};
struct scan {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN    _IOWR('f', 16, struct scan)
#define IS_HUGE (1ull << 6)

static void mark(struct sp_frames *f, uint64_t lo, uint64_t hi)
{
    for (; lo + SP_HUGE <= hi; lo += SP_HUGE)
        f->bits |= 1ull << (lo - f->first) / SP_HUGE;
}

struct sp_frames sp_huge_find(uint64_t lo, uint64_t hi)
{
    struct region regions[64];
    struct sp_frames f = {.first = (lo + SP_HUGE - 1) & ~(SP_HUGE - 1)};
    struct scan s = {.size = sizeof(s),
                     .start = f.first,
                     .end = hi & ~(SP_HUGE - 1),
                     .vec = (uintptr_t)regions,
                     .vec_len = 64,
                     .category_mask = IS_HUGE,
                     .return_mask = IS_HUGE};

    if (s.start >= s.end || s.end - s.start > 64 * SP_HUGE)
        return f;
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return f;
    int n = ioctl(fd, SCAN, &s);
    close(fd);
    for (int i = 0; i < n; i++)
        mark(&f, regions[i].start, regions[i].end);
    return f;
}

/* What of a range of this size is aligned as `at` is. NULL: no addresses left. */
static uint8_t *aligned(uint64_t size, uint64_t at, int prot)
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

static bool make(uint8_t *at, uint64_t size, bool asked)
{
    if (asked)
        return madvise(at, size, MADV_HUGEPAGE) == 0 && madvise(at, size, MADV_POPULATE_WRITE) == 0;
    for (uint64_t i = 0; i < size; i += SP_HUGE) { /* nothing at all cannot be collapsed */
        if (madvise(at + i, 1, MADV_POPULATE_WRITE) != 0)
            return false;
    }
    return madvise(at, size, MADV_COLLAPSE) == 0;
}

void sp_huge_make(struct sp_frames *f, int fd, bool asked)
{
    const uint64_t n = num_frames(f);

    if (n == 0)
        return;
    f->size = n * SP_HUGE;
    f->window = aligned(f->size, 0, PROT_NONE);
    if (!f->window) {
        f->bits = 0;
        return;
    }
    if (mmap(f->window, f->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd,
             (off_t)f->first) == MAP_FAILED)
        f->bits = 0;
    for (uint64_t i = 0; i < n; i++) { /* those that stand side by side at once */
        uint64_t begin = i;
        while (i < n && (f->bits >> i & 1))
            i++;
        if (i > begin && !make(f->window + begin * SP_HUGE, (i - begin) * SP_HUGE, asked))
            f->bits &= (1ull << begin) - 1; /* no more of them to be had */
    }
}

void sp_huge_close(struct sp_frames *f)
{
    if (f->window)
        munmap(f->window, f->size);
    f->window = NULL;
}

bool sp_huge_copy(const struct sp_frames *f, uint64_t frame)
{
    struct iovec to = {f->window + (frame - f->first), SP_HUGE};
    struct iovec from = {(void *)(uintptr_t)frame, SP_HUGE};

    return syscall(SYS_process_vm_readv, getpid(), &to, 1, &from, 1, 0) == (long)SP_HUGE;
}

void sp_huge_map(const struct sp_frames *f)
{
    for (uint64_t n = 0; n < num_frames(f); n++) {
        if (f->bits >> n & 1)
            madvise((void *)(uintptr_t)(f->first + n * SP_HUGE), 1, MADV_POPULATE_READ);
    }
}

uint8_t *sp_huge_private(uint64_t size, uint64_t at)
{
    uint8_t *p = aligned(size, at, PROT_READ | PROT_WRITE);
    char text[128] = "";

    if (!p)
        return NULL;
    int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (read(fd, text, sizeof(text) - 1) > 0 && strstr(text, "[madvise]"))
            madvise(p, size, MADV_HUGEPAGE);
        close(fd);
    }
    return p;
}
