/* SPDX-License-Identifier: Apache-2.0 */
/* STag tables. */
#include "stag/region.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "util/assert.h"
#include "util/env.h"
#include "util/log.h"

uint64_t ut_stag_entry_check(const struct ut_stag_entry *e)
{
    uint64_t h = e->base * UT_HASH_FACTOR;

    h = (h ^ h >> 31 ^ e->size) * UT_HASH_FACTOR_2;
    h = (h ^ h >> 29 ^ ((uint64_t)e->rkey << 32 | e->info)) * UT_HASH_FACTOR;
    return (h ^ h >> 31) * UT_HASH_FACTOR_2;
}

/* Peers may read the entry at any moment. The check field does not match a mix of old and new
 * fields. */
static void publish_entry(struct ut_stag_entry *to, const struct ut_stag_entry *from)
{
    __atomic_store_n(&to->check, ~from->check, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&to->base, from->base, __ATOMIC_RELAXED);
    __atomic_store_n(&to->size, from->size, __ATOMIC_RELAXED);
    __atomic_store_n(&to->rkey, from->rkey, __ATOMIC_RELAXED);
    __atomic_store_n(&to->info, from->info, __ATOMIC_RELAXED);
    __atomic_store_n(&to->check, from->check, __ATOMIC_RELEASE);
}

