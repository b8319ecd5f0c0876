/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory regions: a table in the segment that peers read. Deregistering does not wait for a peer
 * that has read the table and is about to copy: a program must not deregister memory in use.
 *
 * Memory that peers may read and write is remapped (remap.c) as far as it pays: its whole pages
 * that are not remapped yet. They are given back when no region uses them any more.
 */
#include "mr.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/there.h"
#include "huge.h"
#include "pageref.h"
#include "prov_types.h"
#include "remap.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/log.h"
#include "uses.h"

/* Freed entries wait in a queue, so that an old key does not soon become valid again. */
enum { MIN_QUEUE = 256 };

enum {
    BOTH = PROV_ACCESS_READ | PROV_ACCESS_WRITE,
    PINNED_MOST = 16 << 20, /* bytes of pages that are exchanged for an adapter's region: 8 ms */
    MOST_BETWEEN = 4 << 20, /* unused bytes that are exchanged to join two runs */
    LOOKS = 1000,           /* at a copy that is under way, between two looks at the clock */
};

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

/* Counts the references to the region's pages, and remaps as many as possible if `now`. Returns the
 * longest part of [*lo, *hi) that is remapped; false: the references are not counted. */
static bool ref_pages(struct sp_prov *prov, struct sp_mr *mr, bool now, uint64_t *lo, uint64_t *hi)
{
    struct whole w;

    w.remap = &prov->remap;
    w.lo = *lo;
    w.hi = *hi;
    w.remapped = 0;
    sp_vma_init(&w.maps);
    bool held =
        prov->pagerefs && sp_pageref(prov->pagerefs, mr->lo, mr->hi, now ? remap_part : NULL, &w);
    sp_vma_close(&w.maps);
    if (!held)
        mr->lo = mr->hi = 0;
    if (!held || !now)
        *hi = *lo;
    else if (w.remapped < *hi - *lo) /* part belongs to another region, or was not remapped */
        sp_remap_find_run(&prov->remap, lo, hi);
    return held;
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
 * Parts of a region that peers may map
 */

static uint64_t run_of(const struct sp_mr_entry *e, uint64_t lo, uint64_t hi)
{
    return (lo / SP_REMAP_UNIT - e->base / SP_REMAP_UNIT) << 32 | (hi - lo) / SP_REMAP_UNIT;
}

static void read_run(const struct sp_mr_entry *e, int i, uint64_t *lo, uint64_t *hi)
{
    *lo = (e->base / SP_REMAP_UNIT + (e->runs[i] >> 32)) * SP_REMAP_UNIT;
    *hi = *lo + (e->runs[i] & UINT32_MAX) * SP_REMAP_UNIT;
}

/* Extends [*lo, *hi) to the nearest run if all are in use and none touches it. False: that is too
 * far away. */
static bool reach_a_run(const struct sp_mr_entry *e, uint64_t *lo, uint64_t *hi)
{
    uint64_t nearest = MOST_BETWEEN + 1, from = *lo, to = *hi;

    for (int i = 0; i < SP_MR_RUNS; i++) {
        uint64_t a, b;
        read_run(e, i, &a, &b);
        if (e->runs[i] == 0 || (a <= *hi && b >= *lo))
            return true;
        if (a > *hi && a - *hi < nearest) {
            nearest = a - *hi;
            from = *lo;
            to = a;
        } else if (b < *lo && *lo - b < nearest) {
            nearest = *lo - b;
            from = b;
            to = *hi;
        }
    }
    *lo = from;
    *hi = to;
    return nearest <= MOST_BETWEEN;
}

/* The runs that it touches become one with it. Peers may see the new one and the old ones. */
static void add_run(struct sp_mr_entry *e, uint64_t lo, uint64_t hi)
{
    bool touched[SP_MR_RUNS] = {false};
    int place = -1;

    for (int i = 0; i < SP_MR_RUNS; i++) {
        uint64_t a, b;
        read_run(e, i, &a, &b);
        touched[i] = e->runs[i] != 0 && a <= hi && b >= lo;
        if (touched[i]) {
            lo = a < lo ? a : lo;
            hi = b > hi ? b : hi;
        }
        if (touched[i] || (e->runs[i] == 0 && place < 0))
            place = i;
    }
    if (place < 0)
        return;
    __atomic_store_n(&e->runs[place], run_of(e, lo, hi), __ATOMIC_RELEASE);
    for (int i = 0; i < SP_MR_RUNS; i++) {
        if (touched[i] && i != place)
            __atomic_store_n(&e->runs[i], 0, __ATOMIC_RELEASE);
    }
}

/*
 * Exchanging pages that are in use. Copies by cross-memory attach pin pages, and would write to the
 * old ones: so none may be under way, neither by peers nor by this process with memory of its own.
 */

static bool copies_end(const struct sp_segment *seg, uint64_t until_ns)
{
    do {
        for (int i = 0; i < LOOKS; i++)
            if (__atomic_load_n(&seg->table.header.attaching, __ATOMIC_SEQ_CST) == 0)
                return true;
        sched_yield(); /* a copy may need this core */
    } while (ut_clock_ns() < until_ns);
    return false;
}

/* Waits for half the price of the exchange: copies of as many bytes take a third of it. False: a
 * copy takes longer, or its thread has lost its CPU. No copy begins before let_copies_start(). */
static bool stop_copies(struct sp_prov *prov, uint64_t bytes)
{
    uint64_t until_ns = ut_clock_ns() + bytes / SP_REMAP_UNIT * SP_PAGE_NS / 2;

    UT_ASSERT_LOCKED(&prov->lock);
    __atomic_store_n(&prov->seg->table.header.exchanging, 1, __ATOMIC_SEQ_CST);
    bool ended = copies_end(prov->seg, until_ns);
    for (struct sp_peer *peer = prov->peers; ended && peer; peer = peer->next)
        ended = !peer->seg || sp_peer_is(peer, SP_PEER_DEAD) || copies_end(peer->seg, until_ns);
    return ended;
}

static void let_copies_start(struct sp_prov *prov)
{
    __atomic_store_n(&prov->seg->table.header.exchanging, 0, __ATOMIC_SEQ_CST);
}

static void exchange_part(struct sp_prov *prov, struct sp_mr_entry *e, uint64_t lo, uint64_t hi)
{
    uint64_t unit = prov->remap.huge ? SP_HUGE : ~page_mask() + 1;
    uint64_t first = page_above(e->base), end = page_below(e->base + e->size);
    struct whole w;

    lo = lo / unit * unit;
    hi = (hi + unit - 1) / unit * unit;
    lo = lo > first ? lo : first;
    hi = hi < end ? hi : end;
    if (lo >= hi || !reach_a_run(e, &lo, &hi) || !stop_copies(prov, hi - lo))
        return;
    w.remap = &prov->remap;
    w.lo = lo;
    w.hi = hi;
    sp_vma_init(&w.maps);
    sp_pageref_take(prov->pagerefs, lo, hi, remap_part, &w);
    sp_vma_close(&w.maps);
    sp_remap_find_run(&prov->remap, &lo, &hi);
    if (lo < hi)
        add_run(e, lo, hi);
}

void sp_mr_exchange(struct sp_prov *prov, uint32_t key, uint64_t at, uint64_t size)
{
    struct sp_mr_entry *mrs = prov->seg->table.mrs, *e = &mrs[key & (SP_MAX_MRS - 1)];

    pthread_mutex_lock(&prov->lock);
    pthread_mutex_lock(&prov->mr_lock);
    if (e->mappable && size > 0 && sp_mr_allows(mrs, key, at, size, BOTH)) {
        if (sp_remap_wants(&prov->remap))
            exchange_part(prov, e, at, at + size);
        else
            __atomic_store_n(&e->mappable, 0, __ATOMIC_RELAXED);
        let_copies_start(prov);
    }
    pthread_mutex_unlock(&prov->mr_lock);
    pthread_mutex_unlock(&prov->lock);
}

/*
 * The table
 */

enum when { NEVER, AT_ONCE, WHEN_IT_PAYS };

/* When the pages of a region are exchanged. An adapter knows the pages that it was given: they can
 * only be exchanged before. */
static enum when decide_when(const struct sp_prov *prov, uint64_t size, unsigned int access)
{
    if ((access & BOTH) != BOTH || prov->remap.fd < 0)
        return NEVER;
    if (prov->remap.eager || prov->remap.keeps_locks) /* the core locks what is registered */
        return AT_ONCE;
    if (!(access & PROV_ACCESS_PINNED))
        return WHEN_IT_PAYS;
    return prov->config.local_size != 1 && size <= PINNED_MOST ? AT_ONCE : NEVER;
}

/* Fills the entry but for its word. */
static void fill_entry(struct sp_prov *prov, struct sp_mr *mr, struct sp_mr_entry *e, uint64_t addr,
                       uint64_t size, unsigned int access)
{
    uint64_t lo = page_above(addr), hi = page_below(addr + size);
    enum when when = lo < hi ? decide_when(prov, size, access) : NEVER;
    bool now = when == AT_ONCE && sp_remap_wants(&prov->remap);

    mr->lo = page_below(addr);
    mr->hi = page_above(addr + size);
    bool held = ref_pages(prov, mr, now, &lo, &hi);
    __atomic_store_n(&e->base, addr, __ATOMIC_RELEASE);
    __atomic_store_n(&e->size, size, __ATOMIC_RELEASE);
    for (int i = 0; i < SP_MR_RUNS; i++)
        __atomic_store_n(&e->runs[i], i == 0 && lo < hi ? run_of(e, lo, hi) : 0, __ATOMIC_RELEASE);
    __atomic_store_n(&e->mappable, held && when == WHEN_IT_PAYS, __ATOMIC_RELEASE);
}

int sp_reg(struct prov *base, unsigned int device, void *addr, size_t size, unsigned int access,
           struct prov_mr **out)
{
    struct sp_prov *prov = sp_prov_of(base);

    (void)device;
    pthread_mutex_lock(&prov->mr_lock); /* no pages are exchanged */
    if (!prov_memory_is_there(addr, size, access & PROV_ACCESS_WRITE)) {
        pthread_mutex_unlock(&prov->mr_lock);
        return -EFAULT;
    }
    struct sp_mr *mr = take_place(prov);
    if (!mr) {
        pthread_mutex_unlock(&prov->mr_lock);
        ut_error(SP_LOG, "no place for another memory region (%d at most)", (int)SP_MAX_MRS);
        return -ENOMEM;
    }
    uint32_t index = mr->base.lkey & (SP_MAX_MRS - 1);
    uint32_t generation = ((mr->base.lkey >> SP_MR_BITS) + 1) & SP_MR_GENERATION_MASK;
    struct sp_mr_entry *e = &prov->seg->table.mrs[index];
    fill_entry(prov, mr, e, (uintptr_t)addr, size, access);
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
