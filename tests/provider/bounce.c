/* SPDX-License-Identifier: Apache-2.0 */
/* Copies from and to memory that may not be mapped, and the pieces of the kernel's copy. */
#include <stdbool.h>
#include <stdlib.h>
#include <sys/uio.h>

static ssize_t watched_preadv(int fd, const struct iovec *iov, int num, off_t offset);
static int fails; /* the call of prov_bounce_open() that fails, from 1 on; 0: none */
static int make_memfd(const char *name, unsigned int flags);
static int resize(int fd, off_t size);
static void *map_memory(void *at, size_t size, int prot, int flags, int fd, off_t offset);
#include <sys/mman.h>
#include "util/fd.h"
#define preadv       watched_preadv
#define memfd_create make_memfd
#define ut_fd_resize resize
#define mmap         map_memory
#include "../../provider/common/bounce.c"
#include "../../provider/common/atomic_width.c"
#undef preadv
#undef memfd_create
#undef ut_fd_resize
#undef mmap
#include "../harness/check.h"

static int make_memfd(const char *name, unsigned int flags)
{
    CHECK((flags & MFD_CLOEXEC) && *name);
    errno = EMFILE;
    return fails == 1 ? -1 : memfd_create(name, flags);
}

static int resize(int fd, off_t size)
{
    CHECK(size == PROV_BOUNCE_MAX);
    errno = EFBIG;
    return fails == 2 ? -1 : ut_fd_resize(fd, size);
}

static void *map_memory(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
    errno = ENOMEM;
    return fails == 3 ? MAP_FAILED : mmap(at, size, prot, flags, fd, offset);
}

/* A memfd that cannot be made, or not used, leaves nothing behind; copies say so. */
static void check_failures(void)
{
    static const int errors[] = {EMFILE, EFBIG, ENOMEM};
    struct prov_bounce b;
    char byte = 1;

    for (fails = 1; fails <= 3; fails++) {
        int next = dup(0);
        close(next);
        CHECK(prov_bounce_open(&b) == -errors[fails - 1] && b.fd == -1);
        int now = dup(0);
        close(now);
        CHECK(now == next);
        CHECK(prov_bounce_write(&b, &byte, "x", 1) == -ENOSYS && byte == 1);
        CHECK(prov_bounce_read(&b, &byte, "x", 1) == -ENOSYS && byte == 1);
        prov_bounce_close(&b);
    }
    fails = 0;
    CHECK(prov_bounce_open(&b) == 0);
    CHECK(fcntl(b.fd, F_GETFL) & O_NOATIME);
    int fd = b.fd;
    close(fd); /* by the program */
    CHECK(prov_bounce_write(&b, &byte, "x", 1) == -EBADF);
    CHECK(prov_bounce_read(&b, &byte, "x", 1) == -EBADF && byte == 1);
    b.fd = dup(0);
    prov_bounce_close(&b);
    CHECK(b.fd == -1 && msync(b.here, PROV_BOUNCE_MAX, MS_ASYNC) != 0); /* unmapped */
}

static struct iovec pieces[PROV_MAX_PIECES];
static int num_pieces;

static ssize_t watched_preadv(int fd, const struct iovec *iov, int num, off_t offset)
{
    memcpy(pieces, iov, (size_t)num * sizeof(*iov));
    num_pieces = num;
    return preadv(fd, iov, num, offset);
}

/* The piece that contains a byte. */
static int piece_of(const uint8_t *at)
{
    for (int i = 0; i < num_pieces; i++) {
        const uint8_t *base = pieces[i].iov_base;
        if (at >= base && at < base + pieces[i].iov_len)
            return i;
    }
    return -1;
}

static bool is_seen_as_a_whole(int piece)
{
    size_t size = pieces[piece].iov_len;

    return __builtin_popcountll(size) == 1 && (uintptr_t)pieces[piece].iov_base % size == 0 &&
           size <= prov_atomic_widths.kernel;
}

/* The last aligned word of each line is in a later piece than the line's other bytes, unless the
 * kernel's copy of the piece is one store. */
