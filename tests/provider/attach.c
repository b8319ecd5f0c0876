/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-memory attach: the pieces of the kernel's copy, which put the last word last for readers of
 * the target memory; memory that is not mapped; a peer whose process has ended. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>

static ssize_t watched(pid_t pid, const struct iovec *lcl, unsigned long num_lcl,
                       const struct iovec *rmt, unsigned long num_rmt, unsigned long flags);
static ssize_t watched_read(pid_t pid, const struct iovec *lcl, unsigned long num_lcl,
                            const struct iovec *rmt, unsigned long num_rmt, unsigned long flags);
#define process_vm_writev watched
#define process_vm_readv  watched_read
#include "../../provider/common/cma.c"
#include "../../provider/common/atomic_width.c"
#undef process_vm_writev
#undef process_vm_readv
#include "../harness/check.h"

enum { LONGEST = 1 << 19, MOST_PIECES = LONGEST / PROV_TOFU_LINE + 64 };
static size_t pieces[MOST_PIECES]; /* lengths, in the order of the copy */
static unsigned int num_pieces;

static void note(const struct iovec *lcl, unsigned long num)
{
    for (unsigned long i = 0; i < num; i++) {
        CHECK(num_pieces < MOST_PIECES);
        pieces[num_pieces++] = lcl[i].iov_len;
    }
}

static int interrupted, stopped_at,
    nothing; /* calls that a signal interrupts; bytes; empty calls */

/* A call that copies less; -2: it copies all. */
static ssize_t cut_short(const struct iovec *lcl, const struct iovec *rmt, bool writes)
{
    if (interrupted > 0) {
        interrupted--;
        errno = EINTR;
        return -1;
    }
    if (nothing)
        return 0;
    if (stopped_at == 0)
        return -2;
    size_t n = (size_t)stopped_at < lcl->iov_len ? (size_t)stopped_at : lcl->iov_len;
    memcpy(writes ? rmt->iov_base : lcl->iov_base, writes ? lcl->iov_base : rmt->iov_base, n);
    return (ssize_t)n;
}

static ssize_t watched(pid_t pid, const struct iovec *lcl, unsigned long num_lcl,
                       const struct iovec *rmt, unsigned long num_rmt, unsigned long flags)
{
    ssize_t n = cut_short(lcl, rmt, true);

    if (n != -2)
        return n;
    note(lcl, num_lcl);
    return process_vm_writev(pid, lcl, num_lcl, rmt, num_rmt, flags);
}

static ssize_t watched_read(pid_t pid, const struct iovec *lcl, unsigned long num_lcl,
                            const struct iovec *rmt, unsigned long num_rmt, unsigned long flags)
{
    ssize_t n = cut_short(lcl, rmt, false);

    if (n != -2)
        return n;
    note(lcl, num_lcl);
    return process_vm_readv(pid, lcl, num_lcl, rmt, num_rmt, flags);
}

/* Start of the last naturally aligned 1, 2, 4 or 8 bytes copied to a line. */
static uintptr_t last_word(uintptr_t at, uintptr_t end)
{
    uintptr_t line_end = (at | (PROV_TOFU_LINE - 1)) + 1;
    uintptr_t last = line_end < end ? line_end : end;
    size_t word = last & -last;

    return last - (word > PROV_WORD ? PROV_WORD : word);
}

/* Within a piece the kernel copies in any order, so the last word of a line is in another piece
 * than the rest of the line, unless the kernel's copy of the piece is one store. */
static void check_pieces(uintptr_t to, size_t size)
{
    uintptr_t at = to, end = to + size;

    for (unsigned int i = 0; i < num_pieces; i++) {
        uintptr_t next = at + pieces[i];
        bool whole = __builtin_popcountll(pieces[i]) == 1 && at % pieces[i] == 0 &&
                     pieces[i] <= prov_atomic_widths.kernel;
        for (uintptr_t line = at; line < next; line = (line | (PROV_TOFU_LINE - 1)) + 1)
            CHECK(whole || line >= last_word(line, end) || next <= last_word(line, end));
        at = next;
    }
    CHECK(at == end);
}

static void check_copies(uint8_t *to, size_t size)
{
    static uint8_t from[LONGEST];

    for (size_t i = 0; i < size; i++)
        from[i] = (uint8_t)rand();
    to[-1] = to[size] = 0x5a;
    num_pieces = 0;
    CHECK(prov_cma_write(getpid(), from, (uintptr_t)to, size, false) == 0);
    CHECK(memcmp(to, from, size) == 0 && to[-1] == 0x5a && to[size] == 0x5a);
    check_pieces((uintptr_t)to, size);
    memset(to, 0, size);
    num_pieces = 0;
    CHECK(prov_cma_read(getpid(), to, (uintptr_t)from, size, false) == 0);
    CHECK(memcmp(to, from, size) == 0 && to[-1] == 0x5a && to[size] == 0x5a);
    check_pieces((uintptr_t)to, size);
}

