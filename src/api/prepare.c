/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepares one-sided communication that starts later (manual 3.7.3). A descriptor is encoded and
 * sealed in the caller's memory. A descriptor from the caller's memory is accepted if the seal
 * matches.
 */
#include "api/request.h"
#include "check/check.h"
#include "engine/engine.h"
#include "record/record.h"
#include "runtime/thread.h"

static int prepare_request(utofu_vcq_hdl_t vcq_hdl, const struct ut_request *r, void *desc,
                           size_t *desc_size)
{
    int rc = request_check(r);

    if (rc)
        return rc;
    if (!desc || !desc_size || (uintptr_t)desc % 8)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER,
                         "desc is NULL or not 8-byte aligned, or desc_size is NULL");
    struct ut_vcq *vcq = ut_vcq_enter(vcq_hdl);
    if (!vcq)
        return ut_refuse_handle(vcq_hdl);
    if (!vcq_takes(vcq, r))
        return ut_refuse_vcq(vcq, r->kind, r->num_blocks);
    uint64_t key = vcq->incarnation;
    ut_vcq_leave(vcq);
    struct ut_desc *out = desc;
    for (size_t i = 0; i < r->num_blocks; i++) {
        struct ut_desc d = {0};
        ut_request_encode(&d, r, i);
        d.seal = ut_desc_seal(&d, key);
        out[i] = d;
    }
    *desc_size = r->num_blocks * sizeof(*out);
    return UTOFU_SUCCESS;
}

UT_PUBLIC(utofu_prepare_put);
int utofu_prepare_put(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
                      utofu_stadd_t rmt_stadd, size_t length, uint64_t edata,
                      unsigned long int flags, void *desc, size_t *desc_size)
{
    const struct ut_request r =
        request_transfer(UT_DESC_PUT, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);

    return prepare_request(vcq_hdl, &r, desc, desc_size);
}

UT_PUBLIC(utofu_prepare_put_gap);
int utofu_prepare_put_gap(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                          utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd, size_t length,
                          uint64_t edata, unsigned long int flags, size_t mtu, size_t gap,
                          void *desc, size_t *desc_size)
{
    struct ut_request r =
        request_transfer(UT_DESC_PUT, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);

    r = with_pace(r, mtu, gap);
    return prepare_request(vcq_hdl, &r, desc, desc_size);
}

UT_PUBLIC(utofu_prepare_put_stride);
int utofu_prepare_put_stride(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                             utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd, size_t length,
                             size_t stride, size_t num_blocks, uint64_t edata,
                             unsigned long int flags, void *desc, size_t *desc_size)
{
    struct ut_request r =
        request_transfer(UT_DESC_PUT, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);

    r = with_blocks(r, stride, num_blocks);
    return prepare_request(vcq_hdl, &r, desc, desc_size);
}

UT_PUBLIC(utofu_prepare_put_stride_gap);
int utofu_prepare_put_stride_gap(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                                 utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd, size_t length,
                                 size_t stride, size_t num_blocks, uint64_t edata,
                                 unsigned long int flags, size_t mtu, size_t gap, void *desc,
                                 size_t *desc_size)
{
    struct ut_request r =
        request_transfer(UT_DESC_PUT, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);

    r = with_blocks(r, stride, num_blocks);
    r = with_pace(r, mtu, gap);
    return prepare_request(vcq_hdl, &r, desc, desc_size);
}

UT_PUBLIC(utofu_prepare_put_piggyback);
int utofu_prepare_put_piggyback(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, void *lcl_data,
                                utofu_stadd_t rmt_stadd, size_t length, uint64_t edata,
                                unsigned long int flags, void *desc, size_t *desc_size)
{
    const struct ut_request r =
        request_piggyback(rmt_vcq_id, lcl_data, rmt_stadd, length, UT_MAX_PIGGYBACK, edata, flags);

    return prepare_request(vcq_hdl, &r, desc, desc_size);
}

UT_PUBLIC(utofu_prepare_put_piggyback8);
int utofu_prepare_put_piggyback8(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                                 uint64_t lcl_data, utofu_stadd_t rmt_stadd, size_t length,
                                 uint64_t edata, unsigned long int flags, void *desc,
                                 size_t *desc_size)
{
    const struct ut_request r =
        request_piggyback(rmt_vcq_id, &lcl_data, rmt_stadd, length, sizeof(lcl_data), edata, flags);

    return prepare_request(vcq_hdl, &r, desc, desc_size);
}

UT_PUBLIC(utofu_prepare_get);
int utofu_prepare_get(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
                      utofu_stadd_t rmt_stadd, size_t length, uint64_t edata,
                      unsigned long int flags, void *desc, size_t *desc_size)
{
    const struct ut_request r =
        request_transfer(UT_DESC_GET, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);

    return prepare_request(vcq_hdl, &r, desc, desc_size);
}

UT_PUBLIC(utofu_prepare_get_gap);
int utofu_prepare_get_gap(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                          utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd, size_t length,
                          uint64_t edata, unsigned long int flags, size_t mtu, size_t gap,
                          void *desc, size_t *desc_size)
{
    struct ut_request r =
        request_transfer(UT_DESC_GET, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);

    r = with_pace(r, mtu, gap);
    return prepare_request(vcq_hdl, &r, desc, desc_size);
}

UT_PUBLIC(utofu_prepare_get_stride);
int utofu_prepare_get_stride(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                             utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd, size_t length,
                             size_t stride, size_t num_blocks, uint64_t edata,
                             unsigned long int flags, void *desc, size_t *desc_size)
{
    struct ut_request r =
        request_transfer(UT_DESC_GET, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);

    r = with_blocks(r, stride, num_blocks);
    return prepare_request(vcq_hdl, &r, desc, desc_size);
}

