/* SPDX-License-Identifier: Apache-2.0 */
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

/* From <linux/fs.h>, which may be older than the kernel. */
struct region {
    uint64_t start, end, categories;
};
struct scan {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN       _IOWR('f', 16, struct scan)
#define IS_WRITTEN (1ull << 1) /* written, or not write-protected with userfaultfd */
#define IS_PRESENT (1ull << 3)
#define IS_HUGE    (1ull << 6)

enum { MOST_FRAMES = 64 };

/* The frames of [first, end), as bits, that have all of these categories, and not `none`. */
static uint64_t scan_frames(uint64_t first, uint64_t end, uint64_t categories, uint64_t none)
{
    struct region regions[MOST_FRAMES];
    struct scan s = {.size = sizeof(s),
                     .start = first,
                     .end = end,
                     .vec = (uintptr_t)regions,
                     .vec_len = MOST_FRAMES,
                     .category_inverted = none,
                     .category_mask = categories | none,
                     .return_mask = IS_HUGE};
    uint64_t bits = 0;

    if (first >= end || end - first > MOST_FRAMES * SP_HUGE)
        return 0;
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
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

    return (struct sp_frames){.first = first,
                              .bits = scan_frames(first, hi & ~(SP_HUGE - 1), IS_HUGE, 0)};
}

/* Reserves addresses with the same alignment as `at`. NULL: none left. */
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
    for (uint64_t i = 0; i < size; i += SP_HUGE) { /* MADV_COLLAPSE needs a page */
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
    for (uint64_t i = 0; i < n; i++) { /* no more huge pages */
        uint64_t begin = i;
        while (i < n && (f->bits >> i & 1))
            i++;
        if (i > begin && !make(f->window + begin * SP_HUGE, (i - begin) * SP_HUGE, asked))
            f->bits &= (1ull << begin) - 1; /* no huge page is left */
    }
}

void sp_huge_close(struct sp_frames *f)
{
    if (f->window)
        munmap(f->window, f->size);
    f->window = NULL;
}

/* One instruction, which no sanitizer instruments and which accesses no other memory. */
static bool copy_as_program(void *to, const void *from)
{
#ifdef __x86_64__
    size_t size = SP_HUGE;

    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
    return true;
#else
    (void)to;
    (void)from;
    return false;
#endif
}

void sp_huge_copy_early(struct sp_frames *f)
{
    for (uint64_t n = 0; n < num_frames(f); n++) {
        uint64_t at = n * SP_HUGE;
        if ((f->bits >> n & 1) &&
            copy_as_program(f->window + at, (const void *)(uintptr_t)(f->first + at)))
            f->copied |= 1ull << n;
    }
}

void sp_huge_keep(struct sp_frames *f)
{
    if (f->copied)
        f->copied &= scan_frames(f->first, f->first + f->size, IS_PRESENT | IS_HUGE, IS_WRITTEN);
}

bool sp_huge_copy(const struct sp_frames *f, uint64_t frame)
{
    if (sp_huge_is_copied(f, frame))
        return true;
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
