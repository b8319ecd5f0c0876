/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting one-sided communication (manual 3.7.1, 3.7.2). A function packs its arguments into a
 * request, and start() checks it, encodes it into its TOQ slot, and submits it to the engine.
 * utofu_put(), utofu_get() and the piggyback puts try their fast path before that, once; what it
 * refuses goes to start_request(), which does not try again.
 */
#include "api/request.h"
#include "check/check.h"
#include "engine/engine.h"
#include "engine/fast.h"
#include "engine/few.h"
#include "engine/word.h"
#include "runtime/thread.h"

/*
 * The slow path: any request, and the checks of its arguments
 */

/* What VCQs with slow_path do besides, after n descriptors were submitted: the background thread is
 * told of those of session mode, if `tell`, and what is checked is held back for a while. */
static void __attribute__((noinline))
submitted_slowly(struct ut_vcq *vcq, uint32_t n, bool tell, const void *caller)
{
    uint32_t due = vcq->check ? ut_check_submitted(vcq, n, caller) : 0;

    if (due)
        ut_engine_start_held(vcq, due);
    if (tell && vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE)
        ut_thread_posted(vcq);
}

/* `may_be_fast`: try ut_engine_submit_fast() first. */
ALWAYS_INLINE int start_request(utofu_vcq_hdl_t vcq_hdl, const struct ut_request *r, void *cbdata,
                                bool may_be_fast)
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
        if (!may_be_fast || delay || r->num_blocks != 1 || !ut_engine_submit_fast(vcq)) {
            ut_engine_submit(vcq, (uint32_t)r->num_blocks, delay);
            if (unlikely(vcq->slow_path))
                submitted_slowly(vcq, (uint32_t)r->num_blocks, !may_be_fast,
                                 __builtin_return_address(0));
        }
    }
    ut_vcq_leave(vcq);
    return rc;
}

ALWAYS_INLINE int start(utofu_vcq_hdl_t vcq_hdl, const struct ut_request *r, void *cbdata)
{
    return start_request(vcq_hdl, r, cbdata, r->kind == UT_DESC_PUT || r->kind == UT_DESC_GET);
}

/*
 * The fast path of utofu_put() and utofu_get(). Each step is a function of its own with their
 * parameters, so that going from one to the next is a jump that leaves every argument where it is:
 *
 *   utofu_put()   chooses the first step
 *   put_mapped()  a word of memory that this process has mapped (engine/word.h); or
 *   put_few_last() and put_few()
 *                 a few bytes that the provider takes at once (engine/few.h); else
 *   put_posted()  one operation of the provider (engine/fast.h); else
 *   put_slow()    the slow path
 */
#define TRANSFER_PARAMS                                                                            \
    utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,                   \
        utofu_stadd_t rmt_stadd, size_t length, uint64_t edata, unsigned long int flags,           \
        void *cbdata
#define TRANSFER_ARGS vcq_hdl, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags, cbdata
#define TRANSFER_REQUEST(kind)                                                                     \
    request_transfer(kind, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags)

/* The flags of a put or a get that the fast path supports. */
#define FAST_PUT_FLAGS                                                                             \
    (KNOWN_FLAGS & ~(UTOFU_ONESIDED_FLAG_DELAY_START | UTOFU_ONESIDED_FLAG_PATH(0xfful) |          \
                     UTOFU_ONESIDED_FLAG_SPS(0xful)))
#define FAST_GET_FLAGS (FAST_PUT_FLAGS & ~UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE)
#define FEW_FLAGS                                                                                  \
    (FAST_GET_FLAGS & ~(UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER))

/* No flag besides these, and length and EDATA within their limits. */
ALWAYS_INLINE bool is_plain(const struct ut_request *r, unsigned long plain_flags, size_t most)
{
    if (unlikely(r->flags & ~plain_flags))
        return false;
    __asm__(""); /* keeps GCC from turning two comparisons into values, to test them at once */
    if (unlikely(r->length > most))
        return false;
    __asm__("");
    return likely(r->edata <= UT_MAX_EDATA);
}

/* The fast paths, which support different requests. */
enum fast { FAST_WORD, FAST_FEW, FAST_ANY };

