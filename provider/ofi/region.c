/* SPDX-License-Identifier: Apache-2.0 */
/* Memory regions, their registrations with the fabric, and copies: see region.h. */
#include "region.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cma.h"
#include "common/copy_ordered.h"
#include "common/probe.h"
#include "common/atomic_width.h"
#include "lib.h"
#include "mapped.h"
#include "fabric.h"
#include "util/log.h"

enum { INDEX_BITS = 20, MAX_REGIONS = 1 << INDEX_BITS, FIRST_ROOM = 64, MIN_QUEUE = 256 };

/* A registration with the fabric. */
struct fp_registration {
    struct fp_registration *next;
    struct fp_ep *ep; /* for the peers of this endpoint; NULL: for all */
    struct fid_mr *mr;
};

/* Methods of copying within this process. Unmapped memory must cause an error and no signal.
 * If seccomp forbids a method, the next one is used. */
enum copy_method {
    BY_PROBE,  /* asks the kernel whether the memory is mapped, then copies */
    BY_BOUNCE, /* the kernel copies by way of a memfd */
    BY_CMA,    /* the kernel copies by cross-memory attach */
    BY_LOADS,  /* copies without a check */
};

static const struct fp_region no_region;

static uint32_t index_of(uint32_t key)
{
    return key & (MAX_REGIONS - 1);
}

static struct fp_region *add_region(struct fp_prov *prov)
{
    if (prov->num_regions == MAX_REGIONS)
        return NULL;
    if (prov->num_regions == prov->regions_size) {
        uint32_t room = prov->regions_size ? 2 * prov->regions_size : FIRST_ROOM;
        void *more = realloc(prov->regions, room * sizeof(*prov->regions));
        if (!more)
            return NULL;
        prov->regions = more;
        prov->regions_size = room;
    }
    struct fp_region *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->mr.lkey = prov->num_regions;
    prov->regions[prov->num_regions++] = r;
    return r;
}

/* A key has 12 bits of generation. A freed region is reused only after others, so that its key
 * returns after a million registrations, and not after 4,095. */
static struct fp_region *alloc_region(struct fp_prov *prov)
{
    struct fp_region *r = prov->num_free_regions < MIN_QUEUE ? add_region(prov) : NULL;

    if (r || STAILQ_EMPTY(&prov->free_regions))
        return r;
    r = STAILQ_FIRST(&prov->free_regions);
    STAILQ_REMOVE_HEAD(&prov->free_regions, next_free);
    prov->num_free_regions--;
    return r;
}

int fp_reg(struct prov *base, unsigned int device, void *addr, size_t size, unsigned int access,
           struct prov_mr **mr)
{
    struct fp_prov *prov = fp_prov_of(base);

    (void)device;
    if (!prov_memory_is_mapped(addr, size, access & PROV_ACCESS_WRITE))
        return -EFAULT;
    pthread_mutex_lock(&prov->regions_lock);
    struct fp_region *r = alloc_region(prov);
    if (r) {
        r->mr.lkey += MAX_REGIONS; /* the next generation, so that the key is never 0 */
        if (r->mr.lkey < MAX_REGIONS)
            r->mr.lkey += MAX_REGIONS;
        r->mr.rkey = r->mr.lkey;
        r->addr = (uintptr_t)addr;
        r->size = size;
        r->access = access | 1u << 31;
        r->is_unregistrable = false;
    }
    pthread_mutex_unlock(&prov->regions_lock);
    if (!r) {
        ut_error(FP_CAT, "cannot register another memory region (%u are registered)",
                 prov->num_regions);
        return -ENOMEM;
    }
    *mr = &r->mr;
    return 0;
}

/* Called with the lock. `ep` NULL: for all endpoints. */
static void drop_registrations(struct fp_region *r, const struct fp_ep *ep)
{
    struct fp_registration **at = &r->registrations;

    while (*at) {
        struct fp_registration *e = *at;
        if (ep && e->ep != ep) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        fp_fabric_mr_close(e->mr);
        free(e);
    }
}

void fp_dereg(struct prov *base, struct prov_mr *mr)
{
    struct fp_prov *prov = fp_prov_of(base);
    struct fp_region *r = fp_container_of(mr, struct fp_region, mr);

    pthread_mutex_lock(&prov->regions_lock);
    drop_registrations(r, NULL);
    r->access = 0;
    STAILQ_INSERT_TAIL(&prov->free_regions, r, next_free);
    prov->num_free_regions++;
    pthread_mutex_unlock(&prov->regions_lock);
}

void fp_regions_open(struct fp_prov *prov)
{
    int rc = prov_bounce_open(&prov->bounce);

    if (rc != 0)
        ut_info(FP_CAT, "no memfd for copies: %s", strerror(-rc));
    if (!prov_probe_is_supported()) {
        ut_info(FP_CAT,
                "the kernel does not report whether memory is mapped, so the kernel copies");
        prov->copy_method = BY_BOUNCE;
    }
}

void fp_regions_free(struct fp_prov *prov)
{
    prov_bounce_close(&prov->bounce);
    for (uint32_t i = 0; i < prov->num_regions; i++) {
        drop_registrations(prov->regions[i], NULL);
        free(prov->regions[i]);
    }
    free(prov->regions);
}

