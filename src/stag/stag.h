/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory registration: the STag table of a VCQ, which peers read, and the regions of memory, which
 * all VCQs of a process share.
 * A table has 256 chunks of 256 entries, and a directory of the chunks. A peer reads a directory
 * entry when it first uses a chunk, and then the entry of the STag. Chunk 0 holds the STags 0 to
 * 255, which the caller chooses; the others hold STags from 0x1000 on.
 * Uses util, ident, process, provider.h.
 */
#ifndef UT_STAG_STAG_H
#define UT_STAG_STAG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "ident/ident.h"
#include "process/process.h"
#include "util/cause.h"
#include "util/hash_table.h"
#include "wire/wire.h"

enum {
    UT_STAG_CHUNK = 256,
    UT_STAG_CHUNKS = 256,
    UT_STAG_DYNAMIC = UT_STAG_CHUNK * (UT_STAG_CHUNKS - 1),
    UT_STAG_NONE = UINT32_MAX,
};

uint64_t ut_stag_entry_check(const struct ut_stag_entry *entry);

struct ut_region;

/* A registered STag of this process. */
struct ut_stag_local {
    uint8_t *base;
    uint64_t size;
    struct ut_region *region; /* NULL: free */
    uint32_t lkey[PROV_COUNT];
    uint32_t index;
    uint64_t count; /* number of registrations: a program may make billions, and end none */
    union {
        struct ut_hash_entry by_memory; /* of a dynamic STag in use */
        STAILQ_ENTRY(ut_stag_local) next_free;
    };
    uint8_t generation;
    bool writable;
};

/* The STADDs of one STag and their memory. No region reaches into the STADDs of the next STag, so
 * one subtraction shows whether an STADD is in the range. */
struct ut_stadd_range {
    utofu_stadd_t first;
    uint64_t size;  /* 0: none */
    uint64_t delta; /* STADD + delta is the address */
};

/* True if [stadd, stadd + length) is in the range. `length` and every size are less than 2^63. */
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
    /* the region that was used last; most communications use it again */
    struct ut_stadd_range hot;
    struct ut_stadd_range hot_writable; /* the same region if it is writable, else empty */
    struct ut_stag_local *hot_local;

    /* peers read these: one copy per provider, contiguous */
    struct ut_stag_dir_entry *dir;
    struct ut_region *dir_region;
    struct ut_stag_entry *entries[UT_STAG_CHUNKS];
    struct ut_region *chunk_regions[UT_STAG_CHUNKS];
    struct ut_stag_local *locals[UT_STAG_CHUNKS];
    struct ut_hash_table by_memory; /* ut_region_hash() -> dynamic STag */
    STAILQ_HEAD(ut_stag_queue, ut_stag_local) free_stags;
    uint32_t num_free;
    uint8_t first_generation; /* generation of a new dynamic STag */
    uint32_t num_made;        /* number of dynamic STags ever used */
    unsigned int tni;
    unsigned int cmp;
};

int ut_stag_table_create(unsigned int tni, unsigned int cmp, struct ut_stag_table **table);
void ut_stag_table_destroy(struct ut_stag_table *table);
/* The directory that peers read through this provider. */
static inline const struct ut_stag_dir_entry *ut_stag_dir_of(const struct ut_stag_table *table,
                                                             int provider)
{
    return table->dir + provider * UT_STAG_CHUNKS;
}
uint32_t ut_stag_dir_rkey(const struct ut_stag_table *table, int provider);

/*
 * Registering large memory takes long, and the lock of the VCQ, which guards the table, should not
 * be
 * held meanwhile. The caller calls ut_stag_reuse() with the lock, ut_stag_region_get() without it,
 * ut_stag_reuse() again, because another thread may have registered the same memory, and
 * ut_stag_register(). After deregistering, the caller calls ut_region_put() without the lock. All
 * return enum utofu_return_code. stag: UT_STAG_NONE for any STag.
 */

