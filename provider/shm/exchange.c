/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private pages are replaced by pages of the memfd with one of three methods:
 *
 * - splice: all other threads are blocked. Copies a batch, replaces its mapping with one mmap(),
 *   which is atomic for other processes, and merges late writes to the old pages: a pipe keeps
 *   these pages (vmsplice()).
 * - uffd move: userfaultfd blocks other threads, and UFFDIO_MOVE moves the old pages aside, except
 *   pinned ones. Copies, replaces the mapping, and wakes the threads, which repeat their access.
 * - uffd wp: the same, but write-protects the pages instead of moving them (before Linux 6.8).
 *
 * If the program uses the memory while it is restored, a private mapping of the memfd replaces the
 * shared one. The content is the same, and the kernel copies each page on the first write, whoever
 * writes (do_cow_fault() in mm/memory.c of Linux). MADV_POPULATE_WRITE copies the remaining pages.
 *
 * A system call of another process pins the target's pages while it copies (process_vm_rw_core() in
 * mm/process_vm_access.c). So it may write to a page that was just replaced. A comparison of each
 * page with its content at the time of the copy finds such late writes.
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

#include "pages.h"
#include "template.h"
#include "util/assert.h"
#include "util/fd.h"

#ifndef MADV_POPULATE_WRITE
#    define MADV_POPULATE_WRITE 23
#endif
/* Linux 6.8; missing in older <linux/userfaultfd.h>. */
struct move {
    uint64_t dst, src, len, mode;
    int64_t moved;
};
#define MOVE             _IOWR(UFFDIO, 0x05, struct move)
#define MOVE_ALLOW_HOLES (1ull << 1)

enum {
    PAGE = 4096,      /* granularity of comparison, not the system's page size */
    PIPES = 2,        /* pipes of a batch */
    BATCH = 2 << 20,  /* capacity of the pipes: a huge page, and the limit for unprivileged pipes */
    MOVE_TRIES = 100, /* while the kernel reports that pages are busy */
};

/*
 * map_at() and move_to() use mmap() and mremap() of the C library, so that registration caches of
 * MPI libraries, which intercept them, notice the exchange. Not under ThreadSanitizer, which would
 * report a race with writes of other threads.
 */

/* Maps at any address if `at` is 0 and MAP_FIXED not set. Returns MAP_FAILED on failure. */
static void *map_at(uint64_t at, uint64_t size, int prot, int flags, int fd, uint64_t offset)
{
#ifdef __SANITIZE_THREAD__
    return (void *)syscall(SYS_mmap, at, size, prot, flags, fd, offset);
#else
    return mmap((void *)(uintptr_t)at, size, prot, flags, fd, (off_t)offset);
#endif
}

/* Moves a mapping to another address, and replaces what is mapped there. */
static bool move_to(void *from, uint64_t size, uint64_t to)
{
#ifdef __SANITIZE_THREAD__
    return syscall(SYS_mremap, from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == (long)to;
#else
    return mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == (void *)(uintptr_t)to;
#endif
}

void sp_exchange_punch(const struct sp_exchange *exchange, uint64_t lo, uint64_t hi)
{
    fallocate(exchange->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)lo,
              (off_t)(hi - lo));
}

/*
 * Blocking threads. A system call of this thread that uses the range fails with a `uffd` that
 * serves user faults only; with the other kind it would deadlock.
 */

enum uffd_mode {
    UFFD_BLOCK_MISSING = UFFDIO_REGISTER_MODE_MISSING, /* block accesses to missing pages */
    UFFD_BLOCK_WRITERS =
        UFFDIO_REGISTER_MODE_WP, /* block writes to existing pages; in the memfd, to all pages */
};

/* Blocks threads that access [lo, hi), until unblock_threads(). `mode`: bits of enum uffd_mode.
 * False: not possible. */
static bool block_threads(int uffd, uint64_t lo, uint64_t hi, unsigned int mode)
{
    struct uffdio_register r = {.range = {lo, hi - lo}, .mode = mode};
    struct uffdio_writeprotect w = {.range = r.range, .mode = UFFDIO_WRITEPROTECT_MODE_WP};

    if (ioctl(uffd, UFFDIO_REGISTER, &r) != 0)
        return false;
    if (!(mode & UFFD_BLOCK_WRITERS) || ioctl(uffd, UFFDIO_WRITEPROTECT, &w) == 0)
        return true;
    ioctl(uffd, UFFDIO_UNREGISTER, &r.range);
    return false;
}

