/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To the memfd: holds other threads back with userfaultfd, copies, replaces the mapping with one
 * call, which is atomic for other threads, and wakes them: they repeat their access to the new
 * pages. Where the kernel can, the old pages are moved elsewhere before they are copied, which
 * fails for pinned ones; else they are write-protected.
 *
 * Back, if the program uses the memory: a private mapping of the memfd's pages replaces the shared
 * one. Its content is the same, and the kernel copies each page at the first write to it, however
 * that is made (do_cow_fault() in mm/memory.c of Linux). MADV_POPULATE_WRITE copies the rest.
 */
#include "exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "huge.h"
#include "pages.h"

#ifndef MADV_POPULATE_WRITE
#    define MADV_POPULATE_WRITE 23
#endif
/* Not in every <linux/userfaultfd.h>: Linux 6.8. */
struct move {
    uint64_t dst, src, len, mode;
    int64_t moved;
};
#define MOVE             _IOWR(UFFDIO, 0x05, struct move)
#define MOVE_ALLOW_HOLES (1ull << 1)

enum {
    PAGE = 4096, /* a unit of comparison, not the system's page size */
    MOVE_TRIES = 100,
};

/*
 * Uses mmap() and mremap() of the C library, so that registration caches (an MPI library's) that
 * intercept them see the exchange; but not under ThreadSanitizer, which would report a race with
 * writes of other threads.
 */
static void *map_at(uint64_t at, uint64_t size, int prot, int flags, int fd, uint64_t offset)
{
#ifdef __SANITIZE_THREAD__
    return (void *)syscall(SYS_mmap, at, size, prot, flags, fd, offset);
#else
    return mmap((void *)(uintptr_t)at, size, prot, flags, fd, (off_t)offset);
#endif
}

static bool move_to(void *from, uint64_t size, uint64_t to)
{
#ifdef __SANITIZE_THREAD__
    return syscall(SYS_mremap, from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == (long)to;
#else
    return mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == (void *)(uintptr_t)to;
#endif
}

void sp_exchange_punch(const struct sp_exchange *x, uint64_t lo, uint64_t hi)
{
    fallocate(x->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)lo, (off_t)(hi - lo));
}

/*
 * Holding threads back
 */

/* Makes threads wait that access a missing page, and with `writers` those that write to any. */
static bool hold_threads(const struct sp_exchange *x, uint64_t lo, uint64_t hi, bool writers)
{
    struct uffdio_register r = {.range = {lo, hi - lo},
                                .mode = UFFDIO_REGISTER_MODE_MISSING |
                                        (writers ? UFFDIO_REGISTER_MODE_WP : 0)};
    struct uffdio_writeprotect w = {.range = r.range, .mode = UFFDIO_WRITEPROTECT_MODE_WP};

    if (ioctl(x->uffd, UFFDIO_REGISTER, &r) != 0)
        return false;
    if (!writers || ioctl(x->uffd, UFFDIO_WRITEPROTECT, &w) == 0)
        return true;
    ioctl(x->uffd, UFFDIO_UNREGISTER, &r.range);
    return false;
}

/* The new mapping is in place, or the old one is kept. */
static void let_go(const struct sp_exchange *x, uint64_t lo, uint64_t hi, bool exchanged)
{
    struct uffdio_range range = {lo, hi - lo};

    ioctl(x->uffd, exchanged ? UFFDIO_WAKE : UFFDIO_UNREGISTER, &range);
}

/*
 * To the memfd
 */

/* For tests: what writes to the old pages now is lost. */
static void pause_for_tests(const struct sp_exchange *x)
{
    struct timespec t = {x->pause_ms / 1000, x->pause_ms % 1000 * 1000000L};

    if (x->pause_ms)
        syscall(SYS_nanosleep, &t, NULL);
}

