/* SPDX-License-Identifier: Apache-2.0 */
/* The refusals of request.h. */
#include "api/request.h"

int ut_refuse_flags(unsigned long flags)
{
    if (flags & ~KNOWN_FLAGS)
        return UT_REFUSE(UTOFU_ERR_INVALID_FLAGS, "one-sided flags %#lx are not defined",
                         flags & ~KNOWN_FLAGS);
    if (ut_flags_path(flags) >= UT_NUM_PATHS)
        return UT_REFUSE(UTOFU_ERR_INVALID_PATH_ID, "path id %u: they are 0 to 11",
                         ut_flags_path(flags));
    return UT_REFUSE(UTOFU_ERR_INVALID_FLAGS, "only a Put can have an SPS (manual 2.2.8.1)");
}

int ut_refuse_peer(utofu_vcq_id_t rmt_vcq_id, size_t length, size_t max_length, uint64_t edata)
{
    if (!ut_vcq_id_check(rmt_vcq_id))
        return ut_refuse_vcq_id(rmt_vcq_id);
    if (length > max_length)
        return UT_REFUSE(UTOFU_ERR_INVALID_SIZE, "length %zu: the maximum is %zu", length,
                         max_length);
    return UT_REFUSE(UTOFU_ERR_INVALID_EDATA, "EDATA %llu: the maximum is %d",
                     (unsigned long long)edata, UT_MAX_EDATA);
}

int ut_refuse_pace(size_t mtu, size_t gap)
{
    if (mtu > UT_MAX_MTU)
        return UT_REFUSE(UTOFU_ERR_INVALID_SIZE, "MTU %zu: the maximum is %d", mtu, UT_MAX_MTU);
    return UT_REFUSE(UTOFU_ERR_INVALID_NUMBER, "gap %zu: the maximum is %d", gap, UT_MAX_GAP);
}

int ut_refuse_armw(uint32_t op, utofu_stadd_t rmt_stadd, size_t size)
{
    if (op < UTOFU_ARMW_OP_SWAP || op > UT_ARMW_OP_CSWAP)
        return UT_REFUSE(
            UTOFU_ERR_INVALID_OP,
            "operator %u: those of an ARMW are %d to %d, UTOFU_ARMW_OP_SWAP, ADD, XOR, "
            "AND and OR; compare and swap are utofu_cswap4() and utofu_cswap8()",
            op == UT_ARMW_OP_NO_CSWAP ? (uint32_t)UT_ARMW_OP_CSWAP : op, UTOFU_ARMW_OP_SWAP,
            UTOFU_ARMW_OP_OR);
    return UT_REFUSE(UTOFU_ERR_INVALID_STADD, "STADD %016llx is not aligned to %zu bytes",
                     (unsigned long long)rmt_stadd, size);
}

int ut_refuse_vcq(struct ut_vcq *vcq, unsigned int kind, size_t num_blocks)
{
    int rc = ut_kind_fits(vcq, kind)
                 ? UT_REFUSE(UTOFU_ERR_INVALID_NUMBER, "%zu blocks: the TOQ has %u entries",
                             num_blocks, vcq->toq_mask + 1)
                 : UT_REFUSE(UTOFU_ERR_NOT_SUPPORTED,
                             "a session-mode VCQ takes Put and NOP only (manual 2.2.8.1)");
    ut_vcq_leave(vcq);
    return rc;
}