/* Called with the lock. */
static const struct fp_region *find_region(const struct fp_prov *prov, uint32_t key)
{
    uint32_t index = index_of(key);

    if (index >= prov->num_regions || prov->regions[index]->mr.rkey != key ||
        prov->regions[index]->access == 0)
        return &no_region;
    return prov->regions[index];
}

static bool check_access(const struct fp_prov *prov, uint32_t key, uint64_t addr, uint64_t length,
                         unsigned int access)
{
    const struct fp_region *r = find_region(prov, key);

    return length == 0 || ((r->access & access) == access && addr >= r->addr && length <= r->size &&
                           addr - r->addr <= r->size - length);
}

bool fp_region_allows(struct fp_prov *prov, uint32_t key, uint64_t addr, uint64_t length,
                      unsigned int access)
{
    pthread_mutex_lock(&prov->regions_lock);
    bool is_allowed = check_access(prov, key, addr, length, access);
    pthread_mutex_unlock(&prov->regions_lock);
    return is_allowed;
}

static int register_with(struct fp_ep *ep, const struct fp_region *r, struct fid_mr **mr)
{
    struct fp_prov *prov = ep->prov;
    uint64_t access = FI_WRITE | FI_REMOTE_READ;

    if (fp_can_rma_write(prov) && (r->access & PROV_ACCESS_WRITE))
        access |= FI_REMOTE_WRITE;
    int rc =
        fp_fabric_mr_reg(prov, &ep->fids, (const void *)(uintptr_t)r->addr, r->size, access, mr);
    if (rc != 0 || fi_mr_key(*mr) != FI_KEY_NOTAVAIL)
        return rc;
    fp_fabric_mr_close(*mr); /* the key has more than 8 bytes */
    return -FI_ENOKEY;
}

/* Called with the lock. */
static struct fp_registration *get_registration(struct fp_ep *ep, struct fp_region *r)
{
    const struct fp_prov *prov = ep->prov;
    bool is_own = (prov->mr_mode & FI_MR_ENDPOINT) || prov->own_domains;
    const struct fp_ep *to = is_own ? ep : NULL;
    struct fp_registration *e = r->registrations;

    while (e && e->ep != to)
        e = e->next;
    if (e || r->is_unregistrable || !(e = calloc(1, sizeof(*e))))
        return e;
    int rc = register_with(ep, r, &e->mr);
    if (rc != 0) {
        ut_info(FP_CAT, "the fabric cannot register %llu bytes (%s): they are sent in messages",
                (unsigned long long)r->size, fp_strerror(rc));
        r->is_unregistrable = true;
        free(e);
        return NULL;
    }
    e->ep = to ? ep : NULL;
    e->next = r->registrations;
    r->registrations = e;
    return e;
}

/* Called with the lock. */
static uint64_t fabric_address(const struct fp_prov *prov, const struct fp_region *r, uint64_t addr)
{
    return prov->mr_mode & FI_MR_VIRT_ADDR ? addr : addr - r->addr;
}

bool fp_region_register(struct fp_ep *ep, uint32_t key, uint64_t addr, uint64_t length,
                        uint64_t *fabric_key, uint64_t *at)
{
    struct fp_prov *prov = ep->prov;
    struct fp_registration *e = NULL;

    pthread_mutex_lock(&prov->regions_lock);
    if (check_access(prov, key, addr, length, 0)) {
        struct fp_region *r = prov->regions[index_of(key)];
        e = get_registration(ep, r);
        if (e) {
            *fabric_key = fi_mr_key(e->mr);
            *at = fabric_address(prov, r, addr);
        }
    }
    pthread_mutex_unlock(&prov->regions_lock);
    return e != NULL;
}

bool fp_region_grant_rkey(struct fp_ep *ep, uint32_t key, uint64_t addr, uint64_t length,
                          struct fp_rkey_reply *answer)
{
    struct fp_prov *prov = ep->prov;
    struct fp_registration *e = NULL;

    pthread_mutex_lock(&prov->regions_lock);
    if (fp_can_rma_write(prov) && length > 0 &&
        check_access(prov, key, addr, length, PROV_ACCESS_WRITE)) {
        struct fp_region *r = prov->regions[index_of(key)];
        e = get_registration(ep, r);
        if (e) {
            answer->key = fi_mr_key(e->mr);
            answer->addr = r->addr;
            answer->size = r->size;
            answer->at = fabric_address(prov, r, r->addr);
        }
    }
    pthread_mutex_unlock(&prov->regions_lock);
    return e != NULL;
}

bool fp_region_register_local(struct fp_ep *ep, uint32_t key, uint64_t addr, uint64_t length,
                              void **desc)
{
    struct fp_prov *prov = ep->prov;
    struct fp_registration *e = NULL;

    pthread_mutex_lock(&prov->regions_lock);
    if (check_access(prov, key, addr, length, 0)) {
        e = get_registration(ep, prov->regions[index_of(key)]);
        if (e)
            *desc = fi_mr_desc(e->mr);
    }
    pthread_mutex_unlock(&prov->regions_lock);
    return e != NULL;
}