static void check_order(const uint8_t *to, size_t size)
{
    const uint8_t *end = to + size;

    for (const uint8_t *at = to; at < end; at++) {
        uintptr_t next_line = ((uintptr_t)at | (PROV_TOFU_LINE - 1)) + 1;
        const uint8_t *last = next_line < (uintptr_t)end ? (const uint8_t *)next_line : end;
        size_t word = (uintptr_t)last & -(uintptr_t)last;
        word = word > 8 ? 8 : word;
        CHECK(piece_of(at) >= 0);
        CHECK(at + 1 == end || piece_of(at) <= piece_of(at + 1));
        if (last - to > 8 && at + word < last && !is_seen_as_a_whole(piece_of(at)))
            CHECK(piece_of(at) < piece_of(last - word));
    }
}

static void check_copy(struct prov_bounce *b, uint8_t *to, size_t size)
{
    uint8_t from[PROV_BOUNCE_MAX], back[PROV_BOUNCE_MAX];

    for (size_t i = 0; i < size; i++)
        from[i] = (uint8_t)rand();
    to[-1] = to[size] = 0x5a;
    num_pieces = 0;
    CHECK(prov_bounce_write(b, to, from, size) == 0);
    CHECK(memcmp(to, from, size) == 0 && to[-1] == 0x5a && to[size] == 0x5a);
    CHECK(num_pieces > 0 || /* this is one store */
          (size <= prov_kernel_width() && (uintptr_t)to % size == 0));
    if (num_pieces > 0)
        check_order(to, size);
    CHECK(prov_bounce_read(b, back, to, size) == 0 && memcmp(back, from, size) == 0);
}

static void check_memory_that_is_not_there(struct prov_bounce *b, size_t page)
{
    uint8_t *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t word = 1;
    uint8_t many[64] = {1};

    CHECK(two != MAP_FAILED && mprotect(two + page, page, PROT_READ) == 0);
    CHECK(prov_bounce_write(b, two + page, &word, sizeof(word)) == -EFAULT);
    CHECK(prov_bounce_read(b, &word, two + page, sizeof(word)) == 0);
    CHECK(munmap(two + page, page) == 0);
    CHECK(prov_bounce_write(b, two + page, &word, sizeof(word)) == -EFAULT);
    CHECK(prov_bounce_read(b, &word, two + page, sizeof(word)) == -EFAULT);
    CHECK(prov_bounce_write(b, two + page - 32, many, sizeof(many)) == -EFAULT); /* half of it */
    CHECK(prov_bounce_read(b, many, two + page - 32, sizeof(many)) == -EFAULT);
    CHECK(prov_bounce_write(b, two, &word, sizeof(word)) == 0); /* still works */
    CHECK(munmap(two, page) == 0);
}

int main(void)
{
    static _Alignas(PROV_TOFU_LINE) uint8_t target[PROV_BOUNCE_MAX + 3 * PROV_TOFU_LINE];
    struct prov_bounce b;

    check_failures();
    CHECK(prov_bounce_open(&b) == 0);
    prov_detect_atomic_widths();
    for (prov_atomic_widths.kernel = PROV_WORD; prov_atomic_widths.kernel <= PROV_MAX_ATOMIC_WIDTH;
         prov_atomic_widths.kernel *= 2) {
        for (size_t size = 1; size <= 600; size++)
            check_copy(&b, target + PROV_TOFU_LINE + (size_t)rand() % PROV_TOFU_LINE, size);
        for (size_t at = 0; at < PROV_TOFU_LINE; at++) {
            check_copy(&b, target + PROV_TOFU_LINE + at, 8);
            check_copy(&b, target + PROV_TOFU_LINE + at, 24);
            check_copy(&b, target + PROV_TOFU_LINE + at, PROV_BOUNCE_MAX);
        }
    }
    check_memory_that_is_not_there(&b, (size_t)sysconf(_SC_PAGESIZE));
    prov_bounce_close(&b);
    CHECK(prov_bounce_write(&b, target, "x", 1) == -ENOSYS);
    CHECK(prov_bounce_read(&b, target, "x", 1) == -ENOSYS);
    return 0;
}
