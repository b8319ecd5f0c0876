/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: the seal accepts descriptors that a prepare function wrote for this VCQ, and nothing
 * else. */
#include <criterion/criterion.h>
#include <string.h>

#include "desc/desc.h"
#include "desc/request.h"
#include "ident/ident.h"
#include "wire/wire.h"

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

Test(desc, fields_at_their_limits_are_valid)
{
    struct ut_desc good = sealed_put(42), d;

#define ACCEPTED(change)                                                                           \
    do {                                                                                           \
        d = good;                                                                                  \
        change;                                                                                    \
        d.seal = ut_desc_seal(&d, 42);                                                             \
        cr_assert(ut_desc_valid(&d, 42), #change);                                                 \
    } while (0)
    ACCEPTED(d.mtu = 1);
    ACCEPTED(d.mtu = UT_MAX_MTU);
    ACCEPTED(d.gap = UT_MAX_GAP);
    ACCEPTED(d.word = 11u << 28); /* twelve paths */
    ACCEPTED(d.word = 15u << 24);
    ACCEPTED(d.flags = UTOFU_ONESIDED_FLAG_STRONG_ORDER);
    ACCEPTED(d.flags = UTOFU_ONESIDED_FLAG_PACKET_RESPONSE);
    ACCEPTED(d.flags = UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
    ACCEPTED(d.flags = UTOFU_ONESIDED_FLAG_PADDING);
    ACCEPTED(d.flags = UTOFU_ONESIDED_FLAG_CACHE_INJECTION);
    ACCEPTED(d.flags = UTOFU_ONESIDED_FLAG_DELAY_START);
    ACCEPTED(d.flags = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE);
    ACCEPTED((d.kind = UT_DESC_GET, d.word = UT_MAX_PUTGET));
    ACCEPTED((d.kind = UT_DESC_PIGGYBACK, d.word = 0));
    ACCEPTED((d.kind = UT_DESC_PIGGYBACK, d.word = UT_MAX_PIGGYBACK));
    ACCEPTED((d.kind = UT_DESC_ARMW, d.word = 4, d.op = UTOFU_ARMW_OP_SWAP));
    ACCEPTED((d.kind = UT_DESC_ARMW, d.word = 8, d.op = UT_ARMW_OP_CSWAP));
    ACCEPTED((d.kind = UT_DESC_NOP, d.word = 0, d.rmt_vcq_id = 0));
#undef ACCEPTED
#define REFUSED(change)                                                                            \
    do {                                                                                           \
        d = good;                                                                                  \
        change;                                                                                    \
        d.seal = ut_desc_seal(&d, 42);                                                             \
        cr_assert_not(ut_desc_valid(&d, 42), #change);                                             \
    } while (0)
    REFUSED((d.kind = UT_DESC_ARMW, d.word = 4, d.op = UTOFU_ARMW_OP_SWAP - 1));
    REFUSED((d.kind = UT_DESC_ARMW, d.word = 8, d.op = UT_ARMW_OP_CSWAP + 1));
    REFUSED((d.kind = UT_DESC_ARMW, d.word = 4 | 1u << 24, d.op = 1));
    REFUSED((d.kind = UT_DESC_GET, d.gap = UT_MAX_GAP + 1));
    REFUSED((d.kind = UT_DESC_GET, d.mtu = 0));
#undef REFUSED
}

/* Each argument is in its own bits of the descriptor. */
Test(desc, fields_have_bits_of_their_own)
{
    struct ut_desc d;

    for (unsigned int sps = 0; sps < 16; sps++)
        for (unsigned int path = 0; path < 12; path++) {
            unsigned long flags = UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_SPS(sps) |
                                  UTOFU_ONESIDED_FLAG_PATH(path);
            memset(&d, 0, sizeof(d));
            ut_desc_head(&d, UT_DESC_PUT, 0x1234, 0x5678, UT_MAX_PUTGET, 0xfe, flags);
            cr_assert_eq(ut_flags_sps(flags), sps);
            cr_assert_eq(ut_flags_path(flags), path);
            cr_assert_eq(ut_desc_sps(&d), sps);
            cr_assert_eq(ut_desc_path(&d), path);
            cr_assert_eq(ut_desc_length(&d), UT_MAX_PUTGET);
            cr_assert_eq(d.flags, UTOFU_ONESIDED_FLAG_TCQ_NOTICE);
            cr_assert(d.kind == UT_DESC_PUT && d.edata == 0xfe && d.rmt_vcq_id == 0x1234 &&
                      d.rmt_stadd == 0x5678);
        }
    cr_assert_eq(ut_flags_path(UTOFU_ONESIDED_FLAG_PATH(255)), 255);
    ut_desc_transfer(&d, 77, 100, 9);
    cr_assert(d.lcl_stadd == 77 && d.mtu == 100 && d.gap == 9);
    ut_desc_armw(&d, 3, 4, 5);
    cr_assert(d.op == 3 && d.operand == 4 && d.compare == 5);
}

/* Each block of a stride has addresses of its own, at both ends. */
Test(desc, blocks_of_a_request_are_a_stride_apart)
{
    struct ut_request r = {.kind = UT_DESC_GET,
                           .rmt_vcq_id = 5,
                           .lcl_stadd = 1000,
                           .rmt_stadd = 50000,
                           .length = 16,
                           .stride = 256,
                           .num_blocks = 3,
                           .mtu = 64,
                           .gap = 3};
    struct ut_desc d;

    for (size_t i = 0; i < 3; i++) {
        memset(&d, 0, sizeof(d));
        ut_request_encode(&d, &r, i);
        cr_assert(d.kind == UT_DESC_GET && d.lcl_stadd == 1000 + 256 * i &&
                  d.rmt_stadd == 50000 + 256 * i && d.mtu == 64 && d.gap == 3);
    }
    r.kind = UT_DESC_PUT;
    ut_request_encode(&d, &r, 1);
    cr_assert(d.kind == UT_DESC_PUT && d.lcl_stadd == 1256 && d.rmt_stadd == 50256);
    r = (struct ut_request){
        .kind = UT_DESC_ARMW, .length = 8, .op = 2, .operand = 11, .compare = 12};
    ut_request_encode(&d, &r, 0);
    cr_assert(d.kind == UT_DESC_ARMW && d.op == 2 && d.operand == 11 && d.compare == 12);
    r = (struct ut_request){
        .kind = UT_DESC_PIGGYBACK, .length = 9, .max_length = 32, .data = "abcdefghi"};
    ut_request_encode(&d, &r, 0);
    cr_assert_eq(memcmp(d.data, "abcdefghi", 9), 0);
}

/* Nothing but these bytes is read and written, whatever the size. */
Test(desc, few_bytes_are_copied_as_they_are)
{
    static const size_t most[] = {8, 16, UT_MAX_PIGGYBACK};

    for (int m = 0; m < 3; m++)
        for (size_t size = 0; size <= most[m]; size++) {
            uint8_t from[40], to[40], want[40];
            for (unsigned int i = 0; i < sizeof(from); i++)
                from[i] = (uint8_t)(i + 1);
            memset(to, 0xee, sizeof(to));
            memcpy(want, to, sizeof(want));
            memcpy(want + 4, from + 2, size);
            switch (m) { /* a constant, as in the library */
            case 0:
                ut_copy_small(to + 4, from + 2, size, 8);
                break;
            case 1:
                ut_copy_small(to + 4, from + 2, size, 16);
                break;
            default:
                ut_copy_small(to + 4, from + 2, size, UT_MAX_PIGGYBACK);
            }
            cr_assert_eq(memcmp(to, want, sizeof(to)), 0, "%zu of %zu", size, most[m]);
        }
}

Test(desc, immediates_have_bits_for_each_field)
{
    cr_assert_eq(ut_imm_make(0xff, 0, 0, 0), 0xff);
    cr_assert_eq(ut_imm_make(0, 0xf, 0, 0), 0xf00);
    cr_assert_eq(ut_imm_make(0, 0, 5, 0), 0x1000);
    cr_assert_eq(ut_imm_make(0, 0, 0, 0xffff), 0xffff0000);
    cr_assert_eq(ut_imm_make(0x12, 3, 1, 0x1ff), 0x01ff1312);
}