/* With a notice, the kernel copies all lines but the last one at once, if they are many. */
static void check_noticed(uint8_t *line)
{
    static uint8_t from[LONGEST];

    num_pieces = 0;
    CHECK(prov_cma_write(getpid(), from, (uintptr_t)line, PROV_SPLIT_MAX, true) == 0);
    check_pieces((uintptr_t)line, PROV_SPLIT_MAX);
    num_pieces = 0;
    CHECK(prov_cma_write(getpid(), from, (uintptr_t)line, LONGEST, true) == 0);
    CHECK(prov_cma_read(getpid(), line, (uintptr_t)from, LONGEST, true) == 0);
    CHECK(num_pieces == 6);
    for (unsigned int i = 0; i < num_pieces; i += 3)
        CHECK(pieces[i] == LONGEST - PROV_TOFU_LINE && pieces[i + 2] == PROV_WORD);
}

static void check_memory_that_is_not_there(size_t page)
{
    uint8_t *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t many[64] = {1};

    CHECK(two != MAP_FAILED);
    CHECK(prov_cma_readable(getpid(), (uintptr_t)two, 2 * page) == 0);
    CHECK(munmap(two + page, page) == 0);
    CHECK(prov_cma_readable(getpid(), (uintptr_t)two, page) == 0);
    CHECK(prov_cma_readable(getpid(), (uintptr_t)two, page + 1) == -EFAULT);
    for (size_t size = 1; size <= 8; size++) {
        CHECK(prov_cma_write(getpid(), many, (uintptr_t)(two + page), size, false) == -EFAULT);
        CHECK(prov_cma_read(getpid(), many, (uintptr_t)(two + page), size, false) == -EFAULT);
    }
    CHECK(prov_cma_write(getpid(), many, (uintptr_t)(two + page - 32), sizeof(many), false) ==
          -EFAULT);
    CHECK(munmap(two, page) == 0);
}

/* The kernel stops early, or a signal comes: the rest follows. */
static void check_copies_in_parts(void)
{
    static uint8_t from[3000], to[3000 + 16];

    for (int reads = 0; reads < 2; reads++) {
        for (stopped_at = 1; stopped_at < 300; stopped_at += 49) {
            for (size_t i = 0; i < sizeof(from); i++)
                from[i] = (uint8_t)(i * 7 + (size_t)stopped_at);
            memset(to, 0, sizeof(to));
            interrupted = 2;
            int rc = reads ? prov_cma_read(getpid(), to + 8, (uintptr_t)from, sizeof(from), false)
                           : prov_cma_write(getpid(), from, (uintptr_t)to + 8, sizeof(from), false);
            CHECK(rc == 0 && interrupted == 0 && memcmp(to + 8, from, sizeof(from)) == 0);
            CHECK(to[7] == 0 && to[8 + sizeof(from)] == 0);
        }
        stopped_at = 0;
        interrupted = 1;
        uint64_t word = 0, other = 5; /* one store, interrupted */
        CHECK((reads ? prov_cma_read(getpid(), &word, (uintptr_t)&other, 8, false)
                     : prov_cma_write(getpid(), &other, (uintptr_t)&word, 8, false)) == 0);
        CHECK(word == 5);
        nothing = 1; /* copies nothing: an error, and no loop */
        CHECK((reads ? prov_cma_read(getpid(), to, (uintptr_t)from, 100, false)
                     : prov_cma_write(getpid(), from, (uintptr_t)to, 100, false)) == -EFAULT);
        nothing = 0;
    }
}

static void check_process_that_is_gone(void)
{
    uint64_t word = 1;
    pid_t child = fork();

    if (child == 0)
        _exit(0);
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK(prov_cma_write(child, &word, (uintptr_t)&word, sizeof(word), false) == -ESRCH);
    CHECK(prov_cma_read(child, &word, (uintptr_t)&word, sizeof(word), false) == -ESRCH);
}

int main(void)
{
    static _Alignas(PROV_TOFU_LINE) uint8_t target[LONGEST + 3 * PROV_TOFU_LINE];
    char byte;
    struct iovec here = {&byte, 1};

    if (process_vm_readv(getpid(), &here, 1, &here, 1, 0) != 1) {
        printf("skipped: a process may not read its own memory by process_vm_readv\n");
        return 77;
    }
    prov_detect_atomic_widths();
    for (prov_atomic_widths.kernel = PROV_WORD; prov_atomic_widths.kernel <= PROV_MAX_ATOMIC_WIDTH;
         prov_atomic_widths.kernel *= 2) {
        for (size_t size = 1; size <= 64; size++)
            for (size_t at = 1; at <= PROV_TOFU_LINE; at++)
                check_copies(target + at, size);
        for (size_t size = 65; size <= 1024; size++)
            check_copies(target + PROV_TOFU_LINE + (size_t)rand() % PROV_TOFU_LINE, size);
        for (size_t size = 2048; size <= LONGEST; size *= 2) /* more pieces than one call takes */
            check_copies(target + PROV_TOFU_LINE + (size_t)rand() % PROV_TOFU_LINE,
                         size - (size_t)rand() % 64);
        check_copies(target + PROV_TOFU_LINE + PROV_MAX_ATOMIC_WIDTH, PROV_MAX_ATOMIC_WIDTH);
        CHECK(num_pieces == (prov_atomic_widths.kernel == 8
                                 ? 2
                                 : PROV_MAX_ATOMIC_WIDTH / prov_atomic_widths.kernel));
    }
    check_noticed(target + PROV_TOFU_LINE);
    check_copies_in_parts();
    check_memory_that_is_not_there((size_t)sysconf(_SC_PAGESIZE));
    check_process_that_is_gone();
    return 0;
}
