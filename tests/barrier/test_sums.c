/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of doubles are exact and rounded once, in any order. Compared with exact.h, with GMP if it
 * is installed, and with the processor. No processes.
 */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef HAVE_GMP
#    include <gmp.h>
#endif

#include "exact.h"
#include "barrier/bfp.h"
#include "barrier/value.h"
#include "harness.h"

static uint64_t seed(void)
{
    static uint64_t seed;

    if (!seed) {
        seed = ut_env_number("UT_TEST_SEED", (uint64_t)time(NULL));
        fprintf(stderr, "UT_TEST_SEED=%llu\n", (unsigned long long)seed);
    }
    return seed;
}

static double second_method(const double *v, size_t n)
{
    struct ut_exact sum;

    ut_exact_clear(&sum);
    for (size_t i = 0; i < n; i++)
        ut_exact_add(&sum, v[i], 1);
    return ut_exact_round(&sum);
}

#ifdef HAVE_GMP
/* The third method: integers of any size, in units of 2^-1074; rounded by division. */
static double with_gmp(const double *v, size_t n)
{
    double result;
    mpz_t sum, term, rest, half;

    mpz_inits(sum, term, rest, half, NULL);
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = ut_bits(v[i]) & ~(1ull << 63), exponent = bits >> 52;
        mpz_set_ui(term, exponent ? (bits & ((1ull << 52) - 1)) | 1ull << 52 : bits);
        mpz_mul_2exp(term, term, exponent ? exponent - 1 : 0);
        if (signbit(v[i]))
            mpz_sub(sum, sum, term);
        else
            mpz_add(sum, sum, term);
    }
    int sign = mpz_sgn(sum);
    mpz_abs(sum, sum);
    size_t size = mpz_sizeinbase(sum, 2), shift = size > 53 ? size - 53 : 0;
    mpz_fdiv_r_2exp(rest, sum, shift);
    mpz_fdiv_q_2exp(term, sum, shift);
    mpz_set_ui(half, 1);
    mpz_mul_2exp(half, half, shift ? shift - 1 : 0);
    int more = shift ? mpz_cmp(rest, half) : -1;
    if (more > 0 || (more == 0 && mpz_odd_p(term)))
        mpz_add_ui(term, term, 1);
    result = sign * ldexp((double)mpz_get_ui(term), (int)shift - 1074);
    mpz_clears(sum, term, rest, half, NULL);
    return sign == 0 ? 0.0 : result;
}
#endif

/* A random binary tree over the values, sometimes through the packed form. */
static void sum_range(struct ut_bfp *out, const double *v, size_t n, struct ut_rng *rng)
{
    if (n == 1) {
        ut_bfp_set(out, v[0]);
    } else {
        size_t left = 1 + (size_t)ut_rng_below(rng, n - 1);
        struct ut_bfp right;
        sum_range(out, v, left, rng);
        sum_range(&right, v + left, n - left, rng);
        ut_bfp_add(out, &right);
    }
    if (ut_rng_below(rng, 4) == 0) {
        uint8_t packed[UT_BFP_PACKED_MAX];
        struct ut_bfp again;
        size_t size = ut_bfp_pack(out, packed);
        cr_assert_eq(ut_bfp_unpack(&again, packed, size), size);
        ut_bfp_copy(out, &again);
    }
}

static void shuffle(double *v, size_t n, struct ut_rng *rng)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)ut_rng_below(rng, i);
        double d = v[i - 1];
        v[i - 1] = v[j];
        v[j] = d;
    }
}

static void check_sum(double *v, size_t n, struct ut_rng *rng)
{
    double expected = second_method(v, n);

#ifdef HAVE_GMP
    double gmp = isfinite(expected) && expected != 0 ? with_gmp(v, n) : expected;
    cr_assert(ut_bits(gmp) == ut_bits(expected), "the two models disagree: %a and %a (%zu values)",
              gmp, expected, n);
#endif
    for (int order = 0; order < 3; order++) {
        struct ut_bfp sum;
        shuffle(v, n, rng);
        sum_range(&sum, v, n, rng);
        double got = ut_bfp_round(&sum);
        cr_assert(ut_bits(got) == ut_bits(expected), "%a, not %a (%zu values, UT_TEST_SEED=%llu)",
                  got, expected, n, (unsigned long long)seed());
    }
}

Test(sums, of_a_few_values_that_are_hard)
{
    static const double hard[] = {0.0,
                                  -0.0,
                                  1.0,
                                  -1.0,
                                  0x1p-1074,
                                  -0x1p-1074,
                                  0x1p-1022,
                                  -0x1p-1022,
                                  0x1.fffffffffffffp-1023,
                                  DBL_MAX,
                                  -DBL_MAX,
                                  0x1p1023,
                                  0x1p970,
                                  0x1p969,
                                  -0x1p970,
                                  0x1.fffffffffffffp969,
                                  INFINITY,
                                  -INFINITY,
                                  NAN,
                                  -NAN,
                                  0x1p-53,
                                  0x1p-54,
                                  0x1.0000000000001p0,
                                  0x1p53,
                                  0x1p52,
                                  0.5,
                                  0.1};
    const size_t count = sizeof(hard) / sizeof(hard[0]);
    struct ut_rng rng = ut_rng_start(1);

    for (size_t i = 0; i < count; i++) {
        check_sum((double[]){hard[i]}, 1, &rng);
        for (size_t j = 0; j < count; j++) {
            check_sum((double[]){hard[i], hard[j]}, 2, &rng);
            for (size_t k = 0; k < count; k++)
                check_sum((double[]){hard[i], hard[j], hard[k]}, 3, &rng);
        }
    }
}

