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
#include <time.h>
#include <unistd.h>

#include "huge.h"
#include "pages.h"
#include "util/assert.h"

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
 * Holding threads back. A system call of this thread that uses the range fails if `uffd` serves
 * faults of user code only, and else waits for this thread itself.
 */

enum hold {
    HOLD_MISSING = UFFDIO_REGISTER_MODE_MISSING, /* threads that access a missing page wait */
    HOLD_WRITERS = UFFDIO_REGISTER_MODE_WP, /* threads that write to an existing page wait; of the
                                             * memfd, to any page */
};

static bool hold_threads(int uffd, uint64_t lo, uint64_t hi, unsigned int what)
{
    struct uffdio_register r = {.range = {lo, hi - lo}, .mode = what};
    struct uffdio_writeprotect w = {.range = r.range, .mode = UFFDIO_WRITEPROTECT_MODE_WP};

    if (ioctl(uffd, UFFDIO_REGISTER, &r) != 0)
        return false;
    if (!(what & HOLD_WRITERS) || ioctl(uffd, UFFDIO_WRITEPROTECT, &w) == 0)
        return true;
    ioctl(uffd, UFFDIO_UNREGISTER, &r.range);
    return false;
}

/* The new mapping is in place, or the old one is kept. */
static void let_go(int uffd, uint64_t lo, uint64_t hi, bool exchanged)
{
    struct uffdio_range range = {lo, hi - lo};

    ioctl(uffd, exchanged ? UFFDIO_WAKE : UFFDIO_UNREGISTER, &range);
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

static bool write_pages(const struct sp_exchange *x, uint64_t from, uint64_t size, uint64_t offset)
{
    while (size > 0) {
        long n = syscall(SYS_pwrite64, x->fd, from, size, offset);
        if (n <= 0)
            return false;
        from += (uint64_t)n;
        offset += (uint64_t)n;
        size -= (uint64_t)n;
    }
    return true;
}

/* Copies the existing pages of [from, from + size) to the memfd. */
static bool copy_out(const struct sp_exchange *x, uint64_t from, uint64_t size, uint64_t offset)
{
    const uint64_t end = from + size;
    struct sp_page_run run;
    struct sp_pages pages;
    bool ok = sp_pages_open(&pages);

    for (uint64_t at = from; ok && at < end; at = run.hi)
        ok = sp_pages_next(&pages, at, end, &run) &&
             (!run.exist || write_pages(x, at, run.hi - at, offset + (at - from)));
    sp_pages_close(&pages);
    return ok;
}

/* Moves existing pages. Returns how many bytes from the beginning were moved. */
static uint64_t move_run(int uffd, uint64_t from, uint64_t to, uint64_t size)
{
    uint64_t done = 0;

    for (int tries = 0; done < size && tries < MOVE_TRIES; tries++) {
        struct move m = {
            .dst = to + done, .src = from + done, .len = size - done, .mode = MOVE_ALLOW_HOLES};
        if (ioctl(uffd, MOVE, &m) == 0)
            return size;
        if (errno != EAGAIN && errno != EBUSY)
            break;
        done += m.moved > 0 ? (uint64_t)m.moved : 0;
    }
    return done;
}

/* Moves the existing pages of [lo, hi), not the holes: the kernel takes its time for each. Returns
 * the address before which everything was moved. */
static uint64_t move_pages(int uffd, uint64_t lo, uint64_t hi, uint64_t to)
{
    struct sp_page_run run;
    struct sp_pages pages;
    uint64_t at = lo;
    bool ok = sp_pages_open(&pages);

    while (ok && at < hi && (ok = sp_pages_next(&pages, at, hi, &run))) {
        uint64_t size = run.hi - run.lo;
        uint64_t moved = run.exist ? move_run(uffd, at, to + (at - lo), size) : size;
        ok = moved == size;
        at += moved;
    }
    sp_pages_close(&pages);
    return at;
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

/* Moves the pages of [lo, hi) to `there`, or leaves them where they are. */
static bool move_and_exchange(const struct sp_exchange *x, int uffd, uint64_t lo, uint64_t hi,
                              uint64_t there)
{
    const uint64_t end = there + (hi - lo);

    if (move_pages(uffd, lo, hi, there) == hi && copy_out(x, there, hi - lo, lo) &&
        map_memfd(x, lo, hi))
        return true;
    /* nobody else knows the pages there, so nothing can keep them from going back */
    uint64_t back = move_pages(uffd, there, end, lo);
    UT_ASSERT(back == end);
    return false;
}

static bool exchange_by_move(const struct sp_exchange *x, uint64_t lo, uint64_t hi)
{
    const int uffd = x->uffd_kernel >= 0 ? x->uffd_kernel : x->uffd;
    const uint64_t size = hi - lo;
    uint8_t *elsewhere = sp_huge_reserve(size, lo, PROT_READ | PROT_WRITE);
    bool exchanged = false;

    if (!elsewhere)
        return false;
    const uint64_t there = (uintptr_t)elsewhere;
    bool held = hold_threads(uffd, there, there + size, HOLD_MISSING);
    for (int tries = 0; held && !exchanged && tries < 2; tries++) {
        if (tries > 0)
            unshare_pages(lo, hi);
        if (!hold_threads(uffd, lo, hi, HOLD_MISSING))
            break;
        exchanged = move_and_exchange(x, uffd, lo, hi, there);
        let_go(uffd, lo, hi, exchanged);
    }
    munmap(elsewhere, size);
    return exchanged;
}

static bool exchange_by_copy(const struct sp_exchange *x, uint64_t lo, uint64_t hi)
{
    if (!hold_threads(x->uffd, lo, hi, HOLD_MISSING | HOLD_WRITERS))
        return false;
    bool exchanged = copy_out(x, lo, hi - lo, lo) && map_memfd(x, lo, hi);
    let_go(x->uffd, lo, hi, exchanged);
    return exchanged;
}

/* Allocates huge pages of the memfd in the places of those of [lo, hi). */
static struct sp_frames make_huge(const struct sp_exchange *x, uint64_t lo, uint64_t hi)
{
    struct sp_frames huge = sp_huge_find(lo, hi);
    uint8_t *window = huge.bits ? sp_huge_reserve(hi - lo, lo, PROT_NONE) : NULL;

    if (!window || map_at((uintptr_t)window, hi - lo, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_FIXED | MAP_NORESERVE, x->fd, lo) == MAP_FAILED)
        huge.bits = 0;
    sp_huge_make(&huge, window, lo, x->huge);
    if (window)
        munmap(window, hi - lo);
    return huge;
}

/* Pages of a leftover that nobody has written to are still those of the memfd, and keep their
 * content. They cannot be moved. */
bool sp_exchange_copy(const struct sp_exchange *x, uint64_t lo, uint64_t hi, bool leftover)
{
    if (!leftover)
        sp_exchange_punch(x, lo, hi); /* a late put of a peer may have left data there */
    struct sp_frames huge = make_huge(x, lo, hi);
    bool exchanged =
        x->moves && !leftover ? exchange_by_move(x, lo, hi) : exchange_by_copy(x, lo, hi);
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
    const int uffd = x->uffd_kernel >= 0 ? x->uffd_kernel : x->uffd;

    sp_exchange_punch(x, lo, hi);
    if (!hold_threads(uffd, lo, hi, HOLD_MISSING))
        return false;
    bool exchanged = is_empty(lo, hi) && map_memfd(x, lo, hi);
    let_go(uffd, lo, hi, exchanged);
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

/* Private memory like that of before. NULL: no memory. */
static uint8_t *make_copy(const struct sp_exchange *x, const struct sp_mapped_part *p)
{
    const uint64_t size = p->hi - p->lo;
    const int usual = PROT_READ | PROT_WRITE;
    uint8_t *copy =
        sp_huge_find(p->lo, p->hi).bits
            ? sp_huge_private(size, p->lo)
            : map_at(0, size, usual, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (!copy || copy == MAP_FAILED)
        return NULL;
    if (for_each_data(x, p->offset, p->offset + size, read_pages, copy) &&
        (p->prot == usual || mprotect(copy, size, p->prot) == 0))
        return copy;
    munmap(copy, size);
    return NULL;
}

bool sp_exchange_back(const struct sp_exchange *x, const struct sp_mapped_part *p)
{
    const uint64_t size = p->hi - p->lo;
    uint8_t *copy = make_copy(x, p);

    if (!copy)
        return false;
    if (!move_to(copy, size, p->lo)) {
        munmap(copy, size);
        return false;
    }
    if (p->prot == (PROT_READ | PROT_WRITE))
        for_each_data(x, p->offset, p->offset + size, merge_pages, (uint8_t *)(uintptr_t)p->lo);
    sp_exchange_punch(x, p->offset, p->offset + size);
    return true;
}

bool sp_exchange_back_held(const struct sp_exchange *x, const struct sp_mapped_part *p)
{
    if (x->uffd_kernel < 0 || !hold_threads(x->uffd_kernel, p->lo, p->hi, HOLD_WRITERS))
        return false;
    uint8_t *copy = make_copy(x, p);
    bool exchanged = copy && move_to(copy, p->hi - p->lo, p->lo);
    let_go(x->uffd_kernel, p->lo, p->hi, exchanged);
    if (exchanged)
        sp_exchange_punch(x, p->offset, p->offset + (p->hi - p->lo));
    else if (copy)
        munmap(copy, p->hi - p->lo);
    return exchanged;
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
