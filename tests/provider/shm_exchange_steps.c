/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of an exchange of pages, in their order: what is asked of the kernel, for each method,
 * and after each error. userfaultfd is played, and so is another process that writes meanwhile: its
 * late writes are there in the end. One thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "shm/exchange.h"
#include "shm/pages.h"
#include "shm/template.h"
#include "util/fd.h"
#include "../harness/check.h"
#include "steps.h"

enum { PAGE_SIZE = 4096, PAGES = 32, BYTES = PAGES * PAGE_SIZE, ALIGN = 64 * PAGE_SIZE };
enum { FD_USER = 7, FD_KERNEL = 0 };

/* The memory and what it holds; where pages go while they are moved; the memfd. */
static uint8_t *memory, *beside, wanted[BYTES];
static uint64_t file_base; /* offset of the memory's first page */
static struct sp_exchange x;

/*
 * What was asked
 */

/* " p1+3": three pages from page 1 of the memory on; "a": where they are moved, "f": of the memfd.
 */
static void step_range(const char *what, char kind, uint64_t from, uint64_t size)
{
    char rest[40] = "";

    if (kind == 'p' && beside && from >= (uintptr_t)beside && from < (uintptr_t)beside + BYTES)
        kind = 'a';
    from -= kind == 'p' ? (uintptr_t)memory : kind == 'a' ? (uintptr_t)beside : file_base;
    if (from % PAGE_SIZE || size % PAGE_SIZE)
        snprintf(rest, sizeof(rest), ".%d+%d", (int)(from % PAGE_SIZE), (int)(size % PAGE_SIZE));
    step(" %s %c%d+%d%s", what, kind, (int)(from / PAGE_SIZE), (int)(size / PAGE_SIZE), rest);
}

/* A call that fails: the nth of this kind. */
static struct failure {
    const char *what;
    int nth, error;
} failing;

static bool fails(const char *what)
{
    if (!failing.what || strcmp(failing.what, what) != 0 || --failing.nth != 0)
        return false;
    step("!");
    errno = failing.error;
    return true;
}

/*
 * Played calls. At most `most` bytes are copied at once.
 */

static size_t most = SIZE_MAX;
static int open_fds, open_pages;
static struct {
    void *at;
    size_t size;
} mapped[16];

static void *note_mapping(void *at, size_t size)
{
    int i = 0;

    while (i < 16 && mapped[i].at)
        i++;
    CHECK(i < 16);
    mapped[i].at = at;
    mapped[i].size = size;
    return at;
}

static void forget_mapping(void *at, size_t size)
{
    int i = 0;

    while (i < 16 && (mapped[i].at != at || mapped[i].size != size))
        i++;
    CHECK(i < 16); /* as it was mapped */
    mapped[i].at = NULL;
}

static bool nothing_is_left(void)
{
    for (int i = 0; i < 16; i++)
        if (mapped[i].at)
            return false;
    return open_fds == 0 && open_pages == 0;
}

static bool is_ours(const void *at)
{
    return (const uint8_t *)at >= memory && (const uint8_t *)at < memory + BYTES;
}

/* What the other process does while the memory is mapped, or has been moved. */
static void (*meanwhile)(void);

static void *play_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
    bool is_private = flags & MAP_PRIVATE;

    if (!(flags & MAP_ANONYMOUS) && fd != x.fd) /* a probe of scripts/mutate */
        return mmap(at, size, prot, flags, fd, offset);
    if (!(flags & MAP_FIXED)) {
        CHECK(at == NULL && offset == (is_private ? 0 : offset));
        CHECK(is_private
                  ? fd == -1 && (flags & ~MAP_NORESERVE) == (MAP_PRIVATE | MAP_ANONYMOUS) &&
                        prot == (PROT_READ | PROT_WRITE)
                  : fd == x.fd && flags == (MAP_SHARED | MAP_NORESERVE) && (prot & PROT_READ));
        if (fails("new"))
            return MAP_FAILED;
        at = mmap(at, size, prot, flags, fd, offset);
        return at == MAP_FAILED ? at : note_mapping(at, size);
    }
    CHECK(fd == x.fd &&
          (flags & ~MAP_FIXED & ~MAP_NORESERVE) == (is_private ? MAP_PRIVATE : MAP_SHARED));
    CHECK(flags & MAP_NORESERVE);
    step_range(is_ours(at) ? "map" : "window", 'p', (uintptr_t)at, size);
    if (!is_ours(at))
        CHECK((uint64_t)offset - file_base < BYTES);
    else
        CHECK((uint64_t)offset - file_base == (uint64_t)((uint8_t *)at - memory));
    if (fails("map"))
        return MAP_FAILED;
    at = mmap(at, size, prot, flags, fd, offset);
    if (meanwhile)
        meanwhile();
    return at;
}

static void *play_mremap(void *from, size_t size, size_t new_size, int flags, uint64_t to)
{
    CHECK(size == new_size && flags == (MREMAP_MAYMOVE | MREMAP_FIXED));
    step_range("replace", 'p', to, size);
    if (fails("replace"))
        return MAP_FAILED;
    forget_mapping(from, size);
    void *at = mremap(from, size, size, flags, (void *)(uintptr_t)to);
    if (meanwhile)
        meanwhile();
    return at;
}

static int play_munmap(void *at, size_t size)
{
    forget_mapping(at, size);
    return munmap(at, size);
}

static int play_madvise(void *at, size_t size, int advice)
{
    if (is_ours(at)) {
        step_range(advice == MADV_DONTFORK ? "nofork"
                   : advice == 23          ? "touch"
                                           : "?",
                   'p', (uintptr_t)at, size);
        if (advice == 23 && fails("touch"))
            return -1;
        int rc = madvise(at, size, advice);
        if (meanwhile && advice == 23)
            meanwhile();
        return rc;
    }
    return madvise(at, size, advice);
}

static long play_syscall(long number, ...)
{
    va_list ap;
    long rc = -1;

    va_start(ap, number);
    if (number == SYS_pwrite64) {
        int fd = va_arg(ap, int);
        uint64_t from = va_arg(ap, uint64_t), size = va_arg(ap, uint64_t),
                 to = va_arg(ap, uint64_t);
        step_range("write", 'p', from, size);
        step_range("to", 'f', to, size);
        if (fails("write"))
            rc = failing.error ? -1 : 0;
        else
            rc = pwrite(fd, (void *)(uintptr_t)from, size < most ? size : most, (off_t)to);
    } else if (number == SYS_nanosleep) {
        const struct timespec *t = va_arg(ap, const struct timespec *);
        step(" sleep %d.%09d", (int)t->tv_sec, (int)t->tv_nsec);
        rc = 0;
    } else if (number == SYS_mmap) { /* with ThreadSanitizer */
        uint64_t at = va_arg(ap, uint64_t), size = va_arg(ap, uint64_t);
        int prot = va_arg(ap, int), flags = va_arg(ap, int), fd = va_arg(ap, int);
        rc = (long)play_mmap((void *)(uintptr_t)at, size, prot, flags, fd,
                             (off_t)va_arg(ap, uint64_t));
    } else {
        CHECK(number == SYS_mremap);
        void *from = va_arg(ap, void *);
        uint64_t size = va_arg(ap, uint64_t), new_size = va_arg(ap, uint64_t);
        int flags = va_arg(ap, int);
        rc = (long)play_mremap(from, size, new_size, flags, va_arg(ap, uint64_t));
    }
    va_end(ap);
    return rc;
}

