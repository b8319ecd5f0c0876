/* SPDX-License-Identifier: Apache-2.0 */
/* VCQ management (manual 3.3); VCQ ids of the program: an id of another job is refused. */
#include <string.h>

#include "api/api.h"
#include "runtime/lifecycle.h"
#include "runtime/setup.h"

int ut_refuse_handle(utofu_vcq_hdl_t vcq_hdl)
{
    unsigned long long value = vcq_hdl;

    if (ut_process_forked())
        return UT_DECLINE(UTOFU_ERR_INVALID_VCQ_HDL,
                          "%#llx is not a VCQ handle here: this process was made by fork() and "
                          "does not have its parent's VCQs",
                          value);
    if (vcq_hdl && ut_vcq_id_check(vcq_hdl))
        return UT_DECLINE(UTOFU_ERR_INVALID_VCQ_HDL, "%016llx is a VCQ id, not a VCQ handle",
                          value);
    return UT_DECLINE(UTOFU_ERR_INVALID_VCQ_HDL, "%#llx is not a VCQ handle of this process%s",
                      value, ut_vcq_is_stale_handle(vcq_hdl) ? ": the VCQ was freed" : "");
}

int ut_refuse_vcq_id(utofu_vcq_id_t vcq_id)
{
    unsigned long long value = vcq_id;
    uint32_t mark;

    if (!ut_vcq_id_of_other_job(vcq_id, &mark))
        return UT_REFUSE(UTOFU_ERR_INVALID_VCQ_ID, "%016llx is not a VCQ id", value);
    return UT_REFUSE(UTOFU_ERR_INVALID_VCQ_ID,
                     "VCQ id %016llx is of another job: it has mark %u, and the ids of this job "
                     "have mark %u. A VCQ reaches only VCQs of its own job; MPI_Comm_spawn() makes "
                     "another job, and a file with ids may be left over from an earlier job",
                     value, mark, ut_vcq_id_own_job());
}

int ut_find_job(void)
{
    const struct ut_process *process;

    if (ut_process_peek())
        return 0;
    ut_last_error_begin();
    return UT_RESULT(ut_runtime_start(&process), "the library cannot be set up");
}

int ut_take_vcq_id(utofu_vcq_id_t vcq_id, struct ut_vcq_ident *ident)
{
    uint32_t mark;

    /* an id without a valid mark is refused even if this process finds no job */
    if (!ut_vcq_id_unpack(vcq_id, ident) && !ut_vcq_id_of_other_job(vcq_id, &mark))
        return ut_refuse_vcq_id(vcq_id);
    int rc = ut_find_job();
    if (rc != 0)
        return rc;
    if (ut_vcq_id_unpack(vcq_id, ident) && ut_vcq_ident_is_of_program(ident))
        return 0;
    return ut_refuse_vcq_id(vcq_id);
}

static int create_vcq(utofu_tni_id_t tni_id, int cmp_id, unsigned long flags,
                      utofu_vcq_hdl_t *vcq_hdl)
{
    const unsigned long known =
        UTOFU_VCQ_FLAG_THREAD_SAFE | UTOFU_VCQ_FLAG_EXCLUSIVE | UTOFU_VCQ_FLAG_SESSION_MODE;
    const unsigned long kinds = UTOFU_VCQ_FLAG_EXCLUSIVE | UTOFU_VCQ_FLAG_SESSION_MODE;

    if (!vcq_hdl)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "vcq_hdl is NULL");
    if (tni_id >= UT_NUM_TNIS)
        return UT_REFUSE(UTOFU_ERR_INVALID_TNI_ID, "TNI %u: they are 0 to 5", tni_id);
    if (flags & ~known)
        return UT_REFUSE(UTOFU_ERR_INVALID_FLAGS, "VCQ flags %#lx are not defined", flags & ~known);
    if ((flags & kinds) == kinds)
        return UT_REFUSE(UTOFU_ERR_INVALID_FLAGS,
                         "a VCQ is exclusive or in session mode, not both");
    if (cmp_id >= 0 && (flags & kinds))
        return UT_REFUSE(UTOFU_ERR_INVALID_FLAGS,
                         "with a component id a VCQ is neither exclusive nor in session mode");
    ut_last_error_begin();
    return UT_RESULT(ut_vcq_create(tni_id, cmp_id, flags, vcq_hdl), "cannot create a VCQ on TNI %u",
                     tni_id);
}

