/* SPDX-License-Identifier: Apache-2.0 */
/* The mappings of this process: one ioctl (PROCMAP_QUERY) for each, or all of /proc/self/maps. */
#ifndef SP_VMA_H
#define SP_VMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_vma {
    uint64_t lo, hi;
    uint64_t offset, inode; /* of a file; inode 0: none */
    uint32_t dev_major, dev_minor;
    bool readable, writable, executable, shared;
    bool stack; /* of the first thread */
    bool named; /* prctl(PR_SET_VMA) */
};

/* Its protection, as mmap() and mprotect() take it. */
int sp_vma_prot(const struct sp_vma *vma);

/* State of the queries. On the stack, as finding mappings must not allocate. */
struct sp_vma_maps {
    int fd;             /* -1: not open */
    bool reads;         /* the kernel has no PROCMAP_QUERY */
    size_t line, have;  /* in buf: the next line, and the end of the data */
    struct sp_vma last; /* the last mapping of the data */
    char buf[8192];
};

void sp_vma_init(struct sp_vma_maps *maps);
/* Opens the files, unless open. They should be closed soon: after a fork they would describe the
 * parent. False: they cannot be opened. */
bool sp_vma_open(struct sp_vma_maps *maps);
void sp_vma_close(struct sp_vma_maps *maps);
/*
 * The mapping with `addr`, or the first one after it; false: none. `addr` must not be below an
 * earlier one. From /proc/self/maps, the answer may be as old as an earlier call.
 */
bool sp_vma_find(struct sp_vma_maps *maps, uint64_t addr, struct sp_vma *vma);

/* Does the kernel have PROCMAP_QUERY? If not, a search takes time for each mapping below. */
bool sp_vma_is_fast(void);
/* The number of mappings of this process; -1: unknown. */
long sp_vma_count(void);

#endif