static int play_fallocate(int fd, int mode, off_t lo, off_t size)
{
    step_range("punch", 'f', (uint64_t)lo, (uint64_t)size);
    return fallocate(fd, mode, lo, size);
}

static off_t play_lseek(int fd, off_t at, int whence)
{
    step_range(whence == SEEK_DATA ? "data" : "hole", 'f', (uint64_t)at, 0);
    return fails(whence == SEEK_DATA ? "data" : "hole") ? -1 : lseek(fd, at, whence);
}

static ssize_t play_pread(int fd, void *to, size_t size, off_t at)
{
    step_range("read", 'f', (uint64_t)at, size);
    if (fails("read"))
        return failing.error ? -1 : 0;
    return pread(fd, to, size < most ? size : most, at);
}

/* Pipes: what was read from them may differ, as a late write to the old pages would. */
static int pipe_sizes[2] = {1 << 20, 1 << 20}, num_pipes, pipe_ends[4];
static uint64_t num_spliced;
static struct {
    uint64_t at; /* among all bytes that were read from the pipes */
    uint8_t value;
} late[3];

static int play_pipe2(int ends[2], int flags)
{
    CHECK(flags == (O_CLOEXEC | O_NONBLOCK) && num_pipes < 2);
    step(" pipe");
    if (fails("pipe"))
        return -1;
    CHECK(pipe2(ends, flags) == 0 && ends[0] > 2 && ends[1] > 2);
    pipe_ends[2 * num_pipes] = ends[0];
    pipe_ends[2 * num_pipes++ + 1] = ends[1];
    open_fds += 2;
    return 0;
}

static int play_fcntl(int fd, int what, ...)
{
    va_list ap;

    CHECK(fd == pipe_ends[2 * num_pipes - 1]);
    if (what == F_GETPIPE_SZ)
        return pipe_sizes[num_pipes - 1];
    CHECK(what == F_SETPIPE_SZ);
    va_start(ap, what);
    step(" of %d", va_arg(ap, int));
    va_end(ap);
    return fcntl(fd, what, 1 << 20);
}

static int play_close(int fd)
{
    CHECK(fd > 2);
    for (int i = 0; i < 4; i++)
        open_fds -= fd == pipe_ends[i];
    return close(fd);
}

static ssize_t play_vmsplice(int fd, const struct iovec *pages, size_t n, unsigned int flags)
{
    struct iovec some = *pages;

    CHECK(n == 1 && flags == SPLICE_F_NONBLOCK && (fd == pipe_ends[1] || fd == pipe_ends[3]));
    step_range(fd == pipe_ends[1] ? "keep" : "keep2", 'p', (uintptr_t)some.iov_base, some.iov_len);
    if (fails("keep"))
        return failing.error ? -1 : 0;
    some.iov_len = some.iov_len < most ? some.iov_len : most / PAGE_SIZE * PAGE_SIZE;
    return vmsplice(fd, &some, 1, flags);
}

static ssize_t play_read(int fd, void *to, size_t size)
{
    CHECK(fd == pipe_ends[0] || fd == pipe_ends[2]);
    if (fails("late"))
        return failing.error ? -1 : 0;
    ssize_t n = read(fd, to, size < most ? size : most);
    for (size_t i = 0; n > 0 && i < sizeof(late) / sizeof(late[0]); i++)
        if (late[i].value && late[i].at - num_spliced < (uint64_t)n)
            ((uint8_t *)to)[late[i].at - num_spliced] = late[i].value;
    num_spliced += n > 0 ? (uint64_t)n : 0;
    return n;
}

/* Pages that UFFDIO_MOVE moves before it says that they are busy, for each call; -1: all. */
static int moves[4] = {-1, -1, -1, -1}, move_error = EAGAIN, num_moves, moves_told;

static int play_move(uint64_t to, uint64_t from, uint64_t size, int64_t *moved)
{
    int number = num_moves++, pages = number < 4 ? moves[number] : moves[3];
    uint64_t n = pages < 0 ? size : (uint64_t)pages * PAGE_SIZE;
    struct sp_pages there;

    CHECK(sp_pages_open(&there));
    for (uint64_t at = 0; at < n; at += PAGE_SIZE) {
        CHECK(!sp_pages_exists(&there, to + at));
        if (sp_pages_exists(&there, from + at)) {
            memcpy((void *)(uintptr_t)(to + at), (void *)(uintptr_t)(from + at), PAGE_SIZE);
            madvise((void *)(uintptr_t)(from + at), PAGE_SIZE, MADV_DONTNEED);
        }
    }
    sp_pages_close(&there);
    *moved = pages < 0 ? (int64_t)size : n > 0 ? (int64_t)n : -move_error;
    errno = move_error;
    return pages < 0 ? 0 : -1;
}

static int play_ioctl(int fd, unsigned long what, void *arg)
{
    if (what == FIONREAD)
        return fails("left") ? -1 : ioctl(fd, what, arg);
    CHECK(fd == FD_USER || fd == FD_KERNEL);
    if (num_moves < moves_told)
        step(fd == FD_USER ? " u" : " k");
    if (what == UFFDIO_REGISTER) {
        const struct uffdio_register *r = arg;
        CHECK(r->mode == UFFDIO_REGISTER_MODE_MISSING || r->mode == UFFDIO_REGISTER_MODE_WP ||
              r->mode == (UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP));
        step_range(r->mode == UFFDIO_REGISTER_MODE_MISSING ? "block"
                   : r->mode == UFFDIO_REGISTER_MODE_WP    ? "block writers"
                                                           : "block all",
                   'p', r->range.start, r->range.len);
        return fails("block") ? -1 : 0;
    }
    if (what == UFFDIO_WRITEPROTECT) {
        const struct uffdio_writeprotect *w = arg;
        CHECK(w->mode == UFFDIO_WRITEPROTECT_MODE_WP);
        step_range("protect", 'p', w->range.start, w->range.len);
        return fails("protect") ? -1 : 0;
    }
    if (what == UFFDIO_UNREGISTER || what == UFFDIO_WAKE) {
        const struct uffdio_range *r = arg;
        step_range(what == UFFDIO_WAKE ? "wake" : "leave", 'p', r->start, r->len);
        return 0;
    }
    struct {
        uint64_t dst, src, len, mode;
        int64_t moved;
    } *m = arg;
    CHECK(what == _IOWR(UFFDIO, 0x05, *m) && m->mode == 2 /* UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES */);
    if (num_moves < moves_told) {
        step_range("move", 'p', m->src, m->len);
        step_range("to", 'p', m->dst, m->len);
    }
    return play_move(m->dst, m->src, m->len, &m->moved);
}

static bool play_pages_open(struct sp_pages *pages)
{
    open_pages++;
    return sp_pages_open(pages) && !fails("page table");
}

static void play_pages_close(struct sp_pages *pages)
{
    open_pages--;
    sp_pages_close(pages);
}

static bool play_pages_next(struct sp_pages *pages, uint64_t at, uint64_t hi,
                            struct sp_page_run *run)
{
    CHECK(at < hi && hi % PAGE_SIZE == 0); /* what sp_pages_next() needs */
    return !fails("pages") && sp_pages_next(pages, at, hi, run);
}

static uint64_t template_page;

