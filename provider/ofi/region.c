/* SPDX-License-Identifier: Apache-2.0 */
#include "region.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/attach.h"
#include "common/ordered.h"
#include "common/there.h"
#include "mapped.h"
#include "util/log.h"

enum { INDEX_BITS = 20, MAX_REGIONS = 1 << INDEX_BITS, FIRST_ROOM = 64 };

static const struct fp_region no_region;

static uint32_t index_of(uint32_t key)
{
    return key & (MAX_REGIONS - 1);
}

static struct fp_region *take_place(struct fp_prov *prov)
{
    if (prov->free_region != UINT32_MAX) {
        struct fp_region *r = prov->regions[prov->free_region];
        prov->free_region = r->next_free;
        return r;
    }
    if (prov->num_regions == MAX_REGIONS)
        return NULL;
    if (prov->num_regions == prov->room_for_regions) {
        uint32_t room = prov->room_for_regions ? 2 * prov->room_for_regions : FIRST_ROOM;
        void *more = realloc(prov->regions, room * sizeof(*prov->regions));
        if (!more)
            return NULL;
        prov->regions = more;
        prov->room_for_regions = room;
    }
    struct fp_region *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->mr.lkey = prov->num_regions;
    prov->regions[prov->num_regions++] = r;
    return r;
}

int fp_reg(struct prov *base, unsigned int device, void *addr, size_t size, unsigned int access,
           struct prov_mr **mr)
{
    struct fp_prov *prov = fp_prov_of(base);

    (void)device;
    if (!prov_memory_is_there(addr, size, access & PROV_ACCESS_WRITE))
        return -EFAULT;
    pthread_mutex_lock(&prov->regions_lock);
    struct fp_region *r = take_place(prov);
    if (r) {
        r->mr.lkey += MAX_REGIONS; /* the next generation, and so never 0 at first */
        if (r->mr.lkey < MAX_REGIONS)
            r->mr.lkey += MAX_REGIONS;
        r->mr.rkey = r->mr.lkey;
        r->addr = (uintptr_t)addr;
        r->size = size;
        r->access = access | 1u << 31;
    }
    pthread_mutex_unlock(&prov->regions_lock);
    if (!r) {
        ut_error(FP_CAT, "no place for another memory region (%u are registered)",
                 prov->num_regions);
        return -ENOMEM;
    }
    *mr = &r->mr;
    return 0;
}

void fp_dereg(struct prov *base, struct prov_mr *mr)
{
    struct fp_prov *prov = fp_prov_of(base);
    struct fp_region *r = fp_container_of(mr, struct fp_region, mr);

    pthread_mutex_lock(&prov->regions_lock);
    r->access = 0;
    r->next_free = prov->free_region;
    prov->free_region = index_of(r->mr.lkey);
    pthread_mutex_unlock(&prov->regions_lock);
}

void fp_regions_free(struct fp_prov *prov)
{
    for (uint32_t i = 0; i < prov->num_regions; i++)
        free(prov->regions[i]);
    free(prov->regions);
}

/* With the lock. */
static const struct fp_region *find(const struct fp_prov *prov, uint32_t key)
{
    uint32_t index = index_of(key);

    if (index >= prov->num_regions || prov->regions[index]->mr.rkey != key ||
        prov->regions[index]->access == 0)
        return &no_region;
    return prov->regions[index];
}

static bool allows(const struct fp_prov *prov, uint32_t key, uint64_t addr, uint64_t length,
                   unsigned int access)
{
    const struct fp_region *r = find(prov, key);

    return length == 0 || ((r->access & access) == access && addr >= r->addr && length <= r->size &&
                           addr - r->addr <= r->size - length);
}

bool fp_allows(struct fp_prov *prov, uint32_t key, uint64_t addr, uint64_t length,
               unsigned int access)
{
    pthread_mutex_lock(&prov->regions_lock);
    bool good = allows(prov, key, addr, length, access);
    pthread_mutex_unlock(&prov->regions_lock);
    return good;
}

/* Can the kernel copy within this process? Then memory that is not there is an error, and no
 * signal; seccomp may forbid it. */
static bool can_attach(int rc)
{
    static int forbidden;

    if (rc == -EPERM || rc == -ENOSYS)
        __atomic_store_n(&forbidden, 1, __ATOMIC_RELAXED);
    return !__atomic_load_n(&forbidden, __ATOMIC_RELAXED);
}

bool fp_copy_own(void *to, const void *from, size_t size)
{
    int rc = 0;

    if (size == 0)
        return true;
    if (can_attach(0))
        rc = prov_cma_read(getpid(), to, (uintptr_t)from, size);
    if (rc != 0 && can_attach(rc))
        return false;
    if (can_attach(0))
        return true;
    prov_unwatched_begin();
    memcpy(to, from, size);
    prov_unwatched_end();
    return true;
}

static bool put_own(void *to, const void *from, size_t size)
{
    int rc = 0;

    if (size == 0)
        return true;
    if (can_attach(0))
        rc = prov_cma_write(getpid(), from, (uintptr_t)to, size);
    if (rc != 0 && can_attach(rc))
        return false;
    if (!can_attach(0))
        prov_copy_ordered(to, from, size);
    return true;
}

enum prov_status fp_copy_in(struct fp_prov *prov, uint32_t key, uint64_t to, uint64_t whole,
                            const void *from, size_t offset, size_t size)
{
    enum prov_status status = PROV_RMT_ACCESS;

    pthread_mutex_lock(&prov->regions_lock);
    if (allows(prov, key, to, whole, PROV_ACCESS_WRITE))
        status = put_own((uint8_t *)(uintptr_t)to + offset, from, size) ? PROV_OK : PROV_RMT_FAULT;
    pthread_mutex_unlock(&prov->regions_lock);
    return status;
}

enum prov_status fp_copy_out(struct fp_prov *prov, uint32_t key, uint64_t from, uint64_t whole,
                             void *to, size_t offset, size_t size)
{
    enum prov_status status = PROV_RMT_ACCESS;

    pthread_mutex_lock(&prov->regions_lock);
    if (allows(prov, key, from, whole, PROV_ACCESS_READ))
        status = fp_copy_own(to, (const uint8_t *)(uintptr_t)from + offset, size) ? PROV_OK
                                                                                  : PROV_RMT_FAULT;
    pthread_mutex_unlock(&prov->regions_lock);
    return status;
}