static bool map_memfd(const struct sp_exchange *x, uint64_t lo, uint64_t hi)
{
    pause_for_tests(x);
    if (map_at(lo, hi - lo, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, x->fd,
               lo) == MAP_FAILED)
        return false;
    madvise((void *)(uintptr_t)lo, hi - lo, MADV_DONTFORK);
    return true;
}

/* A mapping of the memfd elsewhere, writable. Stores there are not subject to RLIMIT_FSIZE, unlike
 * write(). */
static uint8_t *open_window(const struct sp_exchange *x, uint64_t lo, uint64_t hi)
{
    uint8_t *at = sp_huge_reserve(hi - lo, lo, PROT_NONE);

    if (!at)
        return NULL;
    if (map_at((uintptr_t)at, hi - lo, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_FIXED | MAP_NORESERVE, x->fd, lo) != MAP_FAILED)
        return at;
    munmap(at, hi - lo);
    return NULL;
}

/* By the kernel, as a load would wait for this thread itself if the page had gone. */
static bool copy_pages(uint8_t *to, uint64_t from, uint64_t size)
{
    madvise(to, size, MADV_POPULATE_WRITE); /* faster than a fault for each page */
    while (size > 0) {
        struct iovec l = {to, size}, r = {(void *)(uintptr_t)from, size};
        ssize_t n = process_vm_readv(getpid(), &l, 1, &r, 1, 0);
        if (n <= 0)
            return false;
        to += n;
        from += (uint64_t)n;
        size -= (uint64_t)n;
    }
    return true;
}

/* Where process_vm_readv() is forbidden: through a pipe of the kernel, which takes no limit into
 * account either. */
static bool copy_by_pipe(uint8_t *to, uint64_t from, uint64_t size)
{
    int ends[2];
    bool ok = pipe2(ends, O_CLOEXEC) == 0;

    if (!ok)
        return false;
    for (uint64_t done = 0; ok && done < size;) {
        uint64_t part = size - done < PAGE ? size - done : PAGE; /* a pipe takes it at once */
        ok = write(ends[1], (const void *)(uintptr_t)(from + done), part) == (ssize_t)part &&
             read(ends[0], to + done, part) == (ssize_t)part;
        done += part;
    }
    close(ends[0]);
    close(ends[1]);
    return ok;
}

/* Copies the pages that exist. */
static bool copy_out(uint64_t lo, uint64_t hi, uint8_t *window)
{
    struct sp_page_run run;
    struct sp_pages pages;
    bool ok = sp_pages_open(&pages);

    for (uint64_t at = lo; ok && at < hi; at = run.hi) {
        ok = sp_pages_next(&pages, at, hi, &run) &&
             (!run.exist || copy_pages(window + (at - lo), at, run.hi - at) ||
              (errno != EFAULT && copy_by_pipe(window + (at - lo), at, run.hi - at)));
    }
    sp_pages_close(&pages);
    return ok;
}

/* Returns how many bytes from the beginning were moved; holes count. */
static uint64_t move_pages(const struct sp_exchange *x, uint64_t from, uint64_t to, uint64_t size)
{
    uint64_t done = 0;

    for (int tries = 0; done < size && tries < MOVE_TRIES; tries++) {
        struct move m = {
            .dst = to + done, .src = from + done, .len = size - done, .mode = MOVE_ALLOW_HOLES};
        if (ioctl(x->uffd, MOVE, &m) == 0)
            return size;
        if (errno != EAGAIN && errno != EBUSY)
            break;
        done += m.moved > 0 ? (uint64_t)m.moved : 0;
    }
    return done;
}

/* Pages that a child has shared since a fork() could not be moved: writes to each. */
static void unshare_pages(uint64_t lo, uint64_t hi)
{
    struct sp_page_run run;
    struct sp_pages pages;
    bool ok = sp_pages_open(&pages);

    for (uint64_t at = lo; ok && at < hi; at = run.hi) {
        ok = sp_pages_next(&pages, at, hi, &run);
        if (ok && run.exist)
            madvise((void *)(uintptr_t)at, run.hi - at, MADV_POPULATE_WRITE);
    }
    sp_pages_close(&pages);
}