static uint64_t play_template_create(uint64_t lo)
{
    step_range("template", 'p', lo, 0);
    return fails("template") ? 0 : template_page;
}

static bool clones;

static uint8_t *play_template_clone(uint64_t template, uint64_t size, uint64_t at)
{
    CHECK(template == template_page);
    step_range("clone", 'p', at, size);
    void *clone = clones
                      ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                      : NULL;
    return clone ? note_mapping(clone, size) : NULL;
}

static uint64_t huge_bits;

static struct sp_huge_frames play_huge_find(uint64_t lo, uint64_t hi)
{
    CHECK(is_ours((void *)(uintptr_t)lo) && hi > lo);
    return (struct sp_huge_frames){.first = lo, .bits = huge_bits};
}

static uint8_t *play_huge_reserve(uint64_t size, uint64_t at, int prot)
{
    CHECK(prot == (PROT_READ | PROT_WRITE) || prot == PROT_NONE);
    step(prot == PROT_NONE ? " window" : " aside");
    if (fails("aside"))
        return NULL;
    beside = sp_huge_reserve(size, at, prot);
    return note_mapping(beside, size);
}

static void play_huge_allocate(struct sp_huge_frames *frames, uint8_t *window, uint64_t lo,
                               bool advised)
{
    CHECK(advised == x.huge && is_ours((void *)(uintptr_t)lo));
    if (!frames->bits)
        return;
    CHECK(window == beside && window);
    step(" huge");
    window[0] = 0x33; /* the window shows the memfd's page of lo */
    CHECK(pread(x.fd, &(uint8_t){0}, 1, (off_t)lo) == 1);
    frames->bits = 4;
}

static void play_huge_map(const struct sp_huge_frames *frames)
{
    CHECK(frames->bits == (huge_bits ? 4 : 0) || frames->bits == 0);
    if (frames->bits)
        step(" huge too");
}

#define ioctl              play_ioctl
#define mmap               play_mmap
#define mremap             play_mremap
#define munmap             play_munmap
#define madvise            play_madvise
#define syscall            play_syscall
#define fallocate          play_fallocate
#define lseek              play_lseek
#define pread              play_pread
#define pipe2              play_pipe2
#define fcntl              play_fcntl
#define close              play_close
#define vmsplice           play_vmsplice
#define read               play_read
#define sp_pages_open      play_pages_open
#define sp_pages_next      play_pages_next
#define sp_pages_close     play_pages_close
#define sp_template_create play_template_create
#define sp_template_clone  play_template_clone
#define sp_huge_find       play_huge_find
#define sp_huge_reserve    play_huge_reserve
#define sp_huge_allocate   play_huge_allocate
#define sp_huge_map        play_huge_map
#include "../../provider/shm/exchange.c"
#undef ioctl
#undef mmap
#undef mremap
#undef munmap
#undef madvise
#undef syscall
#undef fallocate
#undef lseek
#undef pread
#undef pipe2
#undef fcntl
#undef close
#undef vmsplice
#undef read
#undef sp_pages_open
#undef sp_pages_next
#undef sp_pages_close

/*
 * Frame
 */