/*
 * Called with the new mapping in place, or with the old one if `exchanged` is false.
 * UFFDIO_UNREGISTER alone wakes no writers, and wakes the others before it unregisters the mapping,
 * so that they may block again (userfaultfd_unregister() in fs/userfaultfd.c of Linux).
 */
static void unblock_threads(int uffd, uint64_t lo, uint64_t hi, bool exchanged)
{
    struct uffdio_range range = {lo, hi - lo};

    if (!exchanged)
        ioctl(uffd, UFFDIO_UNREGISTER, &range);
    ioctl(uffd, UFFDIO_WAKE, &range);
}

/*
 * Late writes
 */

/* Merges late writes: copies bytes that differ between `before` and `after`, except where `to` was
 * written since. */
static void merge_page(uint8_t *to, const uint8_t *before, const uint8_t *after)
{
    if (memcmp(before, after, PAGE) == 0)
        return;
    for (int i = 0; i < PAGE; i++) {
        uint8_t was = before[i];
        if (was != after[i])
            __atomic_compare_exchange_n(to + i, &was, after[i], false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED);
    }
}

static void merge_late_writes(uint8_t *to, const uint8_t *before, const uint8_t *after,
                              uint64_t size)
{
    for (uint64_t at = 0; at < size; at += PAGE)
        merge_page(to + at, before + at, after + at);
}

/*
 * Private pages to the memfd
 */

/* For tests: makes the moment longer in which writes to the old pages are late. */
static void pause_for_tests(const struct sp_exchange *exchange)
{
    struct timespec t = {exchange->pause_ms / 1000, exchange->pause_ms % 1000 * 1000000L};

    if (exchange->pause_ms)
        syscall(SYS_nanosleep, &t, NULL);
}

/* Replaces the mapping of [lo, hi) by the memfd's pages. */
static bool map_memfd(const struct sp_exchange *exchange, uint64_t lo, uint64_t hi)
{
    pause_for_tests(exchange);
    if (map_at(lo, hi - lo, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
               exchange->fd, lo) == MAP_FAILED)
        return false;
    madvise((void *)(uintptr_t)lo, hi - lo, MADV_DONTFORK);
    return true;
}

/* Writes memory to the memfd, at this offset. */
static bool write_pages(const struct sp_exchange *exchange, uint64_t from, uint64_t size,
                        uint64_t offset)
{
    while (size > 0) {
        long n = syscall(SYS_pwrite64, exchange->fd, from, size, offset);
        if (n <= 0)
            return false;
        from += (uint64_t)n;
        offset += (uint64_t)n;
        size -= (uint64_t)n;
    }
    return true;
}