static void *map_pages(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

enum {
    CHUNK_BYTES = sizeof(struct ut_stag_entry) * UT_STAG_CHUNK * PROV_COUNT,
    DIR_BYTES = sizeof(struct ut_stag_dir_entry) * UT_STAG_CHUNKS * PROV_COUNT,
};

/* The entry of an STag that peers read through this provider. */
static struct ut_stag_entry *entry_at(struct ut_stag_table *t, uint32_t index, int provider)
{
    return t->entries[index / UT_STAG_CHUNK] + provider * UT_STAG_CHUNK + index % UT_STAG_CHUNK;
}

/* Entries for unused providers are not written, so their pages are never touched. */
static bool in_use(int provider)
{
    return ut_process_peek()->prov[provider] != NULL;
}

/* Adds the chunk to the directories, so that peers find it. */
static void publish_chunk(struct ut_stag_table *t, uint32_t chunk)
{
    struct ut_stag_entry none = {0};

    none.check = ut_stag_entry_check(&none);
    for (int p = 0; p < PROV_COUNT; p++) {
        struct ut_stag_dir_entry *dir = &t->dir[p * UT_STAG_CHUNKS + chunk];
        struct ut_stag_entry *entries = entry_at(t, chunk * UT_STAG_CHUNK, p);
        if (!in_use(p))
            continue;
        for (uint32_t i = 0; i < UT_STAG_CHUNK; i++)
            entries[i] = none;
        __atomic_store_n(&dir->rkey, ut_region_rkey(t->chunk_regions[chunk], p), __ATOMIC_RELAXED);
        __atomic_store_n(&dir->addr, (uintptr_t)entries, __ATOMIC_RELEASE);
    }
}

static int add_chunk(struct ut_stag_table *t, uint32_t chunk)
{
    if (t->entries[chunk])
        return 0;
    struct ut_stag_local *locals = calloc(UT_STAG_CHUNK, sizeof(*locals));
    struct ut_stag_entry *entries = map_pages(CHUNK_BYTES);
    if (!locals || !entries)
        goto no_memory;
    if (ut_region_get(t->tni, entries, CHUNK_BYTES, PROV_ACCESS_READ, &t->chunk_regions[chunk]) !=
        0)
        goto no_memory;
    for (uint32_t i = 0; i < UT_STAG_CHUNK; i++)
        locals[i].index = chunk * UT_STAG_CHUNK + i;
    t->entries[chunk] = entries;
    t->locals[chunk] = locals;
    publish_chunk(t, chunk);
    return 0;
no_memory:
    free(locals);
    if (entries)
        munmap(entries, CHUNK_BYTES);
    return -ENOMEM;
}

/* With the check mode, ranks and jobs start with different generations, as far as there are enough.
 * So an STADD of one process is invalid in another. */
static uint8_t first_generation(void)
{
    const struct ut_process *process = ut_process_peek();

    if (!process || !ut_env_num(UT_ENV_CHECK))
        return 0;
    return (process->job->rank + process->job->mark) & 0x3f;
}

int ut_stag_table_create(unsigned int tni, unsigned int cmp, struct ut_stag_table **table)
{
    struct ut_stag_table *t = calloc(1, sizeof(*t));

    if (!t)
        return UTOFU_ERR_OUT_OF_MEMORY;
    t->tni = tni;
    t->cmp = cmp;
    t->first_generation = first_generation();
    STAILQ_INIT(&t->free_stags);
    t->dir = map_pages(DIR_BYTES);
    if (!t->dir || !ut_hash_reserve(&t->by_memory) ||
        ut_region_get(tni, t->dir, DIR_BYTES, PROV_ACCESS_READ, &t->dir_region) != 0 ||
        add_chunk(t, 0) != 0)
        goto fail;
    *table = t;
    return 0;
fail:
    ut_stag_table_destroy(t);
    return UTOFU_ERR_OUT_OF_MEMORY;
}

void ut_stag_table_destroy(struct ut_stag_table *t)
{
    for (uint32_t c = 0; c < UT_STAG_CHUNKS; c++) {
        if (!t->entries[c])
            continue;
        for (uint32_t i = 0; i < UT_STAG_CHUNK; i++)
            ut_region_put(t->locals[c][i].region);
        ut_region_put(t->chunk_regions[c]);
        munmap(t->entries[c], CHUNK_BYTES);
        free(t->locals[c]);
    }
    ut_region_put(t->dir_region);
    if (t->dir)
        munmap(t->dir, DIR_BYTES);
    ut_hash_free(&t->by_memory);
    free(t);
}

uint32_t ut_stag_dir_rkey(const struct ut_stag_table *table, int provider)
{
    return ut_region_rkey(table->dir_region, provider);
}

static struct ut_stag_local *local_at(struct ut_stag_table *t, uint32_t index)
{
    return &t->locals[index / UT_STAG_CHUNK][index % UT_STAG_CHUNK];
}

/* A freed STag is reused only after many others. A generation has six bits, so a stale STADD is
 * detected until the STag has been reused 64 times. */
static uint32_t take_dynamic(struct ut_stag_table *t)
{
    enum { MIN_FREE = 1024 };

    if (t->num_free < MIN_FREE && t->num_made < UT_STAG_DYNAMIC) {
        uint32_t index = UT_STAG_CHUNK + t->num_made;
        if (add_chunk(t, index / UT_STAG_CHUNK) == 0) {
            local_at(t, index)->generation = t->first_generation;
            t->num_made++;
            return index;
        }
    }
    struct ut_stag_local *l = STAILQ_FIRST(&t->free_stags);
    if (!l)
        return UT_STAG_NONE;
    STAILQ_REMOVE_HEAD(&t->free_stags, next_free);
    UT_ASSERT(t->num_free > 0);
    t->num_free--;
    return l->index;
}

static void give_dynamic(struct ut_stag_table *t, uint32_t index)
{
    struct ut_stag_local *l = local_at(t, index);

    l->generation = (l->generation + 1) & 0x3f;
    STAILQ_INSERT_TAIL(&t->free_stags, l, next_free);
    t->num_free++;
}

static utofu_stadd_t stadd_of(const struct ut_stag_table *t, uint32_t index,
                              const struct ut_stag_local *l)
{
    uint32_t stag = index < UT_STAG_CHUNK ? UT_STAG_RESERVED_BASE + 0x100 * t->cmp + index
                                          : UT_STAG_DYNAMIC_BASE + index - UT_STAG_CHUNK;

    return ut_stadd_make(stag, l->generation, ut_stadd_offset_of_base(index, (uintptr_t)l->base));
}

static void publish_stag(struct ut_stag_table *t, uint32_t index)
{
    struct ut_stag_local *l = local_at(t, index);
    struct ut_stag_entry e = {0};

    if (l->region) {
        e.base = (uintptr_t)l->base;
        e.size = l->size;
        e.info = UT_STAG_VALID | (l->writable ? UT_STAG_WRITABLE : 0u) |
                 (uint32_t)l->generation << UT_STAG_GENERATION_SHIFT;
    }
    for (int p = 0; p < PROV_COUNT; p++) {
        if (!in_use(p))
            continue;
        if (l->region) {
            e.rkey = ut_region_rkey(l->region, p);
            l->lkey[p] = ut_region_lkey(l->region, p);
        }
        e.check = ut_stag_entry_check(&e);
        publish_entry(entry_at(t, index, p), &e);
    }
}

enum ut_stag_result ut_stag_find(struct ut_stag_table *t, utofu_stadd_t stadd, uint64_t length,
                                 bool write, struct ut_stag_local **out, uint8_t **addr)
{
    uint32_t index = ut_stag_index(ut_stadd_stag(stadd), t->cmp);

    if (index == UT_STAG_NONE || !t->locals[index / UT_STAG_CHUNK])
        return UT_STAG_BAD_STADD;
    struct ut_stag_local *l = local_at(t, index);
    if (!l->region || l->generation != ut_stadd_generation(stadd))
        return UT_STAG_BAD_STADD;
    uint64_t first = ut_stadd_offset_of_base(index, (uintptr_t)l->base);
    uint64_t at = ut_stadd_offset(stadd) - first;
    if (at >= l->size && (at > l->size || length > 0))
        return UT_STAG_BAD_STADD;
    if (length > l->size - at)
        return UT_STAG_BAD_LENGTH;
    if (write && !l->writable)
        return UT_STAG_BAD_ACCESS;
    t->hot = (struct ut_stadd_range){
        .first = stadd - at, .size = l->size, .delta = (uintptr_t)l->base - (stadd - at)};
    t->hot_writable = t->hot;
    if (!l->writable)
        t->hot_writable.size = 0;
    t->hot_local = l;
    *out = l;
    *addr = l->base + at;
    return UT_STAG_OK;
}

struct ut_failure ut_region_failure_cause(uint64_t first, uint64_t size, bool writable,
                                          utofu_stadd_t stadd, uint64_t length, bool write)
{
    uint64_t offset = ut_stadd_offset(stadd), at = offset - first;

    if (offset < first)
        return (struct ut_failure){.cause = UT_CAUSE_BEFORE, .detail = first - offset};
    if (at >= size && (at > size || length > 0))
        return (struct ut_failure){.cause = UT_CAUSE_BEHIND, .detail = at - size + 1};
    if (length > size - at)
        return (struct ut_failure){.cause = UT_CAUSE_SHORT, .detail = size - at};
    return (struct ut_failure){.cause = write && !writable ? UT_CAUSE_READ_ONLY : UT_CAUSE_ACCESS};
}

struct ut_failure ut_stag_failure_cause(const struct ut_stag_table *t, utofu_stadd_t stadd,
                                        uint64_t length, bool write)
{
    uint32_t index = ut_stag_index(ut_stadd_stag(stadd), t->cmp);
    const struct ut_stag_local *l = NULL;

    if (index != UT_STAG_NONE && t->locals[index / UT_STAG_CHUNK])
        l = &t->locals[index / UT_STAG_CHUNK][index % UT_STAG_CHUNK];
    if (!l || !l->region || l->generation != ut_stadd_generation(stadd))
        return (struct ut_failure){.cause = UT_CAUSE_NO_STAG};
    return ut_region_failure_cause(ut_stadd_offset_of_base(index, (uintptr_t)l->base), l->size,
                                   l->writable, stadd, length, write);
}

static int region_error(int rc, const void *addr, size_t size, bool writable)
{
    switch (rc) {
    case -EFAULT:
    case -EACCES:
        return ut_log_refuse(
            UTOFU_ERR_INVALID_ADDRESS, UT_LOG_WARNING, "stag",
            "%zu bytes at %p cannot be registered: not all of it is memory of the host that is "
            "mapped%s",
            size, addr,
            writable ? " and writable (UTOFU_REG_MEM_FLAG_READ_ONLY is for "
                       "constant data)"
                     : "");
    case -ENOMEM:
        return UTOFU_ERR_OUT_OF_MEMORY;
    case -ENOSPC:
        return UTOFU_ERR_FULL;
    default:
        return UTOFU_ERR_OUT_OF_RESOURCE;
    }
}

static unsigned int access_of(bool writable)
{
    return writable ? PROV_ACCESS_READ | PROV_ACCESS_WRITE | PROV_ACCESS_ATOMIC : PROV_ACCESS_READ;
}

int ut_stag_region_get(unsigned int tni, void *addr, size_t size, bool writable,
                       struct ut_region **region)
{
    int rc = ut_region_get(tni, addr, size, access_of(writable), region);

    return rc == 0 ? 0 : region_error(rc, addr, size, writable);
}

/* Counts another registration of the same memory, which returns the same STag. */
static bool count_again(struct ut_stag_table *t, const void *addr, size_t size, bool writable,
                        utofu_stadd_t *stadd)
{
    struct ut_stag_local *l;

    UT_HASH_FOREACH (l, &t->by_memory, ut_region_hash(addr, size, writable), by_memory) {
        if (l->base == addr && l->size == size && l->writable == writable) {
            l->count++;
            *stadd = stadd_of(t, l->index, l);
            return true;
        }
    }
    return false;
}

static int refuse_used(struct ut_stag_table *t, uint32_t stag)
{
    return ut_log_refuse(
        UTOFU_ERR_USED, UT_LOG_DEBUG, "stag", "STag %u has %llu bytes at %p registered", stag,
        (unsigned long long)local_at(t, stag)->size, (void *)local_at(t, stag)->base);
}

static int refuse_full(void)
{
    return ut_log_refuse(UTOFU_ERR_FULL, UT_LOG_DEBUG, "stag", "all %d STags of the VCQ are in use",
                         UT_STAG_DYNAMIC);
}

int ut_stag_reuse(struct ut_stag_table *t, void *addr, size_t size, uint32_t stag, bool writable,
                  utofu_stadd_t *stadd)
{
    if (stag != UT_STAG_NONE)
        return local_at(t, stag)->region ? refuse_used(t, stag) : UTOFU_ERR_NOT_FOUND;
    if (count_again(t, addr, size, writable, stadd))
        return 0;
    if (STAILQ_EMPTY(&t->free_stags) && t->num_made == UT_STAG_DYNAMIC)
        return refuse_full();
    return UTOFU_ERR_NOT_FOUND;
}

int ut_stag_register(struct ut_stag_table *t, void *addr, size_t size, uint32_t stag, bool writable,
                     struct ut_region *region, utofu_stadd_t *stadd)
{
    uint32_t index = stag;

    if (stag == UT_STAG_NONE) {
        index = take_dynamic(t);
        if (index == UT_STAG_NONE)
            return refuse_full();
    }
    struct ut_stag_local *l = local_at(t, index);
    UT_ASSERT(!l->region);
    l->base = addr;
    l->size = size;
    l->writable = writable;
    l->region = region;
    l->count = 1;
    if (stag == UT_STAG_NONE && ut_hash_reserve(&t->by_memory))
        ut_hash_insert(&t->by_memory, &l->by_memory, ut_region_hash(addr, size, writable));
    publish_stag(t, index);
    *stadd = stadd_of(t, index, l);
    return 0;
}

int ut_stag_deregister(struct ut_stag_table *t, utofu_stadd_t stadd, struct ut_region **gone)
{
    uint32_t index = ut_stag_index(ut_stadd_stag(stadd), t->cmp);

    *gone = NULL;
    if (index == UT_STAG_NONE || !t->locals[index / UT_STAG_CHUNK])
        return UTOFU_ERR_INVALID_STADD;
    struct ut_stag_local *l = local_at(t, index);
    if (!l->region || stadd != stadd_of(t, index, l))
        return UTOFU_ERR_INVALID_STADD;
    UT_ASSERT(l->count > 0);
    if (--l->count > 0)
        return 0;
    *gone = l->region;
    t->hot.size = t->hot_writable.size = 0;
    if (index >= UT_STAG_CHUNK)
        ut_hash_remove(&t->by_memory, &l->by_memory);
    l->region = NULL;
    publish_stag(t, index);
    if (index >= UT_STAG_CHUNK)
        give_dynamic(t, index);
    return 0;
}
