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
    bool readable, writable, executable, shared, stack; /* stack: that of the first thread */
};

/* What is asked or read. Lives on a stack: what finds mappings may not allocate. */
struct sp_vma_maps {
    int fd;             /* -1: not open */
    bool reads;         /* this kernel has no PROCMAP_QUERY */
    size_t line, have;  /* in buf: the next line, and the end of what was read */
    struct sp_vma last; /* of what was read */
    char buf[8192];
};

/* Opens nothing yet. */
void sp_vma_init(struct sp_vma_maps *maps);
/* Unless it is open. To be closed soon: after a fork it would tell of the parent. False: it cannot
 * be opened. */
bool sp_vma_open(struct sp_vma_maps *maps);
void sp_vma_close(struct sp_vma_maps *maps);
/*
 * The mapping that contains `addr`, or the first one behind it; false: there is none. `addr` is not
 * below one that was asked for before. Where /proc/self/maps is read, the answer may be as old as
 * an earlier call.
 */
bool sp_vma_find(struct sp_vma_maps *maps, uint64_t addr, struct sp_vma *vma);

/* Does this kernel have PROCMAP_QUERY? If not, finding takes time for each mapping below. */
bool sp_vma_is_fast(void);
/* Mappings of this process; -1: unknown. */
long sp_vma_count(void);

#endif