/* Copies the existing pages of [from, from + size) to the memfd. */
static bool copy_to_memfd(const struct sp_exchange *exchange, uint64_t from, uint64_t size,
                          uint64_t offset)
{
    const uint64_t end = from + size;
    struct sp_page_run run;
    struct sp_pages pages;
    bool ok = sp_pages_open(&pages);

    for (uint64_t at = from; ok && at < end; at = run.hi)
        ok = sp_pages_next(&pages, at, end, &run) &&
             (!run.exist || write_pages(exchange, at, run.hi - at, offset + (at - from)));
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

/* Moves the existing pages of [lo, hi), but not the holes, which cost the kernel time as well.
 * Returns the address up to which pages were moved. */
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

/* UFFDIO_MOVE fails for pages shared with a child since fork(): a write to a page unshares it. */
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

/* Creates the template of a mapping whose first page does not exist, unless *template is set. */
static bool ensure_template(uint64_t *template, uint64_t lo)
{
    if (*template == 0)
        *template = sp_template_create(lo);
    return *template != 0;
}

/* Moves the pages of [lo, hi) aside and exchanges them; on failure moves them back. */
static bool move_pages_and_exchange(const struct sp_exchange *exchange, int uffd, uint64_t lo,
                                    uint64_t hi, uint64_t aside, uint64_t *template)
{
    const uint64_t end = aside + (hi - lo);

    if (move_pages(uffd, lo, hi, aside) == hi && ensure_template(template, lo) &&
        copy_to_memfd(exchange, aside, hi - lo, lo) && map_memfd(exchange, lo, hi))
        return true;
    /* no other thread knows these addresses, so the pages can always move back */
    uint64_t restored_part = move_pages(uffd, aside, end, lo);
    UT_ASSERT(restored_part == end);
    return false;
}

/* True if all of [lo, hi) was exchanged; if not, nothing was. */
static bool exchange_by_uffd_move(const struct sp_exchange *exchange, uint64_t lo, uint64_t hi,
                                  uint64_t *template)
{
    const int uffd = exchange->uffd_kernel >= 0 ? exchange->uffd_kernel : exchange->uffd;
    const uint64_t size = hi - lo;
    uint8_t *elsewhere = sp_huge_reserve(size, lo, PROT_READ | PROT_WRITE);
    bool exchanged = false;

    if (!elsewhere)
        return false;
    const uint64_t aside = (uintptr_t)elsewhere;
    bool blocked = block_threads(uffd, aside, aside + size, UFFD_BLOCK_MISSING);
    for (int tries = 0; blocked && !exchanged && tries < 2; tries++) {
        if (tries > 0)
            unshare_pages(lo, hi);
        if (!block_threads(uffd, lo, hi, UFFD_BLOCK_MISSING))
            break;
        exchanged = move_pages_and_exchange(exchange, uffd, lo, hi, aside, template);
        unblock_threads(uffd, lo, hi, exchanged);
    }
    munmap(elsewhere, size);
    return exchanged;
}

/* True if all of [lo, hi) was exchanged; if not, nothing was. */
static bool exchange_by_uffd_wp(const struct sp_exchange *exchange, uint64_t lo, uint64_t hi)
{
    if (!block_threads(exchange->uffd, lo, hi, UFFD_BLOCK_MISSING | UFFD_BLOCK_WRITERS))
        return false;
    bool exchanged = copy_to_memfd(exchange, lo, hi - lo, lo) && map_memfd(exchange, lo, hi);
    unblock_threads(exchange->uffd, lo, hi, exchanged);
    return exchanged;
}

/* Pipes that keep the old pages of a batch referenced. */
struct batch_pipes {
    int ends[PIPES][2];
    uint64_t each, size;     /* capacity of one pipe, and of all */
    uint8_t *before, *after; /* content of the old pages: when copied, and after the exchange */
};

/* Returns the capacity of the pipe in bytes; 0: an error. */
static uint64_t open_pipe(int ends[2])
{
    ut_fd_reserve_stdio();
    int rc = pipe2(ends, O_CLOEXEC | O_NONBLOCK);
    ut_fd_release_stdio();
    if (rc != 0)
        return 0;
    fcntl(ends[1], F_SETPIPE_SZ, BATCH / PIPES); /* may fail: then the pipe is smaller */
    int size = fcntl(ends[1], F_GETPIPE_SZ);
    return size < 0 ? 0 : size < BATCH / PIPES ? (uint64_t)size : BATCH / PIPES;
}

/* False: an error. Requires close_pipes() in any case. */
static bool open_pipes(struct batch_pipes *pipes)
{
    *pipes = (struct batch_pipes){.ends = {{-1, -1}, {-1, -1}}, .each = BATCH / PIPES};
    for (int i = 0; i < PIPES; i++) {
        uint64_t size = open_pipe(pipes->ends[i]);
        pipes->each = size < pipes->each ? size : pipes->each;
    }
    pipes->size = PIPES * pipes->each;
    if (pipes->size == 0)
        return false;
    pipes->before =
        map_at(0, 2 * pipes->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pipes->after = pipes->before + pipes->size;
    return pipes->before != MAP_FAILED;
}

static void close_pipes(struct batch_pipes *pipes)
{
    for (int i = 0; i < PIPES; i++) {
        if (pipes->ends[i][0] < 0)
            continue;
        close(pipes->ends[i][0]);
        close(pipes->ends[i][1]);
    }
    if (pipes->before && pipes->before != MAP_FAILED)
        munmap(pipes->before, 2 * pipes->size);
}

/* False if pages of an earlier batch could not be read. */
static bool are_pipes_empty(const struct batch_pipes *pipes)
{
    int left = 0;

    for (int i = 0; i < PIPES && left == 0; i++)
        if (ioctl(pipes->ends[i][0], FIONREAD, &left) != 0)
            return false;
    return left == 0;
}

/* Puts references to the pages of [lo, hi) into the pipes. */
static bool splice_pages(const struct batch_pipes *pipes, uint64_t lo, uint64_t hi)
{
    if (!are_pipes_empty(pipes))
        return false;
    for (uint64_t at = lo; at < hi;) {
        uint64_t pipe = (at - lo) / pipes->each, end = lo + (pipe + 1) * pipes->each;
        struct iovec pages = {(void *)(uintptr_t)at, (end < hi ? end : hi) - at};
        ssize_t n = vmsplice(pipes->ends[pipe][1], &pages, 1, SPLICE_F_NONBLOCK);
        if (n <= 0)
            return false;
        at += (uint64_t)n;
    }
    return true;
}

/* Reads the old pages from the pipes into pipes->after. */
static bool read_spliced(const struct batch_pipes *pipes, uint64_t size)
{
    for (uint64_t done = 0; done < size;) {
        uint64_t pipe = done / pipes->each, end = (pipe + 1) * pipes->each;
        ssize_t n =
            read(pipes->ends[pipe][0], pipes->after + done, (end < size ? end : size) - done);
        if (n <= 0)
            return false;
        done += (uint64_t)n;
    }
    return true;
}

/* Reads [lo, hi) of a file. */
static bool read_pages(int fd, uint64_t lo, uint64_t hi, uint8_t *to)
{
    madvise(to, hi - lo, MADV_POPULATE_WRITE); /* one call instead of a fault for each page */
    while (lo < hi) {
        ssize_t n = pread(fd, to, hi - lo, (off_t)lo);
        if (n <= 0)
            return false;
        lo += (uint64_t)n;
        to += n;
    }
    return true;
}

/* Merges writes to the old pages of [lo, hi) into the memfd. */
static void merge_spliced(const struct sp_exchange *exchange, const struct batch_pipes *pipes,
                          uint64_t lo, uint64_t hi)
{
    uint8_t *window = read_spliced(pipes, hi - lo)
                          ? map_at(0, hi - lo, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                                   exchange->fd, lo)
                          : MAP_FAILED;

    if (window == MAP_FAILED)
        return;
    merge_late_writes(window, pipes->before, pipes->after, hi - lo);
    munmap(window, hi - lo);
}

/* Exchanges [lo, hi), at most a batch. A write after fork() would replace a page that a child
 * shares: so this writes to each page before vmsplice() keeps it. */
static bool exchange_batch_by_splice(const struct sp_exchange *exchange,
                                     const struct batch_pipes *pipes, uint64_t lo, uint64_t hi)
{
    if (madvise((void *)(uintptr_t)lo, hi - lo, MADV_POPULATE_WRITE) != 0 ||
        !splice_pages(pipes, lo, hi) || !write_pages(exchange, lo, hi - lo, lo) ||
        !read_pages(exchange->fd, lo, hi, pipes->before) || !map_memfd(exchange, lo, hi))
        return false;
    merge_spliced(exchange, pipes, lo, hi);
    return true;
}

/* True if at least half of the pages exist. A sparse batch would allocate memory in the pipe. */
static bool is_mostly_present(uint64_t lo, uint64_t hi)
{
    return 2 * sp_pages_count(lo, hi, hi - lo) >= hi - lo;
}

/* Returns the end of the exchanged part. */
static uint64_t exchange_by_splice(const struct sp_exchange *exchange, uint64_t lo, uint64_t hi)
{
    struct batch_pipes pipes;
    uint64_t at = lo, next;
    bool ok = open_pipes(&pipes);

    for (; ok && at < hi; at = ok ? next : at) {
        next = at - at % pipes.size + pipes.size < hi ? at - at % pipes.size + pipes.size : hi;
        ok = is_mostly_present(at, next) ? exchange_batch_by_splice(exchange, &pipes, at, next)
                                         : exchange_by_uffd_wp(exchange, at, next);
    }
    close_pipes(&pipes);
    return at;
}

/* Allocates huge pages of the memfd for the huge pages of [lo, hi). */
static struct sp_huge_frames allocate_huge_frames(const struct sp_exchange *exchange, uint64_t lo,
                                                  uint64_t hi)
{
    struct sp_huge_frames huge = sp_huge_find(lo, hi);
    uint8_t *window = huge.bits ? sp_huge_reserve(hi - lo, lo, PROT_NONE) : NULL;

    if (!window || map_at((uintptr_t)window, hi - lo, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_FIXED | MAP_NORESERVE, exchange->fd, lo) == MAP_FAILED)
        huge.bits = 0;
    sp_huge_allocate(&huge, window, lo, exchange->huge);
    if (window)
        munmap(window, hi - lo);
    return huge;
}

/* Unwritten pages of a copy-on-write mapping still belong to the memfd: their content must stay. */
uint64_t sp_exchange_existing(const struct sp_exchange *exchange, uint64_t lo, uint64_t hi,
                              enum sp_exchange_method method, bool cow, uint64_t *template)
{
    uint64_t end = lo;

    if (!cow)
        sp_exchange_punch(exchange, lo, hi); /* a late put of a peer may have stored data */
    struct sp_huge_frames huge = allocate_huge_frames(exchange, lo, hi);
    if (method == SP_EXCHANGE_SPLICE)
        end = exchange_by_splice(exchange, lo, hi);
    else if (method == SP_EXCHANGE_UFFD_MOVE ? exchange_by_uffd_move(exchange, lo, hi, template)
                                             : exchange_by_uffd_wp(exchange, lo, hi))
        end = hi;
    if (end == hi)
        sp_huge_map(&huge);
    else if (!cow)
        sp_exchange_punch(exchange, end, hi);
    return end - lo;
}

/* True if no page of [lo, hi) exists. */
static bool are_pages_missing(uint64_t lo, uint64_t hi)
{
    struct sp_pages pages;
    struct sp_page_run run;
    bool missing = sp_pages_open(&pages);

    for (uint64_t at = lo; missing && at < hi; at = run.hi)
        missing = sp_pages_next(&pages, at, hi, &run) && !run.exist;
    sp_pages_close(&pages);
    return missing;
}

bool sp_exchange_missing(const struct sp_exchange *exchange, uint64_t lo, uint64_t hi,
                         uint64_t *template)
{
    const int uffd = exchange->uffd_kernel >= 0 ? exchange->uffd_kernel : exchange->uffd;

    sp_exchange_punch(exchange, lo, hi);
    if (!block_threads(uffd, lo, hi, UFFD_BLOCK_MISSING))
        return false;
    bool exchanged =
        are_pages_missing(lo, hi) && ensure_template(template, lo) && map_memfd(exchange, lo, hi);
    unblock_threads(uffd, lo, hi, exchanged);
    return exchanged;
}

/*
 * Memfd pages to private memory
 */

/* Part of the memfd to be restored. */
struct restored_part {
    int fd;
    uint64_t offset; /* file offset of the part */
    uint8_t *copy;   /* new private pages, before they replace the memfd's; NULL: none are used */
    uint8_t *before; /* content of the memfd's pages when they were copied */
    uint8_t *now;    /* where the program has the part, and its private pages after the exchange */
};

/* Calls fn for each range of [lo, hi) in the file that has pages, until fn returns false. */
static bool for_each_data(const struct restored_part *restored, uint64_t lo, uint64_t hi,
                          bool (*fn)(const struct restored_part *restored, uint64_t lo,
                                     uint64_t hi))
{
    for (uint64_t at = lo; at < hi;) {
        off_t data = lseek(restored->fd, (off_t)at, SEEK_DATA);
        if (data < 0 || (uint64_t)data >= hi)
            return data >= 0 || errno == ENXIO;
        off_t hole = lseek(restored->fd, data, SEEK_HOLE);
        at = hole < 0 || (uint64_t)hole > hi ? hi : (uint64_t)hole;
        if (!fn(restored, (uint64_t)data, at))
            return false;
    }
    return true;
}

/* Copies [lo, hi) of the file to restored->copy and restored->before. */
static bool copy_from_memfd(const struct restored_part *restored, uint64_t lo, uint64_t hi)
{
    const uint64_t at = lo - restored->offset;

    if (!read_pages(restored->fd, lo, hi, restored->before + at))
        return false;
    madvise(restored->copy + at, hi - lo, MADV_POPULATE_WRITE);
    memcpy(restored->copy + at, restored->before + at, hi - lo);
    return true;
}

/* Merges writes of other processes to [lo, hi) of the file since the copy. True in any case, for
 * for_each_data(). */
static bool merge_memfd_writes(const struct restored_part *restored, uint64_t lo, uint64_t hi)
{
    const uint64_t at = lo - restored->offset;
    uint8_t *window = map_at(0, hi - lo, PROT_READ, MAP_SHARED | MAP_NORESERVE, restored->fd, lo);

    if (window == MAP_FAILED)
        return true;
    merge_late_writes(restored->now + at, restored->before + at, window, hi - lo);
    munmap(window, hi - lo);
    return true;
}

/* Creates restored->copy and restored->before, with the program's protection. */
static bool create_private_copy(struct restored_part *restored, const struct sp_memfd_part *part)
{
    const uint64_t size = part->hi - part->lo;
    const int usual = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

    restored->copy = part->template ? sp_template_clone(part->template, size, part->lo) : NULL;
    if (!restored->copy)
        restored->copy = map_at(0, size, usual, flags, -1, 0);
    if (restored->copy == MAP_FAILED)
        return false;
    restored->before = map_at(0, size, usual, flags, -1, 0);
    if (restored->before != MAP_FAILED &&
        for_each_data(restored, part->offset, part->offset + size, copy_from_memfd) &&
        (part->prot == usual || mprotect(restored->copy, size, part->prot) == 0))
        return true;
    munmap(restored->copy, size);
    return false;
}

bool sp_exchange_restore(const struct sp_exchange *exchange, const struct sp_memfd_part *part,
                         bool in_use)
{
    const uint64_t size = part->hi - part->lo;
    struct restored_part restored = {.fd = exchange->fd,
                                     .offset = part->offset,
                                     .before = MAP_FAILED,
                                     .now = (uint8_t *)(uintptr_t)part->lo};

    if (in_use && (exchange->uffd_kernel < 0 ||
                   !block_threads(exchange->uffd_kernel, part->lo, part->hi, UFFD_BLOCK_WRITERS)))
        return false;
    bool copied = create_private_copy(&restored, part),
         exchanged = copied && move_to(restored.copy, size, part->lo);
    if (in_use)
        unblock_threads(exchange->uffd_kernel, part->lo, part->hi, exchanged);
    if (exchanged && part->prot == (PROT_READ | PROT_WRITE))
        for_each_data(&restored, part->offset, part->offset + size, merge_memfd_writes);
    if (copied && !exchanged)
        munmap(restored.copy, size);
    if (restored.before != MAP_FAILED)
        munmap(restored.before, size);
    if (exchanged)
        sp_exchange_punch(exchange, part->offset, part->offset + size);
    return exchanged;
}

/* Writes to each page, so that the kernel makes a private copy. */
static bool break_cow(const struct restored_part *restored, uint64_t lo, uint64_t hi)
{
    for (uint64_t next; lo < hi; lo = next) {
        next = hi - lo < BATCH ? hi : lo + BATCH;
        struct restored_part batch = *restored;
        batch.offset = lo;
        batch.now += lo - restored->offset;
        if (!read_pages(restored->fd, lo, next, restored->before) ||
            madvise(batch.now, next - lo, MADV_POPULATE_WRITE) != 0)
            return false;
        merge_memfd_writes(&batch, lo, next);
    }
    return true;
}

bool sp_exchange_restore_cow(const struct sp_exchange *exchange, const struct sp_memfd_part *part)
{
    const uint64_t size = part->hi - part->lo;
    struct restored_part restored = {
        .fd = exchange->fd, .offset = part->offset, .now = (uint8_t *)(uintptr_t)part->lo};

    if (map_at(part->lo, size, part->prot, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, exchange->fd,
               part->offset) == MAP_FAILED)
        return false;
    restored.before = map_at(0, BATCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (restored.before == MAP_FAILED)
        return true;
    if (for_each_data(&restored, part->offset, part->offset + size, break_cow))
        sp_exchange_punch(exchange, part->offset,
                          part->offset + size); /* on failure, for lack of memory, the pages stay */
    munmap(restored.before, BATCH);
    return true;
}
