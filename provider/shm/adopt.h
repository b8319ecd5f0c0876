/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private anonymous memory of this process turned into pages of a memfd, at the same addresses and
 * with the same content, and back. Other threads may read and write it all the time: a write that
 * falls into the moment of the exchange waits for its end.
 *
 * The memfd is as large as the address space and sparse: an address is its own offset. So nothing
 * has to be allotted, and what a peer mapped of it means the same for ever.
 */
#ifndef SP_ADOPT_H
#define SP_ADOPT_H

#include <stdbool.h>
#include <stdint.h>

#include "vma.h"

enum { SP_ADOPT_UNIT = 4096 }; /* borders are multiples of it */

struct sp_adopt {
    int fd, uffd; /* -1: this process adopts nothing */
    uint64_t inode;
    uint32_t dev_major, dev_minor;
    uint64_t page_size;
    bool huge;        /* the memfd may have huge pages */
    bool keeps_locks; /* locked memory is locked again by the owner: no need to look */
    uint32_t count, refuse_every;
    uint64_t num_adopted;
    bool too_many;
};

/* Leaves fd at -1, after a line that says why, where the kernel does not let us. */
void sp_adopt_open(struct sp_adopt *adopt);
void sp_adopt_close(struct sp_adopt *adopt);

/* May the next region be adopted? */
bool sp_adopt_wants(struct sp_adopt *adopt);
/*
 * Adopts what can be of [lo, hi), or gives back what is adopted of it. Returns how much is adopted
 * then. `maps` was initialised; one serves for any number of ranges in ascending order.
 */
uint64_t sp_adopt_range(struct sp_adopt *adopt, struct sp_vma_maps *maps, uint64_t lo, uint64_t hi);
uint64_t sp_adopt_give_back(struct sp_adopt *adopt, struct sp_vma_maps *maps, uint64_t lo,
                            uint64_t hi);
/* The longest part of [*lo, *hi) that is adopted; *lo == *hi: none. */
void sp_adopt_find_run(const struct sp_adopt *adopt, uint64_t *lo, uint64_t *hi);

/* What a peer sent is a descriptor of that kind: it never shrinks. */
bool sp_adopt_check_fd(int fd);

#endif
