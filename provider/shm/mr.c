/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory regions: a table in the segment, which peers read. Deregistration does not wait for a peer
 * that has read the table and is about to copy: a program must not deregister memory in use.
 *
 * If peers may read and write a region, its whole pages are remapped (remap.c) where that is safe.
 * They are restored when no region uses them any more.
 */
#include "mr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/probe.h"
#include "pageref.h"
#include "remap.h"
#include "types.h"
#include "util/assert.h"
#include "util/log.h"

/* Minimum number of free entries in the queue, so that a key is not soon reused. */
enum { MIN_QUEUE = 256 };

enum { READ_WRITE = PROV_ACCESS_READ | PROV_ACCESS_WRITE };

static uintptr_t page_mask(void)
{
    return ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
}

/* Returns a free entry, whose base.lkey has its index and last generation. NULL: no memory, or none
 * is free. */
static struct sp_mr *allocate_entry(struct sp_prov *prov)
{
    struct sp_mr *mr;

    UT_ASSERT_LOCKED(&prov->mr_lock);
    UT_ASSERT(prov->num_free_mrs <= prov->mrs_high_water && prov->mrs_high_water <= SP_MAX_MRS);
    if (prov->mrs_high_water < SP_MAX_MRS && prov->num_free_mrs < MIN_QUEUE) {
        mr = calloc(1, sizeof(*mr));
        if (mr)
            mr->base.lkey = prov->mrs_high_water++;
        return mr;
    }
    mr = STAILQ_FIRST(&prov->free_mrs);
    if (mr) {
        STAILQ_REMOVE_HEAD(&prov->free_mrs, next_free);
        prov->num_free_mrs--;
    }
    return mr;
}

/*
 * Pages
 */

/* Returns the beginning of the page that contains the address. */
static uint64_t page_below(uint64_t at)
{
    return at & page_mask();
}

/* Returns the address rounded up to a page. */
static uint64_t page_above(uint64_t at)
{
    return page_below(at + ~page_mask());
}

struct remap_args {
    struct sp_remap *remap;
    struct sp_vma_maps maps;
    uint64_t lo, hi; /* the whole pages of the region */
};

/* sp_remap_fn: remaps the part of the interval that consists of whole pages of the region. */
static bool remap_interval(void *arg, uint64_t lo, uint64_t hi)
{
    struct remap_args *args = arg;

    lo = lo > args->lo ? lo : args->lo;
    hi = hi < args->hi ? hi : args->hi;
    return lo < hi && sp_remap_range(args->remap, &args->maps, lo, hi) > 0;
}

/* sp_restore_fn */
static bool restore_interval(void *arg, uint64_t lo, uint64_t hi)
{
    struct remap_args *args = arg;
    uint64_t from = lo > args->lo ? lo : args->lo, to = hi < args->hi ? hi : args->hi;

    return sp_remap_restore(args->remap, &args->maps, lo, hi, to > from ? to - from : 0) == 0;
}

/* References the region's pages, and remaps the whole pages [lo, hi) as far as possible if
 * `may_map`. False: no memory, no reference was taken. */
static bool ref_pages(struct sp_prov *prov, struct sp_mr *mr, bool may_map, uint64_t lo,
                      uint64_t hi)
{
    struct remap_args args;

    args.remap = &prov->remap;
    args.lo = lo;
    args.hi = hi;
    sp_vma_init(&args.maps);
    bool counted = prov->pagerefs && sp_pagerefs_get(prov->pagerefs, mr->lo, mr->hi,
                                                     may_map ? remap_interval : NULL, &args);
    sp_vma_close(&args.maps);
    if (!counted)
        mr->lo = mr->hi = 0;
    return counted;
}

/* Drops the references of ref_pages(), and restores pages without any. */
static void unref_pages(struct sp_prov *prov, const struct sp_mr *mr)
{
    const struct sp_mr_entry *entry = &prov->seg->table.mrs[mr->base.lkey & (SP_MAX_MRS - 1)];
    struct remap_args args;

    if (mr->lo >= mr->hi)
        return;
    args.remap = &prov->remap;
    args.lo = page_above(entry->base);
    args.hi = page_below(entry->base + entry->size);
    sp_vma_init(&args.maps);
    sp_pagerefs_put(prov->pagerefs, mr->lo, mr->hi, restore_interval, &args);
    sp_vma_close(&args.maps);
}

/*
 * Parts of a region that peers may map: the longest ranges
 */

struct longest_ranges {
    uint64_t lo[SP_MR_RANGES], hi[SP_MR_RANGES]; /* lo == hi: none */
};