/* 0: the memory was registered already, and has one more registration. UTOFU_ERR_NOT_FOUND: not
 * registered. Other codes: no STag is available. */
int ut_stag_reuse(struct ut_stag_table *table, void *addr, size_t size, uint32_t stag,
                  bool writable, utofu_stadd_t *stadd);
int ut_stag_region_get(unsigned int tni, void *addr, size_t size, bool writable,
                       struct ut_region **region);
/* On success the table owns the region. */
int ut_stag_register(struct ut_stag_table *table, void *addr, size_t size, uint32_t stag,
                     bool writable, struct ut_region *region, utofu_stadd_t *stadd);
/* gone: the region that the table no longer uses, or NULL. */
int ut_stag_deregister(struct ut_stag_table *table, utofu_stadd_t stadd, struct ut_region **gone);

/* The index of an STag in a table, or UT_STAG_NONE. A reserved STag must belong to component cmp.
 */
static inline uint32_t ut_stag_index(uint32_t stag, unsigned int cmp)
{
    uint32_t reserved = stag - (UT_STAG_RESERVED_BASE + 0x100u * cmp);

    if (reserved < UT_NUM_RESERVED_STAGS)
        return reserved;
    uint32_t dynamic = stag - UT_STAG_DYNAMIC_BASE;
    return dynamic < UT_STAG_DYNAMIC ? UT_STAG_CHUNK + dynamic : (uint32_t)UT_STAG_NONE;
}

/* The offset of a region's first byte within the STADDs of its STag. */
static inline uint64_t ut_stadd_offset_of_base(uint32_t index, uint64_t base)
{
    return index < UT_STAG_CHUNK ? 0 : base & 0xffff;
}

enum ut_stag_result {
    UT_STAG_OK,
    UT_STAG_BAD_STADD,  /* no registered memory has the STADD */
    UT_STAG_BAD_LENGTH, /* the range ends behind the memory */
    UT_STAG_BAD_ACCESS, /* the memory is read-only */
};

/* Finds the local memory of [stadd, stadd + length). */
enum ut_stag_result ut_stag_find(struct ut_stag_table *table, utofu_stadd_t stadd, uint64_t length,
                                 bool write, struct ut_stag_local **out, uint8_t **addr);

/* The cause for which ut_stag_find() fails; if it succeeds, the probable cause of a failed access.
 */
struct ut_failure ut_stag_failure_cause(const struct ut_stag_table *table, utofu_stadd_t stadd,
                                        uint64_t length, bool write);
/* The same for a region whose first byte has the offset `first`. */
struct ut_failure ut_region_failure_cause(uint64_t first, uint64_t size, bool writable,
                                          utofu_stadd_t stadd, uint64_t length, bool write);

/* Does the same as ut_stag_find(), for the STag used last only. NULL: another STag. */
static inline struct ut_stag_local *ut_stag_find_hot(const struct ut_stag_table *table,
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
    struct ut_stag_local *l = ut_stag_find_hot(table, stadd, length, addr);

    if (__builtin_expect(l && (!write || l->writable), 1)) {
        *out = l;
        return UT_STAG_OK;
    }
    return ut_stag_find(table, stadd, length, write, out, addr);
}

/* Regions of the library's own memory, for tables and scratch buffers. */
int ut_region_get(unsigned int tni, void *addr, size_t size, unsigned int access,
                  struct ut_region **region);
void ut_region_put(struct ut_region *region);
uint32_t ut_region_lkey(const struct ut_region *region, int provider);
uint32_t ut_region_rkey(const struct ut_region *region, int provider);
/* Gets the keys of a region on another device of the provider, for a put of `length` bytes from or
 * to it. False: the region is not registered there. The background registers it when as many bytes
 * were put as the region has. */
bool ut_region_extra_keys(struct ut_region *region, int provider, unsigned int device,
                          uint64_t length, struct prov_mr *keys);

#endif
