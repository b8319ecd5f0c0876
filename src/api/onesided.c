/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts one-sided communication (manual 3.7.1, 3.7.2). A function packs its arguments into a
 * request,
 * which is encoded into the slot behind the tail of the TOQ. There are two paths:
 *   direct   start_direct(), for puts and gets without rare arguments: the data leave at once, if
 * no communication waits before them (engine/direct.c) queued   start_request(), for every request
 * that the direct path refuses: checks the arguments one by one, and the engine starts the
 * communication when its turn comes
 */
#include "api/request.h"
#include "check/check.h"
#include "engine/direct.h"
#include "record/record.h"
#include "runtime/thread.h"
#include "util/probe.h"

/*
 * Queued path: any request, and the checks of its arguments
 */

/* Extra work for VCQs with slow_path, after n descriptors were submitted: tells the background
 * thread about session-mode VCQs, and lets the check mode hold communications back. */
static void __attribute__((noinline))
submitted_slowly(struct ut_vcq *vcq, uint32_t n, const void *caller)
{
    uint32_t due = vcq->check ? ut_check_submitted(vcq, n, caller) : 0;

    if (due)
        ut_engine_start_held(vcq, due);
    if (vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE)
        ut_thread_on_post(vcq);
    if (vcq->recorded)
        ut_record_submitted();
}

ALWAYS_INLINE int start_request(utofu_vcq_hdl_t vcq_hdl, const struct ut_request *r, void *cbdata)
{
    bool delay = r->flags & UTOFU_ONESIDED_FLAG_DELAY_START;
    int rc = request_check(r);

    if (unlikely(rc))
        return rc;
    struct ut_vcq *vcq = ut_vcq_enter(vcq_hdl);
    if (unlikely(!vcq))
        return ut_refuse_handle(vcq_hdl);
    if (!vcq_takes(vcq, r))
        return ut_refuse_vcq(vcq, r->kind, r->num_blocks);
    vcq->poll_count++;
    rc = ut_engine_reserve(vcq, (uint32_t)r->num_blocks);
    if (!unlikely(rc)) {
        for (uint32_t i = 0; i < r->num_blocks; i++) {
            struct ut_slot *slot = ut_engine_slot(vcq, i);
            ut_request_encode(&slot->desc, r, i);
            slot->cbdata = cbdata;
        }
        if (delay || r->num_blocks != 1 || !ut_engine_submit_direct(vcq)) {
            ut_engine_submit(vcq, (uint32_t)r->num_blocks, delay);
            if (unlikely(vcq->slow_path))
                submitted_slowly(vcq, (uint32_t)r->num_blocks, __builtin_return_address(0));
        }
    }
    ut_vcq_leave(vcq);
    return rc;
}

/*
 * Direct path
 */

/* Rare flags, which the direct path does not check. Only a put has an SPS. */
#define ANY_SPS UTOFU_ONESIDED_FLAG_SPS(0xful)
#define RARE_FLAGS                                                                                 \
    (~KNOWN_FLAGS | UTOFU_ONESIDED_FLAG_DELAY_START | UTOFU_ONESIDED_FLAG_PATH(0xfful))

ALWAYS_INLINE unsigned long int rare_flags(const struct ut_request *r)
{
    return r->kind == UT_DESC_PUT ? RARE_FLAGS & ~ANY_SPS : RARE_FLAGS | ANY_SPS;
}

/* The flags of a plain request that the descriptor stores. The compiler sees that there is no path,
 * and no SPS except that of a put. */
ALWAYS_INLINE unsigned long int plain_flags(const struct ut_request *r)
{
    return ut_desc_flags(r->flags) | (r->kind == UT_DESC_PUT ? r->flags & ANY_SPS : 0);
}

ALWAYS_INLINE bool is_plain(const struct ut_request *r)
{
    return likely(!(r->flags & rare_flags(r))) && likely(r->length <= r->max_length) &&
           likely(r->edata <= UT_MAX_EDATA) && (r->kind != UT_DESC_PIGGYBACK || r->data);
}

/* Queues the encoded descriptor in the slot behind the tail, which cannot be posted now. */
static int __attribute__((noinline)) queue_encoded(struct ut_vcq *vcq)
{
    utofu_vcq_id_t rmt_vcq_id = ut_engine_slot(vcq, 0)->desc.rmt_vcq_id;

    if (unlikely(!ut_vcq_id_check(rmt_vcq_id))) {
        ut_vcq_leave(vcq);
        return ut_refuse_vcq_id(rmt_vcq_id);
    }
    ut_engine_submit(vcq, 1, false);
    ut_vcq_leave(vcq);
    return UTOFU_SUCCESS;
}

