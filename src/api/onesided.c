/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting and preparing one-sided communication (manual 3.7.1 to 3.7.3). Every function checks its
 * arguments, encodes descriptors with the one encoder of their kind, and gives them to the TOQ
 * (start) or seals them in the caller's memory (prepare).
 */
#include "api/api.h"
#include "desc/desc.h"
#include "engine/engine.h"
#include "engine/short.h"
#include "engine/word.h"

#define KNOWN_FLAGS                                                                                \
    (UTOFU_ONESIDED_FLAG_STRONG_ORDER | UTOFU_ONESIDED_FLAG_PACKET_RESPONSE |                      \
     UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_PADDING |                         \
     UTOFU_ONESIDED_FLAG_CACHE_INJECTION | UTOFU_ONESIDED_FLAG_DELAY_START |                       \
     UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE |                       \
     UTOFU_ONESIDED_FLAG_PATH(0xfful) | UTOFU_ONESIDED_FLAG_SPS(0xful))

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define unlikely(x)   __builtin_expect(!!(x), 0)
#define likely(x)     __builtin_expect(!!(x), 1)

/* What a start or prepare function was asked for. Lives in registers: everything is inlined. */
struct request {
    enum ut_desc_kind kind;
    utofu_vcq_id_t rmt_vcq_id;
    utofu_stadd_t lcl_stadd, rmt_stadd;
    size_t length, max_length;
    size_t stride, num_blocks;
    uint64_t edata;
    unsigned long flags;
    size_t mtu, gap;
    const void *data; /* piggyback */
    uint32_t op;      /* ARMW */
    uint64_t operand, compare;
};

static int __attribute__((noinline, cold)) refuse_flags(unsigned long flags)
{
    if (flags & ~KNOWN_FLAGS)
        return UT_REFUSE(UTOFU_ERR_INVALID_FLAGS, "one-sided flags %#lx are not defined",
                         flags & ~KNOWN_FLAGS);
    if (ut_flags_path(flags) >= UT_NUM_PATHS)
        return UT_REFUSE(UTOFU_ERR_INVALID_PATH_ID, "path id %u: they are 0 to 11",
                         ut_flags_path(flags));
    return UT_REFUSE(UTOFU_ERR_INVALID_FLAGS, "an SPS goes with a Put only (manual 2.2.8.1)");
}

/* The values come one by one: were the request itself passed, it would have to be in memory. */
static int __attribute__((noinline, cold))
refuse_peer(utofu_vcq_id_t rmt_vcq_id, size_t length, size_t max_length, uint64_t edata)
{
    if (!ut_vcq_id_check(rmt_vcq_id))
        return UT_REFUSE(UTOFU_ERR_INVALID_VCQ_ID, "%016llx is not a VCQ id",
                         (unsigned long long)rmt_vcq_id);
    if (length > max_length)
        return UT_REFUSE(UTOFU_ERR_INVALID_SIZE, "length %zu: the most is %zu", length, max_length);
    return UT_REFUSE(UTOFU_ERR_INVALID_EDATA, "EDATA %llu: the most is %d",
                     (unsigned long long)edata, UT_MAX_EDATA);
}

static int __attribute__((noinline, cold)) refuse_pace(size_t mtu, size_t gap)
{
    if (mtu > UT_MAX_MTU)
        return UT_REFUSE(UTOFU_ERR_INVALID_SIZE, "MTU %zu: the most is %d", mtu, UT_MAX_MTU);
    return UT_REFUSE(UTOFU_ERR_INVALID_NUMBER, "gap %zu: the most is %d", gap, UT_MAX_GAP);
}

static int __attribute__((noinline, cold))
refuse_armw(uint32_t op, utofu_stadd_t rmt_stadd, size_t size)
{
    if (op < UTOFU_ARMW_OP_SWAP || op > UT_ARMW_OP_CSWAP)
        return UT_REFUSE(UTOFU_ERR_INVALID_OP, "%u is no ARMW operator", op);
    return UT_REFUSE(UTOFU_ERR_INVALID_STADD, "STADD %016llx is not aligned to %zu bytes",
                     (unsigned long long)rmt_stadd, size);
}

