/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions: one registration with each provider for (address, size, access, device), with a
 * reference count. Registering gigabytes takes long, so no lock is held meanwhile: another thread
 * that needs the same region waits.
 */
#include "stag/region.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "util/assert.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "util/long_wait.h"

static struct {
    struct ut_hash_table regions;
    pthread_mutex_t lock;
    pthread_cond_t registered;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER, .registered = PTHREAD_COND_INITIALIZER};
enum { REGISTERING = 1 };

static void find_devices(const struct ut_process *process, unsigned int tni,
                         struct ut_devices *devices)
{
    for (int i = 0; i < PROV_COUNT; i++) {
        struct prov *prov = process->prov[i];
        devices->of[i] = prov ? prov->ops->device(prov, tni) : 0;
    }
}

static bool same_devices(const struct ut_devices *a, const struct ut_devices *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

/* mlock(2) locks as much as the limit allows. The manual promises no more. */
static void lock_pages(struct ut_region *r)
{
    struct rlimit limit;

    if (mlock(r->addr, r->size) == 0) {
        r->locked = true;
        return;
    }
    getrlimit(RLIMIT_MEMLOCK, &limit);
    ut_warn("stag",
            "UTOFU_SWAP_PROTECT: cannot lock %zu bytes at %p (%s); locked memory is limited "
            "to %llu bytes: raise it with ulimit -l",
            r->size, r->addr, strerror(errno), (unsigned long long)limit.rlim_cur);
}

/* Unlocks the pages, except those shared with another locked region. */
static void unlock_pages(struct ut_region *gone)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)gone->addr & ~(page - 1);
    uintptr_t to = ((uintptr_t)gone->addr + gone->size + page - 1) & ~(page - 1);
    struct ut_region *r;

    munlock((void *)from, to - from);
    UT_HASH_FOREACH_ALL (r, &registry.regions, by_memory) {
        uintptr_t a = (uintptr_t)r->addr;
        if (r != gone && r->locked && a < to && a + r->size > from)
            (void)mlock(r->addr, r->size);
    }
}

/* Registers in the order of the registry: shm may remap pages, so it precedes devices, which pin
 * pages. Deregistering uses the reverse order. */
static int register_everywhere(const struct ut_process *process, struct ut_region *r)
{
    uintptr_t from = (uintptr_t)r->addr, to = from + r->size;

    if ((r->access & PROV_ACCESS_ATOMIC) && process->armw_mode == UT_ARMW_NIC) {
        /* devices execute atomics on whole words, and 4 bytes may be half of a word */
        from &= ~7ull;
        to = (to + 7) & ~7ull;
    }
    for (int i = 0; i < PROV_COUNT; i++) {
        struct prov *prov = process->prov[i];
        if (!prov || r->devices.of[i] == UT_NO_DEVICE)
            continue;
        int rc =
            prov->ops->reg(prov, r->devices.of[i], (void *)from, to - from, r->access, &r->mr[i]);
        if (rc == 0)
            continue;
        while (--i >= 0) {
            if (r->mr[i])
                process->prov[i]->ops->dereg(process->prov[i], r->mr[i]);
        }
        return rc;
    }
    return 0;
}

static struct ut_region *find_locked(const struct ut_region *like)
{
    struct ut_region *r;

    UT_HASH_FOREACH (r, &registry.regions, ut_region_hash(like->addr, like->size, like->access),
                     by_memory) {
        if (r->addr == like->addr && r->size == like->size && r->access == like->access &&
            same_devices(&r->devices, &like->devices))
            break;
    }
    return r;
}

/* Drops a reference. Frees the region if it is not registered and has no references. */
static void unref_locked(struct ut_region *region)
{
    UT_ASSERT(region->count > 0);
    if (--region->count == 0)
        free(region);
}

/* Adds a new region. From now on other threads find the region, but it is not ready yet. */
static struct ut_region *add_locked(const struct ut_region *like)
{
    struct ut_region *r = ut_hash_reserve(&registry.regions) ? malloc(sizeof(*r)) : NULL;

    if (!r)
        return NULL;
    *r = *like;
    r->rc = REGISTERING;
    ut_hash_insert(&registry.regions, &r->by_memory, ut_region_hash(r->addr, r->size, r->access));
    return r;
}

static void register_unlocked(const struct ut_process *process, struct ut_region *r)
{
    pthread_mutex_unlock(&registry.lock);
    int rc = register_everywhere(process, r);
    pthread_mutex_lock(&registry.lock);
    r->rc = rc;
    if (rc != 0)
        ut_hash_remove(&registry.regions, &r->by_memory);
    else if (ut_env_num(UT_ENV_SWAP_PROTECT))
        lock_pages(r);
    pthread_cond_broadcast(&registry.registered);
}

/* Waits until another thread has registered the same region. */
static void wait_until_registered(const struct ut_region *r)
{
    struct ut_long_wait long_wait = ut_long_wait_begin(ut_clock_ms());

    while (r->rc == REGISTERING) {
        uint64_t now = ut_clock_ms(), ms = (uint64_t)ut_long_wait_timeout_ms(&long_wait, now, -1);
        struct timespec until = ut_clock_after(CLOCK_REALTIME, ms);

        if (ut_long_wait_must_log(&long_wait, now))
            ut_warn("stag",
                    "utofu_reg_mem has waited %llu s for another thread, which registers the same "
                    "%zu bytes at %p",
                    ut_long_wait_seconds(&long_wait, now), r->size, r->addr);
        pthread_cond_timedwait(&registry.registered, &registry.lock, &until);
    }
}

int ut_region_get_like(const struct ut_region *like, struct ut_region **region)
{
    const struct ut_process *process = ut_process_peek();

    pthread_mutex_lock(&registry.lock);
    struct ut_region *r = find_locked(like);
    if (r) {
        r->count++;
        wait_until_registered(r);
    } else if ((r = add_locked(like))) {
        r->count++;
        register_unlocked(process, r);
    }
    int rc = r ? r->rc : -ENOMEM;
    if (r && rc != 0) {
        unref_locked(r);
        r = NULL;
    }
    pthread_mutex_unlock(&registry.lock);
    *region = r;
    return rc;
}

int ut_region_get(unsigned int tni, void *addr, size_t size, unsigned int access,
                  struct ut_region **region)
{
    struct ut_region like = {.addr = addr, .size = size, .access = access};

    find_devices(ut_process_peek(), tni, &like.devices);
    return ut_region_get_like(&like, region);
}

bool ut_region_unref(struct ut_region *region)
{
    bool last;

    pthread_mutex_lock(&registry.lock);
    UT_ASSERT(region->count > 0 && region->rc == 0);
    last = region->count == 1;
    if (last) {
        ut_hash_remove(&registry.regions, &region->by_memory);
        if (region->locked)
            unlock_pages(region);
    } else {
        region->count--;
    }
    pthread_mutex_unlock(&registry.lock);
    return last;
}

void ut_region_free(struct ut_region *region)
{
    const struct ut_process *process = ut_process_peek();

    for (int i = PROV_COUNT - 1; i >= 0; i--) {
        if (region->mr[i])
            process->prov[i]->ops->dereg(process->prov[i], region->mr[i]);
    }
    free(region);
}

uint32_t ut_region_lkey(const struct ut_region *region, int provider)
{
    return region->mr[provider] ? region->mr[provider]->lkey : 0;
}

uint32_t ut_region_rkey(const struct ut_region *region, int provider)
{
    return region->mr[provider] ? region->mr[provider]->rkey : 0;
}