/* Maps the memory; of the pages `there` (a bit each) exist. `offset` of the memfd: it is shared. */
static void begin(uint64_t there, int64_t offset)
{
    x = (struct sp_exchange){.fd = memfd_create("exchange", MFD_CLOEXEC),
                             .uffd = FD_USER,
                             .uffd_kernel = -1,
                             .can_move = true,
                             .huge = true};
    uint8_t *all =
        mmap(NULL, BYTES + ALIGN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(x.fd > 2 && all != MAP_FAILED && ftruncate(x.fd, 1ll << 47) == 0);
    madvise(all, BYTES + ALIGN, MADV_NOHUGEPAGE);
    memory = (uint8_t *)(((uintptr_t)all + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
    file_base = offset >= 0 ? (uint64_t)offset : (uintptr_t)memory;
    if (offset >= 0)
        CHECK(mmap(memory, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, x.fd, offset) ==
              memory);
    memset(wanted, 0, sizeof(wanted));
    for (size_t i = 0; i < BYTES; i++)
        if (there >> (i / PAGE_SIZE) & 1)
            memory[i] = wanted[i] = (uint8_t)(1 + (i / PAGE_SIZE * 7 + i) % 251);
    template_page = (uintptr_t)all;
    steps[0] = '\0';
    failing = (struct failure){0};
    meanwhile = NULL;
    for (int i = 0; i < 4; i++)
        moves[i] = -1;
    pipe_sizes[0] = pipe_sizes[1] = 1 << 20;
    memset(late, 0, sizeof(late));
    memset(pipe_ends, 0, sizeof(pipe_ends));
    most = SIZE_MAX;
    move_error = EAGAIN;
    moves_told = 12;
    num_moves = num_pipes = 0;
    num_spliced = huge_bits = 0;
    clones = false;
}

/* What is not the same for all: served by uffd_kernel; a copy-on-write mapping, whose pages of the
 * memfd stay. */
static bool by_kernel, keeps_file;

/* The steps as they are wanted then. */
static const char *adapt(const char *were)
{
    static char adapted[sizeof(steps)];
    char *to = adapted;

    CHECK(strlen(were) < sizeof(adapted));
    for (const char *at = were; *at;) {
        bool is_uffd = strncmp(at, " u ", 3) == 0, is_punch = strncmp(at, " punch ", 7) == 0;
        if (keeps_file && is_punch) {
            at += 7;
            at += strcspn(at, " ");
        } else {
            *to++ = *at++;
            if (by_kernel && is_uffd) {
                *to++ = 'k';
                at++;
            }
        }
    }
    *to = '\0';
    return adapted;
}

/* These were the steps, nothing is left of them, and the memory has its content. */
static void end(int line, const char *were)
{
    were = adapt(were);
    if (strcmp(steps, were) != 0)
        fprintf(stderr, "line %d, steps:\n%s\nwanted:\n%s\n", line, steps, were);
    CHECK(strcmp(steps, were) == 0);
    if (memcmp(memory, wanted, BYTES) != 0 || !nothing_is_left())
        fprintf(stderr, "line %d: content, or something is left\n", line);
    CHECK(memcmp(memory, wanted, BYTES) == 0 && nothing_is_left());
    munmap((void *)(uintptr_t)template_page, BYTES + ALIGN);
    close(x.fd);
    by_kernel = keeps_file = false;
    beside = NULL;
}
#define END(...) end(__LINE__, __VA_ARGS__)

static uint64_t at_page(int page)
{
    return (uintptr_t)memory + (uint64_t)page * PAGE_SIZE;
}

static bool file_has(int page)
{
    off_t data = lseek(x.fd, (off_t)(file_base + (uint64_t)page * PAGE_SIZE), SEEK_DATA);

    return data == (off_t)(file_base + (uint64_t)page * PAGE_SIZE);
}

static void fail(const char *what, int nth, int error)
{
    failing = (struct failure){what, nth, error};
}

/* Parts of the steps that many cases have. */
#define MOVED      " u move p4+2 to a1+2 u move p10+2 to a7+2 u move p13+3 to a10+3"
#define COPIED     " write a1+2 to f4+2 write a7+2 to f10+2 write a10+3 to f13+3"
#define MOVED_BACK " u move a1+2 to p4+2 u move a7+2 to p10+2 u move a10+3 to p13+3"
#define TOUCHED    " touch p4+2 touch p10+2 touch p13+3"
#define MAPPED     " map p3+13 nofork p3+13 u wake p3+13"
#define UNBLOCKED  " u leave p3+13 u wake p3+13"
#define PROTECTED  " u block all p3+13 u protect p3+13"
#define WRITTEN    " write p4+2 to f4+2 write p10+2 to f10+2 write p13+3 to f13+3"
#define OPENED     " pipe of 1048576 pipe of 1048576"
#define BATCH_1    " touch p3+1 keep p3+1 write p3+1 to f3+1 read f3+1 map p3+1 nofork p3+1"
#define BATCH_2    " touch p4+4 keep p4+2 keep2 p6+2 write p4+4 to f4+4 read f4+4 map p4+4 nofork p4+4"
#define BATCH_3                                                                                    \
    " touch p8+4 keep p8+2 keep2 p10+2 write p8+4 to f8+4 read f8+4 map p8+4 nofork p8+4"
#define BATCH_4 " touch p12+2 keep p12+2 write p12+2 to f12+2 read f12+2 map p12+2 nofork p12+2"
#define READ                                                                                       \
    " data f5+0 hole f5+0 read f5+1 data f6+0 hole f7+0 read f7+2 data f9+0 hole f10+0 read "      \
    "f10+1 data f11+0 hole f13+0 read f13+1 data f14+0 hole f15+0 read f15+2"
#define MERGED                                                                                     \
    " data f5+0 hole f5+0 data f6+0 hole f7+0 data f9+0 hole f10+0 data f11+0 hole f13+0 data "    \
    "f14+0 hole f15+0"
#define BLOCKED_WRITERS " u block writers p5+12 u protect p5+12"

/*
 * Memory without pages
 */

static bool exchange_missing(int lo, int hi, uint64_t *template)
{
    return sp_exchange_missing(&x, at_page(lo), at_page(hi), template);
}

static void missing_pages(void)
{
    static const struct {
        const char *fails;
        int error;
        const char *steps;
    } cases[] = {
        {NULL, 0, " punch f8+20 u block p8+20 template p8+0 map p8+20 nofork p8+20 u wake p8+20"},
        {"block", EINVAL, " punch f8+20 u block p8+20!"},
        {"page table", EACCES, " punch f8+20 u block p8+20! u leave p8+20 u wake p8+20"},
        {"pages", EIO, " punch f8+20 u block p8+20! u leave p8+20 u wake p8+20"},
        {"template", ENOMEM,
         " punch f8+20 u block p8+20 template p8+0! u leave p8+20 u wake p8+20"},
        {"map", ENOMEM,
         " punch f8+20 u block p8+20 template p8+0 map p8+20! u leave p8+20 u wake p8+20"},
    };
    uint64_t template = 0;

    for (int kernel = 0; kernel < 2; kernel++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            begin(0xf00000f1, -1); /* none of 8 to 27 */
            by_kernel = kernel;
            x.uffd_kernel = kernel ? FD_KERNEL : -1;
            fail(cases[i].fails, 1, cases[i].error);
            template = 0;
            CHECK(exchange_missing(8, 28, &template) == !cases[i].fails);
            CHECK(cases[i].fails || template == template_page);
            END(cases[i].steps);
        }
    }
    begin(0, -1);
    template = 77; /* there is one */
    CHECK(exchange_missing(3, 4, &template) && template == 77);
    END(" punch f3+1 u block p3+1 map p3+1 nofork p3+1 u wake p3+1");
    begin(1u << 27, -1); /* the last page is there */
    template = 0;
    CHECK(!exchange_missing(8, 28, &template) && template == 0);
    END(" punch f8+20 u block p8+20 u leave p8+20 u wake p8+20");
}

/*
 * Memory with pages
 */

static uint64_t exchange(int lo, int hi, enum sp_exchange_method method, bool cow)
{
    uint64_t template = 0;
    uint64_t bytes = sp_exchange_existing(&x, at_page(lo), at_page(hi), method, cow, &template);

    CHECK(bytes % PAGE_SIZE == 0);
    return bytes / PAGE_SIZE;
}

/* Threads are blocked, and the pages go aside; after an error they come back. */
static void pages_are_moved(void)
{
    static const struct {
        const char *fails;
        int nth, error;
        const char *steps;
    } cases[] = {
        {NULL, 0, 0,
         " punch f3+13 aside u block a0+13 u block p3+13" MOVED " template p3+0" COPIED MAPPED},
        {"aside", 1, ENOMEM, " punch f3+13 aside! punch f3+13"},
        {"block", 1, EINVAL, " punch f3+13 aside u block a0+13! punch f3+13"},
        {"block", 2, EINVAL, " punch f3+13 aside u block a0+13 u block p3+13! punch f3+13"},
        {"page table", 1, EACCES,
         " punch f3+13 aside u block a0+13 u block p3+13!" UNBLOCKED TOUCHED " u block p3+13" MOVED
         " template p3+0" COPIED MAPPED},
        {"pages", 2, EIO,
         " punch f3+13 aside u block a0+13 u block p3+13!" UNBLOCKED TOUCHED " u block p3+13" MOVED
         " template p3+0" COPIED MAPPED},
        {"template", 1, ENOMEM,
         " punch f3+13 aside u block a0+13 u block p3+13" MOVED
         " template p3+0!" MOVED_BACK UNBLOCKED TOUCHED " u block p3+13" MOVED
         " template p3+0" COPIED MAPPED},
        {"write", 2, ENOSPC,
         " punch f3+13 aside u block a0+13 u block p3+13" MOVED
         " template p3+0 write a1+2 to f4+2 write a7+2 to f10+2!" MOVED_BACK UNBLOCKED TOUCHED
         " u block p3+13" MOVED COPIED MAPPED},
        {"write", 1, 0,
         " punch f3+13 aside u block a0+13 u block p3+13" MOVED
         " template p3+0 write a1+2 to f4+2!" MOVED_BACK UNBLOCKED TOUCHED
         " u block p3+13" MOVED COPIED MAPPED},
        {"map", 1, ENOMEM,
         " punch f3+13 aside u block a0+13 u block p3+13" MOVED " template p3+0" COPIED
         " map p3+13!" MOVED_BACK UNBLOCKED TOUCHED " u block p3+13" MOVED COPIED MAPPED},
    };

    for (int kernel = 0; kernel < 2; kernel++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            begin(0xff00ec30, -1); /* 4, 5, 10, 11, 13 to 15 */
            by_kernel = kernel;
            x.uffd_kernel = kernel ? FD_KERNEL : -1;
            fail(cases[i].fails, cases[i].nth, cases[i].error);
            bool again = cases[i].fails && strcmp(cases[i].fails, "aside") != 0 &&
                         strcmp(cases[i].fails, "block") != 0;
            CHECK(exchange(3, 16, SP_EXCHANGE_UFFD_MOVE, false) ==
                  (!cases[i].fails || again ? 13 : 0));
            CHECK(file_has(4) == (!cases[i].fails || again));
            END(cases[i].steps);
        }
    }
}

/* Busy pages are tried again: 100 times, then they are written to, and tried once more. */
static void busy_pages(void)
{
    static const int errors[] = {EAGAIN, EBUSY, EINVAL, ENOENT};

    for (int i = 0; i < 4; i++) {
        bool busy = errors[i] == EAGAIN || errors[i] == EBUSY;
        begin(0x3e, -1);
        move_error = errors[i];
        moves[0] = 2;
        moves[1] = busy ? 0 : -1;
        moves[2] = busy ? 1 : -1;
        CHECK(exchange(0, 8, SP_EXCHANGE_UFFD_MOVE, false) == 8);
        END(busy ? " punch f0+8 aside u block a0+8 u block p0+8 u move p1+5 to a1+5 u move p3+3 to "
                   "a3+3 u move p3+3 to a3+3 u move p4+2 to a4+2 template p0+0 write a1+5 to f1+5 "
                   "map p0+8 nofork p0+8 u wake p0+8"
                 : " punch f0+8 aside u block a0+8 u block p0+8 u move p1+5 to a1+5 u move a1+2 to "
                   "p1+2 u leave p0+8 u wake p0+8 touch p1+5 u block p0+8 u move p1+5 to a1+5 "
                   "template p0+0 write a1+5 to f1+5 map p0+8 nofork p0+8 u wake p0+8");
        begin(0x3e, -1); /* all have been moved, but they were busy */
        moves[0] = 2;
        moves[1] = 3;
        CHECK(exchange(0, 8, SP_EXCHANGE_UFFD_MOVE, false) == 8);
        END(" punch f0+8 aside u block a0+8 u block p0+8 u move p1+5 to a1+5 u move p3+3 to a3+3 "
            "template p0+0 write a1+5 to f1+5 map p0+8 nofork p0+8 u wake p0+8");
        begin(0x3e, -1);
        move_error = errors[i];
        memset(moves, 0, sizeof(moves));
        moves_told = 2;
        CHECK(exchange(0, 8, SP_EXCHANGE_UFFD_MOVE, false) == 0);
        CHECK(num_moves == (busy ? 200 : 2));
        END(busy ? " punch f0+8 aside u block a0+8 u block p0+8 u move p1+5 to a1+5 u move p1+5 to "
                   "a1+5 leave p0+8 wake p0+8 touch p1+5 block p0+8 leave p0+8 wake p0+8 punch f0+8"
                 : " punch f0+8 aside u block a0+8 u block p0+8 u move p1+5 to a1+5 u leave p0+8 u "
                   "wake p0+8 touch p1+5 u block p0+8 u move p1+5 to a1+5 leave p0+8 wake p0+8 "
                   "punch f0+8");
    }
}

/* Writers are blocked. */
static void pages_are_protected(void)
{
    static const struct {
        const char *fails;
        int nth, error;
        const char *steps;
    } cases[] = {
        {NULL, 0, 0, " punch f3+13" PROTECTED WRITTEN MAPPED},
        {"block", 1, EINVAL, " punch f3+13 u block all p3+13! punch f3+13"},
        {"protect", 1, EINVAL, " punch f3+13" PROTECTED "! u leave p3+13 punch f3+13"},
        {"page table", 1, EACCES, " punch f3+13" PROTECTED "!" UNBLOCKED " punch f3+13"},
        {"pages", 2, EIO, " punch f3+13" PROTECTED "!" UNBLOCKED " punch f3+13"},
        {"write", 1, 0, " punch f3+13" PROTECTED " write p4+2 to f4+2!" UNBLOCKED " punch f3+13"},
        {"map", 1, ENOMEM, " punch f3+13" PROTECTED WRITTEN " map p3+13!" UNBLOCKED " punch f3+13"},
    };

    for (int cow = 0; cow < 2; cow++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            begin(0xff00ec30, -1);
            fail(cases[i].fails, cases[i].nth, cases[i].error);
            CHECK(exchange(3, 16, SP_EXCHANGE_UFFD_WP, cow) == (cases[i].fails ? 0 : 13));
            keeps_file = cow;
            CHECK(cow || file_has(4) == !cases[i].fails);
            END(cases[i].steps);
        }
    }
    begin(0xff, -1); /* one byte is left */
    most = 3 * PAGE_SIZE - 1;
    CHECK(exchange(1, 4, SP_EXCHANGE_UFFD_WP, false) == 3);
    END(" punch f1+3 u block all p1+3 u protect p1+3 write p1+3 to f1+3 write p3+0.4095+1 to "
        "f3+0.4095+1 map p1+3 nofork p1+3 u wake p1+3");
    begin(0xff, -1); /* a few bytes at a time */
    most = 3000;
    CHECK(exchange(1, 4, SP_EXCHANGE_UFFD_WP, false) == 3);
    END(" punch f1+3 u block all p1+3 u protect p1+3 write p1+3 to f1+3 write p1+2.3000+1096 to "
        "f1+2.3000+1096 write p2+1.1904+2192 to f2+1.1904+2192 write p3+0.808+3288 to "
        "f3+0.808+3288 write p3+0.3808+288 to f3+0.3808+288 map p1+3 nofork p1+3 u wake p1+3");
}