ALWAYS_INLINE int check(const struct request *r)
{
    if (unlikely((r->flags & ~KNOWN_FLAGS) || ut_flags_path(r->flags) >= UT_NUM_PATHS ||
                 (r->kind != UT_DESC_PUT && ut_flags_sps(r->flags))))
        return refuse_flags(r->flags);
    if (r->kind == UT_DESC_NOP)
        return 0;
    if (unlikely(!ut_vcq_id_check(r->rmt_vcq_id) || r->length > r->max_length ||
                 r->edata > UT_MAX_EDATA))
        return refuse_peer(r->rmt_vcq_id, r->length, r->max_length, r->edata);
    if ((r->kind == UT_DESC_PUT || r->kind == UT_DESC_GET) &&
        unlikely(r->mtu > UT_MAX_MTU || r->gap > UT_MAX_GAP))
        return refuse_pace(r->mtu, r->gap);
    if (r->kind == UT_DESC_PIGGYBACK && unlikely(!r->data && r->length))
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "lcl_data is NULL");
    if (r->kind == UT_DESC_ARMW &&
        unlikely(r->op < UTOFU_ARMW_OP_SWAP || r->op > UT_ARMW_OP_CSWAP ||
                 (r->rmt_stadd & (r->length - 1))))
        return refuse_armw(r->op, r->rmt_stadd, r->length);
    return 0;
}

/* The i-th block of the request as a descriptor. */
ALWAYS_INLINE void encode(struct ut_desc *d, const struct request *r, size_t i)
{
    ut_desc_head(d, r->kind, r->rmt_vcq_id, r->rmt_stadd + i * r->stride, r->length, r->edata,
                 r->flags);
    if (r->kind == UT_DESC_PUT || r->kind == UT_DESC_GET)
        ut_desc_transfer(d, r->lcl_stadd + i * r->stride, r->mtu, r->gap);
    else if (r->kind == UT_DESC_PIGGYBACK && r->length)
        memcpy(d->data, r->data, r->length);
    else if (r->kind == UT_DESC_ARMW)
        ut_desc_armw(d, r->op, r->operand, r->compare);
}

/* A session-mode TOQ takes Put and NOP only: nothing else can be started by an arrival. */
static bool kind_fits(const struct ut_vcq *vcq, unsigned int kind)
{
    return !(vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE) || kind == UT_DESC_PUT ||
           kind == UT_DESC_NOP;
}

static int __attribute__((noinline, cold))
refuse_vcq(struct ut_vcq *vcq, unsigned int kind, size_t num_blocks)
{
    int rc = kind_fits(vcq, kind)
                 ? UT_REFUSE(UTOFU_ERR_INVALID_NUMBER, "%zu blocks: the TOQ has %u entries",
                             num_blocks, vcq->toq_mask + 1)
                 : UT_REFUSE(UTOFU_ERR_NOT_SUPPORTED,
                             "a session-mode VCQ takes Put and NOP only (manual 2.2.8.1)");
    ut_vcq_leave(vcq);
    return rc;
}

ALWAYS_INLINE int start(utofu_vcq_hdl_t vcq_hdl, const struct request *r, void *cbdata)
{
    int rc = check(r);

    if (unlikely(rc))
        return rc;
    struct ut_vcq *vcq = ut_vcq_enter(vcq_hdl);
    if (unlikely(!vcq))
        return UTOFU_ERR_INVALID_VCQ_HDL;
    if (unlikely(!kind_fits(vcq, r->kind) || r->num_blocks > vcq->toq_mask + 1ul))
        return refuse_vcq(vcq, r->kind, r->num_blocks);
    vcq->poll_count++;
    rc = ut_engine_reserve(vcq, (uint32_t)r->num_blocks);
    if (!unlikely(rc)) {
        for (uint32_t i = 0; i < r->num_blocks; i++) {
            struct ut_slot *slot = ut_engine_slot(vcq, i);
            encode(&slot->desc, r, i);
            slot->cbdata = cbdata;
        }
        ut_engine_submit(vcq, (uint32_t)r->num_blocks, r->flags & UTOFU_ONESIDED_FLAG_DELAY_START);
    }
    ut_vcq_leave(vcq);
    return rc;
}

