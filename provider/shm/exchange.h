/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces pages of this process by pages of the memfd, and restores private pages, at the same
 * addresses and with the same content. Between the first and the last step the code uses only the
 * stack and system calls: the range may contain the heap or other data of the library.
 */
#ifndef SP_EXCHANGE_H
#define SP_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

struct sp_exchange {
    int fd;            /* the memfd: file offset = address */
    int uffd;          /* serves faults of user code; faults of the kernel fail */
    int uffd_kernel;   /* serves both, for privileged processes; else -1 */
    bool can_move;     /* UFFDIO_MOVE works (Linux 6.8); not for pinned pages */
    bool huge;         /* madvise(MADV_HUGEPAGE) works for memfds on this system */
    uint32_t pause_ms; /* for tests: UTOFU_TEST=exchange_ms */
};

/* Part of a mapping of the memfd in this process. */
struct sp_memfd_part {
    uint64_t lo, hi;   /* addresses */
    uint64_t offset;   /* file offset of `lo`, which differs if the program has moved the mapping */
    int prot;          /* protection set by the program */
    uint64_t template; /* see template.h; 0: none */
};

/* How to replace private memory. Only the side effects named here are visible. */
enum sp_exchange_method {
    /* needs all other threads blocked, and no pinned pages */
    SP_EXCHANGE_SPLICE,
    /* pinned pages stay; needs can_move. Blocks threads and processes that use the memory; without
     * uffd_kernel their system calls fail with EFAULT */
    SP_EXCHANGE_UFFD_MOVE,
    /* no pinned pages. Blocks threads that write to the memory: their system calls get EFAULT */
    SP_EXCHANGE_UFFD_WP,
};

/*
 * Replaces private memory. `cow`: a copy-on-write mapping of sp_exchange_restore_cow(), which
 * UFFDIO_MOVE cannot move. *template: its template; SP_EXCHANGE_UFFD_MOVE creates one if it is 0.
 * Returns the number of bytes replaced, from `lo` on; the rest is unchanged.
 */
uint64_t sp_exchange_existing(const struct sp_exchange *exchange, uint64_t lo, uint64_t hi,
                              enum sp_exchange_method method, bool cow, uint64_t *template);

/* Does the same for a range without existing pages, in some microseconds whatever its size. Also
 * creates the template. False: nothing has changed. */
bool sp_exchange_missing(const struct sp_exchange *exchange, uint64_t lo, uint64_t hi,
                         uint64_t *template);

/*
 * Replaces part of the memfd by private anonymous memory, and merges concurrent writes of other
 * processes. `in_use`: threads of the program use the memory; those that write to it are blocked,
 * which needs uffd_kernel. False: nothing has changed.
 */
bool sp_exchange_restore(const struct sp_exchange *exchange, const struct sp_memfd_part *part,
                         bool in_use);

/*
 * Does the same while threads of the program use the memory, also in system calls: no thread is
 * blocked, no call fails. The new pages are private, but /proc/self/maps still shows the memfd's
 * name.
 */
bool sp_exchange_restore_cow(const struct sp_exchange *exchange, const struct sp_memfd_part *part);

/* Frees the memfd's pages of [lo, hi), which then read as zeros. */
void sp_exchange_punch(const struct sp_exchange *exchange, uint64_t lo, uint64_t hi);

#endif
