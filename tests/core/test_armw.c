/* SPDX-License-Identifier: Apache-2.0 */
/* Atomic operators: the CPU's, the plain ones and those on a half of a word agree. */
#include <criterion/criterion.h>

#include "armw/armw.h"

static const uint64_t values[] = {
    0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000ull, 0x123456789abcdef0ull, UINT64_MAX};
enum { NUM_VALUES = sizeof(values) / sizeof(values[0]) };

Test(armw, applied_and_computed_results_agree)
{
    for (unsigned int size = 4; size <= 8; size += 4)
        for (unsigned int op = UTOFU_ARMW_OP_SWAP; op <= UT_ARMW_OP_CSWAP; op++)
            for (int o = 0; o < NUM_VALUES; o++)
                for (int v = 0; v < NUM_VALUES; v++) {
                    uint64_t mask = size == 4 ? UINT32_MAX : UINT64_MAX;
                    uint64_t old = values[o] & mask, operand = values[v] & mask;
                    uint64_t compare = v % 2 ? old : (old ^ 1) & mask;
                    uint64_t word = old;
                    cr_assert_eq(ut_armw_apply(&word, size, op, operand, compare), old);
                    cr_assert_eq(word, ut_armw_result(size, op, old, operand, compare),
                                 "size %u op %u", size, op);
                }
}

Test(armw, half_of_a_word_leaves_the_other_half)
{
    uint64_t word = 0x1111111122222222ull;

    cr_assert_eq(ut_armw_word_result(4, 0, UTOFU_ARMW_OP_ADD, word, 0xffffffff, 0),
                 0x1111111122222221ull);
    cr_assert_eq(ut_armw_word_result(4, 32, UTOFU_ARMW_OP_ADD, word, 0xffffffff, 0),
                 0x1111111022222222ull);
    cr_assert_eq(ut_armw_word_result(4, 32, UT_ARMW_OP_CSWAP, word, 5, 0x11111111),
                 0x0000000522222222ull);
    cr_assert_eq(ut_armw_word_result(4, 32, UT_ARMW_OP_CSWAP, word, 5, 0x22222222), word);
    cr_assert_eq(ut_armw_word_extract(4, 32, word), 0x11111111);
    cr_assert_eq(ut_armw_word_extract(4, 0, word), 0x22222222);
}