/* What a put or a get may say that is posted without a descriptor. */
#define SHORT_PUT                                                                                  \
    (KNOWN_FLAGS & ~(UTOFU_ONESIDED_FLAG_DELAY_START | UTOFU_ONESIDED_FLAG_PATH(0xfful) |          \
                     UTOFU_ONESIDED_FLAG_SPS(0xful)))
#define SHORT_GET (SHORT_PUT & ~UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE)

/* Anything in the arguments that takes a look: one question for all. Both limits are masks. */
ALWAYS_INLINE bool is_short(size_t length, uint64_t edata, unsigned long flags,
                            unsigned long usual_flags)
{
    _Static_assert((UT_MAX_PUTGET & (UT_MAX_PUTGET + 1)) == 0, "a mask");
    _Static_assert((UT_MAX_EDATA & (UT_MAX_EDATA + 1)) == 0, "a mask");
    return likely(((flags & ~usual_flags) | (length & ~(size_t)UT_MAX_PUTGET) |
                   (edata & ~(uint64_t)UT_MAX_EDATA)) == 0);
}

/* The usual one. False: nothing was done, start() does it or says what is wrong. */
ALWAYS_INLINE bool transfer_at_once(utofu_vcq_hdl_t vcq_hdl, const struct request *r, void *cbdata)
{
    struct ut_transfer t = {.rmt_vcq_id = r->rmt_vcq_id,
                            .lcl_stadd = r->lcl_stadd,
                            .rmt_stadd = r->rmt_stadd,
                            .length = (uint32_t)r->length,
                            .flags = ut_desc_flags(r->flags),
                            .edata = (uint8_t)r->edata,
                            .cbdata = cbdata};

    if (!is_short(r->length, r->edata, r->flags, r->kind == UT_DESC_GET ? SHORT_GET : SHORT_PUT))
        return false;
    struct ut_vcq *vcq = ut_vcq_try_enter(vcq_hdl);
    if (unlikely(!vcq))
        return false;
    bool done = ut_engine_starts_at_once(vcq) && ut_engine_has_room(vcq) &&
                ut_transfer_at_once(vcq, ut_link_if_any(vcq, r->rmt_vcq_id), r->kind, &t);
    vcq->poll_count++;
    ut_vcq_leave(vcq);
    return done;
}

static int prepare(utofu_vcq_hdl_t vcq_hdl, const struct request *r, void *desc, size_t *desc_size)
{
    int rc = check(r);

    if (rc)
        return rc;
    if (!desc || !desc_size || (uintptr_t)desc % 8)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER,
                         "desc is NULL or not 8-byte aligned, or desc_size is NULL");
    struct ut_vcq *vcq = ut_vcq_enter(vcq_hdl);
    if (!vcq)
        return UTOFU_ERR_INVALID_VCQ_HDL;
    if (!kind_fits(vcq, r->kind) || r->num_blocks > vcq->toq_mask + 1ul)
        return refuse_vcq(vcq, r->kind, r->num_blocks);
    uint64_t key = vcq->session_number;
    ut_vcq_leave(vcq);
    struct ut_desc *out = desc;
    for (size_t i = 0; i < r->num_blocks; i++) {
        struct ut_desc d = {0};
        encode(&d, r, i);
        d.seal = ut_desc_seal(&d, key);
        out[i] = d;
    }
    *desc_size = r->num_blocks * sizeof(*out);
    return UTOFU_SUCCESS;
}

/*
 * Requests, one function per kind
 */

ALWAYS_INLINE struct request transfer(enum ut_desc_kind kind, utofu_vcq_id_t rmt_vcq_id,
                                      utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd,
                                      size_t length, size_t stride, size_t num_blocks,
                                      uint64_t edata, unsigned long flags, size_t mtu, size_t gap)
{
    return (struct request){.kind = kind,
                            .rmt_vcq_id = rmt_vcq_id,
                            .lcl_stadd = lcl_stadd,
                            .rmt_stadd = rmt_stadd,
                            .length = length,
                            .max_length = UT_MAX_PUTGET,
                            .stride = stride,
                            .num_blocks = num_blocks,
                            .edata = edata,
                            .flags = flags,
                            .mtu = mtu,
                            .gap = gap};
}

