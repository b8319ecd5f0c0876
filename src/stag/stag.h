/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory registration: the STag table of a VCQ, which peers read, and the regions behind it, which
 * the VCQs of a process share.
 *
 * A table is 256 chunks of 256 entries; a directory of the chunks is readable by peers, who read a
 * directory entry and then an entry at first use. Chunk 0 holds the caller's own STags 0..255, the
 * others hold STags from 0x1000 on.
 *
 * Uses util, ident, process, provider.h.
 */
#ifndef UT_STAG_STAG_H
#define UT_STAG_STAG_H

#include <stdbool.h>
#include <stdint.h>

#include "ident/ident.h"
#include "process/process.h"
#include "util/cause.h"
#include "wire/wire.h"

enum {
    UT_STAG_CHUNK = 256,
    UT_STAG_CHUNKS = 256,
    UT_STAG_DYNAMIC = UT_STAG_CHUNK * (UT_STAG_CHUNKS - 1),
    UT_STAG_NONE = UINT32_MAX,
};

uint64_t ut_stag_entry_check(const struct ut_stag_entry *entry);

struct ut_region;

/* A registered STag, as its own process knows it. */
struct ut_stag_local {
    uint8_t *base;
    uint64_t size;
    struct ut_region *region; /* NULL: free */
    uint32_t lkey[PROV_COUNT];
    uint32_t count; /* registrations */
    uint32_t next;  /* in the hash of regions, or in the free list */
    uint8_t generation;
    bool writable;
};

/* STADDs of one STag, and the memory behind them. No region reaches into the STADDs of the next
 * STag, so that one subtraction tells whether an STADD is one of them. */
struct ut_stadd_range {
    utofu_stadd_t first;
    uint64_t size;  /* 0: none */
    uint64_t delta; /* from an STADD to its address */
};

/* Is [stadd, stadd + length) in the range? `length` and any size of a range are less than 2^63. */
static inline bool ut_stadd_range_has(const struct ut_stadd_range *range, utofu_stadd_t stadd,
                                      uint64_t length)
{
    uint64_t at = stadd - range->first;

    return at < range->size && at + length <= range->size;
}

static inline uint64_t ut_stadd_range_at(const struct ut_stadd_range *range, utofu_stadd_t stadd)
{
    return stadd + range->delta;
}

static inline bool ut_stadd_range_find(const struct ut_stadd_range *range, utofu_stadd_t stadd,
                                       uint64_t length, uint64_t *addr)
{
    *addr = ut_stadd_range_at(range, stadd);
    return ut_stadd_range_has(range, stadd, length);
}

struct ut_stag_table {
    /* the region found last, which most communications use again */
    struct ut_stadd_range hot;
    struct ut_stadd_range hot_writable; /* the same if it is writable, else empty */
    struct ut_stag_local *hot_local;

    /* what peers read: one copy for each provider, one behind the other */
    struct ut_stag_dir *dir;
    struct ut_region *dir_region;
    struct ut_stag_entry *entries[UT_STAG_CHUNKS];
    struct ut_region *chunk_regions[UT_STAG_CHUNKS];
    struct ut_stag_local *locals[UT_STAG_CHUNKS];
    uint32_t *buckets; /* hash of (address, size, access) -> index of a dynamic STag */
    uint32_t num_buckets;
    uint32_t free_first, free_last, num_free; /* queue of freed STags */
    uint8_t first_generation;                 /* of a dynamic STag */
    uint32_t num_made;                        /* dynamic STags that have been used at least once */
    unsigned int tni;
    unsigned int cmp;
};

int ut_stag_table_create(unsigned int tni, unsigned int cmp, struct ut_stag_table **table);
void ut_stag_table_destroy(struct ut_stag_table *table);
/* The directory that peers read through this provider. */
static inline const struct ut_stag_dir *ut_stag_dir_of(const struct ut_stag_table *table,
                                                       int provider)
{
    return table->dir + provider * UT_STAG_CHUNKS;
}
uint32_t ut_stag_dir_rkey(const struct ut_stag_table *table, int provider);

