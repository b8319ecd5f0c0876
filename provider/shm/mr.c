/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory regions: a table in the segment that peers read. Deregistering does not wait for a peer
 * that has read the table and is about to copy: a program must not deregister memory in use.
 *
 * Memory that peers may read and write is remapped (remap.c) when it is registered: the whole pages
 * that no other region uses yet. They are given back when no region uses them any more. So the
 * physical page of a registered address never changes, on which RDMA devices rely, nor does a
 * region's entry in the table.
 */
#include "mr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/there.h"
#include "pageref.h"
#include "prov_types.h"
#include "remap.h"
#include "util/assert.h"
#include "util/log.h"

/* Freed entries wait in a queue, so that an old key does not soon become valid again. */
enum { MIN_QUEUE = 256 };

static uintptr_t page_mask(void)
{
    return ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
}

static struct sp_mr *take_place(struct sp_prov *prov)
{
    struct sp_mr *mr;

    UT_ASSERT_LOCKED(&prov->mr_lock);
    UT_ASSERT(prov->num_free_mrs <= prov->num_mrs && prov->num_mrs <= SP_MAX_MRS);
    if (prov->num_mrs < SP_MAX_MRS && prov->num_free_mrs < MIN_QUEUE) {
        mr = calloc(1, sizeof(*mr));
        if (mr)
            mr->base.lkey = prov->num_mrs++;
        return mr;
    }
    mr = prov->first_free_mr;
    if (mr) {
        prov->first_free_mr = mr->next_free;
        if (!mr->next_free)
            prov->last_free_mr = &prov->first_free_mr;
        prov->num_free_mrs--;
    }
    return mr;
}

/*
 * Pages
 */

static uint64_t page_below(uint64_t at)
{
    return at & page_mask();
}

static uint64_t page_above(uint64_t at)
{
    return page_below(at + ~page_mask());
}

struct whole {
    struct sp_remap *remap;
    struct sp_vma_maps maps;
    uint64_t lo, hi; /* the region's whole pages */
    uint64_t remapped;
};

static bool remap_part(void *arg, uint64_t lo, uint64_t hi)
{
    struct whole *w = arg;

    lo = lo > w->lo ? lo : w->lo;
    hi = hi < w->hi ? hi : w->hi;
    uint64_t size = lo < hi ? sp_remap_range(w->remap, &w->maps, lo, hi) : 0;
    w->remapped += size;
    return size > 0;
}

static bool give_part_back(void *arg, uint64_t lo, uint64_t hi)
{
    struct whole *w = arg;

    return sp_remap_give_back(w->remap, &w->maps, lo, hi) == 0;
}

/* Counts the references, and remaps as much as possible. Returns `run` of the entry (layout.h). */
static uint64_t ref_pages(struct sp_prov *prov, struct sp_mr *mr, uint64_t addr, uint64_t size,
                          unsigned int access)
{
    const unsigned int both = PROV_ACCESS_READ | PROV_ACCESS_WRITE;
    uint64_t end = addr + size, lo = page_above(addr), hi = page_below(end);
    bool wanted = (access & both) == both && lo < hi && sp_remap_wants(&prov->remap);
    struct whole w;

    w.remap = &prov->remap;
    w.lo = lo;
    w.hi = hi;
    w.remapped = 0;
    sp_vma_init(&w.maps);
    mr->lo = page_below(addr);
    mr->hi = page_above(end);
    bool held = prov->pagerefs &&
                sp_pageref(prov->pagerefs, mr->lo, mr->hi, wanted ? remap_part : NULL, &w);
    sp_vma_close(&w.maps);
    if (!held)
        mr->lo = mr->hi = 0;
    if (!held || !wanted)
        return 0;
    if (w.remapped < hi - lo) /* part of it belongs to another region, or was not remapped */
        sp_remap_find_run(&prov->remap, &lo, &hi);
    return (lo - addr / SP_REMAP_UNIT * SP_REMAP_UNIT) / SP_REMAP_UNIT << 32 |
           (hi - lo) / SP_REMAP_UNIT;
}

static void unref_pages(struct sp_prov *prov, const struct sp_mr *mr)
{
    struct whole w;

    if (mr->lo >= mr->hi)
        return;
    w.remap = &prov->remap;
    sp_vma_init(&w.maps);
    sp_release(prov->pagerefs, mr->lo, mr->hi, give_part_back, &w);
    sp_vma_close(&w.maps);
}

/*
 * The table
 */

int sp_reg(struct prov *base, unsigned int device, void *addr, size_t size, unsigned int access,
           struct prov_mr **out)
{
    struct sp_prov *prov = sp_prov_of(base);

    (void)device;
    if (!prov_memory_is_there(addr, size, access & PROV_ACCESS_WRITE))
        return -EFAULT;
    pthread_mutex_lock(&prov->mr_lock);
    struct sp_mr *mr = take_place(prov);
    if (!mr) {
        pthread_mutex_unlock(&prov->mr_lock);
        ut_error(SP_LOG, "no place for another memory region (%d at most)", (int)SP_MAX_MRS);
        return -ENOMEM;
    }
    uint32_t index = mr->base.lkey & (SP_MAX_MRS - 1);
    uint32_t generation = ((mr->base.lkey >> SP_MR_BITS) + 1) & SP_MR_GENERATION_MASK;
    struct sp_mr_entry *e = &prov->seg->table.mrs[index];
    uint64_t run = ref_pages(prov, mr, (uintptr_t)addr, size, access);
    __atomic_store_n(&e->base, (uintptr_t)addr, __ATOMIC_RELEASE);
    __atomic_store_n(&e->size, size, __ATOMIC_RELEASE);
    __atomic_store_n(&e->run, run, __ATOMIC_RELEASE);
    __atomic_store_n(&e->word, sp_mr_word(++prov->mr_serial, generation, access), __ATOMIC_RELEASE);
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
    UT_ASSERT(prov->seg->table.mrs[mr->base.lkey & (SP_MAX_MRS - 1)].word != 0);
    __atomic_store_n(&prov->seg->table.mrs[mr->base.lkey & (SP_MAX_MRS - 1)].word, 0,
                     __ATOMIC_SEQ_CST);
    unref_pages(prov, mr);
    mr->next_free = NULL;
    *prov->last_free_mr = mr;
    prov->last_free_mr = &mr->next_free;
    prov->num_free_mrs++;
    pthread_mutex_unlock(&prov->mr_lock);
}
