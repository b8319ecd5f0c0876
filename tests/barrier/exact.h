/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact sums of doubles by another method than the library's: signed digits of 32 bits, with
 * carries only at the end, rounded by ldexp().
 */
#ifndef UT_TEST_EXACT_H
#define UT_TEST_EXACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Digit i has the weight 2^(32 i - 1074). */
enum { UT_EXACT_DIGITS = 76 };

struct ut_exact {
    int64_t digits[UT_EXACT_DIGITS];
    bool nan, plus_inf, minus_inf, not_minus_zero;
};

void ut_exact_clear(struct ut_exact *sum);
/* Adds the value `times` times, fewer than 2^48; at most 100,000 calls. */
void ut_exact_add(struct ut_exact *sum, double value, uint64_t times);
double ut_exact_round(const struct ut_exact *sum);

uint64_t ut_bits(double value);
double ut_double(uint64_t bits);

#endif