/* Starts a put, a piggyback put or a get. False: nothing was done. */
ALWAYS_INLINE bool start_direct(utofu_vcq_hdl_t vcq_hdl, const struct ut_request *request,
                                void *cbdata, int *rc)
{
    struct ut_request r = *request;

    if (!is_plain(&r))
        return false;
    struct ut_vcq *vcq = ut_vcq_try_enter(vcq_hdl);
    if (unlikely(!vcq))
        return false;
    if (unlikely(!ut_toq_is_direct(vcq))) {
        ut_vcq_leave(vcq);
        return false;
    }
    struct ut_slot *slot = ut_engine_slot(vcq, 0);
    r.flags = plain_flags(&r);
    slot->cbdata = cbdata;
    if (likely(ut_submit_direct(vcq, slot, ut_link_or_none(vcq, r.rmt_vcq_id), &r, false))) {
        ut_vcq_leave(vcq);
        *rc = UTOFU_SUCCESS;
    } else {
        *rc = queue_encoded(vcq);
    }
    return true;
}

/* Does the same as start_direct() for a recorded VCQ, whose handle start_direct() does not know. */
static bool __attribute__((noinline, cold))
start_recorded(utofu_vcq_hdl_t vcq_hdl, const struct ut_request *request, void *cbdata, int *rc)
{
    struct ut_request r = *request;

    if (!is_plain(&r))
        return false;
    struct ut_vcq *vcq = ut_vcq_enter(vcq_hdl);
    if (!vcq)
        return false;
    bool done = ut_record_open_direct(vcq);
    if (done) {
        struct ut_slot *slot = ut_engine_slot(vcq, 0);
        uint64_t begin = ut_record_now();
        r.flags = plain_flags(&r);
        ut_request_encode(&slot->desc, &r, 0);
        slot->cbdata = cbdata;
        done = ut_submit_direct(vcq, slot, ut_link_or_none(vcq, r.rmt_vcq_id), &r, true);
        ut_record_close_direct(vcq);
        if (done)
            ut_record_direct(vcq, &slot->desc, begin);
    }
    ut_vcq_leave(vcq);
    *rc = UTOFU_SUCCESS;
    return done;
}

static int __attribute__((noinline))
put_queued(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
           utofu_stadd_t rmt_stadd, size_t length, uint64_t edata, unsigned long int flags,
           void *cbdata)
{
    const struct ut_request r =
        request_transfer(UT_DESC_PUT, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);
    int rc;

    if (ut_record_on) {
        ut_record_hold(rmt_vcq_id, rmt_stadd, length, flags);
        if (start_recorded(vcq_hdl, &r, cbdata, &rc))
            return rc;
    }
    return start_request(vcq_hdl, &r, cbdata);
}

static int __attribute__((noinline))
piggyback_queued(utofu_vcq_hdl_t vcq_hdl, const struct ut_request *r, void *cbdata)
{
    int rc;

    if (ut_record_on) {
        ut_record_hold(r->rmt_vcq_id, r->rmt_stadd, r->length, r->flags);
        if (start_recorded(vcq_hdl, r, cbdata, &rc))
            return rc;
    }
    return start_request(vcq_hdl, r, cbdata);
}

static int __attribute__((noinline))
get_queued(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
           utofu_stadd_t rmt_stadd, size_t length, uint64_t edata, unsigned long int flags,
           void *cbdata)
{
    const struct ut_request r =
        request_transfer(UT_DESC_GET, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);
    int rc;

    if (ut_record_on && start_recorded(vcq_hdl, &r, cbdata, &rc))
        return rc;
    return start_request(vcq_hdl, &r, cbdata);
}

/*
 * The public functions
 */

UT_PUBLIC_HOT(utofu_put);
int utofu_put(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
              utofu_stadd_t rmt_stadd, size_t length, uint64_t edata, unsigned long int flags,
              void *cbdata)
{
    const struct ut_request r =
        request_transfer(UT_DESC_PUT, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);
    int rc;

    UT_PROBE4(put, vcq_hdl, rmt_vcq_id, length, edata);
    if (likely(start_direct(vcq_hdl, &r, cbdata, &rc)))
        return rc;
    return put_queued(vcq_hdl, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags, cbdata);
}

UT_PUBLIC_HOT(utofu_get);
int utofu_get(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
              utofu_stadd_t rmt_stadd, size_t length, uint64_t edata, unsigned long int flags,
              void *cbdata)
{
    const struct ut_request r =
        request_transfer(UT_DESC_GET, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);
    int rc;

    if (likely(start_direct(vcq_hdl, &r, cbdata, &rc)))
        return rc;
    return get_queued(vcq_hdl, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags, cbdata);
}

UT_PUBLIC(utofu_put_gap);
int utofu_put_gap(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
                  utofu_stadd_t rmt_stadd, size_t length, uint64_t edata, unsigned long int flags,
                  size_t mtu, size_t gap, void *cbdata)
{
    struct ut_request r =
        request_transfer(UT_DESC_PUT, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);

    r = with_pace(r, mtu, gap);
    return start_request(vcq_hdl, &r, cbdata);
}

UT_PUBLIC(utofu_put_stride);
int utofu_put_stride(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
                     utofu_stadd_t rmt_stadd, size_t length, size_t stride, size_t num_blocks,
                     uint64_t edata, unsigned long int flags, void *cbdata)
{
    struct ut_request r =
        request_transfer(UT_DESC_PUT, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);

    r = with_blocks(r, stride, num_blocks);
    return start_request(vcq_hdl, &r, cbdata);
}

