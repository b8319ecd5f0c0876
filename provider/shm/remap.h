/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remaps registered memory of this process to a memfd, so that peers can map it, and restores
 * private memory at deregistration. The memfd is sparse and as large as the address space: the file
 * offset of a page is its address. So nothing in the memfd is allocated, and a peer's mapping stays
 * valid.
 */
#ifndef SP_REMAP_H
#define SP_REMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exchange.h"
#include "template.h"
#include "vma.h"

enum { SP_REMAP_UNIT = 4096 }; /* all bounds are multiples of this */

struct sp_remap {
    struct sp_exchange exchange;   /* exchange.fd is -1 if this process remaps no memory */
    uint64_t inode;                /* of the memfd; with dev_major and dev_minor */
    uint32_t dev_major, dev_minor; /* its device: a mapping with these shows the memfd */
    uint64_t page_size;
    bool eager;                 /* UTOFU_SHM_MAP=eager: also memory in use, of any size */
    bool swap_protect;          /* UTOFU_SWAP_PROTECT: locks registered memory (mlock); as
                                   `eager`, and memory that is locked already is remapped, too */
    bool has_pins;              /* this process has long-term pins (io_uring, devices), as of this
                                   registration */
    bool threads_blocked;       /* all other threads are blocked, as of this registration */
    bool has_cow_mappings;      /* sp_exchange_restore_cow() has left mappings */
    bool too_many_mappings;     /* result of the last count in has_too_many_mappings() */
    bool io_uring_logged;       /* must_stay_remapped() has logged its reason */
    unsigned int retries_left;  /* see sp_threads_are_blocked() */
    uint32_t test_refuse_every; /* for tests: UTOFU_TEST=map_refuse; 0: refuse none */
    uint32_t test_count;        /* for tests: calls of sp_remap_may_remap() */
    uint64_t num_registrations; /* calls of has_too_many_mappings() */
    uint64_t opened_ns;         /* time of sp_remap_open() */
    uint64_t spent_us;          /* estimated time for remapping so far */
    uint64_t smaps_us;          /* cost of the last sp_template_create_from_smaps() */
    struct sp_templates templates;
};

/* The cost of not mapping memory, for messages; cross-memory attach or the rings copy then. */
#define SP_REMAP_COST                                                                              \
    "between processes of this host a put of 8 bytes takes 0.4 to 1.8 us instead of 0.05, and "    \
    "one of a MiB four times as long"

/* If the system forbids remapping, leaves exchange.fd at -1 and logs reason and remedy, at level
 * warning if `warn`, else at info. */
void sp_remap_open(struct sp_remap *remap, bool warn);
/* For tools: true if the system forbids remapping, with reason and remedy. */
bool sp_remap_refused(char *why, char *remedy, size_t size);
/* Closes the descriptors and frees the templates; remapped memory stays remapped. */
void sp_remap_close(struct sp_remap *remap);

/* False if the next region must not be remapped: too many mappings, descriptors closed... */
bool sp_remap_may_remap(struct sp_remap *remap);
/*
 * Remaps as much of [lo, hi) as is safe: private, anonymous, writable pages that do not exist yet,
 * and existing ones if only this thread can use them now. Returns the number of remapped bytes.
 * `maps` must be initialised, and serves any number of ranges in ascending order.
 */
uint64_t sp_remap_range(struct sp_remap *remap, struct sp_vma_maps *maps, uint64_t lo, uint64_t hi);
/* Restores private memory in [lo, hi). If less than `expected` bytes of it are still at their
 * address, also restores what the program has moved (mremap). Keeps protections. Returns the number
 * of bytes that are still remapped. */
uint64_t sp_remap_restore(struct sp_remap *remap, struct sp_vma_maps *maps, uint64_t lo,
                          uint64_t hi, uint64_t expected);

/* Calls fn for each part of [lo, hi) that is remapped now, in ascending order. */
void sp_remap_for_each(const struct sp_remap *remap, uint64_t lo, uint64_t hi,
                       void (*fn)(void *arg, uint64_t lo, uint64_t hi), void *arg);

/* True if the descriptor is a memfd of this kind, sealed against shrinking. */
bool sp_remap_check_fd(int fd);

#endif
