/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by starting and preparing. A public function packs its arguments into a request; this file
 * checks the request, and ut_request_encode() encodes it. All functions are inlined, so that a
 * request stays in registers.
 */
#ifndef UT_API_REQUEST_H
#define UT_API_REQUEST_H

#include "api/api.h"
#include "desc/request.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define unlikely(x)   __builtin_expect(!!(x), 0)
#define likely(x)     __builtin_expect(!!(x), 1)

#define KNOWN_FLAGS                                                                                \
    (UTOFU_ONESIDED_FLAG_STRONG_ORDER | UTOFU_ONESIDED_FLAG_PACKET_RESPONSE |                      \
     UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_PADDING |                         \
     UTOFU_ONESIDED_FLAG_CACHE_INJECTION | UTOFU_ONESIDED_FLAG_DELAY_START |                       \
     UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE |                       \
     UTOFU_ONESIDED_FLAG_PATH(0xfful) | UTOFU_ONESIDED_FLAG_SPS(0xful))

/*
 * Packing, one function per kind
 */

/* A request of one block; `mtu` 0: the largest MTU. */
ALWAYS_INLINE struct ut_request request_transfer(enum ut_desc_kind kind, utofu_vcq_id_t rmt_vcq_id,
                                                 utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd,
                                                 size_t length, uint64_t edata,
                                                 unsigned long int flags)
{
    return (struct ut_request){.kind = kind,
                               .rmt_vcq_id = rmt_vcq_id,
                               .lcl_stadd = lcl_stadd,
                               .rmt_stadd = rmt_stadd,
                               .length = length,
                               .max_length = UT_MAX_PUTGET,
                               .num_blocks = 1,
                               .edata = edata,
                               .flags = flags};
}

/* A request with an MTU and a gap. */
ALWAYS_INLINE struct ut_request with_pace(struct ut_request r, size_t mtu, size_t gap)
{
    r.mtu = mtu;
    r.gap = gap;
    return r;
}
ALWAYS_INLINE struct ut_request with_blocks(struct ut_request r, size_t stride, size_t num_blocks)
{
    r.stride = stride;
    r.num_blocks = num_blocks;
    return r;
}

ALWAYS_INLINE struct ut_request request_piggyback(utofu_vcq_id_t rmt_vcq_id, const void *data,
                                                  utofu_stadd_t rmt_stadd, size_t length,
                                                  size_t max_length, uint64_t edata,
                                                  unsigned long int flags)
{
    return (struct ut_request){.kind = UT_DESC_PIGGYBACK,
                               .rmt_vcq_id = rmt_vcq_id,
                               .rmt_stadd = rmt_stadd,
                               .length = length,
                               .max_length = max_length,
                               .num_blocks = 1,
                               .edata = edata,
                               .flags = flags,
                               .data = data};
}

