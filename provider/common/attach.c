/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within one copy of the kernel stores may come in any order ("rep movsb"); those of two copies
 * stay in order. So a transfer is cut into pieces, one for each line: from the last word of the
 * line before up to, and without, its own last word, which so lands behind the rest of its line.
 * The kernel copies each piece of the local iovec on its own, so only the local side is cut;
 * cutting the remote side would make it look up the pages once more.
 */
#include "attach.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/uio.h>
#include <unistd.h>

#include "provider.h"

enum { LINE = PROV_LINE, WORD = 8 };

/* How a transfer is cut: by the addresses that are written to. */
struct cuts {
    uint64_t last_line, last_word, end; /* where these begin; the last word is aligned naturally */
};

static inline struct cuts cuts_of(uint64_t addr, size_t length)
{
    uint64_t end = addr + length;
    uint64_t aligned = end & -end; /* largest power of two that the end is a multiple of */

    if (aligned > WORD)
        aligned = WORD;
    return (struct cuts){.last_line = (end - 1) & ~(uint64_t)(LINE - 1),
                         .last_word = aligned < length ? end - aligned : addr,
                         .end = end};
}

/* Where the piece that begins at "at" ends. */
static inline uint64_t cut(const struct cuts *c, uint64_t at)
{
    if (at >= c->last_line)
        return at < c->last_word ? c->last_word : c->end;
    /* the piece that holds nothing but the word before the last line ends with that */
    uint64_t next = ((at + WORD) | (LINE - 1)) + 1 - WORD;
    return next < c->last_line ? next : c->last_line;
}

enum { MAX_PIECES = 1024 }; /* as many as the kernel takes at once */

/* Fills in pieces of the local side for as much as fits, and says how much that is. */
static size_t fill(struct iovec *iov, unsigned int *num, char *lcl, const struct cuts *c,
                   uint64_t at)
{
    const uint64_t from = at;
    unsigned int n = 0;

    while (at < c->end && n < MAX_PIECES) {
        uint64_t to = cut(c, at);
        iov[n++] = (struct iovec){.iov_base = lcl + (at - from), .iov_len = to - at};
        at = to;
    }
    *num = n;
    return at - from;
}

static int move(pid_t pid, char *lcl, uint64_t rmt, size_t length, bool write)
{
    struct cuts c = cuts_of(write ? rmt : (uintptr_t)lcl, length);
    struct iovec l[MAX_PIECES];

    while (length > 0) {
        unsigned int pieces;
        size_t part = fill(l, &pieces, lcl, &c, c.end - length);
        struct iovec r = {.iov_base = (void *)(uintptr_t)rmt, .iov_len = part};
        ssize_t n = write ? process_vm_writev(pid, l, pieces, &r, 1, 0)
                          : process_vm_readv(pid, l, pieces, &r, 1, 0);
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0)
            return -EFAULT;
        if (n > 0) {
            lcl += n;
            rmt += (size_t)n;
            length -= (size_t)n;
        }
    }
    return 0;
}

/* A naturally aligned word needs no cutting. */
static inline bool is_word(uint64_t addr, size_t length)
{
    return length <= WORD && (addr & (length - 1)) == 0;
}

int prov_cma_write(pid_t pid, const void *lcl, uint64_t rmt, size_t length)
{
    if (is_word(rmt, length)) {
        struct iovec l = {.iov_base = (void *)(uintptr_t)lcl, .iov_len = length};
        struct iovec r = {.iov_base = (void *)(uintptr_t)rmt, .iov_len = length};
        if (__builtin_expect(process_vm_writev(pid, &l, 1, &r, 1, 0) == (ssize_t)length, 1))
            return 0;
    }
    return move(pid, (char *)(uintptr_t)lcl, rmt, length, true);
}

int prov_cma_read(pid_t pid, void *lcl, uint64_t rmt, size_t length)
{
    return move(pid, lcl, rmt, length, false);
}

int prov_cma_readable(pid_t pid, uint64_t addr, size_t length)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t end = addr + length;

    for (uint64_t at = addr; at < end; at = (at & ~(page - 1)) + page) {
        char byte;
        struct iovec l = {.iov_base = &byte, .iov_len = 1};
        struct iovec r = {.iov_base = (void *)(uintptr_t)at, .iov_len = 1};
        if (process_vm_readv(pid, &l, 1, &r, 1, 0) != 1)
            return -errno;
    }
    return 0;
}