Test(sums, of_two_values_are_those_of_the_processor)
{
    struct ut_rng rng = ut_rng_start(seed());

    for (int i = 0; i < 200000; i++) {
        double v[2] = {ut_double(ut_rng_next(&rng)), ut_double(ut_rng_next(&rng))};
        struct ut_bfp sum, other;
        if (i % 2) /* of about the same size */
            v[1] = ut_double((ut_bits(v[0]) & 0xfff0000000000000ull) ^ (ut_rng_next(&rng) >> 8));
        volatile double a = v[0], b = v[1];
        double expected = a + b;
        ut_bfp_set(&sum, v[0]);
        ut_bfp_set(&other, v[1]);
        ut_bfp_add(&sum, &other);
        double got = ut_bfp_round(&sum);
        cr_assert(isnan(expected) ? isnan(got) : ut_bits(got) == ut_bits(expected),
                  "%a + %a = %a, not %a", v[0], v[1], got, expected);
    }
}

static double random_value(struct ut_rng *rng, int style)
{
    uint64_t r = ut_rng_next(rng);

    switch (style) {
    case 0: /* any bits but NaN and infinity */
        return (r >> 52 & 2047) == 2047 ? 0x1p1000 : ut_double(r);
    case 1: /* ordinary */
        return ldexp((double)(int64_t)r, -63) * 100;
    case 2: /* subnormal or nearly */
        return ut_double(r & 0x801fffffffffffffull);
    case 3: /* near the end */
        return ut_double((r & 0x800fffffffffffffull) | 0x7fc0000000000000ull |
                         (r & 0x0030000000000000ull));
    default: /* powers of two */
        return (r >> 63 ? -1.0 : 1.0) * ldexp(1.0, (int)(r % 2098) - 1074);
    }
}

Test(sums, of_many_values_are_exact)
{
    struct ut_rng rng = ut_rng_start(seed() + 1);
    double v[300];

    for (int i = 0; i < 6000; i++) {
        size_t n = 1 + (size_t)ut_rng_below(&rng, i % 20 ? 12 : 150);
        int style = i % 6;
        for (size_t k = 0; k < n; k++)
            v[k] = random_value(&rng, style == 5 ? (int)(k % 5) : style);
        if (i % 3 == 0) { /* nearly everything cancels */
            for (size_t k = 0; k < n; k++)
                v[n + k] = -v[k];
            n *= 2;
            v[0] = random_value(&rng, 2);
        }
        check_sum(v, n, &rng);
    }
}

/* Short sums, of one or two limbs, become longer ones: 70 bits and more, which are doubled. */
Test(sums, of_doubled_values_are_exact)
{
    for (int exponent = -1000; exponent < 900; exponent++) {
        double value = ldexp(exponent % 2 ? -1.5 : 1.5, exponent);
        struct ut_bfp sum, low;
        ut_bfp_set(&sum, value);
        ut_bfp_set(&low, ldexp(value, -70));
        ut_bfp_add(&sum, &low);
        for (int times = 1; times <= 100; times++) {
            struct ut_bfp same;
            ut_bfp_copy(&same, &sum);
            ut_bfp_add(&sum, &same);
            cr_assert_eq(ut_bfp_round(&sum), ldexp(value, times), "%a, doubled %d times", value,
                         times);
        }
    }
}

/* Every process of a large circuit that doubles the value repeatedly. */
Test(sums, have_room_for_very_many_contributions)
{
    struct ut_bfp sum, minus;

    ut_bfp_set(&sum, DBL_MAX);
    for (int i = 0; i < 200; i++) {
        struct ut_bfp same;
        ut_bfp_copy(&same, &sum);
        ut_bfp_add(&sum, &same);
    }
    cr_assert(isinf(ut_bfp_round(&sum)));
    ut_bfp_set(&minus, -DBL_MAX);
    for (int i = 0; i < 200; i++) {
        struct ut_bfp same;
        ut_bfp_copy(&same, &minus);
        ut_bfp_add(&minus, &same);
    }
    ut_bfp_add(&sum, &minus);
    cr_assert_eq(ut_bits(ut_bfp_round(&sum)), 0);

    /* and beyond that room they are infinite, and stay so */
    for (int sign = -1; sign <= 1; sign += 2) {
        ut_bfp_set(&sum, sign * DBL_MAX);
        for (int i = 0; i < 3000; i++) {
            struct ut_bfp same;
            ut_bfp_copy(&same, &sum);
            ut_bfp_add(&sum, &same);
        }
        cr_assert_eq(ut_bfp_round(&sum), sign * (double)INFINITY);
        ut_bfp_set(&minus, -sign * DBL_MAX);
        ut_bfp_add(&sum, &minus);
        cr_assert_eq(ut_bfp_round(&sum), sign * (double)INFINITY);
    }
}

