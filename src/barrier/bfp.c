/* SPDX-License-Identifier: Apache-2.0 */
/* Exact sums of doubles; see bfp.h. */
#include "barrier/bfp.h"

#include <string.h>

enum { MANTISSA_BITS = 52, MAX_BIASED = 2047 };

#define HIDDEN_BIT (1ull << MANTISSA_BITS)
#define NAN_BITS   0x7ff8000000000000ull
#define INF_BITS   0x7ff0000000000000ull

static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static double double_of(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint64_t sign_extension(uint64_t limb)
{
    return limb >> 63 ? ~0ull : 0;
}

static uint64_t sign_limb(const struct ut_bfp *b)
{
    return b->count ? sign_extension(b->limb[b->first + b->count - 1]) : 0;
}

static uint64_t limb_at(const struct ut_bfp *b, unsigned int i)
{
    if (i < b->first)
        return 0;
    return i < (unsigned int)b->first + b->count ? b->limb[i] : sign_limb(b);
}

/*
 * Most numbers have one or two limbs. They are handled as one integer of 128 bits, whose bit 0 is
 * bit 0 of limb[first].
 */

typedef __int128 wide;
typedef unsigned __int128 unsigned_wide;

/* The value of a number of one or two limbs. */
static inline wide get_wide(const struct ut_bfp *b)
{
    const uint64_t *limb = &b->limb[b->first];
    uint64_t high = b->count == 2 ? limb[1] : sign_extension(limb[0]);

    return (wide)((unsigned_wide)high << 64 | limb[0]);
}

/* Writes the head as one word, because it is read as one: a load would wait for several stores. */
static inline void set_head(struct ut_bfp *b, unsigned int flags, unsigned int first,
                            unsigned int count)
{
    b->head = flags | first << 8 | count << 16; /* little-endian: see value.c */
}

/* Makes the number with these two limbs; the lower one is limb[first]. */
static inline void put_wide(struct ut_bfp *b, unsigned int flags, unsigned int first, wide value)
{
    uint64_t low = (uint64_t)value, high = (uint64_t)((unsigned_wide)value >> 64);

    if (low == 0) {
        set_head(b, flags, high ? first + 1 : 0, high != 0);
        b->limb[high ? first + 1 : 0] = high;
        return;
    }
    set_head(b, flags, first, high == sign_extension(low) ? 1 : 2);
    b->limb[first] = low;
    b->limb[first + 1] = high;
}

/* Drops redundant limbs: sign extension at the top, zeros at the bottom. */
static void trim_limbs(struct ut_bfp *b)
{
    while (b->count > 1) {
        uint64_t top = b->limb[b->first + b->count - 1];
        if (top != sign_extension(b->limb[b->first + b->count - 2]))
            break;
        b->count--;
    }
    while (b->count > 0 && b->limb[b->first] == 0) {
        b->first++;
        b->count--;
    }
    if (b->count == 0)
        b->first = 0;
}

void ut_bfp_set(struct ut_bfp *b, double value)
{
    uint64_t bits = bits_of(value), mantissa = bits & (HIDDEN_BIT - 1);
    unsigned int biased = (unsigned int)(bits >> MANTISSA_BITS) & MAX_BIASED;
    bool negative = bits >> 63;

    unsigned int flags = bits == 1ull << 63 ? 0 : UT_BFP_NOT_MINUS_ZERO;
    if (biased == MAX_BIASED) {
        flags |= mantissa ? UT_BFP_NAN : negative ? UT_BFP_MINUS_INF : UT_BFP_PLUS_INF;
        set_head(b, flags, 0, 0);
        return;
    }
    if (biased > 0)
        mantissa |= HIDDEN_BIT;
    unsigned int at = biased > 0 ? biased - 1 : 0;
    wide magnitude = (wide)((unsigned_wide)mantissa << at % 64);
    put_wide(b, flags, at / 64, negative ? -magnitude : magnitude);
}

/* Adds two numbers of one or two limbs with the same `first`. False: the sum may need a third limb,
 * and nothing was done. */
static inline bool add_wide(struct ut_bfp *a, const struct ut_bfp *b)
{
    wide sum;

    if ((a->first ^ b->first) | ((a->count - 1u) & ~1u) | ((b->count - 1u) & ~1u))
        return false;
    if (a->first + 2u > UT_BFP_LIMBS || __builtin_add_overflow(get_wide(a), get_wide(b), &sum))
        return false;
    put_wide(a, a->flags | b->flags, a->first, sum);
    return true;
}

static void __attribute__((noinline)) add_any(struct ut_bfp *a, const struct ut_bfp *b)
{
    unsigned int a_end = a->first + a->count, b_end = b->first + b->count;
    unsigned int first = a->first < b->first ? a->first : b->first;
    unsigned int end = (a_end > b_end ? a_end : b_end) + 1; /* the extra limb takes the carry */
    unsigned int last = end > UT_BFP_LIMBS ? UT_BFP_LIMBS : end;
    const uint64_t a_above = sign_limb(a), b_above = sign_limb(b);
    uint64_t carry = 0;

    a->flags |= b->flags;
    if (b->count == 0)
        return;
    if (a->count == 0) {
        uint8_t flags = a->flags;
        ut_bfp_copy(a, b);
        a->flags = flags;
        return;
    }
    for (unsigned int i = first; i < last; i++) {
        uint64_t x = i < a->first ? 0 : i < a_end ? a->limb[i] : a_above;
        uint64_t y = i < b->first ? 0 : i < b_end ? b->limb[i] : b_above;
        unsigned __int128 s = (unsigned __int128)x + y + carry;
        a->limb[i] = (uint64_t)s;
        carry = (uint64_t)(s >> 64);
    }
    if (end > last) {
        uint64_t top = a_above + b_above + carry; /* the value of the limb that does not fit */
        if (top != sign_extension(a->limb[last - 1])) {
            a->flags |= top >> 63 ? UT_BFP_MINUS_INF : UT_BFP_PLUS_INF;
            a->first = a->count = 0;
            return;
        }
    }
    a->first = (uint8_t)first;
    a->count = (uint8_t)(last - first);
    trim_limbs(a);
}

void ut_bfp_add(struct ut_bfp *a, const struct ut_bfp *b)
{
    if (!add_wide(a, b))
        add_any(a, b);
}

/* A magnitude: limbs [first, end), and a zero limb below `first`. The other limbs are not set. */
struct magnitude {
    unsigned int first, end;
    uint64_t limb[UT_BFP_LIMBS + 1];
};

/* Computes the magnitude. Returns the sign. */
static bool get_magnitude(const struct ut_bfp *b, struct magnitude *m)
{
    bool negative = sign_limb(b) != 0;
    unsigned int carry = negative;

    m->first = b->first;
    m->end = (unsigned int)b->first + b->count + 1;
    if (m->first > 0)
        m->limb[m->first - 1] = 0;
    for (unsigned int i = m->first; i < m->end; i++) {
        uint64_t limb = limb_at(b, i);
        m->limb[i] = negative ? ~limb + carry : limb;
        carry = carry && m->limb[i] == 0;
    }
    return negative;
}

static unsigned int top_bit(const struct magnitude *m)
{
    unsigned int i = m->end - 1;

    while (m->limb[i] == 0)
        i--;
    return i * 64 + 63 - (unsigned int)__builtin_clzll(m->limb[i]);
}

static bool any_below(const struct magnitude *m, unsigned int bit)
{
    for (unsigned int i = m->first; i < bit / 64; i++) {
        if (m->limb[i])
            return true;
    }
    return bit % 64 && (m->limb[bit / 64] & ((1ull << bit % 64) - 1)) != 0;
}

/* Rounds a magnitude to nearest even. Returns the bits of a double. */
static uint64_t round_magnitude(const struct magnitude *m)
{
    unsigned int top = top_bit(m);

    if (top <= MANTISSA_BITS)
        return m->limb[0]; /* exact: a subnormal number, or one of the smallest normal numbers */
    unsigned int at = top - MANTISSA_BITS;
    uint64_t mantissa = m->limb[at / 64] >> at % 64;
    if (at % 64)
        mantissa |= m->limb[at / 64 + 1] << (64 - at % 64);
    mantissa &= 2 * HIDDEN_BIT - 1;
    bool half = m->limb[(at - 1) / 64] >> (at - 1) % 64 & 1;
    if (half && ((mantissa & 1) || any_below(m, at - 1)))
        mantissa++;
    if (mantissa == 2 * HIDDEN_BIT) {
        mantissa = HIDDEN_BIT;
        at++;
    }
    uint64_t biased = at + 1;
    return biased >= MAX_BIASED ? INF_BITS : biased << MANTISSA_BITS | (mantissa - HIDDEN_BIT);
}

/* Rounds a number of one or two limbs that is neither subnormal nor near the largest double. The
 * mantissa is added with its hidden bit, so that a carry increases the exponent. */
static double round_wide(const struct ut_bfp *b)
{
    wide value = get_wide(b);
    unsigned_wide magnitude = value < 0 ? -(unsigned_wide)value : (unsigned_wide)value;
    uint64_t high = (uint64_t)(magnitude >> 64), low = (uint64_t)magnitude;
    unsigned int top = high ? 127u - (unsigned int)__builtin_clzll(high)
                            : 63u - (unsigned int)__builtin_clzll(low);
    uint64_t exponent = (uint64_t)b->first * 64 + top - MANTISSA_BITS, mantissa;

    if (top <= MANTISSA_BITS) {
        mantissa = low << (MANTISSA_BITS - top);
    } else {
        unsigned int at = top - MANTISSA_BITS;
        unsigned_wide half = (unsigned_wide)1 << (at - 1), below = magnitude & (2 * half - 1);
        mantissa = (uint64_t)(magnitude >> at);
        mantissa += below > half || (below == half && (mantissa & 1));
    }
    uint64_t sign = value < 0 ? 1ull << 63 : 0;
    return double_of((exponent << MANTISSA_BITS) + mantissa + sign);
}

static bool is_wide(const struct ut_bfp *b)
{
    const unsigned int special = UT_BFP_NAN | UT_BFP_PLUS_INF | UT_BFP_MINUS_INF;
    /* limits of `first`, so that the exponent is between 12 and 1996 */
    enum { LEAST = 1, MOST = 30 };

    return (b->flags & special) == 0 && b->count - 1u <= 1 &&
           b->first - (unsigned int)LEAST <= MOST - LEAST;
}

static double __attribute__((noinline)) round_any(const struct ut_bfp *b)
{
    const unsigned int both = UT_BFP_PLUS_INF | UT_BFP_MINUS_INF;
    const uint64_t sign = 1ull << 63;
    struct magnitude m;

    if ((b->flags & UT_BFP_NAN) || (b->flags & both) == both)
        return double_of(NAN_BITS);
    if (b->flags & both)
        return double_of(b->flags & UT_BFP_MINUS_INF ? INF_BITS | sign : INF_BITS);
    if (b->count == 0)
        return double_of(b->flags & UT_BFP_NOT_MINUS_ZERO ? 0 : sign);
    bool negative = get_magnitude(b, &m);
    return double_of(round_magnitude(&m) | (negative ? sign : 0));
}

double ut_bfp_round(const struct ut_bfp *b)
{
    return __builtin_expect(is_wide(b), 1) ? round_wide(b) : round_any(b);
}

size_t ut_bfp_pack(const struct ut_bfp *b, uint8_t *out)
{
    memcpy(out, &b->head, sizeof(b->head));
    ut_bfp_copy_limbs(out + sizeof(b->head), &b->limb[b->first], b->count);
    return sizeof(b->head) + b->count * sizeof(uint64_t);
}

size_t ut_bfp_unpack(struct ut_bfp *b, const uint8_t *in, size_t size)
{
    if (size < 8 || in[1] + in[2] > UT_BFP_LIMBS || size < 8 + in[2] * sizeof(uint64_t))
        return 0;
    set_head(b, in[0], in[1], in[2]);
    ut_bfp_copy_limbs(&b->limb[b->first], in + 8, b->count);
    if (b->count && b->limb[b->first] == 0)
        return 0;
    return 8 + b->count * sizeof(uint64_t);
}
