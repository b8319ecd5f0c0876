/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_check.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#    define MADV_POPULATE_READ  22
#    define MADV_POPULATE_WRITE 23
#endif

static uintptr_t page_mask(void)
{
    return ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
}

/* True if the kernel has MADV_POPULATE_WRITE. Older kernels return EINVAL. */
static bool has_populate(void)
{
    static int known = -1;
    int k = __atomic_load_n(&known, __ATOMIC_RELAXED);

    if (k < 0) {
        char here = 0;
        void *page = (void *)((uintptr_t)&here & page_mask());
        k = madvise(page, 1, MADV_POPULATE_WRITE) == 0;
        __atomic_store_n(&known, k, __ATOMIC_RELAXED);
    }
    return k;
}

/* Also true if the kernel forbids the call, as in some containers. */
static bool is_readable(uintptr_t at)
{
    char byte;
    struct iovec to = {&byte, 1}, from = {(void *)at, 1};

    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1 || errno != EFAULT;
}

static bool page_is_accessible(uintptr_t at, bool write)
{
    void *page = (void *)(at & page_mask());

    if (!has_populate())
        return is_readable(at);
    return madvise(page, 1, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0 ||
           errno == EAGAIN || errno == ENOMEM || errno == EINTR;
}

/* MS_ASYNC only checks that the pages are mapped. */
bool prov_memory_is_mapped(const void *addr, size_t size, bool write)
{
    uintptr_t first = (uintptr_t)addr, end = first + size;
    uintptr_t start = first & page_mask();

    if (size == 0)
        return true;
    if (end < first || msync((void *)start, end - start, MS_ASYNC) != 0)
        return false;
    return page_is_accessible(first, write) &&
           (start == ((end - 1) & page_mask()) || page_is_accessible(end - 1, write));
}
