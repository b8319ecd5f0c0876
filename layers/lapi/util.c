/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LAPI_Util(): the functions of the lock, and the handles that LAPI_RDMA_XFER takes. Memory needs
 * no registration here, so the handle of memory is its address, and the handle of a task is its
 * rank.
 */
#include "lock.h"

static int set_pvo(lapi_get_pvo_t *pvo)
{
    if ((unsigned int)pvo->operation > LAPI_RDMA_RELEASE)
        return LAPI_ERR_UTIL_CMD;
    if (pvo->operation == LAPI_RDMA_RELEASE)
        return LAPI_SUCCESS;
    if (pvo->address == NULL)
        return LAPI_ERR_ORG_ADDR_NULL;
    pvo->usr_pvo = (uintptr_t)pvo->address;
    return LAPI_SUCCESS;
}

static int set_remote_context(lapi_remote_cxt_t *cxt)
{
    if ((unsigned int)cxt->operation > LAPI_RDMA_RELEASE)
        return LAPI_ERR_UTIL_CMD;
    if (cxt->dest < 0 || (uint32_t)cxt->dest >= la.job.procs)
        return LAPI_ERR_TGT;
    if (cxt->operation == LAPI_RDMA_ACQUIRE)
        cxt->usr_rcxt = (lapi_user_cxt_t)cxt->dest;
    return LAPI_SUCCESS;
}

static int call_utility(lapi_util_t *util)
{
    switch (util->Util_type) {
    case LAPI_GET_THREAD_FUNC:
        util->Thread = la_lock_functions_for_program();
        return LAPI_SUCCESS;
    case LAPI_XLATE_ADDRESS:
        return set_pvo(&util->Pvo);
    case LAPI_REMOTE_RCXT:
        return set_remote_context(&util->Rcxt);
    default:
        return LAPI_ERR_UTIL_CMD;
    }
}

int LAPI_Util(lapi_handle_t hndl, lapi_util_t *util_struct)
{
    int rc = LAPI_ERR_RET_PTR_NULL;

    if (!la_lock_if_valid(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (util_struct != NULL)
        rc = call_utility(util_struct);
    la_unlock();
    return rc;
}