static const struct {
    const char *fails;
    int nth, error, sizes[2];
    uint64_t there, pages;
    const char *steps;
} batches[] = {
    {NULL,
     0,
     0,
     {1 << 20, 1 << 20},
     0x3ffe,
     11,
     " punch f3+11" OPENED
     " touch p3+11 keep p3+11 write p3+11 to f3+11 read f3+11 map p3+11 nofork p3+11"},
    {NULL,
     0,
     0,
     {1 << 21, 1 << 21},
     0x3ffe,
     11,
     " punch f3+11" OPENED
     " touch p3+11 keep p3+11 write p3+11 to f3+11 read f3+11 map p3+11 nofork p3+11"},
    {NULL,
     0,
     0,
     {3 * PAGE_SIZE, 2 * PAGE_SIZE},
     0x3ffe,
     11,
     " punch f3+11" OPENED BATCH_1 BATCH_2 BATCH_3 BATCH_4},
    {NULL,
     0,
     0,
     {2 * PAGE_SIZE, 3 * PAGE_SIZE},
     0x3ffe,
     11,
     " punch f3+11" OPENED BATCH_1 BATCH_2 BATCH_3 BATCH_4},
    {NULL,
     0,
     0,
     {2 * PAGE_SIZE, 2 * PAGE_SIZE},
     0x0e18,
     11,
     " punch f3+11" OPENED BATCH_1 " u block all p4+4 u protect p4+4 write p4+1 to f4+1 map "
     "p4+4 nofork p4+4 u wake p4+4" BATCH_3
     " u block all p12+2 u protect p12+2 map p12+2 nofork p12+2 u wake p12+2"}, /* 3 4; 9 10 11
                                                                                 */
    {NULL, 0, 0, {-1, 1 << 20}, 0x3ffe, 0, " punch f3+11" OPENED " punch f3+11"},
    {NULL, 0, 0, {1 << 20, -1}, 0x3ffe, 0, " punch f3+11" OPENED " punch f3+11"},
    {"pipe",
     1,
     EMFILE,
     {1 << 20, 1 << 20},
     0x3ffe,
     0,
     " punch f3+11 pipe! pipe of 1048576 punch f3+11"},
    {"pipe",
     2,
     EMFILE,
     {1 << 20, 1 << 20},
     0x3ffe,
     0,
     " punch f3+11 pipe of 1048576 pipe! punch f3+11"},
    {"new", 1, ENOMEM, {1 << 20, 1 << 20}, 0x3ffe, 0, " punch f3+11" OPENED "! punch f3+11"},
    {"touch",
     2,
     ENOMEM,
     {2 * PAGE_SIZE, 2 * PAGE_SIZE},
     0x3ffe,
     1,
     " punch f3+11" OPENED BATCH_1 " touch p4+4! punch f4+10"},
    {"left",
     2,
     EINVAL,
     {2 * PAGE_SIZE, 2 * PAGE_SIZE},
     0x3ffe,
     0,
     " punch f3+11" OPENED " touch p3+1! punch f3+11"},
    {"keep",
     2,
     EAGAIN,
     {2 * PAGE_SIZE, 2 * PAGE_SIZE},
     0x3ffe,
     1,
     " punch f3+11" OPENED BATCH_1 " touch p4+4 keep p4+2! punch f4+10"},
    {"keep",
     1,
     0,
     {2 * PAGE_SIZE, 2 * PAGE_SIZE},
     0x3ffe,
     0,
     " punch f3+11" OPENED " touch p3+1 keep p3+1! punch f3+11"},
    {"write",
     2,
     ENOSPC,
     {2 * PAGE_SIZE, 2 * PAGE_SIZE},
     0x3ffe,
     1,
     " punch f3+11" OPENED BATCH_1
     " touch p4+4 keep p4+2 keep2 p6+2 write p4+4 to f4+4! punch f4+10"},
    {"read",
     1,
     0,
     {2 * PAGE_SIZE, 2 * PAGE_SIZE},
     0x3ffe,
     0,
     " punch f3+11" OPENED " touch p3+1 keep p3+1 write p3+1 to f3+1 read f3+1! punch f3+11"},
    {"map",
     3,
     ENOMEM,
     {2 * PAGE_SIZE, 2 * PAGE_SIZE},
     0x3ffe,
     5,
     " punch f3+11" OPENED BATCH_1 BATCH_2
     " touch p8+4 keep p8+2 keep2 p10+2 write p8+4 to f8+4 read f8+4 map p8+4! punch f8+6"},
    {"late",
     1,
     EAGAIN,
     {2 * PAGE_SIZE, 2 * PAGE_SIZE},
     0x3ffe,
     1,
     " punch f3+11" OPENED BATCH_1 "! touch p4+4 punch f4+10"}, /* a page is left there */
    {"late",
     3,
     0,
     {2 * PAGE_SIZE, 2 * PAGE_SIZE},
     0x3ffe,
     5,
     " punch f3+11" OPENED BATCH_1 BATCH_2 "! touch p8+4 punch f8+6"},
    {"new",
     2,
     ENOMEM,
     {2 * PAGE_SIZE, 2 * PAGE_SIZE},
     0x3ffe,
     11,
     " punch f3+11" OPENED BATCH_1 "!" BATCH_2 BATCH_3 BATCH_4}, /* late writes are lost */
};

