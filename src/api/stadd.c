/* SPDX-License-Identifier: Apache-2.0 */
/* STADDs (manual 3.6). */
#include "api/api.h"
#include "check/check.h"
#include "engine/engine.h"
#include "stag/stag.h"

/* A STADD has 40 bits of offset, and the first offset of a region may be up to 64 KiB. */
#define MAX_REGION_SIZE ((1ull << 40) - (1ull << 16))

/* Registers memory that has no STag yet, without the lock of the VCQ. */
static int reg_new(utofu_vcq_hdl_t vcq_hdl, unsigned int tni, void *addr, size_t size,
                   uint32_t stag, bool writable, utofu_stadd_t *stadd)
{
    struct ut_region *region;
    int rc = ut_stag_region_get(tni, addr, size, writable, &region);

    if (rc != 0)
        return rc;
    struct ut_vcq *vcq = ut_vcq_enter(vcq_hdl);
    if (!vcq) {
        ut_region_put(region);
        return ut_refuse_handle(vcq_hdl);
    }
    rc = ut_stag_reuse(vcq->stags, addr, size, stag, writable, stadd);
    bool is_new = rc == UTOFU_ERR_NOT_FOUND;
    if (is_new)
        rc = ut_stag_register(vcq->stags, addr, size, stag, writable, region, stadd);
    ut_vcq_leave(vcq);
    if (!is_new || rc != 0)
        ut_region_put(region);
    return rc;
}

static int register_memory(utofu_vcq_hdl_t vcq_hdl, void *addr, size_t size, uint32_t stag,
                           unsigned long flags, utofu_stadd_t *stadd)
{
    if (!stadd)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "stadd is NULL");
    if (!addr || (uintptr_t)addr + size < (uintptr_t)addr)
        return UT_REFUSE(UTOFU_ERR_INVALID_ADDRESS,
                         "%zu bytes at %p are not a valid range of memory", size, addr);
    if (size == 0 || size > MAX_REGION_SIZE)
        return UT_REFUSE(UTOFU_ERR_INVALID_SIZE, "a region has 1 to %llu bytes, not %zu",
                         MAX_REGION_SIZE, size);
    if (flags & ~UTOFU_REG_MEM_FLAG_READ_ONLY)
        return UT_REFUSE(UTOFU_ERR_INVALID_FLAGS, "registration flags %#lx are not defined",
                         flags & ~UTOFU_REG_MEM_FLAG_READ_ONLY);
    bool writable = !(flags & UTOFU_REG_MEM_FLAG_READ_ONLY);
    struct ut_vcq *vcq = ut_vcq_enter(vcq_hdl);
    if (!vcq)
        return ut_refuse_handle(vcq_hdl);
    ut_last_error_begin();
    utofu_vcq_id_t id = vcq->id;
    unsigned int tni = vcq->tni;
    int rc = ut_stag_reuse(vcq->stags, addr, size, stag, writable, stadd);
    ut_vcq_leave(vcq);
    if (rc == UTOFU_ERR_NOT_FOUND)
        rc = reg_new(vcq_hdl, tni, addr, size, stag, writable, stadd);
    return UT_RESULT(rc, "%zu bytes at %p cannot be registered on VCQ %016llx", size, addr,
                     (unsigned long long)id);
}

UT_PUBLIC(utofu_reg_mem);
int utofu_reg_mem(utofu_vcq_hdl_t vcq_hdl, void *addr, size_t size, unsigned long int flags,
                  utofu_stadd_t *stadd)
{
    return register_memory(vcq_hdl, addr, size, UT_STAG_NONE, flags, stadd);
}

UT_PUBLIC(utofu_reg_mem_with_stag);
int utofu_reg_mem_with_stag(utofu_vcq_hdl_t vcq_hdl, void *addr, size_t size, unsigned int stag,
                            unsigned long int flags, utofu_stadd_t *stadd)
{
    if (stag >= UT_NUM_RESERVED_STAGS)
        return UT_REFUSE(UTOFU_ERR_INVALID_STAG, "STag %u: those of the caller are 0 to 255", stag);
    if ((uintptr_t)addr % UT_STAG_ALIGNMENT)
        return UT_REFUSE(UTOFU_ERR_INVALID_ADDRESS, "%p is not a multiple of %d", addr,
                         UT_STAG_ALIGNMENT);
    if (size % UT_STAG_ALIGNMENT)
        return UT_REFUSE(UTOFU_ERR_INVALID_SIZE, "size %zu is not a multiple of %d", size,
                         UT_STAG_ALIGNMENT);
    return register_memory(vcq_hdl, addr, size, stag, flags, stadd);
}

UT_PUBLIC(utofu_query_stadd);
int utofu_query_stadd(utofu_vcq_id_t vcq_id, unsigned int stag, utofu_stadd_t *stadd)
{
    struct ut_vcq_ident ident;

    if (!stadd)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "stadd is NULL");
    int rc = ut_take_vcq_id(vcq_id, &ident);
    if (rc != 0)
        return rc;
    if (stag >= UT_NUM_RESERVED_STAGS)
        return UT_REFUSE(UTOFU_ERR_INVALID_STAG, "STag %u: those of the caller are 0 to 255", stag);
    *stadd = ut_stadd_make(UT_STAG_RESERVED_BASE + 0x100u * ident.cmp + stag, 0, 0);
    return UTOFU_SUCCESS;
}

static int refuse_stadd(utofu_vcq_id_t vcq_id, utofu_stadd_t stadd, const struct ut_failure *why)
{
    return UT_REFUSE(
        UTOFU_ERR_INVALID_STADD, "STADD %#llx %s VCQ %016llx", (unsigned long long)stadd,
        why->cause == UT_CAUSE_NO_STAG ? "has an STag that is not registered (any more) on"
                                       : "is not the one of the first byte of its region on",
        (unsigned long long)vcq_id);
}

UT_PUBLIC(utofu_dereg_mem);
int utofu_dereg_mem(utofu_vcq_hdl_t vcq_hdl, utofu_stadd_t stadd, unsigned long int flags)
{
    if (flags)
        return UT_REFUSE(UTOFU_ERR_INVALID_FLAGS, "deregistration flags %#lx are not defined",
                         flags);
    struct ut_vcq *vcq = ut_vcq_enter(vcq_hdl);
    if (!vcq)
        return ut_refuse_handle(vcq_hdl);
    if (vcq->check) {
        ut_check_dereg(vcq, stadd, __builtin_return_address(0));
        ut_engine_start_held(vcq, UINT32_MAX); /* starts as many as possible without session mode */
    }
    struct ut_region *gone;
    int rc = ut_stag_deregister(vcq->stags, stadd, &gone);
    struct ut_failure why = {0};
    utofu_vcq_id_t id = vcq->id;
    if (rc != 0)
        why = ut_stag_failure_cause(vcq->stags, stadd, 0, false);
    ut_vcq_leave(vcq);
    ut_region_put(gone);
    return rc == 0 ? UTOFU_SUCCESS : refuse_stadd(id, stadd, &why);
}
