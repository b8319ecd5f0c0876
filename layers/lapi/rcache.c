/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registration cache. Memory of the program is registered when it is used, and stays
 * registered, because registration costs more than most transfers.
 *
 * A program may unmap memory and map other memory at the same address without telling the layer. So
 * each use compares the current mappings of the region with those at registration. The comparison
 * detects a change only for whole pages of files, such as those that uTofu shares with other
 * processes of the host. Anonymous mappings look all the same, so they are registered for each
 * transfer.
 */
#include "rcache.h"
#include "net.h"

#include <stdlib.h>
#include <sys/ioctl.h>

#include "../common/fd.h"
#include "../common/hash.h"

enum { PAGE = 4096, MAX_UNUSED_BYTES = 256 << 20 /* bytes of unused regions, at most */ };

/* From <linux/fs.h>, which may be older than the kernel. */
struct procmap_query {
    uint64_t size, query_flags, query_addr;
    uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
    uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
    uint64_t vma_name_addr, build_id_addr;
};
#define LA_PROCMAP_QUERY _IOWR('f', 17, struct procmap_query)

void la_rcache_setup(void)
{
    for (int i = 0; i < LA_NUM_REGIONS; i++)
        la.rcache.regions[i].size = 0;
    la.rcache.use_clock = la.rcache.unused_bytes = 0;
    la.rcache.maps_fd = -1;
    if (lc_env_number("LAPI_NO_CACHE", 0) == 0)
        la.rcache.maps_fd = lc_fd_open_ours(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
}

/* A hash of the mappings of the whole pages of the region. 0: changes cannot be detected, or the
 * kernel (before 6.11) cannot tell. */
static uint64_t hash_mappings(uintptr_t address, uint64_t size)
{
    uintptr_t at = (address + PAGE - 1) / PAGE * PAGE, end = (address + size) / PAGE * PAGE;
    uint64_t hash = 1, previous = 0;

    if (la.rcache.maps_fd < 0 || at >= end)
        return 0;
    while (at < end) {
        struct procmap_query q = {.size = sizeof(q), .query_addr = at};

        if (ioctl(la.rcache.maps_fd, LA_PROCMAP_QUERY, &q) != 0 || q.inode == 0)
            return 0;
        /* adjacent mappings of one file count as one */
        uint64_t mapping =
            ut_hash_word(ut_hash_word(q.inode, (uint64_t)q.dev_major << 32 | q.dev_minor),
                         q.vma_offset - q.vma_start);
        if (mapping != previous)
            hash = ut_hash_word(ut_hash_word(hash, mapping), at);
        previous = mapping;
        at = q.vma_end;
    }
    return hash | 1;
}

static void evict_region(struct la_region *r)
{
    if (r->refcount == 0)
        la.rcache.unused_bytes -= r->size;
    la_check_rc(utofu_dereg_mem(la_port()->vcq, r->stadd, 0), "utofu_dereg_mem");
    r->size = 0;
}

void la_rcache_close(void)
{
    for (int i = 0; i < LA_NUM_REGIONS; i++)
        if (la.rcache.regions[i].size != 0)
            evict_region(&la.rcache.regions[i]);
    lc_fd_close(la.rcache.maps_fd);
    la.rcache.maps_fd = -1;
}

bool la_rcache_is_current(struct la_region *r)
{
    if (!r->evict_after_use && hash_mappings(r->address, r->size) != r->mapping_hash)
        r->mapping_changed = r->evict_after_use = true; /* deregistered by its last user */
    return !r->mapping_changed;
}

/* NULL: no region contains the memory. check: the mapping must be that of the registration. */
static struct la_region *find_region(uintptr_t address, uint64_t size, bool write, bool check)
{
    for (int i = 0; i < LA_NUM_REGIONS; i++) {
        struct la_region *r = &la.rcache.regions[i];

        if (r->size == 0 || r->evict_after_use || (write && !r->writable) || address < r->address ||
            address - r->address > r->size || size > r->size - (address - r->address))
            continue;
        if (!check || la_rcache_is_current(r))
            return r;
        if (r->refcount == 0)
            evict_region(r);
    }
    return NULL;
}

/* Returns a free entry, or evicts the region that was unused for longest. NULL: all regions are in
 * use. */
static struct la_region *find_free_region(uint64_t size)
{
    for (;;) {
        struct la_region *oldest = NULL, *free_entry = NULL;

        for (int i = 0; i < LA_NUM_REGIONS; i++) {
            struct la_region *r = &la.rcache.regions[i];

            if (r->size == 0)
                free_entry = r;
            else if (r->refcount == 0 && (oldest == NULL || r->last_use < oldest->last_use))
                oldest = r;
        }
        if (oldest == NULL ||
            (free_entry != NULL && la.rcache.unused_bytes + size <= MAX_UNUSED_BYTES))
            return free_entry;
        evict_region(oldest);
    }
}

/* Registers memory for writing if possible, because uTofu shares only writable pages. Memory that
 * is only read may be read-only. */
static bool register_region(struct la_region *r, uintptr_t address, uint64_t size, bool write)
{
    r->writable =
        utofu_reg_mem(la_port()->vcq, (void *)address, size, 0, &r->stadd) == UTOFU_SUCCESS;
    return r->writable ||
           (!write && utofu_reg_mem(la_port()->vcq, (void *)address, size,
                                    UTOFU_REG_MEM_FLAG_READ_ONLY, &r->stadd) == UTOFU_SUCCESS);
}

static struct la_region *add_region(uintptr_t address, uint64_t size, bool write)
{
    struct la_region *r = find_free_region(size);
    bool extra = r == NULL;

    if (extra)
        r = malloc(sizeof(*r));
    if (r == NULL)
        return NULL;
    if (!register_region(r, address, size, write)) {
        if (extra)
            free(r);
        return NULL;
    }
    r->address = address;
    r->size = size;
    r->refcount = 0;
    r->mapping_hash = extra ? 0 : hash_mappings(address, size);
    r->evict_after_use = r->mapping_hash == 0;
    r->mapping_changed = false;
    la.rcache.unused_bytes += extra ? 0 : size;
    return r;
}

/* False: an extra region. */
static bool is_table_entry(const struct la_region *r)
{
    return r >= la.rcache.regions && r < la.rcache.regions + LA_NUM_REGIONS;
}

static struct la_region *get_region(const void *address, uint64_t size, bool write, bool check,
                                    utofu_stadd_t *stadd)
{
    struct la_region *r = find_region((uintptr_t)address, size, write, check);

    if (r == NULL)
        r = add_region((uintptr_t)address, size, write);
    if (r == NULL)
        return NULL;
    if (r->refcount++ == 0 && is_table_entry(r))
        la.rcache.unused_bytes -= r->size;
    r->last_use = ++la.rcache.use_clock;
    *stadd = r->stadd + ((uintptr_t)address - r->address);
    return r;
}

struct la_region *la_rcache_get(const void *address, uint64_t size, bool write,
                                utofu_stadd_t *stadd)
{
    return get_region(address, size, write, true, stadd);
}

struct la_region *la_rcache_get_unchecked(const void *address, uint64_t size, bool write,
                                          utofu_stadd_t *stadd)
{
    return get_region(address, size, write, false, stadd);
}

bool la_rcache_is_file_backed(const struct la_region *r)
{
    return r->mapping_hash != 0;
}

void la_rcache_put(struct la_region *r)
{
    if (--r->refcount > 0)
        return;
    if (!is_table_entry(r)) {
        la_check_rc(utofu_dereg_mem(la_port()->vcq, r->stadd, 0), "utofu_dereg_mem");
        free(r);
        return;
    }
    la.rcache.unused_bytes += r->size;
    if (r->evict_after_use)
        evict_region(r);
}
