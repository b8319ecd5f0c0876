/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both checks are system calls that touch the memory before they fail or end without effect:
 *
 *   rt_sigprocmask() with an unknown operation first reads the signal set (Linux, kernel/signal.c);
 *   futex(FUTEX_WAKE_OP), for a first word without waiters, atomically ors 0 into the second word.
 * This word has to be writable, as other threads may use it (futex_wake_op() in
 * kernel/futex/waitwake.c). The call wakes a thread that waits for the second word only if the word
 * is 2047; that thread then checks the word again, as every futex wait does.
 */
#include "probe.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* SET: size of the kernel's signal set. PAGE: smallest page of any CPU. */
enum { NO_OPERATION = -1, SET = 8, WORD = 4, PAGE = 4096 };

static int probe_read_word(uintptr_t at)
{
    return syscall(SYS_rt_sigprocmask, NO_OPERATION, at & ~(uintptr_t)(SET - 1), NULL, SET) == 0
               ? 0
               : errno;
}

static int probe_write_word(uintptr_t at)
{
    static uint32_t nobody_waits;
    long rc = syscall(SYS_futex, &nobody_waits, FUTEX_WAKE_OP_PRIVATE, 0, NULL,
                      at & ~(uintptr_t)(WORD - 1), FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 2047));

    return rc >= 0 ? 0 : errno;
}

bool prov_probe_is_supported(void)
{
    const uintptr_t nowhere = UINTPTR_MAX - PAGE + 1; /* an address of the kernel */
    uint64_t here = 0;

    return probe_read_word(nowhere) == EFAULT && probe_read_word((uintptr_t)&here) == EINVAL &&
           probe_write_word(nowhere) == EFAULT && probe_write_word((uintptr_t)&here) == 0;
}

static inline bool probe_pages(uintptr_t first, size_t size, int (*probe)(uintptr_t at))
{
    const uintptr_t last = first + size - 1;

    if (probe(first) == EFAULT)
        return false;
    for (uintptr_t at = (first | (PAGE - 1)) + 1; at - 1 < last; at += PAGE) {
        if (probe(at) == EFAULT)
            return false;
    }
    return true;
}

bool prov_probe_read(const void *addr, size_t size)
{
    return probe_pages((uintptr_t)addr, size, probe_read_word);
}

bool prov_probe_write(void *addr, size_t size)
{
    return probe_pages((uintptr_t)addr, size, probe_write_word);
}

/* MS_ASYNC only checks that the pages are mapped. */
bool prov_probe_range(const void *addr, size_t size, bool write)
{
    uintptr_t first = (uintptr_t)addr, last = first + size - 1;
    uintptr_t start = first & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);

    if (size == 0)
        return true;
    if (last < first || msync((void *)start, last - start + 1, MS_ASYNC) != 0)
        return false;
    return write ? probe_write_word(first) != EFAULT && probe_write_word(last) != EFAULT
                 : probe_read_word(first) != EFAULT && probe_read_word(last) != EFAULT;
}

/*
 * memory_check
 */

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
