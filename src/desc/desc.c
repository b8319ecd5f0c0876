/* SPDX-License-Identifier: Apache-2.0 */
/* Seals and checks prepared descriptors. No state. */
#include "desc/desc.h"
#include "ident/ident.h"
#include "util/hash.h"

uint64_t ut_desc_seal(const struct ut_desc *desc, uint64_t vcq_key)
{
    uint64_t words[8], sum = vcq_key;

    memcpy(words, desc, sizeof(words));
    for (int i = 0; i < 7; i++) {
        sum = ut_hash_word(sum, words[i]);
        sum ^= sum >> 29;
    }
    return sum;
}

/*
 * Checks per kind
 */

static bool transfer_is_valid(const struct ut_desc *d)
{
    return d->mtu >= 1 && d->mtu <= UT_MAX_MTU && d->gap <= UT_MAX_GAP;
}

static bool armw_is_valid(const struct ut_desc *d)
{
    return (ut_desc_length(d) == 4 || ut_desc_length(d) == 8) && d->op >= UTOFU_ARMW_OP_SWAP &&
           d->op <= UT_ARMW_OP_CSWAP;
}

static bool fields_are_valid(const struct ut_desc *d)
{
    static const uint16_t known =
        (uint16_t)(UTOFU_ONESIDED_FLAG_STRONG_ORDER | UTOFU_ONESIDED_FLAG_PACKET_RESPONSE |
                   UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_PADDING |
                   UTOFU_ONESIDED_FLAG_CACHE_INJECTION | UTOFU_ONESIDED_FLAG_DELAY_START |
                   UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE);
    struct ut_vcq_ident ident;

    if ((d->flags & ~known) || ut_desc_path(d) >= UT_NUM_PATHS)
        return false;
    if (ut_desc_sps(d) && d->kind != UT_DESC_PUT)
        return false;
    if (!(ut_kind_traits(d->kind) & UT_KIND_NO_PEER) && !ut_vcq_id_unpack(d->rmt_vcq_id, &ident))
        return false;
    switch (d->kind) {
    case UT_DESC_NOP:
        return true;
    case UT_DESC_PUT:
    case UT_DESC_GET:
        return transfer_is_valid(d);
    case UT_DESC_PIGGYBACK:
        return ut_desc_length(d) <= UT_MAX_PIGGYBACK;
    case UT_DESC_ARMW:
        return armw_is_valid(d);
    default:
        return false;
    }
}

bool ut_desc_valid(const struct ut_desc *desc, uint64_t vcq_key)
{
    return desc->seal == ut_desc_seal(desc, vcq_key) && fields_are_valid(desc);
}