/* Replaces the shortest range if this one is longer. */
static void add_longest_range(void *arg, uint64_t lo, uint64_t hi)
{
    struct longest_ranges *longest = arg;
    int shortest = 0;

    for (int i = 1; i < SP_MR_RANGES; i++)
        if (longest->hi[i] - longest->lo[i] < longest->hi[shortest] - longest->lo[shortest])
            shortest = i;
    if (hi - lo > longest->hi[shortest] - longest->lo[shortest]) {
        longest->lo[shortest] = lo;
        longest->hi[shortest] = hi;
    }
}

/* Returns the value of sp_mr_entry.ranges[] for [lo, hi) of a region that begins at `base`. */
static uint64_t encode_range(uint64_t base, uint64_t lo, uint64_t hi)
{
    if (lo == hi)
        return 0;
    return (lo / SP_REMAP_UNIT - base / SP_REMAP_UNIT) << 32 | (hi - lo) / SP_REMAP_UNIT;
}

/*
 * The table
 */

/* True if peers may map the region: its access is read and write, and this host has peers. */
static bool is_mappable(const struct sp_prov *prov, unsigned int access)
{
    return (access & READ_WRITE) == READ_WRITE && prov->remap.exchange.fd >= 0 &&
           (prov->config.local_size != 1 || prov->remap.eager || prov->remap.swap_protect);
}

/* Fills the entry except its state. */
static void fill_entry(struct sp_prov *prov, struct sp_mr *mr, struct sp_mr_entry *entry,
                       uint64_t addr, uint64_t size, unsigned int access)
{
    uint64_t lo = page_above(addr), hi = page_below(addr + size);
    bool may_map = lo < hi && is_mappable(prov, access);
    struct longest_ranges longest = {{0}, {0}};

    mr->lo = page_below(addr);
    mr->hi = page_above(addr + size);
    if (ref_pages(prov, mr, may_map && sp_remap_may_remap(&prov->remap), lo, hi) && may_map)
        sp_remap_for_each(&prov->remap, lo, hi, add_longest_range, &longest);
    __atomic_store_n(&entry->base, addr, __ATOMIC_RELEASE);
    __atomic_store_n(&entry->size, size, __ATOMIC_RELEASE);
    for (int i = 0; i < SP_MR_RANGES; i++)
        __atomic_store_n(&entry->ranges[i], encode_range(addr, longest.lo[i], longest.hi[i]),
                         __ATOMIC_RELEASE);
    __atomic_store_n(&entry->small_writes_need_cpu, may_map, __ATOMIC_RELEASE);
}

/* Drops the references to the pages, and frees the entry. */
static void free_entry(struct sp_prov *prov, struct sp_mr *mr)
{
    unref_pages(prov, mr);
    STAILQ_INSERT_TAIL(&prov->free_mrs, mr, next_free);
    prov->num_free_mrs++;
}

int sp_reg(struct prov *base, unsigned int device, void *addr, size_t size, unsigned int access,
           struct prov_mr **out)
{
    struct sp_prov *prov = sp_prov_of(base);

    (void)device;
    pthread_mutex_lock(&prov->mr_lock);
    struct sp_mr *mr = allocate_entry(prov);
    if (!mr) {
        pthread_mutex_unlock(&prov->mr_lock);
        ut_error(SP_LOG, "no free entry for another memory region; the limit is %d",
                 (int)SP_MAX_MRS);
        return -ENOMEM;
    }
    uint32_t index = mr->base.lkey & (SP_MAX_MRS - 1);
    uint32_t generation = ((mr->base.lkey >> SP_MR_BITS) + 1) & SP_MR_GENERATION_MASK;
    struct sp_mr_entry *entry = &prov->seg->table.mrs[index];
    fill_entry(prov, mr, entry, (uintptr_t)addr, size, access);
    /* this touches pages, so it must follow the check of which pages exist */
    if (!prov_memory_is_mapped(addr, size, access & PROV_ACCESS_WRITE)) {
        free_entry(prov, mr);
        pthread_mutex_unlock(&prov->mr_lock);
        return -EFAULT;
    }
    __atomic_store_n(&entry->state, sp_mr_make_state(++prov->mr_serial, generation, access),
                     __ATOMIC_RELEASE);
    mr->base.lkey = mr->base.rkey = generation << SP_MR_BITS | index;
    pthread_mutex_unlock(&prov->mr_lock);
    *out = &mr->base;
    return 0;
}

void sp_dereg(struct prov *base, struct prov_mr *mr_base)
{
    struct sp_prov *prov = sp_prov_of(base);
    struct sp_mr *mr = (struct sp_mr *)mr_base;

    pthread_mutex_lock(&prov->mr_lock);
    UT_ASSERT(prov->seg->table.mrs[mr->base.lkey & (SP_MAX_MRS - 1)].state != 0);
    __atomic_store_n(&prov->seg->table.mrs[mr->base.lkey & (SP_MAX_MRS - 1)].state, 0,
                     __ATOMIC_SEQ_CST);
    free_entry(prov, mr);
    pthread_mutex_unlock(&prov->mr_lock);
}
