/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces pages of this process by pages of the memfd, and back, at the same addresses and with
 * the same content. Between the first and the last step only the stack and system calls are used:
 * the range may contain the heap or any other data of the library.
 */
#ifndef SP_EXCHANGE_H
#define SP_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

struct sp_exchange {
    int fd;            /* the memfd: an address is its own offset there */
    int uffd;          /* userfaultfd that serves faults of user code; those of the kernel fail */
    int uffd_kernel;   /* userfaultfd that serves both, for privileged processes; or -1 */
    bool can_move;     /* userfaultfd moves pages, but no pinned ones: UFFDIO_MOVE, Linux 6.8 */
    bool huge;         /* madvise(MADV_HUGEPAGE) gives the memfd huge pages on this system */
    uint32_t pause_ms; /* for tests: UTOFU_TEST=exchange_ms */
};

/* Part of a mapping of the memfd in this process. The program may have moved it: then `lo` is not
 * `offset`. */
struct sp_memfd_part {
    uint64_t lo, hi, offset;
    int prot;          /* of the program */
    uint64_t template; /* template.h; 0: none */
};

/* How private memory is replaced. Nobody else notices, except as said. */
enum sp_exchange_method {
    /* while all other threads sleep; not of pinned pages */
    SP_EXCHANGE_SPLICE,
    /* not pinned pages, which stay (`moves`). Threads and processes that use the memory wait;
     * without uffd_kernel system calls fail with EFAULT */
    SP_EXCHANGE_UFFD_MOVE,
    /* not pinned pages. Threads that write to the memory wait, and system calls fail with EFAULT */
    SP_EXCHANGE_UFFD_WP,
};

/*
 * Replaces private memory; `leftover`: that of sp_exchange_restore_cow(), which cannot be moved.
 * *twin: its twin; SP_EXCHANGE_UFFD_MOVE makes one if it is 0. Returns how many bytes of it, from
 * `lo` on; nothing has changed behind these.
 */
uint64_t sp_exchange_existing(const struct sp_exchange *x, uint64_t lo, uint64_t hi,
                              enum sp_exchange_method method, bool cow, uint64_t *template);

/* The same if no page of it exists: takes microseconds, whatever its size is. Makes a twin, too. */
bool sp_exchange_missing(const struct sp_exchange *x, uint64_t lo, uint64_t hi, uint64_t *template);

/*
 * Replaces part of the memfd by private memory like that of before: anonymous. What another process
 * writes there meanwhile is kept. `in_use`: threads of the program use the memory, and those that
 * write to it wait; this takes uffd_kernel. False: nothing has changed.
 */
bool sp_exchange_restore(const struct sp_exchange *x, const struct sp_memfd_part *part,
                         bool in_use);

/*
 * The same while threads of the program read and write the memory, by system calls, too: none of
 * them waits or fails. The new pages are private, but their mapping still shows the memfd's name.
 */
bool sp_exchange_restore_cow(const struct sp_exchange *x, const struct sp_memfd_part *part);

/* Frees the memfd's pages. */
void sp_exchange_punch(const struct sp_exchange *x, uint64_t lo, uint64_t hi);

#endif