UT_PUBLIC(utofu_put_stride_gap);
int utofu_put_stride_gap(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                         utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd, size_t length,
                         size_t stride, size_t num_blocks, uint64_t edata, unsigned long int flags,
                         size_t mtu, size_t gap, void *cbdata)
{
    struct ut_request r =
        request_transfer(UT_DESC_PUT, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);

    r = with_blocks(r, stride, num_blocks);
    r = with_pace(r, mtu, gap);
    return start_request(vcq_hdl, &r, cbdata);
}

UT_PUBLIC(utofu_put_piggyback);
int utofu_put_piggyback(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, void *lcl_data,
                        utofu_stadd_t rmt_stadd, size_t length, uint64_t edata,
                        unsigned long int flags, void *cbdata)
{
    const struct ut_request r =
        request_piggyback(rmt_vcq_id, lcl_data, rmt_stadd, length, UT_MAX_PIGGYBACK, edata, flags);

    int rc;

    return likely(start_direct(vcq_hdl, &r, cbdata, &rc)) ? rc
                                                          : piggyback_queued(vcq_hdl, &r, cbdata);
}

UT_PUBLIC(utofu_put_piggyback8);
int utofu_put_piggyback8(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, uint64_t lcl_data,
                         utofu_stadd_t rmt_stadd, size_t length, uint64_t edata,
                         unsigned long int flags, void *cbdata)
{
    const struct ut_request r =
        request_piggyback(rmt_vcq_id, &lcl_data, rmt_stadd, length, sizeof(lcl_data), edata, flags);

    int rc;

    return likely(start_direct(vcq_hdl, &r, cbdata, &rc)) ? rc
                                                          : piggyback_queued(vcq_hdl, &r, cbdata);
}

UT_PUBLIC(utofu_get_gap);
int utofu_get_gap(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
                  utofu_stadd_t rmt_stadd, size_t length, uint64_t edata, unsigned long int flags,
                  size_t mtu, size_t gap, void *cbdata)
{
    struct ut_request r =
        request_transfer(UT_DESC_GET, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);

    r = with_pace(r, mtu, gap);
    return start_request(vcq_hdl, &r, cbdata);
}

UT_PUBLIC(utofu_get_stride);
int utofu_get_stride(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
                     utofu_stadd_t rmt_stadd, size_t length, size_t stride, size_t num_blocks,
                     uint64_t edata, unsigned long int flags, void *cbdata)
{
    struct ut_request r =
        request_transfer(UT_DESC_GET, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);

    r = with_blocks(r, stride, num_blocks);
    return start_request(vcq_hdl, &r, cbdata);
}

UT_PUBLIC(utofu_get_stride_gap);
int utofu_get_stride_gap(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                         utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd, size_t length,
                         size_t stride, size_t num_blocks, uint64_t edata, unsigned long int flags,
                         size_t mtu, size_t gap, void *cbdata)
{
    struct ut_request r =
        request_transfer(UT_DESC_GET, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);

    r = with_blocks(r, stride, num_blocks);
    r = with_pace(r, mtu, gap);
    return start_request(vcq_hdl, &r, cbdata);
}

UT_PUBLIC(utofu_armw4);
int utofu_armw4(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, enum utofu_armw_op armw_op,
                uint32_t op_value, utofu_stadd_t rmt_stadd, uint64_t edata, unsigned long int flags,
                void *cbdata)
{
    const struct ut_request r =
        request_armw(armw_op, 4, rmt_vcq_id, op_value, rmt_stadd, edata, flags);

    return start_request(vcq_hdl, &r, cbdata);
}

UT_PUBLIC(utofu_armw8);
int utofu_armw8(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, enum utofu_armw_op armw_op,
                uint64_t op_value, utofu_stadd_t rmt_stadd, uint64_t edata, unsigned long int flags,
                void *cbdata)
{
    const struct ut_request r =
        request_armw(armw_op, 8, rmt_vcq_id, op_value, rmt_stadd, edata, flags);

    return start_request(vcq_hdl, &r, cbdata);
}

UT_PUBLIC(utofu_cswap4);
int utofu_cswap4(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, uint32_t old_value,
                 uint32_t new_value, utofu_stadd_t rmt_stadd, uint64_t edata,
                 unsigned long int flags, void *cbdata)
{
    const struct ut_request r =
        request_cswap(4, rmt_vcq_id, old_value, new_value, rmt_stadd, edata, flags);

    return start_request(vcq_hdl, &r, cbdata);
}

UT_PUBLIC(utofu_cswap8);
int utofu_cswap8(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, uint64_t old_value,
                 uint64_t new_value, utofu_stadd_t rmt_stadd, uint64_t edata,
                 unsigned long int flags, void *cbdata)
{
    const struct ut_request r =
        request_cswap(8, rmt_vcq_id, old_value, new_value, rmt_stadd, edata, flags);

    return start_request(vcq_hdl, &r, cbdata);
}

UT_PUBLIC(utofu_nop);
int utofu_nop(utofu_vcq_hdl_t vcq_hdl, unsigned long int flags, void *cbdata)
{
    const struct ut_request r = request_nop(flags);

    return start_request(vcq_hdl, &r, cbdata);
}
