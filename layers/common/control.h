/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control memory of a process, which peers write to and read. It has a reserved STag, so that
 * peers compute its STADD from the VCQ id. Each layer has its own words behind those that all
 * layers share.
 */
#ifndef LC_CONTROL_H
#define LC_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include <utofu.h>

#include "hash.h"
#include "memory.h"
#include "port.h"

#pragma GCC visibility push(hidden)

/* The words of all layers. Processes write them to each other, so all use the same layout. */
struct lc_common_words {
    uint64_t partners[32];       /* [k]: VCQ id of the process 2^k ranks ahead */
    uint64_t barrier_epochs[32]; /* [k]: barriers that the process 2^k ranks behind has entered */
};

enum { LC_STADD_CACHE_BITS = 5, LC_STADD_CACHE_SIZE = 1 << LC_STADD_CACHE_BITS };

struct lc_control {
    struct lc_memory memory;
    struct lc_common_words *words; /* start of the memory; NULL: not open */
    struct lc_stadd_entry {
        utofu_vcq_id_t id;
        utofu_stadd_t stadd; /* start of the control memory of the peer; 0: empty entry */
    } stadd_cache[LC_STADD_CACHE_SIZE]; /* by a hash of the VCQ id */
};

bool lc_control_open(struct lc_control *control, const struct lc_port *port, int stag, size_t size);
void lc_control_close(struct lc_control *control);
/* Fills in a cache entry by a query of uTofu. */
void lc_control_query_stadd(const struct lc_control *control, struct lc_stadd_entry *entry,
                            utofu_vcq_id_t id) __attribute__((cold));

/* The STADD of the word at an offset in the control memory of the process that has this VCQ. */
static inline utofu_stadd_t lc_control_stadd(struct lc_control *control, utofu_vcq_id_t id,
                                             uint64_t offset)
{
    struct lc_stadd_entry *entry = &control->stadd_cache[ut_hash_index(id, LC_STADD_CACHE_BITS)];

    if (__builtin_expect(entry->id != id || entry->stadd == 0, 0))
        lc_control_query_stadd(control, entry, id);
    return entry->stadd + offset;
}

#pragma GCC visibility pop

#endif
