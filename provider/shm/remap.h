/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory of this process becomes pages of a memfd when it is registered, so that peers can
 * map it, and private memory again when it is deregistered. The memfd is as large as the address
 * space and sparse: an address is its own offset. So no part of it has to be allocated, and a
 * peer's mapping of it stays valid.
 */
#ifndef SP_REMAP_H
#define SP_REMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exchange.h"
#include "template.h"
#include "vma.h"

enum { SP_REMAP_UNIT = 4096 }; /* bounds are multiples of it */

struct sp_remap {
    struct sp_exchange x; /* x.fd is -1: this process remaps no memory */
    uint64_t inode;
    uint32_t dev_major, dev_minor;
    uint64_t page_size;
    bool eager;                     /* memory in use, too, and however large it is */
    bool swap_protect;              /* UTOFU_SWAP_PROTECT: the core locks registered memory */
    bool has_pins;                  /* of this process's pages: see sp_remap_may_remap() */
    bool threads_blocked;           /* the other threads, at this registration */
    bool has_cow_mappings;          /* of sp_exchange_restore_cow() */
    bool too_many, io_uring_logged; /* ring: io_uring */
    unsigned int retries_left;      /* at threads that run: see sp_threads_are_blocked() */
    uint32_t count, refuse_every;   /* for tests: UTOFU_TEST=map_refuse */
    uint64_t num_remapped;
    uint64_t opened_ns, spent_us; /* spent_us: estimated */
    uint64_t smaps_us;            /* the last sp_template_create_from_smaps() */
    struct sp_templates templates;
};

/* The drawback of no mapping, as a sentence; cross-memory attach or the rings copy then. */
#define SP_REMAP_COST                                                                              \
    "between processes of this host a put of 8 bytes takes 0.4 to 1.8 us instead of 0.05, and "    \
    "one of a MiB four times as long"

/* If the system forbids remapping, leaves x.fd at -1 and logs the reason and the remedy: at level
 * warning if `warn`, else at info. */
void sp_remap_open(struct sp_remap *remap, bool warn);
/* The reason why the system forbids remapping, and the remedy; false: it does not. For tools. */
bool sp_remap_refused(char *why, char *remedy, size_t size);
void sp_remap_close(struct sp_remap *remap);

/* May the next region be remapped? Not if there would be too many mappings. */
bool sp_remap_may_remap(struct sp_remap *remap);
/*
 * Remaps what may be of [lo, hi): private, anonymous, writable pages that do not exist yet, and
 * existing ones if nobody but this thread can use them now. Returns how many bytes are remapped
 * afterwards. `maps` must be initialised; it can be used for any number of ranges in ascending
 * order.
 */
uint64_t sp_remap_range(struct sp_remap *remap, struct sp_vma_maps *maps, uint64_t lo, uint64_t hi);
/* Gives [lo, hi) back; if less than `expected` bytes of it are still in their place, also what the
 * program has moved elsewhere. Protections stay. Returns how many bytes of it are still remapped.
 */
uint64_t sp_remap_restore(struct sp_remap *remap, struct sp_vma_maps *maps, uint64_t lo,
                          uint64_t hi, uint64_t expected);

/* Calls fn for each remapped part of [lo, hi), in order. */
void sp_remap_for_each(const struct sp_remap *remap, uint64_t lo, uint64_t hi,
                       void (*fn)(void *arg, uint64_t lo, uint64_t hi), void *arg);

/* Did a peer send a memfd of this kind, which never shrinks? */
bool sp_remap_check_fd(int fd);

#endif
