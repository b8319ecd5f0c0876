/* SPDX-License-Identifier: Apache-2.0 */
/* Barrier communication (manual 3.8). */
#include "api/api.h"

int putofu_barrier(utofu_vbg_id_t vbg_id, unsigned long int flags)
{
    (void)vbg_id, (void)flags;
    return UTOFU_ERR_INVALID_VBG_ID;
}
UT_PUBLIC(utofu_barrier);

int putofu_reduce_uint64(utofu_vbg_id_t vbg_id, enum utofu_reduce_op op, uint64_t data[],
                         size_t num_data, unsigned long int flags)
{
    (void)vbg_id, (void)op, (void)data, (void)num_data, (void)flags;
    return UTOFU_ERR_INVALID_VBG_ID;
}
UT_PUBLIC(utofu_reduce_uint64);

int putofu_reduce_double(utofu_vbg_id_t vbg_id, enum utofu_reduce_op op, double data[],
                         size_t num_data, unsigned long int flags)
{
    (void)vbg_id, (void)op, (void)data, (void)num_data, (void)flags;
    return UTOFU_ERR_INVALID_VBG_ID;
}
UT_PUBLIC(utofu_reduce_double);

int putofu_poll_barrier(utofu_vbg_id_t vbg_id, unsigned long int flags)
{
    (void)vbg_id, (void)flags;
    return UTOFU_ERR_INVALID_VBG_ID;
}
UT_PUBLIC(utofu_poll_barrier);

int putofu_poll_reduce_uint64(utofu_vbg_id_t vbg_id, unsigned long int flags, uint64_t data[])
{
    (void)vbg_id, (void)flags, (void)data;
    return UTOFU_ERR_INVALID_VBG_ID;
}
UT_PUBLIC(utofu_poll_reduce_uint64);

int putofu_poll_reduce_double(utofu_vbg_id_t vbg_id, unsigned long int flags, double data[])
{
    (void)vbg_id, (void)flags, (void)data;
    return UTOFU_ERR_INVALID_VBG_ID;
}
UT_PUBLIC(utofu_poll_reduce_double);
