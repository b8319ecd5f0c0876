/* SPDX-License-Identifier: Apache-2.0 */
/* What is mapped where in this process: one question to the kernel for each mapping. */
#ifndef SP_VMA_H
#define SP_VMA_H

#include <stdbool.h>
#include <stdint.h>

struct sp_vma {
    uint64_t lo, hi;
    uint64_t offset, inode; /* of a file; inode 0: none */
    uint32_t dev_major, dev_minor;
    bool readable, writable, executable, shared, stack; /* stack: that of the first thread */
};

/* What to ask, to be closed soon: after a fork it would tell of the parent. -1: it cannot be. */
int sp_vma_open(void);
/* The mapping that contains `addr`, or the first one behind it; false: there is none. Allocates
 * nothing. */
bool sp_vma_find(int fd, uint64_t addr, struct sp_vma *vma);

/* Mappings of this process; -1: unknown. */
long sp_vma_count(void);

#endif