/* With all threads blocked, in batches: those with less than half of their pages otherwise. */
static void pages_are_kept_in_pipes(void)
{
    for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
        begin(batches[i].there, -1);
        memcpy(pipe_sizes, batches[i].sizes, sizeof(pipe_sizes));
        fail(batches[i].fails, batches[i].nth, batches[i].error);
        uint64_t pages = exchange(3, 14, SP_EXCHANGE_SPLICE, false);
        if (pages != batches[i].pages)
            fprintf(stderr, "case %d: %d pages\n", (int)i, (int)pages);
        CHECK(pages == batches[i].pages);
        for (int page = 3; page < 14; page++)
            CHECK(!(batches[i].there >> page & 1) || file_has(page) == (page < 3 + (int)pages));
        END(batches[i].steps);
    }
}

/* Half of a batch's pages are enough. */
static void sparse_batches(void)
{
    static const struct {
        uint64_t there;
        int hi;
        const char *steps;
    } cases[] = {
        {0x30, 8,
         " punch f4+4" OPENED
         " touch p4+4 keep p4+2 keep2 p6+2 write p4+4 to f4+4 read f4+4 map p4+4 nofork p4+4"},
        {0x20, 8,
         " punch f4+4" OPENED
         " u block all p4+4 u protect p4+4 write p5+1 to f5+1 map p4+4 nofork p4+4 u wake p4+4"},
        {0x30, 7,
         " punch f4+3" OPENED
         " touch p4+3 keep p4+2 keep2 p6+1 write p4+3 to f4+3 read f4+3 map p4+3 nofork p4+3"},
        {0x20, 7,
         " punch f4+3" OPENED
         " u block all p4+3 u protect p4+3 write p5+1 to f5+1 map p4+3 nofork p4+3 u wake p4+3"},
        {0x10, 5,
         " punch f4+1" OPENED
         " touch p4+1 keep p4+1 write p4+1 to f4+1 read f4+1 map p4+1 nofork p4+1"},
        {0, 5,
         " punch f4+1" OPENED " u block all p4+1 u protect p4+1 map p4+1 nofork p4+1 u wake p4+1"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(cases[i].there, -1);
        pipe_sizes[0] = pipe_sizes[1] = 2 * PAGE_SIZE;
        CHECK(exchange(4, cases[i].hi, SP_EXCHANGE_SPLICE, false) == (uint64_t)cases[i].hi - 4);
        END(cases[i].steps);
    }
}

/* No pipe gets the number of a descriptor that the program has closed. */
static void descriptors_of_the_program(void)
{
    int kept = dup(0);

    begin(0xff, -1);
    close(0);
    CHECK(exchange(4, 6, SP_EXCHANGE_SPLICE, false) == 2);
    CHECK(fcntl(0, F_GETFD) == -1); /* still closed */
    CHECK(kept < 0 || (dup2(kept, 0) == 0 && close(kept) == 0));
    END(" punch f4+2 pipe of 1048576 pipe of 1048576 touch p4+2 keep p4+2 write p4+2 to f4+2 read "
        "f4+2 map p4+2 nofork p4+2");
}

static void write_to_file(uint64_t at, uint8_t value)
{
    CHECK(pwrite(x.fd, &value, 1, (off_t)(file_base + at)) == 1);
}

static void peer_writes_now(void)
{
    if (num_spliced == PAGE_SIZE) /* the second batch is mapped */
        write_to_file(7 * PAGE_SIZE + 2, 0xf7);
}

/* A write to an old page comes late: it is there, unless the byte was written once more since. */
static void late_writes_to_private_pages(void)
{
    for (size_t bytes = SIZE_MAX; bytes > 0; bytes = bytes == SIZE_MAX ? 2 * PAGE_SIZE - 1 : 0) {
        begin(0x3ffe, -1);
        pipe_sizes[0] = pipe_sizes[1] = 2 * PAGE_SIZE;
        most = bytes;
        late[0].at = 0; /* the first byte, the last of a batch, and one that was written since */
        late[0].value = wanted[3 * PAGE_SIZE] = 0xf1;
        late[1].at = 5 * PAGE_SIZE - 1;
        late[1].value = wanted[8 * PAGE_SIZE - 1] = 0xf2;
        late[2].at = 4 * PAGE_SIZE + 2;
        late[2].value = 0xf3;
        wanted[7 * PAGE_SIZE + 2] = 0xf7;
        meanwhile = peer_writes_now;
        CHECK(exchange(3, 14, SP_EXCHANGE_SPLICE, false) == 11);
        steps[0] = '\0';
        END("");
    }
}

/* Tests can make the time longer in which writes are late. */
static void the_pause_is_as_long_as_it_says(void)
{
    begin(0xff, -1);
    x.pause_ms = 2345;
    CHECK(exchange(1, 4, SP_EXCHANGE_UFFD_WP, false) == 3);
    END(" punch f1+3 u block all p1+3 u protect p1+3 write p1+3 to f1+3 sleep 2.345000000 map p1+3 "
        "nofork p1+3 u wake p1+3");
}

/* Huge pages of the memory become huge pages of the memfd, before the content is copied. */
static void huge_pages(void)
{
    static const struct {
        const char *fails;
        int nth;
        bool huge;
        uint64_t pages;
        const char *steps;
    } cases[] = {
        {NULL, 0, true, 3,
         " punch f1+3 window window a0+3 huge u block all p1+3 u protect p1+3 write p1+3 to f1+3 "
         "map p1+3 nofork p1+3 u wake p1+3 huge too"},
        {NULL, 0, false, 3,
         " punch f1+3 window window a0+3 huge u block all p1+3 u protect p1+3 write p1+3 to f1+3 "
         "map p1+3 nofork p1+3 u wake p1+3 huge too"},
        {"aside", 1, true, 3,
         " punch f1+3 window! u block all p1+3 u protect p1+3 write p1+3 to f1+3 map p1+3 nofork "
         "p1+3 u wake p1+3"},
        {"map", 1, true, 3,
         " punch f1+3 window window a0+3! u block all p1+3 u protect p1+3 write p1+3 to f1+3 map "
         "p1+3 nofork p1+3 u wake p1+3"},
        {"map", 2, true, 0,
         " punch f1+3 window window a0+3 huge u block all p1+3 u protect p1+3 write p1+3 to f1+3 "
         "map p1+3! u leave p1+3 u wake p1+3 punch f1+3"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(0xff, -1);
        x.huge = cases[i].huge;
        huge_bits = 5;
        fail(cases[i].fails, cases[i].nth, ENOMEM);
        CHECK(exchange(1, 4, SP_EXCHANGE_UFFD_WP, false) == cases[i].pages);
        END(cases[i].steps);
    }
}

/*
 * Shared pages become private
 */

static struct sp_memfd_part part_of_pages(int lo, int hi)
{
    return (struct sp_memfd_part){.lo = at_page(lo),
                                  .hi = at_page(hi),
                                  .offset = file_base + (uint64_t)lo * PAGE_SIZE,
                                  .prot = PROT_READ | PROT_WRITE};
}

/* Which pages of the memory exist, of these? The memfd's own do in any case. */
static uint64_t existing_pages(int lo, int hi)
{
    return sp_pages_count(at_page(lo), at_page(hi), BYTES) / PAGE_SIZE;
}

static void pages_are_restored(void)
{
    static const struct {
        const char *fails;
        int nth, error;
        bool in_use, has_template, clones;
        int kernel;
        const char *steps;
    } cases[] = {
        {NULL, 0, 0, false, false, false, -1, READ " replace p5+12" MERGED " punch f5+12"},
        {NULL, 0, 0, false, true, true, -1,
         " clone p5+12" READ " replace p5+12" MERGED " punch f5+12"},
        {NULL, 0, 0, false, true, false, -1,
         " clone p5+12" READ " replace p5+12" MERGED " punch f5+12"},
        {NULL, 0, 0, true, false, false, FD_KERNEL,
         BLOCKED_WRITERS READ " replace p5+12 u wake p5+12" MERGED " punch f5+12"},
        {"none", 0, 0, true, false, false, -1, ""},
        {"block", 1, EINVAL, true, false, false, FD_KERNEL, " u block writers p5+12!"},
        {"protect", 1, EINVAL, true, false, false, FD_KERNEL, BLOCKED_WRITERS "! u leave p5+12"},
        {"new", 1, ENOMEM, false, false, false, -1, "!"},
        {"new", 2, ENOMEM, false, false, false, -1, "!"},
        {"new", 1, ENOMEM, false, true, true, -1, " clone p5+12!"},
        {"new", 1, ENOMEM, true, false, false, FD_KERNEL,
         BLOCKED_WRITERS "! u leave p5+12 u wake p5+12"},
        {"data", 2, EIO, false, false, false, -1, " data f5+0 hole f5+0 read f5+1 data f6+0!"},
        {"hole", 3, EIO, false, false, false, -1,
         " data f5+0 hole f5+0 read f5+1 data f6+0 hole f7+0 read f7+2 data f9+0 hole f10+0! read "
         "f10+7 replace p5+12" MERGED " punch f5+12"}, /* holes are copied as zeros */
        {"read", 2, EIO, false, false, false, -1,
         " data f5+0 hole f5+0 read f5+1 data f6+0 hole f7+0 read f7+2!"},
        {"replace", 1, ENOMEM, false, false, false, -1, READ " replace p5+12!"},
        {"replace", 1, ENOMEM, true, true, true, FD_KERNEL,
         BLOCKED_WRITERS " clone p5+12" READ " replace p5+12! u leave p5+12 u wake p5+12"},
    };

    for (int64_t offset = 0; offset <= 64 * PAGE_SIZE; offset += 64 * PAGE_SIZE) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            begin(0x3a5ae, offset); /* of 5 to 16: 5, 7, 8, 10, 12, 13, and more behind */
            by_kernel = true;
            x.uffd_kernel = cases[i].kernel;
            clones = cases[i].clones;
            struct sp_memfd_part part = part_of_pages(5, 17);
            part.template = cases[i].has_template ? template_page : 0;
            fail(cases[i].fails, cases[i].nth, cases[i].error);
            bool restored = !cases[i].fails || strcmp(cases[i].fails, "hole") == 0;
            CHECK(sp_exchange_restore(&x, &part, cases[i].in_use) == restored);
            CHECK(file_has(5) == !restored && file_has(2) && file_has(17));
            CHECK(!restored || cases[i].fails || existing_pages(5, 17) == 7);
            END(cases[i].steps);
        }
    }
}