ALWAYS_INLINE struct request piggyback(utofu_vcq_id_t rmt_vcq_id, const void *data,
                                       utofu_stadd_t rmt_stadd, size_t length, size_t max_length,
                                       uint64_t edata, unsigned long flags)
{
    return (struct request){.kind = UT_DESC_PIGGYBACK,
                            .rmt_vcq_id = rmt_vcq_id,
                            .rmt_stadd = rmt_stadd,
                            .length = length,
                            .max_length = max_length,
                            .num_blocks = 1,
                            .edata = edata,
                            .flags = flags,
                            .data = data};
}

/* The values come one by one: were the request itself passed, it would have to be in memory. */
#define TRANSFER_PARAMS                                                                            \
    utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,                   \
        utofu_stadd_t rmt_stadd, size_t length, uint64_t edata, unsigned long flags, void *cbdata
#define START_LONG(name, kind)                                                                     \
    static int __attribute__((noinline)) name(TRANSFER_PARAMS)                                     \
    {                                                                                              \
        struct request r =                                                                         \
            transfer(kind, rmt_vcq_id, lcl_stadd, rmt_stadd, length, 0, 1, edata, flags, 0, 0);    \
        return start(vcq_hdl, &r, cbdata);                                                         \
    }
START_LONG(start_long_put, UT_DESC_PUT)
START_LONG(start_long_get, UT_DESC_GET)

ALWAYS_INLINE int start_transfer(utofu_vcq_hdl_t vcq_hdl, const struct request *r, void *cbdata)
{
    if (likely(transfer_at_once(vcq_hdl, r, cbdata)))
        return UTOFU_SUCCESS;
    return (r->kind == UT_DESC_GET ? start_long_get : start_long_put)(
        vcq_hdl, r->rmt_vcq_id, r->lcl_stadd, r->rmt_stadd, r->length, r->edata, r->flags, cbdata);
}

/* A word that this CPU moves itself. False: nothing was done. */
ALWAYS_INLINE bool word_at_once(utofu_vcq_hdl_t vcq_hdl, bool get, utofu_vcq_id_t rmt_vcq_id,
                                utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd, uint64_t edata,
                                unsigned long flags, void *cbdata)
{
    if (!is_short(UT_WORD, edata, flags, SHORT_GET))
        return false;
    struct ut_vcq *vcq = ut_vcq_try_enter(vcq_hdl);
    if (unlikely(!vcq))
        return false;
    bool done = ut_engine_starts_at_once(vcq) && ut_engine_has_room(vcq) &&
                ut_word_move(vcq, ut_link_if_any(vcq, rmt_vcq_id), get, lcl_stadd, rmt_stadd,
                             (uint8_t)edata, ut_desc_flags(flags), cbdata);
    vcq->poll_count++;
    ut_vcq_leave(vcq);
    return done;
}

/* name: where the peer's memory is in view; otherwise: by way of the provider. */
#define START_IN_VIEW(name, otherwise, get, kind)                                                  \
    static int __attribute__((noinline, hot)) otherwise(TRANSFER_PARAMS)                           \
    {                                                                                              \
        struct request r =                                                                         \
            transfer(kind, rmt_vcq_id, lcl_stadd, rmt_stadd, length, 0, 1, edata, flags, 0, 0);    \
        return start_transfer(vcq_hdl, &r, cbdata);                                                \
    }                                                                                              \
    static int __attribute__((noinline, hot)) name(TRANSFER_PARAMS)                                \
    {                                                                                              \
        if (likely(length == UT_WORD) && likely(word_at_once(vcq_hdl, get, rmt_vcq_id, lcl_stadd,  \
                                                             rmt_stadd, edata, flags, cbdata)))    \
            return UTOFU_SUCCESS;                                                                  \
        return otherwise(vcq_hdl, rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags, cbdata); \
    }