ALWAYS_INLINE struct ut_request request_atomic(uint32_t op, size_t size, utofu_vcq_id_t rmt_vcq_id,
                                               uint64_t operand, uint64_t compare,
                                               utofu_stadd_t rmt_stadd, uint64_t edata,
                                               unsigned long int flags)
{
    return (struct ut_request){.kind = UT_DESC_ARMW,
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

/* UT_ARMW_OP_CSWAP is internal. If a caller passes this value as armw_op, NO_CSWAP replaces it,
 * which the check refuses. */
#define UT_ARMW_OP_NO_CSWAP (~(uint32_t)UT_ARMW_OP_CSWAP)
ALWAYS_INLINE struct ut_request request_armw(enum utofu_armw_op armw_op, size_t size,
                                             utofu_vcq_id_t rmt_vcq_id, uint64_t op_value,
                                             utofu_stadd_t rmt_stadd, uint64_t edata,
                                             unsigned long int flags)
{
    const uint32_t op = (uint32_t)armw_op;

    return request_atomic(op == UT_ARMW_OP_CSWAP ? UT_ARMW_OP_NO_CSWAP : op, size, rmt_vcq_id,
                          op_value, 0, rmt_stadd, edata, flags);
}
ALWAYS_INLINE struct ut_request request_cswap(size_t size, utofu_vcq_id_t rmt_vcq_id,
                                              uint64_t old_value, uint64_t new_value,
                                              utofu_stadd_t rmt_stadd, uint64_t edata,
                                              unsigned long int flags)
{
    return request_atomic(UT_ARMW_OP_CSWAP, size, rmt_vcq_id, new_value, old_value, rmt_stadd,
                          edata, flags);
}

ALWAYS_INLINE struct ut_request request_nop(unsigned long int flags)
{
    return (struct ut_request){.kind = UT_DESC_NOP, .num_blocks = 1, .flags = flags};
}

/*
 * Checking
 */

/* Log why a request is refused. The arguments are values, because a pointer to the request would
 * force the request into memory. */
int ut_refuse_flags(unsigned long flags) __attribute__((cold));
int ut_refuse_peer(utofu_vcq_id_t rmt_vcq_id, size_t length, size_t max_length, uint64_t edata)
    __attribute__((cold));
int ut_refuse_pace(size_t mtu, size_t gap) __attribute__((cold));
int ut_refuse_armw(uint32_t op, utofu_stadd_t rmt_stadd, size_t size) __attribute__((cold));
/* Also leaves the VCQ. */
int ut_refuse_vcq(struct ut_vcq *vcq, unsigned int kind, size_t num_blocks) __attribute__((cold));

/* Checks of one kind: 0 or a return code. */
ALWAYS_INLINE int check_transfer(const struct ut_request *r)
{
    return unlikely(r->mtu > UT_MAX_MTU || r->gap > UT_MAX_GAP) ? ut_refuse_pace(r->mtu, r->gap)
                                                                : 0;
}
ALWAYS_INLINE int check_piggyback(const struct ut_request *r)
{
    return unlikely(!r->data && r->length)
               ? UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "lcl_data is NULL")
               : 0;
}
ALWAYS_INLINE int check_armw(const struct ut_request *r)
{
    return unlikely(r->op < UTOFU_ARMW_OP_SWAP || r->op > UT_ARMW_OP_CSWAP ||
                    (r->rmt_stadd & (r->length - 1)))
               ? ut_refuse_armw(r->op, r->rmt_stadd, r->length)
               : 0;
}

/* All checks that do not need the VCQ. 0 or a return code. */
ALWAYS_INLINE int request_check(const struct ut_request *r)
{
    if (unlikely((r->flags & ~KNOWN_FLAGS) || ut_flags_path(r->flags) >= UT_NUM_PATHS ||
                 (r->kind != UT_DESC_PUT && ut_flags_sps(r->flags))))
        return ut_refuse_flags(r->flags);
    if (!(ut_kind_traits(r->kind) & UT_KIND_NO_PEER) &&
        unlikely(!ut_vcq_id_check(r->rmt_vcq_id) || r->length > r->max_length ||
                 r->edata > UT_MAX_EDATA))
        return ut_refuse_peer(r->rmt_vcq_id, r->length, r->max_length, r->edata);
    switch (r->kind) {
    case UT_DESC_PUT:
    case UT_DESC_GET:
        return check_transfer(r);
    case UT_DESC_PIGGYBACK:
        return check_piggyback(r);
    case UT_DESC_ARMW:
        return check_armw(r);
    case UT_DESC_NOP:
    case UT_DESC_NONE:
        break;
    }
    return 0;
}

/* A session-mode TOQ accepts only Put and NOP, because an arrival can start no other kind. */
static inline bool ut_kind_fits(const struct ut_vcq *vcq, unsigned int kind)
{
    return !(vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE) ||
           (ut_kind_traits(kind) & UT_KIND_IN_SESSION);
}

/* True if the VCQ accepts the request. */
ALWAYS_INLINE bool vcq_takes(const struct ut_vcq *vcq, const struct ut_request *r)
{
    return likely(ut_kind_fits(vcq, r->kind) && r->num_blocks <= vcq->toq_mask + 1ul);
}

#endif