ALWAYS_INLINE bool fits_fast(enum fast fast, const struct ut_request *r)
{
    if (fast == FAST_FEW)
        return is_plain(r, FEW_FLAGS, UT_MAX_PIGGYBACK);
    return is_plain(r,
                    fast == FAST_WORD || r->kind == UT_DESC_GET ? FAST_GET_FLAGS : FAST_PUT_FLAGS,
                    UT_MAX_PUTGET);
}

ALWAYS_INLINE bool try_fast(enum fast fast, struct ut_vcq *vcq, struct ut_link *link,
                            const struct ut_request *r, void *cbdata)
{
    return fast == FAST_WORD  ? ut_word_fast(vcq, link, r, cbdata)
           : fast == FAST_ANY ? ut_transfer_fast(vcq, link, r, cbdata)
                              : ut_few_fast(vcq, link, r, cbdata);
}

/* False: nothing was done. */
ALWAYS_INLINE bool start_fast(utofu_vcq_hdl_t vcq_hdl, const struct ut_request *request,
                              void *cbdata, enum fast fast)
{
    struct ut_request r = *request;

    if (!fits_fast(fast, &r))
        return false;
    r.flags = ut_desc_flags(r.flags); /* the compiler sees that there is no path and no SPS */
    struct ut_vcq *vcq = ut_vcq_try_enter(vcq_hdl);
    if (unlikely(!vcq))
        return false;
    bool done =
        ut_toq_is_fast(vcq) && try_fast(fast, vcq, ut_link_if_any(vcq, r.rmt_vcq_id), &r, cbdata);
    ut_vcq_leave(vcq);
    return done;
}

static int __attribute__((noinline)) put_slow(TRANSFER_PARAMS)
{
    const struct ut_request r = TRANSFER_REQUEST(UT_DESC_PUT);

    return start_request(vcq_hdl, &r, cbdata, false);
}

static int __attribute__((noinline, hot)) put_posted(TRANSFER_PARAMS)
{
    const struct ut_request r = TRANSFER_REQUEST(UT_DESC_PUT);

    return likely(start_fast(vcq_hdl, &r, cbdata, FAST_ANY)) ? UTOFU_SUCCESS
                                                             : put_slow(TRANSFER_ARGS);
}

static int __attribute__((noinline, hot)) put_few(TRANSFER_PARAMS)
{
    const struct ut_request r = TRANSFER_REQUEST(UT_DESC_PUT);

    return likely(start_fast(vcq_hdl, &r, cbdata, FAST_FEW)) ? UTOFU_SUCCESS
                                                             : put_posted(TRANSFER_ARGS);
}

/* The same to the peer of the last communication. No function is called but at the end, and the
 * handle and the id are taken from the VCQ where they are needed again, so that hardly a register
 * has to be saved. */
static int __attribute__((noinline, hot)) put_few_last(TRANSFER_PARAMS)
{
    const struct ut_request r = TRANSFER_REQUEST(UT_DESC_PUT);

    if (!fits_fast(FAST_FEW, &r))
        return put_posted(TRANSFER_ARGS);
    struct ut_vcq *vcq = ut_vcq_try_enter(vcq_hdl);
    if (unlikely(!vcq))
        return put_slow(TRANSFER_ARGS);
    if (unlikely(rmt_vcq_id != vcq->last_id)) {
        ut_vcq_leave(vcq);
        return put_few(TRANSFER_ARGS);
    }
    if (likely(ut_toq_is_fast(vcq) && ut_few_fast(vcq, vcq->last_link, &r, cbdata))) {
        ut_vcq_leave(vcq);
        return UTOFU_SUCCESS;
    }
    vcq_hdl = vcq->handle;
    rmt_vcq_id = vcq->last_id;
    ut_vcq_leave(vcq);
    return put_posted(TRANSFER_ARGS);
}

static int __attribute__((noinline, hot)) put_mapped(TRANSFER_PARAMS)
{
    const struct ut_request r = TRANSFER_REQUEST(UT_DESC_PUT);

    if (likely(length == UT_WORD) && likely(start_fast(vcq_hdl, &r, cbdata, FAST_WORD)))
        return UTOFU_SUCCESS;
    return put_posted(TRANSFER_ARGS);
}