/* The lowest limb that is sent is not zero: rounding looks for the first bit of the sum. */
Test(sums, bytes_of_a_sum_whose_lowest_limb_is_zero_are_refused)
{
    for (uint8_t count = 1; count <= UT_BFP_LIMBS; count++) {
        uint8_t bytes[UT_BFP_PACKED_MAX] = {UT_BFP_NOT_MINUS_ZERO, 0, count};
        size_t size = 8 + count * sizeof(uint64_t);
        struct ut_bfp sum;
        cr_assert_eq(ut_bfp_unpack(&sum, bytes, size), 0);
        bytes[size - 1] = 1;
        cr_assert_eq(ut_bfp_unpack(&sum, bytes, size), count == 1 ? size : 0);
        bytes[8] = 1;
        cr_assert_eq(ut_bfp_unpack(&sum, bytes, size), size);
        cr_assert(isfinite(ut_bfp_round(&sum)) || count == UT_BFP_LIMBS || count > 32);
    }
}

Test(sums, travel_in_few_bytes)
{
    uint8_t packed[UT_BFP_PACKED_MAX];
    struct ut_bfp sum, one;

    ut_bfp_set(&sum, 0.1);
    for (int i = 0; i < 1000; i++) {
        ut_bfp_set(&one, i * 1.7);
        ut_bfp_add(&sum, &one);
    }
    cr_assert_leq(ut_bfp_pack(&sum, packed), 8 + 3 * 8);
    cr_assert_leq(UT_VALUE_PACKED_MAX, 1024 - 64);
}

/* Values: the operators on integers, and packed values that no sender produces */

static void random_uint64(struct ut_value *v, unsigned int op, size_t count, struct ut_rng *rng)
{
    uint64_t data[UT_MAX_UINT64_REDUCTION];

    for (size_t i = 0; i < count; i++)
        data[i] = ut_rng_below(rng, 2) ? ut_rng_below(rng, 4) : ut_rng_next(rng);
    ut_value_uint64(v, op, data, count);
}

static void check_same(const struct ut_value *a, const struct ut_value *b)
{
    uint8_t bytes[2][UT_VALUE_PACKED_MAX];
    size_t size = ut_value_pack(a, bytes[0]);

    cr_assert_eq(ut_value_pack(b, bytes[1]), size);
    cr_assert_eq(memcmp(bytes[0], bytes[1], size), 0);
}

static void random_any(struct ut_value *v, struct ut_rng *rng)
{
    switch (ut_rng_below(rng, 6)) {
    case 0:
        ut_value_barrier(v);
        break;
    case 1:
        ut_value_broken(v, ut_rng_below(rng, 3));
        break;
    case 2:
        ut_value_double(v, UTOFU_REDUCE_OP_BFPSUM, (double[]){random_value(rng, 1), 2.5},
                        1 + ut_rng_below(rng, 2));
        break;
    default:
        random_uint64(v, UTOFU_REDUCE_OP_BAND + (unsigned int)ut_rng_below(rng, 6),
                      2 + 2 * ut_rng_below(rng, 2), rng);
    }
}

Test(values, combine_in_any_order_to_the_same_bits)
{
    struct ut_rng rng = ut_rng_start(seed() + 2);

    for (int i = 0; i < 100000; i++) {
        struct ut_value v[3], left, right, tmp;
        for (int k = 0; k < 3; k++)
            random_any(&v[k], &rng);
        ut_value_copy(&left, &v[0]); /* (0 1) 2 */
        ut_value_combine(&left, &v[1]);
        ut_value_combine(&left, &v[2]);
        ut_value_copy(&tmp, &v[2]); /* (2 1), and 0 before it */
        ut_value_combine(&tmp, &v[1]);
        ut_value_copy(&right, &v[0]);
        ut_value_combine(&right, &tmp);
        check_same(&left, &right);
    }
}

Test(values, that_make_no_sense_are_refused)
{
    struct ut_rng rng = ut_rng_start(seed() + 3);
    uint8_t bytes[UT_VALUE_PACKED_MAX];
    struct ut_value v, again;
    int taken = 0;

    for (int i = 0; i < 300000; i++) {
        size_t size = (size_t)ut_rng_below(&rng, sizeof(bytes) + 1);
        if (i % 2) { /* a valid one with a few wrong bits */
            random_any(&v, &rng);
            size = ut_value_pack(&v, bytes);
            bytes[ut_rng_below(&rng, 3)] ^= (uint8_t)(1u << ut_rng_below(&rng, 8));
        } else {
            for (size_t k = 0; k < size; k++)
                bytes[k] = (uint8_t)ut_rng_below(&rng, k < 16 ? 9 : 256);
        }
        if (ut_value_unpack(&v, bytes, size)) {
            taken++;
            cr_assert_eq(ut_value_pack(&v, bytes), size);
            random_any(&again, &rng);
            ut_value_combine(&again, &v);
        }
    }
    cr_assert_gt(taken, 100);
}
