/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within one copy the processor may store in any order ("rep movsb" does); the stores of two copies
 * stay in order. The kernel copies each of our (local) pieces on its own, so cutting the local side
 * is enough; cutting the remote side would make it look up the pages once more.
 */
#include "copy.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LINE = 256, WORD = 8 };

/* Where the last line and the last word of [addr, addr + length) begin, as offsets: line <= word.
 */
static inline void cut(uint64_t addr, size_t length, size_t *line, size_t *word)
{
    uint64_t end = addr + length;
    size_t aligned = (size_t)(end & -end); /* largest power of two that the end is a multiple of */
    uint64_t last_line = (end - 1) & ~(uint64_t)(LINE - 1);

    if (aligned > WORD)
        aligned = WORD;
    *word = aligned < length ? length - aligned : 0;
    *line = last_line > addr ? (size_t)(last_line - addr) : 0;
}

static inline unsigned int add(struct iovec *iov, unsigned int n, const void *base, size_t from,
                               size_t to)
{
    iov[n].iov_base = (char *)(uintptr_t)base + from;
    iov[n].iov_len = to - from;
    return n + (to > from);
}

/* What is left after a transfer that stopped halfway; says why it cannot go on. */
static int go_on(pid_t pid, void *lcl, uint64_t rmt, size_t length, bool write)
{
    while (length > 0) {
        struct iovec l = {.iov_base = lcl, .iov_len = length};
        struct iovec r = {.iov_base = (void *)(uintptr_t)rmt, .iov_len = length};
        ssize_t n = write ? process_vm_writev(pid, &l, 1, &r, 1, 0)
                          : process_vm_readv(pid, &l, 1, &r, 1, 0);
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0)
            return -EFAULT;
        if (n > 0) {
            lcl = (char *)lcl + n;
            rmt += (size_t)n;
            length -= (size_t)n;
        }
    }
    return 0;
}

int sp_cma_write(pid_t pid, const void *lcl, uint64_t rmt, size_t length)
{
    struct iovec l[3], r = {.iov_base = (void *)(uintptr_t)rmt, .iov_len = length};
    unsigned int n;

    if (length <= WORD && (rmt & (length - 1)) == 0) { /* nothing to cut from a word */
        n = add(l, 0, lcl, 0, length);
    } else {
        size_t line, word;
        cut(rmt, length, &line, &word);
        n = add(l, 0, lcl, 0, line);
        n = add(l, n, lcl, line, word);
        n = add(l, n, lcl, word, length);
    }
    ssize_t done = process_vm_writev(pid, l, n, &r, 1, 0);
    if (__builtin_expect(done == (ssize_t)length, 1))
        return 0;
    if (done < 0 && errno != EINTR && errno != EFAULT)
        return -errno;
    size_t skip = done > 0 ? (size_t)done : 0;
    return go_on(pid, (char *)(uintptr_t)lcl + skip, rmt + skip, length - skip, true);
}

int sp_cma_read(pid_t pid, void *lcl, uint64_t rmt, size_t length)
{
    return go_on(pid, lcl, rmt, length, false);
}

int sp_cma_readable(pid_t pid, uint64_t addr, size_t length)
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

/* The last, naturally aligned 1, 2, 4 or 8 bytes in one store behind all earlier ones. */
static void store_word(void *to, const void *from, size_t size)
{
    uint64_t v8;
    uint32_t v4;
    uint16_t v2;

    switch (size) {
    case 8:
        memcpy(&v8, from, 8);
        __atomic_store_n((uint64_t *)to, v8, __ATOMIC_RELEASE);
        break;
    case 4:
        memcpy(&v4, from, 4);
        __atomic_store_n((uint32_t *)to, v4, __ATOMIC_RELEASE);
        break;
    case 2:
        memcpy(&v2, from, 2);
        __atomic_store_n((uint16_t *)to, v2, __ATOMIC_RELEASE);
        break;
    case 1:
        __atomic_store_n((uint8_t *)to, *(const uint8_t *)from, __ATOMIC_RELEASE);
        break;
    default: /* shorter than its end is aligned: nobody can watch its last word */
        memmove(to, from, size);
    }
}

static inline void order_stores(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __asm__ volatile("" ::: "memory");
#else
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

void sp_copy_ordered(void *to, const void *from, size_t length)
{
    size_t line, word;

    if (length == 0)
        return;
    if ((uintptr_t)to - (uintptr_t)from < length || (uintptr_t)from - (uintptr_t)to < length) {
        memmove(to, from, length); /* pieces of an overlapping copy would spoil each other */
        return;
    }
    cut((uintptr_t)to, length, &line, &word);
    if (line > 0)
        memcpy(to, from, line);
    order_stores();
    if (word > line)
        memcpy((char *)to + line, (const char *)from + line, word - line);
    store_word((char *)to + word, (const char *)from + word, length - word);
}