START_IN_VIEW(put_in_view, put_out_of_view, false, UT_DESC_PUT)
START_IN_VIEW(get_in_view, get_out_of_view, true, UT_DESC_GET)

/* Looks where to go, and goes there with all arguments where they are. */
ALWAYS_INLINE int start_seen(utofu_vcq_hdl_t vcq_hdl, const struct request *r, void *cbdata)
{
    bool get = r->kind == UT_DESC_GET;

    if (__atomic_load_n(&ut_in_view[vcq_hdl % UT_MAX_VCQS], __ATOMIC_RELAXED))
        return (get ? get_in_view : put_in_view)(vcq_hdl, r->rmt_vcq_id, r->lcl_stadd, r->rmt_stadd,
                                                 r->length, r->edata, r->flags, cbdata);
    return (get ? get_out_of_view : put_out_of_view)(
        vcq_hdl, r->rmt_vcq_id, r->lcl_stadd, r->rmt_stadd, r->length, r->edata, r->flags, cbdata);
}

/* op: an enum utofu_armw_op of the caller, or UT_ARMW_OP_CSWAP of ours: a caller's 6 is no operator
 */
ALWAYS_INLINE struct request armw(size_t size, utofu_vcq_id_t rmt_vcq_id, uint32_t op,
                                  uint64_t operand, uint64_t compare, utofu_stadd_t rmt_stadd,
                                  uint64_t edata, unsigned long flags)
{
    return (struct request){.kind = UT_DESC_ARMW,
                            .rmt_vcq_id = rmt_vcq_id,
                            .rmt_stadd = rmt_stadd,
                            .length = size,
                            .max_length = size,
                            .num_blocks = 1,
                            .edata = edata,
                            .flags = flags,
                            .op = op,
                            .operand = operand,
                            .compare = compare};
}

ALWAYS_INLINE uint32_t public_op(enum utofu_armw_op op)
{
    return (uint32_t)op > UTOFU_ARMW_OP_OR ? 0 : (uint32_t)op;
}

ALWAYS_INLINE struct request nop(unsigned long flags)
{
    return (struct request){.kind = UT_DESC_NOP, .num_blocks = 1, .flags = flags};
}

/*
 * The public functions. START and PREPARE make the pair of one name from the same request.
 */

#define PARAMS(...) __VA_ARGS__

#define PAIR(name, params, make) PAIR_BY(start, , UT_PUBLIC, name, PARAMS(params), make)