/*
 * Registering takes long where the memory is large, and the VCQ, whose lock protects the table, is
 * not to be locked meanwhile: first ut_stag_reuse(), then ut_stag_region_get() without the lock,
 * then ut_stag_reuse() again, as other threads may have been faster, and ut_stag_register().
 * Deregistering goes the other way: ut_region_put() without the lock. All return enum
 * utofu_return_code. stag: UT_STAG_NONE for any.
 */

/* 0: the memory is registered already, and has one use more; UTOFU_ERR_NOT_FOUND: it is not.
 * Others: no STag can be had for it. */
int ut_stag_reuse(struct ut_stag_table *table, void *addr, size_t size, uint32_t stag,
                  bool writable, utofu_stadd_t *stadd);
int ut_stag_region_get(unsigned int tni, void *addr, size_t size, bool writable,
                       struct ut_region **region);
/* If it succeeds the region is the table's. */
int ut_stag_register(struct ut_stag_table *table, void *addr, size_t size, uint32_t stag,
                     bool writable, struct ut_region *region, utofu_stadd_t *stadd);
/* gone: the region that is no more used by the table, or NULL. */
int ut_stag_deregister(struct ut_stag_table *table, utofu_stadd_t stadd, struct ut_region **gone);

/* Index of an STag in a table, or UT_STAG_NONE: reserved ones must be of component cmp. */
static inline uint32_t ut_stag_index(uint32_t stag, unsigned int cmp)
{
    uint32_t reserved = stag - (UT_STAG_RESERVED_BASE + 0x100u * cmp);

    if (reserved < UT_NUM_RESERVED_STAGS)
        return reserved;
    uint32_t dynamic = stag - UT_STAG_DYNAMIC_BASE;
    return dynamic < UT_STAG_DYNAMIC ? UT_STAG_CHUNK + dynamic : (uint32_t)UT_STAG_NONE;
}

/* The offset of a region's first byte in its STADDs. */
static inline uint64_t ut_stag_first_offset(uint32_t index, uint64_t base)
{
    return index < UT_STAG_CHUNK ? 0 : base & 0xffff;
}

enum ut_stag_result {
    UT_STAG_OK,
    UT_STAG_BAD_STADD,  /* lies in no registered memory */
    UT_STAG_BAD_LENGTH, /* runs out of it */
    UT_STAG_BAD_ACCESS, /* is read-only */
};

/* The local memory behind [stadd, stadd + length). */
enum ut_stag_result ut_stag_find(struct ut_stag_table *table, utofu_stadd_t stadd, uint64_t length,
                                 bool write, struct ut_stag_local **out, uint8_t **addr);

/* Why ut_stag_find() fails, or where it does not, why an access may have failed. */
struct ut_why ut_stag_why(const struct ut_stag_table *table, utofu_stadd_t stadd, uint64_t length,
                          bool write);
/* The same for a region whose first byte has the offset `first`. */
struct ut_why ut_region_why(uint64_t first, uint64_t size, bool writable, utofu_stadd_t stadd,
                            uint64_t length, bool write);

/* ut_stag_find() for the STag used last; NULL: it is another one. */
static inline struct ut_stag_local *ut_stag_hot(const struct ut_stag_table *table,
                                                utofu_stadd_t stadd, uint64_t length,
                                                uint8_t **addr)
{
    uint64_t at;

    if (!ut_stadd_range_find(&table->hot, stadd, length, &at))
        return NULL;
    *addr = (uint8_t *)(uintptr_t)at;
    return table->hot_local;
}

static inline enum ut_stag_result ut_stag_resolve(struct ut_stag_table *table, utofu_stadd_t stadd,
                                                  uint64_t length, bool write,
                                                  struct ut_stag_local **out, uint8_t **addr)
{
    struct ut_stag_local *l = ut_stag_hot(table, stadd, length, addr);

    if (__builtin_expect(l && (!write || l->writable), 1)) {
        *out = l;
        return UT_STAG_OK;
    }
    return ut_stag_find(table, stadd, length, write, out, addr);
}

/* Regions of the library's own memory, for tables and scratch. */
int ut_region_get(unsigned int tni, void *addr, size_t size, unsigned int access,
                  struct ut_region **region);
void ut_region_put(struct ut_region *region);
uint32_t ut_region_lkey(const struct ut_region *region, int provider);
uint32_t ut_region_rkey(const struct ut_region *region, int provider);

#endif
