/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns private anonymous memory of this process into pages of a memfd, at the same addresses and
 * with the same content, and back. Other threads may read and write it meanwhile: a write during
 * the exchange waits for its end.
 *
 * The memfd is as large as the address space and sparse: an address is its own offset. So no part
 * of it has to be allocated, and a peer's mapping of it stays valid.
 */
#ifndef SP_REMAP_H
#define SP_REMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vma.h"

enum { SP_REMAP_UNIT = 4096 }; /* bounds are multiples of it */

struct sp_remap {
    int fd, uffd; /* -1: this process remaps no memory */
    uint64_t inode;
    uint32_t dev_major, dev_minor;
    uint64_t page_size;
    bool eager;                   /* at registration, not when it pays */
    bool huge;                    /* the memfd may have huge pages */
    bool keeps_locks;             /* UTOFU_SWAP_PROTECT: the core locks registered memory */
    uint32_t count, refuse_every; /* for tests: UTOFU_TEST=map_refuse */
    uint32_t pause_ms;            /* for tests: UTOFU_TEST=exchange_ms */
    uint64_t num_remapped;
    bool too_many;
};

/* The drawback of no mapping, as a sentence; cross-memory attach or the rings copy then. */
#define SP_REMAP_COST                                                                              \
    "between processes of this host a put of 8 bytes takes 0.4 to 1.8 us instead of 0.05, and "    \
    "one "                                                                                         \
    "of a MiB five times as long"

/* If the system forbids remapping, leaves fd at -1 and logs the reason and the remedy: at level
 * warning if `warn`, else at info. */
void sp_remap_open(struct sp_remap *remap, bool warn);
/* The reason why the system forbids remapping, and the remedy; false: it does not. For tools. */
bool sp_remap_refused(char *why, char *remedy, size_t size);
void sp_remap_close(struct sp_remap *remap);

/* May the next region be remapped? Not if there would be too many mappings. */
bool sp_remap_wants(struct sp_remap *remap);
/*
 * Remaps as much as possible of [lo, hi), or gives it back. Returns how many bytes are remapped
 * afterwards. `maps` must be initialised; it can be used for any number of ranges in ascending
 * order.
 */
uint64_t sp_remap_range(struct sp_remap *remap, struct sp_vma_maps *maps, uint64_t lo, uint64_t hi);
uint64_t sp_remap_give_back(struct sp_remap *remap, struct sp_vma_maps *maps, uint64_t lo,
                            uint64_t hi);
/* The longest part of [*lo, *hi) that is remapped; *lo == *hi: none. */
void sp_remap_find_run(const struct sp_remap *remap, uint64_t *lo, uint64_t *hi);

/* Did a peer send a memfd of this kind, which never shrinks? */
bool sp_remap_check_fd(int fd);

#endif