static void peer_writes_after_the_copy(void)
{
    if (!strstr(steps, "replace")) /* sp_exchange_restore_cow() maps first */
        return;
    memory[7 * PAGE_SIZE + 1] = wanted[7 * PAGE_SIZE + 1] = 0xe1; /* this process, since */
    write_to_file(5 * PAGE_SIZE, 0xe2);
    write_to_file(7 * PAGE_SIZE + 1, 0xe3);
    write_to_file(9 * PAGE_SIZE - 1, 0xe4);
    write_to_file(9 * PAGE_SIZE, 0); /* nothing changes */
}

/* Another process writes to the memfd after the copy: it is there, unless this process has written
 * to the byte. */
static void late_writes_to_shared_pages(void)
{
    for (int mode = 0; mode < 2; mode++) {
        begin(0x3a5ae, 64 * PAGE_SIZE);
        most = mode == 0 ? SIZE_MAX : 2 * PAGE_SIZE - 1;
        struct sp_memfd_part part = part_of_pages(5, 17);
        wanted[5 * PAGE_SIZE] = 0xe2;
        wanted[9 * PAGE_SIZE - 1] = 0xe4;
        meanwhile = peer_writes_after_the_copy;
        CHECK(sp_exchange_restore(&x, &part, false));
        steps[0] = '\0';
        END("");
    }
    begin(0x3a5ae, 0); /* no window on the memfd: they are lost, and nothing else */
    struct sp_memfd_part part = part_of_pages(5, 17);
    fail("new", 3, ENOMEM);
    CHECK(sp_exchange_restore(&x, &part, false));
    END(READ " replace p5+12 data f5+0 hole f5+0! data f6+0 hole f7+0 data f9+0 hole f10+0 data "
             "f11+0 hole f13+0 data f14+0 hole f15+0 punch f5+12");
}

