/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of registered memory, for the files of this module. Other modules use stag.h. */
#ifndef UT_STAG_REGION_H
#define UT_STAG_REGION_H

#include <limits.h>

#include "stag/stag.h"

enum { UT_NO_DEVICE = UINT_MAX };

/* For each provider the device that serves a TNI. UT_NO_DEVICE: the region is not registered with
 * the provider. */
struct ut_devices {
    unsigned int of[PROV_COUNT];
};

struct ut_extra_mr;

struct ut_region {
    struct ut_hash_entry by_memory; /* see ut_region_hash() */
    void *addr;
    size_t size;
    unsigned int access;
    struct ut_devices devices;
    uint32_t count;
    int rc;      /* REGISTERING, then the result */
    bool locked; /* UTOFU_SWAP_PROTECT */
    struct prov_mr *mr[PROV_COUNT];
    struct ut_extra_mr
        *extra; /* registrations on further devices; extra_mr.c has them and their lock */
};

static inline uint32_t ut_region_hash(const void *addr, size_t size, unsigned int access)
{
    uint64_t h = (uintptr_t)addr * UT_HASH_FACTOR ^ size * UT_HASH_FACTOR_2 ^ access;

    return (uint32_t)ut_hash_index(h, 24);
}

/* Gets the region with this address, size and access on these devices. Registers it if necessary.
 */
int ut_region_get_like(const struct ut_region *like, struct ut_region **region);
/* Drops a reference. True: no reference is left, no other thread finds the region any more, and the
 * caller frees it. */
bool ut_region_unref(struct ut_region *region);
/* Deregisters the memory. */
void ut_region_free(struct ut_region *region);

#endif
