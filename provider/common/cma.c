/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only the local iovec is split, since the kernel copies each local piece separately. A split
 * remote iovec would make the kernel look up the pages again.
 */
#include "cma.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/uio.h>
#include <unistd.h>

#include "split.h"

static int copy_pieces(pid_t pid, char *lcl, uint64_t rmt, size_t length, bool waits_for_notice,
                       bool write)
{
    struct prov_split c = prov_split_of(write ? rmt : (uintptr_t)lcl, length);
    struct iovec l[PROV_MAX_PIECES];

    c.whole = waits_for_notice && length > PROV_SPLIT_MAX;
    while (length > 0) {
        unsigned int pieces;
        size_t part = prov_split_next(l, &pieces, lcl, &c, c.end - length);
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

int prov_cma_write(pid_t pid, const void *lcl, uint64_t rmt, size_t length, bool waits_for_notice)
{
    if (prov_is_piece(rmt, length, prov_kernel_width())) { /* no split needed */
        struct iovec l = {.iov_base = (void *)(uintptr_t)lcl, .iov_len = length};
        struct iovec r = {.iov_base = (void *)(uintptr_t)rmt, .iov_len = length};
        if (__builtin_expect(process_vm_writev(pid, &l, 1, &r, 1, 0) == (ssize_t)length, 1))
            return 0;
    }
    return copy_pieces(pid, (char *)(uintptr_t)lcl, rmt, length, waits_for_notice, true);
}

int prov_cma_read(pid_t pid, void *lcl, uint64_t rmt, size_t length, bool waits_for_notice)
{
    return copy_pieces(pid, lcl, rmt, length, waits_for_notice, false);
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
