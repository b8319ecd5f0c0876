/* SPDX-License-Identifier: Apache-2.0 */
/* Another method of adding doubles; see exact.h. */
#include "exact.h"

#include <math.h>
#include <string.h>

uint64_t ut_bits(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

double ut_double(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

void ut_exact_clear(struct ut_exact *sum)
{
    memset(sum, 0, sizeof(*sum));
}

static void add_part(int64_t *digits, uint64_t part, int at, bool negative)
{
    for (int i = at / 32, shift = at % 32; part != 0; i++, shift = 0) {
        int room = 32 - shift;
        int64_t digit = (int64_t)((part & ((1ull << room) - 1)) << shift);
        digits[i] += negative ? -digit : digit;
        part >>= room;
    }
}

void ut_exact_add(struct ut_exact *sum, double value, uint64_t times)
{
    int exponent;

    if (times == 0)
        return;
    sum->not_minus_zero |= !(value == 0 && signbit(value));
    sum->nan |= isnan(value);
    sum->plus_inf |= isinf(value) && value > 0;
    sum->minus_inf |= isinf(value) && value < 0;
    if (value == 0 || !isfinite(value))
        return;
    double fraction = frexp(fabs(value), &exponent); /* value = fraction * 2^exponent */
    uint64_t m = (uint64_t)ldexp(fraction, 53);      /* value = m * 2^(exponent - 53) */
    int at = exponent - 53 + 1074;
    if (at < 0) { /* subnormal: the low bits of m are zero */
        m >>= -at;
        at = 0;
    }
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            uint64_t m_part = m >> 27 * i & ((1u << 27) - 1);
            uint64_t t_part = times >> 24 * j & ((1u << 24) - 1);
            add_part(sum->digits, m_part * t_part, at + 27 * i + 24 * j, value < 0);
        }
    }
}

static void carry(int64_t *digits)
{
    int64_t up = 0;

    for (int i = 0; i < UT_EXACT_DIGITS; i++) {
        int64_t d = digits[i] + up;
        up = d >> 32;
        digits[i] = i == UT_EXACT_DIGITS - 1 ? d : d & 0xffffffff;
    }
}

static int bit_of(const int64_t *digits, int bit)
{
    return (int)(digits[bit / 32] >> bit % 32 & 1);
}

/* The top 53 bits, or all bits if there are fewer above 2^-1074. */
static double round_digits(const int64_t *digits, int high)
{
    int low = high < 53 ? 0 : high - 52;
    uint64_t m = 0;
    int rest = 0;

    for (int bit = high; bit >= low; bit--)
        m = m << 1 | (uint64_t)bit_of(digits, bit);
    for (int bit = 0; bit < low - 1; bit++)
        rest |= bit_of(digits, bit);
    if (low > 0 && bit_of(digits, low - 1) && (rest || (m & 1)))
        m++;
    return ldexp((double)m, low - 1074);
}

double ut_exact_round(const struct ut_exact *sum)
{
    int64_t digits[UT_EXACT_DIGITS];
    int sign = 1, high = UT_EXACT_DIGITS * 32 - 1;

    if (sum->nan || (sum->plus_inf && sum->minus_inf))
        return ut_double(0x7ff8000000000000ull);
    if (sum->plus_inf || sum->minus_inf)
        return sum->plus_inf ? (double)INFINITY : -(double)INFINITY;
    if (!sum->not_minus_zero)
        return -0.0;
    memcpy(digits, sum->digits, sizeof(digits));
    carry(digits);
    if (digits[UT_EXACT_DIGITS - 1] < 0) {
        sign = -1;
        for (int i = 0; i < UT_EXACT_DIGITS; i++)
            digits[i] = -digits[i];
        carry(digits);
    }
    while (high >= 0 && !bit_of(digits, high))
        high--;
    return high < 0 ? 0.0 : sign * round_digits(digits, high);
}