#define PAIR_BY(start, attributes, public, name, params, make)                                     \
    attributes int putofu_##name(utofu_vcq_hdl_t vcq_hdl, params, void *cbdata)                    \
    {                                                                                              \
        struct request r = make;                                                                   \
        return start(vcq_hdl, &r, cbdata);                                                         \
    }                                                                                              \
    public(utofu_##name);                                                                          \
    int putofu_prepare_##name(utofu_vcq_hdl_t vcq_hdl, params, void *desc, size_t *desc_size)      \
    {                                                                                              \
        struct request r = make;                                                                   \
        return prepare(vcq_hdl, &r, desc, desc_size);                                              \
    }                                                                                              \
    UT_PUBLIC(utofu_prepare_##name)

#define TRANSFERS(name, kind)                                                                      \
    PAIR_BY(start_seen, __attribute__((hot)), UT_PUBLIC_HOT, name,                                 \
            PARAMS(utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd,    \
                   size_t length, uint64_t edata, unsigned long int flags),                        \
            transfer(kind, rmt_vcq_id, lcl_stadd, rmt_stadd, length, 0, 1, edata, flags, 0, 0));   \
    PAIR(name##_gap,                                                                               \
         PARAMS(utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd,       \
                size_t length, uint64_t edata, unsigned long int flags, size_t mtu, size_t gap),   \
         transfer(kind, rmt_vcq_id, lcl_stadd, rmt_stadd, length, 0, 1, edata, flags, mtu, gap));  \
    PAIR(name##_stride,                                                                            \
         PARAMS(utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd,       \
                size_t length, size_t stride, size_t num_blocks, uint64_t edata,                   \
                unsigned long int flags),                                                          \
         transfer(kind, rmt_vcq_id, lcl_stadd, rmt_stadd, length, stride, num_blocks, edata,       \
                  flags, 0, 0));                                                                   \
    PAIR(name##_stride_gap,                                                                        \
         PARAMS(utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd,       \
                size_t length, size_t stride, size_t num_blocks, uint64_t edata,                   \
                unsigned long int flags, size_t mtu, size_t gap),                                  \
         transfer(kind, rmt_vcq_id, lcl_stadd, rmt_stadd, length, stride, num_blocks, edata,       \
                  flags, mtu, gap))

TRANSFERS(put, UT_DESC_PUT);
TRANSFERS(get, UT_DESC_GET);

PAIR(put_piggyback,
     PARAMS(utofu_vcq_id_t rmt_vcq_id, void *lcl_data, utofu_stadd_t rmt_stadd, size_t length,
            uint64_t edata, unsigned long int flags),
     piggyback(rmt_vcq_id, lcl_data, rmt_stadd, length, UT_MAX_PIGGYBACK, edata, flags));
PAIR(put_piggyback8,
     PARAMS(utofu_vcq_id_t rmt_vcq_id, uint64_t lcl_data, utofu_stadd_t rmt_stadd, size_t length,
            uint64_t edata, unsigned long int flags),
     piggyback(rmt_vcq_id, &lcl_data, rmt_stadd, length, sizeof(lcl_data), edata, flags));

PAIR(armw4,
     PARAMS(utofu_vcq_id_t rmt_vcq_id, enum utofu_armw_op armw_op, uint32_t op_value,
            utofu_stadd_t rmt_stadd, uint64_t edata, unsigned long int flags),
     armw(4, rmt_vcq_id, public_op(armw_op), op_value, 0, rmt_stadd, edata, flags));
PAIR(armw8,
     PARAMS(utofu_vcq_id_t rmt_vcq_id, enum utofu_armw_op armw_op, uint64_t op_value,
            utofu_stadd_t rmt_stadd, uint64_t edata, unsigned long int flags),
     armw(8, rmt_vcq_id, public_op(armw_op), op_value, 0, rmt_stadd, edata, flags));
PAIR(cswap4,
     PARAMS(utofu_vcq_id_t rmt_vcq_id, uint32_t old_value, uint32_t new_value,
            utofu_stadd_t rmt_stadd, uint64_t edata, unsigned long int flags),
     armw(4, rmt_vcq_id, UT_ARMW_OP_CSWAP, new_value, old_value, rmt_stadd, edata, flags));
PAIR(cswap8,
     PARAMS(utofu_vcq_id_t rmt_vcq_id, uint64_t old_value, uint64_t new_value,
            utofu_stadd_t rmt_stadd, uint64_t edata, unsigned long int flags),
     armw(8, rmt_vcq_id, UT_ARMW_OP_CSWAP, new_value, old_value, rmt_stadd, edata, flags));

PAIR(nop, PARAMS(unsigned long int flags), nop(flags));

int putofu_post_toq(utofu_vcq_hdl_t vcq_hdl, void *desc, size_t desc_size, void *cbdata)
{
    const struct ut_desc *in = desc;
    size_t n = desc_size / sizeof(*in);

    if (unlikely(desc_size && (!desc || (uintptr_t)desc % 8)))
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "desc is NULL or not 8-byte aligned");
    struct ut_vcq *vcq = ut_vcq_enter(vcq_hdl);
    if (unlikely(!vcq))
        return UTOFU_ERR_INVALID_VCQ_HDL;
    int rc = 0;
    if (unlikely(desc_size % sizeof(*in) || n > vcq->toq_mask + 1ul))
        rc = UT_REFUSE(UTOFU_ERR_INVALID_SIZE,
                       "%zu bytes are no whole number of descriptors that the TOQ has room for",
                       desc_size);
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (unlikely(!ut_desc_valid(&in[i], vcq->session_number) || !kind_fits(vcq, in[i].kind)))
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
        ut_engine_submit(vcq, (uint32_t)n, false);
    }
    ut_vcq_leave(vcq);
    return rc;
}
UT_PUBLIC(utofu_post_toq);