static int __attribute__((noinline)) get_slow(TRANSFER_PARAMS)
{
    const struct ut_request r = TRANSFER_REQUEST(UT_DESC_GET);

    return start_request(vcq_hdl, &r, cbdata, false);
}

static int __attribute__((noinline, hot)) get_posted(TRANSFER_PARAMS)
{
    const struct ut_request r = TRANSFER_REQUEST(UT_DESC_GET);

    return likely(start_fast(vcq_hdl, &r, cbdata, FAST_ANY)) ? UTOFU_SUCCESS
                                                             : get_slow(TRANSFER_ARGS);
}

static int __attribute__((noinline, hot)) get_mapped(TRANSFER_PARAMS)
{
    const struct ut_request r = TRANSFER_REQUEST(UT_DESC_GET);

    if (likely(length == UT_WORD) && likely(start_fast(vcq_hdl, &r, cbdata, FAST_WORD)))
        return UTOFU_SUCCESS;
    return get_posted(TRANSFER_ARGS);
}

typedef int transfer_step(TRANSFER_PARAMS);

/* enum ut_hint; the handle is not looked up yet. */
ALWAYS_INLINE unsigned int hint_of(utofu_vcq_hdl_t vcq_hdl)
{
    return __atomic_load_n(&ut_hints[vcq_hdl % UT_MAX_VCQS], __ATOMIC_RELAXED);
}

/* The first steps by hint. A table, since for several calls GCC takes the arguments off the stack
 * and puts them there again. */
static transfer_step *const
    put_steps[] =
        {[UT_HINT_NONE] = put_posted, [UT_HINT_MAPPED] = put_mapped, [UT_HINT_FEW] = put_few_last},
    *const get_steps[] = {
        [UT_HINT_NONE] = get_posted, [UT_HINT_MAPPED] = get_mapped, [UT_HINT_FEW] = get_posted};

/*
 * The public functions
 */

UT_PUBLIC_HOT(utofu_put);
int utofu_put(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
              utofu_stadd_t rmt_stadd, size_t length, uint64_t edata, unsigned long int flags,
              void *cbdata)
{
    return put_steps[hint_of(vcq_hdl)](TRANSFER_ARGS);
}

UT_PUBLIC_HOT(utofu_get);
int utofu_get(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
              utofu_stadd_t rmt_stadd, size_t length, uint64_t edata, unsigned long int flags,
              void *cbdata)
{
    return get_steps[hint_of(vcq_hdl)](TRANSFER_ARGS);
}

UT_PUBLIC(utofu_put_gap);
int utofu_put_gap(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
                  utofu_stadd_t rmt_stadd, size_t length, uint64_t edata, unsigned long int flags,
                  size_t mtu, size_t gap, void *cbdata)
{
    struct ut_request r =
        request_transfer(UT_DESC_PUT, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);

    r = with_pace(r, mtu, gap);
    return start(vcq_hdl, &r, cbdata);
}

UT_PUBLIC(utofu_put_stride);
int utofu_put_stride(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
                     utofu_stadd_t rmt_stadd, size_t length, size_t stride, size_t num_blocks,
                     uint64_t edata, unsigned long int flags, void *cbdata)
{
    struct ut_request r =
        request_transfer(UT_DESC_PUT, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);

    r = with_blocks(r, stride, num_blocks);
    return start(vcq_hdl, &r, cbdata);
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
    return start(vcq_hdl, &r, cbdata);
}

/* The same steps, one after the other. */
ALWAYS_INLINE int put_piggyback(utofu_vcq_hdl_t vcq_hdl, const struct ut_request *r, void *cbdata)
{
    if (likely(r->length <= r->max_length && r->data)) {
        unsigned int hint = hint_of(vcq_hdl);
        if (hint == UT_HINT_MAPPED && r->length == UT_WORD &&
            start_fast(vcq_hdl, r, cbdata, FAST_WORD))
            return UTOFU_SUCCESS;
        if (hint == UT_HINT_FEW && start_fast(vcq_hdl, r, cbdata, FAST_FEW))
            return UTOFU_SUCCESS;
        if (likely(start_fast(vcq_hdl, r, cbdata, FAST_ANY)))
            return UTOFU_SUCCESS;
    }
    return start_request(vcq_hdl, r, cbdata, false);
}