UT_PUBLIC(utofu_prepare_get_stride_gap);
int utofu_prepare_get_stride_gap(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                                 utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd, size_t length,
                                 size_t stride, size_t num_blocks, uint64_t edata,
                                 unsigned long int flags, size_t mtu, size_t gap, void *desc,
                                 size_t *desc_size)
{
    struct ut_request r =
        request_transfer(UT_DESC_GET, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);

    r = with_blocks(r, stride, num_blocks);
    r = with_pace(r, mtu, gap);
    return prepare_request(vcq_hdl, &r, desc, desc_size);
}

UT_PUBLIC(utofu_prepare_armw4);
int utofu_prepare_armw4(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                        enum utofu_armw_op armw_op, uint32_t op_value, utofu_stadd_t rmt_stadd,
                        uint64_t edata, unsigned long int flags, void *desc, size_t *desc_size)
{
    const struct ut_request r =
        request_armw(armw_op, 4, rmt_vcq_id, op_value, rmt_stadd, edata, flags);

    return prepare_request(vcq_hdl, &r, desc, desc_size);
}

UT_PUBLIC(utofu_prepare_armw8);
int utofu_prepare_armw8(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                        enum utofu_armw_op armw_op, uint64_t op_value, utofu_stadd_t rmt_stadd,
                        uint64_t edata, unsigned long int flags, void *desc, size_t *desc_size)
{
    const struct ut_request r =
        request_armw(armw_op, 8, rmt_vcq_id, op_value, rmt_stadd, edata, flags);

    return prepare_request(vcq_hdl, &r, desc, desc_size);
}

UT_PUBLIC(utofu_prepare_cswap4);
int utofu_prepare_cswap4(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, uint32_t old_value,
                         uint32_t new_value, utofu_stadd_t rmt_stadd, uint64_t edata,
                         unsigned long int flags, void *desc, size_t *desc_size)
{
    const struct ut_request r =
        request_cswap(4, rmt_vcq_id, old_value, new_value, rmt_stadd, edata, flags);

    return prepare_request(vcq_hdl, &r, desc, desc_size);
}

UT_PUBLIC(utofu_prepare_cswap8);
int utofu_prepare_cswap8(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, uint64_t old_value,
                         uint64_t new_value, utofu_stadd_t rmt_stadd, uint64_t edata,
                         unsigned long int flags, void *desc, size_t *desc_size)
{
    const struct ut_request r =
        request_cswap(8, rmt_vcq_id, old_value, new_value, rmt_stadd, edata, flags);

    return prepare_request(vcq_hdl, &r, desc, desc_size);
}

UT_PUBLIC(utofu_prepare_nop);
int utofu_prepare_nop(utofu_vcq_hdl_t vcq_hdl, unsigned long int flags, void *desc,
                      size_t *desc_size)
{
    const struct ut_request r = request_nop(flags);

    return prepare_request(vcq_hdl, &r, desc, desc_size);
}

static void __attribute__((noinline, cold)) hold_recorded(const struct ut_desc *last)
{
    ut_record_hold(last->rmt_vcq_id, last->rmt_stadd, ut_desc_length(last), last->flags);
}

UT_PUBLIC(utofu_post_toq);
int utofu_post_toq(utofu_vcq_hdl_t vcq_hdl, void *desc, size_t desc_size, void *cbdata)
{
    const struct ut_desc *in = desc;
    size_t n = desc_size / sizeof(*in);

    if (unlikely(desc_size && (!desc || (uintptr_t)desc % 8)))
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "desc is NULL or not 8-byte aligned");
    if (unlikely(ut_record_on) && n > 0)
        hold_recorded(&in[n - 1]);
    struct ut_vcq *vcq = ut_vcq_enter(vcq_hdl);
    if (unlikely(!vcq))
        return ut_refuse_handle(vcq_hdl);
    int rc = 0;
    if (unlikely(desc_size % sizeof(*in) || n > vcq->toq_mask + 1ul))
        rc = UT_REFUSE(
            UTOFU_ERR_INVALID_SIZE,
            "%zu bytes are not a whole number of descriptors, or more than the TOQ has room for",
            desc_size);
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (unlikely(!ut_desc_valid(&in[i], vcq->incarnation) || !ut_kind_fits(vcq, in[i].kind)))
            rc = UT_REFUSE(UTOFU_ERR_INVALID_DESC, "descriptor %zu was not prepared for this VCQ",
                           i);
    }
    if (rc == 0)
        rc = ut_engine_reserve(vcq, (uint32_t)n);
    if (rc == 0) {
        vcq->poll_count++;
        for (uint32_t i = 0; i < n; i++) {
            struct ut_slot *slot = ut_engine_slot(vcq, i);
            slot->desc = in[i];
            slot->cbdata = cbdata;
        }
        if (n != 1 || !ut_engine_submit_direct(vcq))
            ut_engine_submit(vcq, (uint32_t)n, false);
        if (unlikely(vcq->check != NULL)) {
            uint32_t due = ut_check_submitted(vcq, (uint32_t)n, __builtin_return_address(0));
            if (due)
                ut_engine_start_held(vcq, due);
        }
        if (vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE)
            ut_thread_on_post(vcq);
        if (unlikely(vcq->recorded))
            ut_record_submitted();
    }
    ut_vcq_leave(vcq);
    return rc;
}
