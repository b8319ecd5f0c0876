/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: the seal accepts descriptors that a prepare function wrote for this VCQ, and nothing
 * else. */
#include <criterion/criterion.h>
#include <string.h>

#include "desc/desc.h"
#include "ident/ident.h"

static struct ut_desc sealed_put(uint64_t key)
{
    struct ut_vcq_ident ident = {.tni = 1, .cq = 3, .cmp = 7};
    struct ut_desc d = {0};

    ut_desc_head(&d, UT_DESC_PUT, ut_vcq_id_canonical(&ident), 0x1000ull << 40 | 64, 1000, 7,
                 UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_SPS(15));
    ut_desc_transfer(&d, 0x1001ull << 40, 0, 0);
    d.seal = ut_desc_seal(&d, key);
    return d;
}

Test(desc, sealed_put_is_valid_for_its_vcq_alone)
{
    struct ut_desc d = sealed_put(42);

    cr_assert(ut_desc_valid(&d, 42));
    cr_assert_not(ut_desc_valid(&d, 43));
    cr_assert_eq(ut_desc_sps(&d), 15);
    cr_assert_eq(d.mtu, UT_MAX_MTU);
}

Test(desc, any_changed_bit_is_found)
{
    for (size_t bit = 0; bit < 8 * sizeof(struct ut_desc); bit++) {
        struct ut_desc d = sealed_put(42);
        ((uint8_t *)&d)[bit / 8] ^= (uint8_t)(1u << bit % 8);
        cr_assert_not(ut_desc_valid(&d, 42), "bit %zu", bit);
    }
}

Test(desc, fields_out_of_range_are_refused_even_when_sealed)
{
    struct ut_desc good = sealed_put(42), d;

#define REFUSED(change)                                                                            \
    do {                                                                                           \
        d = good;                                                                                  \
        change;                                                                                    \
        d.seal = ut_desc_seal(&d, 42);                                                             \
        cr_assert_not(ut_desc_valid(&d, 42), #change);                                             \
    } while (0)
    REFUSED(d.kind = 0);
    REFUSED(d.kind = 6);
    REFUSED(d.flags |= 1u << 4);
    REFUSED(d.word |= 12u << 28);
    REFUSED(d.rmt_vcq_id ^= 1);
    REFUSED(d.mtu = UT_MAX_MTU + 1);
    REFUSED(d.mtu = 0);
    REFUSED(d.gap = UT_MAX_GAP + 1);
    REFUSED(d.kind = UT_DESC_GET); /* an SPS goes with a Put only */
    REFUSED((d.kind = UT_DESC_PIGGYBACK, d.word = 33));
    REFUSED((d.kind = UT_DESC_ARMW, d.word = 5, d.op = 1));
    REFUSED((d.kind = UT_DESC_ARMW, d.word = 8, d.op = 7));
#undef REFUSED
}