UT_PUBLIC(utofu_put_piggyback);
int utofu_put_piggyback(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, void *lcl_data,
                        utofu_stadd_t rmt_stadd, size_t length, uint64_t edata,
                        unsigned long int flags, void *cbdata)
{
    const struct ut_request r =
        request_piggyback(rmt_vcq_id, lcl_data, rmt_stadd, length, UT_MAX_PIGGYBACK, edata, flags);

    return put_piggyback(vcq_hdl, &r, cbdata);
}

UT_PUBLIC(utofu_put_piggyback8);
int utofu_put_piggyback8(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, uint64_t lcl_data,
                         utofu_stadd_t rmt_stadd, size_t length, uint64_t edata,
                         unsigned long int flags, void *cbdata)
{
    const struct ut_request r =
        request_piggyback(rmt_vcq_id, &lcl_data, rmt_stadd, length, sizeof(lcl_data), edata, flags);

    return put_piggyback(vcq_hdl, &r, cbdata);
}

UT_PUBLIC(utofu_get_gap);
int utofu_get_gap(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
                  utofu_stadd_t rmt_stadd, size_t length, uint64_t edata, unsigned long int flags,
                  size_t mtu, size_t gap, void *cbdata)
{
    struct ut_request r =
        request_transfer(UT_DESC_GET, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);

    r = with_pace(r, mtu, gap);
    return start(vcq_hdl, &r, cbdata);
}

UT_PUBLIC(utofu_get_stride);
int utofu_get_stride(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
                     utofu_stadd_t rmt_stadd, size_t length, size_t stride, size_t num_blocks,
                     uint64_t edata, unsigned long int flags, void *cbdata)
{
    struct ut_request r =
        request_transfer(UT_DESC_GET, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags);

    r = with_blocks(r, stride, num_blocks);
    return start(vcq_hdl, &r, cbdata);
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
    return start(vcq_hdl, &r, cbdata);
}

UT_PUBLIC(utofu_armw4);
int utofu_armw4(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, enum utofu_armw_op armw_op,
                uint32_t op_value, utofu_stadd_t rmt_stadd, uint64_t edata, unsigned long int flags,
                void *cbdata)
{
    const struct ut_request r =
        request_armw(armw_op, 4, rmt_vcq_id, op_value, rmt_stadd, edata, flags);

    return start(vcq_hdl, &r, cbdata);
}

UT_PUBLIC(utofu_armw8);
int utofu_armw8(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, enum utofu_armw_op armw_op,
                uint64_t op_value, utofu_stadd_t rmt_stadd, uint64_t edata, unsigned long int flags,
                void *cbdata)
{
    const struct ut_request r =
        request_armw(armw_op, 8, rmt_vcq_id, op_value, rmt_stadd, edata, flags);

    return start(vcq_hdl, &r, cbdata);
}

UT_PUBLIC(utofu_cswap4);
int utofu_cswap4(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, uint32_t old_value,
                 uint32_t new_value, utofu_stadd_t rmt_stadd, uint64_t edata,
                 unsigned long int flags, void *cbdata)
{
    const struct ut_request r =
        request_cswap(4, rmt_vcq_id, old_value, new_value, rmt_stadd, edata, flags);

    return start(vcq_hdl, &r, cbdata);
}

UT_PUBLIC(utofu_cswap8);
int utofu_cswap8(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, uint64_t old_value,
                 uint64_t new_value, utofu_stadd_t rmt_stadd, uint64_t edata,
                 unsigned long int flags, void *cbdata)
{
    const struct ut_request r =
        request_cswap(8, rmt_vcq_id, old_value, new_value, rmt_stadd, edata, flags);

    return start(vcq_hdl, &r, cbdata);
}

UT_PUBLIC(utofu_nop);
int utofu_nop(utofu_vcq_hdl_t vcq_hdl, unsigned long int flags, void *cbdata)
{
    const struct ut_request r = request_nop(flags);

    return start(vcq_hdl, &r, cbdata);
}