/* Moves the pages of [lo, hi) to `there`, and calls exchange_moved(), or moves them back. */
static bool move_and_exchange(const struct sp_exchange *x, uint64_t lo, uint64_t hi, uint64_t there,
                              uint8_t *window)
{
    const uint64_t size = hi - lo;
    uint64_t moved = move_pages(x, lo, there, size), back;
    bool exchanged = false;

    if (moved == size) {
        let_go(x, there, there + size, false); /* to read it: where nothing was moved it is zero */
        exchanged = copy_out(there, there + size, window) && map_memfd(x, lo, hi);
        if (exchanged || !hold_threads(x, there, there + size, false))
            return exchanged;
    }
    back = move_pages(x, there, lo, moved);
    if (back < moved) { /* never seen; the pages must not be lost */
        let_go(x, lo, hi, false);
        copy_pages((uint8_t *)(uintptr_t)(lo + back), there + back, moved - back);
    }
    return false;
}

static bool exchange_by_move(const struct sp_exchange *x, uint64_t lo, uint64_t hi, uint8_t *window)
{
    const uint64_t size = hi - lo;
    uint8_t *elsewhere = sp_huge_reserve(size, lo, PROT_READ | PROT_WRITE);
    bool exchanged = false;

    if (!elsewhere)
        return false;
    const uint64_t there = (uintptr_t)elsewhere;
    unshare_pages(lo, hi);
    if (hold_threads(x, there, there + size, false) && hold_threads(x, lo, hi, false)) {
        exchanged = move_and_exchange(x, lo, hi, there, window);
        let_go(x, lo, hi, exchanged);
    }
    munmap(elsewhere, size);
    return exchanged;
}

static bool exchange_by_copy(const struct sp_exchange *x, uint64_t lo, uint64_t hi, uint8_t *window)
{
    if (!hold_threads(x, lo, hi, true))
        return false;
    bool exchanged = copy_out(lo, hi, window) && map_memfd(x, lo, hi);
    let_go(x, lo, hi, exchanged);
    return exchanged;
}

/* Pages of a leftover that nobody has written to are still those of the memfd, and keep their
 * content. They cannot be moved. */
bool sp_exchange_copy(const struct sp_exchange *x, uint64_t lo, uint64_t hi, bool leftover)
{
    struct sp_frames huge = sp_huge_find(lo, hi);
    uint8_t *window = open_window(x, lo, hi);

    if (!window)
        return false;
    if (!leftover)
        sp_exchange_punch(x, lo, hi); /* a late put of a peer may have left data there */
    sp_huge_make(&huge, window, lo, x->huge);
    bool exchanged = x->moves && !leftover ? exchange_by_move(x, lo, hi, window)
                                           : exchange_by_copy(x, lo, hi, window);
    munmap(window, hi - lo);
    if (exchanged)
        sp_huge_map(&huge);
    else if (!leftover)
        sp_exchange_punch(x, lo, hi);
    return exchanged;
}

static bool is_empty(uint64_t lo, uint64_t hi)
{
    struct sp_pages pages;
    struct sp_page_run run;
    bool empty = sp_pages_open(&pages);

    for (uint64_t at = lo; empty && at < hi; at = run.hi)
        empty = sp_pages_next(&pages, at, hi, &run) && !run.exist;
    sp_pages_close(&pages);
    return empty;
}

bool sp_exchange_empty(const struct sp_exchange *x, uint64_t lo, uint64_t hi)
{
    sp_exchange_punch(x, lo, hi);
    if (!hold_threads(x, lo, hi, false))
        return false;
    bool exchanged = is_empty(lo, hi) && map_memfd(x, lo, hi);
    let_go(x, lo, hi, exchanged);
    return exchanged;
}