void fp_region_unregister(struct fp_ep *ep)
{
    struct fp_prov *prov = ep->prov;

    pthread_mutex_lock(&prov->regions_lock);
    for (uint32_t i = 0; i < prov->num_regions; i++)
        drop_registrations(prov->regions[i], ep);
    pthread_mutex_unlock(&prov->regions_lock);
}

/* False: the method is forbidden; selects the next one. */
static bool method_worked(struct fp_prov *prov, enum copy_method copy_method, int rc)
{
    if (rc != -EPERM && rc != -ENOSYS && rc != -EBADF)
        return true;
    __atomic_store_n(&prov->copy_method, (uint8_t)(copy_method + 1), __ATOMIC_RELAXED);
    return false;
}

static void load_bytes(void *to, const void *from, size_t size)
{
    prov_tsan_ignore_begin();
    memcpy(to, from, size);
    prov_tsan_ignore_end();
}

/* Called with the lock. */
static bool copy_from_program(struct fp_prov *prov, void *to, const void *from, size_t size)
{
    enum copy_method copy_method;
    int rc;

    if (size == 0)
        return true;
    do {
        copy_method = prov->copy_method;
        if (copy_method == BY_PROBE && !prov_probe_read(from, size))
            return false;
        if (copy_method == BY_BOUNCE) {
            rc = prov_bounce_read(&prov->bounce, to, from, size);
        } else if (copy_method == BY_CMA) {
            rc = prov_cma_read((pid_t)prov->address.pid, to, (uintptr_t)from, size, false);
        } else {
            load_bytes(to, from, size);
            rc = 0;
        }
    } while (!method_worked(prov, copy_method, rc));
    return rc == 0;
}

bool fp_memory_is_mapped(const struct fp_prov *prov, const void *addr, size_t size, bool write)
{
    return __atomic_load_n(&prov->copy_method, __ATOMIC_RELAXED) == BY_PROBE
               ? prov_probe_range(addr, size, write)
               : prov_memory_is_mapped(addr, size, write);
}

/* True if stores of this CPU make these few bytes visible at once, unlike a copy by the kernel. */
static bool is_atomic_by_stores(const void *to, size_t size)
{
    return prov_store_width() > prov_kernel_width() &&
           prov_needs_atomic_pieces((uintptr_t)to, size);
}

/* Called with the lock. */
static bool copy_to_program(struct fp_prov *prov, void *to, const void *from, size_t size)
{
    enum copy_method copy_method;
    int rc;

    if (size == 0)
        return true;
    /* for many bytes a check takes less time than a copy by the kernel */
    if (size > PROV_BOUNCE_MAX ||
        (prov->copy_method != BY_PROBE && is_atomic_by_stores(to, size))) {
        if (!fp_memory_is_mapped(prov, to, size, true))
            return false;
        prov_copy_ordered(to, from, size);
        return true;
    }
    do {
        copy_method = prov->copy_method;
        if (copy_method == BY_PROBE && !prov_probe_write(to, size))
            return false;
        if (copy_method == BY_BOUNCE) {
            rc = prov_bounce_write(&prov->bounce, to, from, size);
        } else if (copy_method == BY_CMA) {
            rc = prov_cma_write((pid_t)prov->address.pid, from, (uintptr_t)to, size, false);
        } else {
            prov_copy_ordered(to, from, size);
            rc = 0;
        }
    } while (!method_worked(prov, copy_method, rc));
    return rc == 0;
}

enum prov_status fp_region_copy_in(struct fp_prov *prov, uint32_t key, uint64_t to, uint64_t whole,
                                   const void *from, size_t offset, size_t size)
{
    enum prov_status status = PROV_RMT_ACCESS;

    pthread_mutex_lock(&prov->regions_lock);
    if (check_access(prov, key, to, whole, PROV_ACCESS_WRITE))
        status = copy_to_program(prov, (void *)(uintptr_t)(to + offset), from, size)
                     ? PROV_OK
                     : PROV_RMT_FAULT;
    pthread_mutex_unlock(&prov->regions_lock);
    return status;
}

enum prov_status fp_region_copy_out(struct fp_prov *prov, uint32_t key, uint64_t from,
                                    uint64_t whole, void *to, size_t offset, size_t size)
{
    enum prov_status status = PROV_RMT_ACCESS;

    pthread_mutex_lock(&prov->regions_lock);
    if (check_access(prov, key, from, whole, PROV_ACCESS_READ))
        status = copy_from_program(prov, to, (const void *)(uintptr_t)(from + offset), size)
                     ? PROV_OK
                     : PROV_RMT_FAULT;
    pthread_mutex_unlock(&prov->regions_lock);
    return status;
}

bool fp_copy_local(struct fp_prov *prov, void *to, const void *from, size_t size)
{
    pthread_mutex_lock(&prov->regions_lock);
    bool is_copied = copy_from_program(prov, to, from, size);
    pthread_mutex_unlock(&prov->regions_lock);
    return is_copied;
}
