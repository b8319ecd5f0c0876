/* SPDX-License-Identifier: Apache-2.0 */
/* The mappings of this process, looked up with one ioctl each (PROCMAP_QUERY), or in
 * /proc/self/maps. */
#ifndef SP_VMA_H
#define SP_VMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_vma {
    uint64_t lo, hi;
    uint64_t offset, inode; /* of the mapped file; inode 0: none */
    uint32_t dev_major, dev_minor;
    bool readable, writable, executable, shared;
    bool stack; /* stack of the first thread ("[stack]") */
    bool named; /* named with prctl(PR_SET_VMA) */
};

/* Returns the protection as mmap() and mprotect() take it. */
int sp_vma_prot(const struct sp_vma *vma);

/* State of a series of lookups. Keep it on the stack, as lookups must not allocate. */
struct sp_vma_maps {
    int fd;                /* /proc/self/maps; -1: not open */
    bool lacks_query;      /* the kernel has no PROCMAP_QUERY */
    size_t next_line, end; /* offsets in buf: next line, end of data */
    struct sp_vma last;    /* the mapping parsed last */
    char buf[8192];
};

/* Initialises the state without opening anything. */
void sp_vma_init(struct sp_vma_maps *maps);
/* Opens /proc/self/maps, unless open. Close it soon: after fork() it would describe the parent.
 * False: cannot be opened. */
bool sp_vma_open(struct sp_vma_maps *maps);
void sp_vma_close(struct sp_vma_maps *maps);
/*
 * Finds the mapping that contains `addr`, or the first one behind it; false: none. `addr` must not
 * be below that of an earlier call. With /proc/self/maps, the result may be as old as an earlier
 * call.
 */
bool sp_vma_find(struct sp_vma_maps *maps, uint64_t addr, struct sp_vma *vma);

/* True if the kernel has PROCMAP_QUERY. If not, a lookup takes time for each mapping at lower
 * addresses. */
bool sp_vma_is_fast(void);
/* Returns the number of mappings of this process; -1: unknown. */
long sp_vma_count(void);

#endif