/*
 * Back
 */

/* Calls fn for each part of the file's [lo, hi) that has pages, until it returns false. */
static bool for_each_data(const struct sp_exchange *x, uint64_t lo, uint64_t hi,
                          bool (*fn)(const struct sp_exchange *x, uint64_t lo, uint64_t hi,
                                     uint8_t *at),
                          uint8_t *memory)
{
    for (uint64_t at = lo; at < hi;) {
        off_t data = lseek(x->fd, (off_t)at, SEEK_DATA);
        if (data < 0 || (uint64_t)data >= hi)
            return data >= 0 || errno == ENXIO;
        off_t hole = lseek(x->fd, data, SEEK_HOLE);
        at = hole < 0 || (uint64_t)hole > hi ? hi : (uint64_t)hole;
        if (!fn(x, (uint64_t)data, at, memory + ((uint64_t)data - lo)))
            return false;
    }
    return true;
}

static bool read_pages(const struct sp_exchange *x, uint64_t lo, uint64_t hi, uint8_t *to)
{
    madvise(to, hi - lo, MADV_POPULATE_WRITE);
    while (lo < hi) {
        ssize_t n = pread(x->fd, to, hi - lo, (off_t)lo);
        if (n <= 0)
            return false;
        lo += (uint64_t)n;
        to += n;
    }
    return true;
}

/* Brings bytes that were written to the memfd since it was read: `window` has the file's page. */
static void merge_page(uint8_t *to, const uint8_t *window)
{
    if (memcmp(to, window, PAGE) == 0)
        return;
    for (int i = 0; i < PAGE; i++)
        if (to[i] != window[i])
            to[i] = window[i];
}

static bool merge_pages(const struct sp_exchange *x, uint64_t lo, uint64_t hi, uint8_t *to)
{
    uint8_t *window = map_at(0, hi - lo, PROT_READ, MAP_SHARED | MAP_NORESERVE, x->fd, lo);

    if (window == MAP_FAILED)
        return true;
    for (uint64_t at = 0; at < hi - lo; at += PAGE)
        merge_page(to + at, window + at);
    munmap(window, hi - lo);
    return true;
}

bool sp_exchange_back(const struct sp_exchange *x, const struct sp_mapped_part *p)
{
    const uint64_t size = p->hi - p->lo;
    const int usual = PROT_READ | PROT_WRITE;
    uint8_t *copy =
        sp_huge_find(p->lo, p->hi).bits
            ? sp_huge_private(size, p->lo)
            : map_at(0, size, usual, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (!copy || copy == MAP_FAILED)
        return false;
    if (!for_each_data(x, p->offset, p->offset + size, read_pages, copy) ||
        (p->prot != usual && mprotect(copy, size, p->prot) != 0) || !move_to(copy, size, p->lo)) {
        munmap(copy, size);
        return false;
    }
    if (p->prot == usual)
        for_each_data(x, p->offset, p->offset + size, merge_pages, (uint8_t *)(uintptr_t)p->lo);
    sp_exchange_punch(x, p->offset, p->offset + size);
    return true;
}

static bool write_all_pages(const struct sp_exchange *x, uint64_t lo, uint64_t hi, uint8_t *at)
{
    (void)x;
    return madvise(at, hi - lo, MADV_POPULATE_WRITE) == 0;
}

bool sp_exchange_back_in_use(const struct sp_exchange *x, const struct sp_mapped_part *p)
{
    const uint64_t size = p->hi - p->lo;

    if (map_at(p->lo, size, p->prot, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, x->fd, p->offset) ==
        MAP_FAILED)
        return false;
    if (for_each_data(x, p->offset, p->offset + size, write_all_pages, (uint8_t *)(uintptr_t)p->lo))
        sp_exchange_punch(x, p->offset, p->offset + size); /* else no memory: they stay */
    return true;
}