UT_PUBLIC(utofu_create_vcq);
int utofu_create_vcq(utofu_tni_id_t tni_id, unsigned long int flags, utofu_vcq_hdl_t *vcq_hdl)
{
    return create_vcq(tni_id, -1, flags, vcq_hdl);
}

UT_PUBLIC(utofu_create_vcq_with_cmp_id);
int utofu_create_vcq_with_cmp_id(utofu_tni_id_t tni_id, utofu_cmp_id_t cmp_id,
                                 unsigned long int flags, utofu_vcq_hdl_t *vcq_hdl)
{
    if (cmp_id >= UT_NUM_CMP_IDS)
        return UT_REFUSE(UTOFU_ERR_INVALID_CMP_ID, "component id %u: they are 0 to 7", cmp_id);
    return create_vcq(tni_id, cmp_id, flags, vcq_hdl);
}

UT_PUBLIC(utofu_free_vcq);
int utofu_free_vcq(utofu_vcq_hdl_t vcq_hdl)
{
    return ut_vcq_free(vcq_hdl, __builtin_return_address(0)) == 0 ? UTOFU_SUCCESS
                                                                  : ut_refuse_handle(vcq_hdl);
}

UT_PUBLIC(utofu_query_vcq_id);
int utofu_query_vcq_id(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t *vcq_id)
{
    if (!vcq_id)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "vcq_id is NULL");
    struct ut_vcq *vcq = ut_vcq_enter_any(vcq_hdl);
    if (!vcq)
        return ut_refuse_handle(vcq_hdl);
    *vcq_id = vcq->id;
    ut_vcq_leave(vcq);
    return UTOFU_SUCCESS;
}

UT_PUBLIC(utofu_construct_vcq_id);
int utofu_construct_vcq_id(uint8_t coords[], utofu_tni_id_t tni_id, utofu_cq_id_t cq_id,
                           utofu_cmp_id_t cmp_id, utofu_vcq_id_t *vcq_id)
{
    struct ut_vcq_ident ident = {.tni = tni_id, .cq = cq_id, .cmp = cmp_id};

    if (!coords || !vcq_id)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "coords or vcq_id is NULL");
    if (!ut_coords_valid(coords))
        return UT_REFUSE(UTOFU_ERR_INVALID_COORDS,
                         "A, B, C coordinates %u, %u, %u: they end at 1, 2, "
                         "1",
                         coords[3], coords[4], coords[5]);
    if (tni_id >= UT_NUM_TNIS)
        return UT_REFUSE(UTOFU_ERR_INVALID_TNI_ID, "TNI %u: they are 0 to 5", tni_id);
    if (cq_id > UT_MAX_CQ_ID)
        return UT_REFUSE(UTOFU_ERR_INVALID_CQ_ID, "CQ %u: they end at %d", cq_id, UT_MAX_CQ_ID);
    if (cmp_id >= UT_NUM_CMP_IDS)
        return UT_REFUSE(UTOFU_ERR_INVALID_CMP_ID, "component id %u: they are 0 to 7", cmp_id);
    int rc = ut_find_job();
    if (rc != 0)
        return rc;
    memcpy(ident.coords.at, coords, sizeof(ident.coords.at));
    *vcq_id = ut_vcq_id_canonical(&ident);
    return UTOFU_SUCCESS;
}

UT_PUBLIC(utofu_query_vcq_info);
int utofu_query_vcq_info(utofu_vcq_id_t vcq_id, uint8_t coords[], utofu_tni_id_t *tni_id,
                         utofu_cq_id_t *cq_id, uint16_t *extra_val)
{
    struct ut_vcq_ident ident;

    if (!coords || !tni_id || !cq_id || !extra_val)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "coords, tni_id, cq_id or extra_val is NULL");
    int rc = ut_take_vcq_id(vcq_id, &ident);
    if (rc != 0)
        return rc;
    memcpy(coords, ident.coords.at, sizeof(ident.coords.at));
    *tni_id = ident.tni;
    *cq_id = ident.cq;
    *extra_val = ident.cmp;
    return UTOFU_SUCCESS;
}
