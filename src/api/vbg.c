/* SPDX-License-Identifier: Apache-2.0 */
/* VBGs (manual 3.4). */
#include <string.h>

#include "api/api.h"

int putofu_alloc_vbg(utofu_tni_id_t tni_id, size_t num_vbgs, unsigned long int flags,
                     utofu_vbg_id_t vbg_ids[])
{
    (void)tni_id, (void)num_vbgs, (void)flags, (void)vbg_ids;
    return UTOFU_ERR_NOT_SUPPORTED;
}
UT_PUBLIC(utofu_alloc_vbg);

int putofu_free_vbg(utofu_vbg_id_t vbg_ids[], size_t num_vbgs)
{
    (void)vbg_ids, (void)num_vbgs;
    return UTOFU_ERR_INVALID_VBG_ID;
}
UT_PUBLIC(utofu_free_vbg);

int putofu_set_vbg(struct utofu_vbg_setting vbg_settings[], size_t num_vbg_settings)
{
    (void)vbg_settings, (void)num_vbg_settings;
    return UTOFU_ERR_INVALID_VBG_ID;
}
UT_PUBLIC(utofu_set_vbg);

int putofu_query_vbg_info(utofu_vbg_id_t vbg_id, uint8_t coords[], utofu_tni_id_t *tni_id,
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
UT_PUBLIC(utofu_query_vbg_info);
