/* SPDX-License-Identifier: Apache-2.0 */
/* VBGs (manual 3.4). All VBGs are thread-safe, with or without the flag. */
#include <string.h>

#include "api/api.h"
#include "barrier/gate.h"
#include "check/check.h"
#include "record/record.h"

UT_PUBLIC(utofu_alloc_vbg);
int utofu_alloc_vbg(utofu_tni_id_t tni_id, size_t num_vbgs, unsigned long int flags,
                    utofu_vbg_id_t vbg_ids[])
{
    if (!vbg_ids)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "vbg_ids is NULL");
    if (tni_id >= UT_NUM_TNIS)
        return UT_REFUSE(UTOFU_ERR_INVALID_TNI_ID, "TNI %u: they are 0 to 5", tni_id);
    if (num_vbgs == 0)
        return UT_REFUSE(UTOFU_ERR_INVALID_NUMBER, "num_vbgs is 0");
    if (flags & ~UTOFU_VBG_FLAG_THREAD_SAFE)
        return UT_REFUSE(UTOFU_ERR_INVALID_FLAGS, "VBG flags %#lx are not defined", flags);
    ut_last_error_begin();
    int rc = ut_gate_alloc(tni_id, num_vbgs, vbg_ids);
    if (rc == 0 && ut_check_on)
        ut_check_gates(tni_id, 1, (int)num_vbgs - 1);
    return UT_RESULT(rc, "cannot allocate VBGs on TNI %u", tni_id);
}

UT_PUBLIC(utofu_free_vbg);
int utofu_free_vbg(utofu_vbg_id_t vbg_ids[], size_t num_vbgs)
{
    if (!vbg_ids)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "vbg_ids is NULL");
    if (num_vbgs == 0)
        return UT_REFUSE(UTOFU_ERR_INVALID_NUMBER, "num_vbgs is 0");
    ut_last_error_begin();
    struct ut_vbg_ident ident;
    int rc = ut_gate_free(vbg_ids, num_vbgs);
    if (rc == 0 && ut_check_on && ut_vbg_id_unpack(vbg_ids[0], &ident))
        ut_check_gates(ident.tni, -1, 1 - (int)num_vbgs);
    return UT_RESULT(rc, "the VBGs cannot be freed");
}

UT_PUBLIC(utofu_set_vbg);
int utofu_set_vbg(struct utofu_vbg_setting vbg_settings[], size_t num_vbg_settings)
{
    if (!vbg_settings)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "vbg_settings is NULL");
    if (num_vbg_settings == 0)
        return UT_REFUSE(UTOFU_ERR_INVALID_NUMBER, "num_vbg_settings is 0");
    ut_last_error_begin();
    int rc = ut_gate_set(vbg_settings, num_vbg_settings);
    if (rc == 0 && ut_check_on)
        ut_check_set_gates(vbg_settings, num_vbg_settings);
    if (rc == 0 && ut_record_on)
        ut_record_set(vbg_settings, num_vbg_settings);
    return UT_RESULT(rc, "the VBGs cannot be set");
}

UT_PUBLIC(utofu_query_vbg_info);
int utofu_query_vbg_info(utofu_vbg_id_t vbg_id, uint8_t coords[], utofu_tni_id_t *tni_id,
                         utofu_bg_id_t *bg_id, uint16_t *extra_val)
{
    struct ut_vbg_ident ident;

    if (!coords || !tni_id || !bg_id || !extra_val)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "a result of utofu_query_vbg_info is NULL");
    if (!ut_vbg_id_unpack(vbg_id, &ident))
        return UT_REFUSE(UTOFU_ERR_INVALID_VBG_ID, "%#llx is not a VBG id",
                         (unsigned long long)vbg_id);
    memcpy(coords, ident.coords.at, sizeof(ident.coords.at));
    *tni_id = ident.tni;
    *bg_id = ident.gate;
    *extra_val = (uint16_t)ident.local_rank;
    return UTOFU_SUCCESS;
}