/* Parts that begin at the first byte of the file, or end with missing pages, with some behind them
 * and none. */
static void parts_with_holes(void)
{
    static const struct {
        uint64_t there;
        int lo, hi;
        const char *steps, *in_use;
    } cases[] = {{0x103, 0, 4,
                  " data f0+0 hole f0+0 read f0+2 data f2+0 replace p0+4 data f0+0 hole f0+0 data "
                  "f2+0 punch f0+4",
                  " map p0+4 data f0+0 hole f0+0 read f0+2 touch p0+2 data f2+0 punch f0+4"},
                 {0x38, 4, 7,
                  " data f4+0 hole f4+0 read f4+2 data f6+0 replace p4+3 data f4+0 hole f4+0 data "
                  "f6+0 punch f4+3",
                  " map p4+3 data f4+0 hole f4+0 read f4+2 touch p4+2 data f6+0 punch f4+3"},
                 {0x18, 4, 7,
                  " data f4+0 hole f4+0 read f4+1 data f5+0 replace p4+3 data f4+0 hole f4+0 data "
                  "f5+0 punch f4+3",
                  " map p4+3 data f4+0 hole f4+0 read f4+1 touch p4+1 data f5+0 punch f4+3"},
                 {0x98, 4, 7,
                  " data f4+0 hole f4+0 read f4+1 data f5+0 replace p4+3 data f4+0 hole f4+0 data "
                  "f5+0 punch f4+3",
                  " map p4+3 data f4+0 hole f4+0 read f4+1 touch p4+1 data f5+0 punch f4+3"},
                 {0, 4, 7, " data f4+0 replace p4+3 data f4+0 punch f4+3",
                  " map p4+3 data f4+0 punch f4+3"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const uint64_t others = cases[i].there & ~((1ull << cases[i].hi) - (1ull << cases[i].lo));
        for (int in_use = 0; in_use < 2; in_use++) {
            begin(cases[i].there, 0);
            struct sp_memfd_part part = part_of_pages(cases[i].lo, cases[i].hi);
            CHECK(in_use ? sp_exchange_restore_cow(&x, &part)
                         : sp_exchange_restore(&x, &part, false));
            for (int page = 0; page < PAGES; page++)
                CHECK(file_has(page) == (others >> page & 1));
            END(in_use ? cases[i].in_use : cases[i].steps);
        }
    }
}

/* Memory that the program may not write to stays so, and nothing is merged there. */
static void protected_pages(void)
{
    static const int prots[] = {PROT_READ, PROT_NONE};

    for (int i = 0; i < 2; i++) {
        begin(0x3a5ae, 0);
        struct sp_memfd_part part = part_of_pages(5, 17);
        part.prot = prots[i];
        CHECK(sp_exchange_restore(&x, &part, false));
        CHECK(mprotect((void *)(uintptr_t)part.lo, part.hi - part.lo, PROT_READ) == 0);
        END(READ " replace p5+12 punch f5+12");
    }
}

/*
 * While threads of the program use the memory
 */

static int writes_at; /* the peer writes behind so many calls */

static void peer_writes_to_a_batch(void)
{
    if (--writes_at == 0) {
        write_to_file(5 * PAGE_SIZE, 0xe2);
        write_to_file(8 * PAGE_SIZE + 7, 0xe3);
    }
}

static void pages_are_restored_in_use(void)
{
    static const struct {
        const char *fails;
        int nth, error;
        bool restored, freed;
        const char *steps;
    } cases[] = {
        {NULL, 0, 0, true, true,
         " map p5+12 data f5+0 hole f5+0 read f5+1 touch p5+1 data f6+0 hole f7+0 read f7+2 touch "
         "p7+2 data f9+0 hole f10+0 read f10+1 touch p10+1 data f11+0 hole f13+0 read f13+1 touch "
         "p13+1 data f14+0 hole f15+0 read f15+2 touch p15+2 punch f5+12"},
        {"map", 1, ENOMEM, false, false, " map p5+12!"},
        {"new", 1, ENOMEM, true, false, " map p5+12!"},
        {"read", 1, EIO, true, false, " map p5+12 data f5+0 hole f5+0 read f5+1!"},
        {"touch", 1, ENOMEM, true, false, " map p5+12 data f5+0 hole f5+0 read f5+1 touch p5+1!"},
        {"touch", 2, ENOMEM, true, false,
         " map p5+12 data f5+0 hole f5+0 read f5+1 touch p5+1 data f6+0 hole f7+0 read f7+2 touch "
         "p7+2!"},
        {"data", 2, EIO, true, false,
         " map p5+12 data f5+0 hole f5+0 read f5+1 touch p5+1 data f6+0!"},
        {"new", 2, ENOMEM, true, true,
         " map p5+12 data f5+0 hole f5+0 read f5+1 touch p5+1! data f6+0 hole f7+0 read f7+2 touch "
         "p7+2 data f9+0 hole f10+0 read f10+1 touch p10+1 data f11+0 hole f13+0 read f13+1 touch "
         "p13+1 data f14+0 hole f15+0 read f15+2 touch p15+2 punch f5+12"},
    };

    for (int64_t offset = 0; offset <= 64 * PAGE_SIZE; offset += 64 * PAGE_SIZE) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            begin(0x3a5ae, offset);
            const struct sp_memfd_part part = part_of_pages(5, 17);
            fail(cases[i].fails, cases[i].nth, cases[i].error);
            CHECK(sp_exchange_restore_cow(&x, &part) == cases[i].restored);
            CHECK(file_has(5) == !cases[i].freed && file_has(2) && file_has(17));
            memory[5 * PAGE_SIZE]++; /* private? */
            uint8_t byte = 0;
            CHECK(pread(x.fd, &byte, 1, offset + 5 * PAGE_SIZE) == 1);
            CHECK(cases[i].restored ? byte == (cases[i].freed ? 0 : wanted[5 * PAGE_SIZE])
                                    : byte == memory[5 * PAGE_SIZE]);
            memory[5 * PAGE_SIZE]--;
            END(cases[i].steps);
        }
    }
    for (int call = 2; call < 4;
         call++) { /* a write that comes late: behind the first, the second copy */
        begin(0x3a5ae, 0);
        const struct sp_memfd_part part = part_of_pages(5, 17);
        writes_at = call;
        wanted[5 * PAGE_SIZE] = call == 2 ? 0xe2 : wanted[5 * PAGE_SIZE];
        wanted[8 * PAGE_SIZE + 7] = 0xe3;
        meanwhile = peer_writes_to_a_batch;
        CHECK(sp_exchange_restore_cow(&x, &part));
        steps[0] = '\0';
        END("");
    }
}

int main(void)
{
    missing_pages();
    pages_are_moved();
    busy_pages();
    pages_are_protected();
    pages_are_kept_in_pipes();
    sparse_batches();
    descriptors_of_the_program();
    late_writes_to_private_pages();
    the_pause_is_as_long_as_it_says();
    huge_pages();
    pages_are_restored();
    late_writes_to_shared_pages();
    parts_with_holes();
    protected_pages();
    pages_are_restored_in_use();
    return 0;
}
