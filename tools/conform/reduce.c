/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions: each operator with ordinary values, and with values at the edges */
#include <float.h>
#include <string.h>

#include "circuit.h"
#include "owned.h"

enum { MOST = 6 };

/* ---- Integers ---- */

/* What the manual says of an operator, of the values of all processes */
static void combine_values(enum utofu_reduce_op op, uint64_t result[], const uint64_t value[],
                           size_t count)
{
    for (size_t i = 0; i < count; i++) {
        switch (op) {
        case UTOFU_REDUCE_OP_BAND:
            result[i] &= value[i];
            break;
        case UTOFU_REDUCE_OP_BOR:
            result[i] |= value[i];
            break;
        case UTOFU_REDUCE_OP_BXOR:
            result[i] ^= value[i];
            break;
        case UTOFU_REDUCE_OP_SUM:
            result[i] += value[i];
            break;
        case UTOFU_REDUCE_OP_MAX:
            if (value[i] > result[i])
                result[i] = value[i];
            break;
        default: /* MAXLOC: pairs, and of two equal ones the one with the smaller second element */
            if (i % 2)
                break;
            if (value[i] > result[i] || (value[i] == result[i] && value[i + 1] < result[i + 1])) {
                result[i] = value[i];
                result[i + 1] = value[i + 1];
            }
        }
    }
}

/* Reduces 'mine' on the circuit and judges the result by the values of all processes */
static int judge_on(struct cf *c, const struct cf_circuit *circuit, enum utofu_reduce_op op,
                    const uint64_t mine[], size_t count)
{
    uint64_t all[CF_RANKS][MOST], expected[MOST], data[MOST] = {0};
    uint64_t given[MOST] = {0};
    int rc;

    memcpy(given, mine, count * sizeof(*mine));
    if (!cf_share(c, given, sizeof(given), all))
        return 0;
    memcpy(expected, all[0], sizeof(expected));
    for (int r = 1; r < cf_size(c); r++)
        combine_values(op, expected, all[r], count);
    memcpy(data, given, sizeof(data));
    rc = cf_circuit_uint64(circuit->id, op, data, count);
    if (rc != UTOFU_SUCCESS) {
        cf_fail(c, "a reduction of %lu elements: %s", (unsigned long)count, cf_code(rc));
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (data[i] == expected[i])
            continue;
        cf_fail(c, "element %lu of %lu is %lx, not %lx", (unsigned long)i, (unsigned long)count,
                (unsigned long)data[i], (unsigned long)expected[i]);
        return 0;
    }
    return 1;
}

static uint64_t random_word(struct cf *c)
{
    uint64_t word = (uint64_t)cf_random(c, 1u << 16) << 48 |
                    (uint64_t)cf_random(c, 1u << 24) << 24 | cf_random(c, 1u << 24);

    switch (cf_random(c, 4)) { /* small ones, for ties, too */
    case 0:
        return word % 3;
    case 1:
        return ~(word % 3);
    default:
        return word;
    }
}

/* The sequence of random numbers is one in all processes: each uses the words of its own rank */
static void random_words(struct cf *c, uint64_t mine[MOST])
{
    for (int r = 0; r < cf_size(c); r++) {
        for (int i = 0; i < MOST; i++) {
            uint64_t word = random_word(c);
            if (r == cf_rank(c))
                mine[i] = word;
        }
    }
}

/* Random values on a ring and on a tree, of all numbers of elements */
static void judge_operator(struct cf *c, enum utofu_reduce_op op)
{
    struct cf_circuit ring, tree;
    uint64_t mine[MOST];

    if (!cf_circuit_open(c, &ring, CF_RING, 0, 0) || !cf_circuit_open(c, &tree, CF_TREE, 1, 0))
        return;
    for (size_t round = 0; round < 24; round++) {
        size_t count = op == UTOFU_REDUCE_OP_MAXLOC ? 2 + 2 * (round % 3) : 1 + round % MOST;
        random_words(c, mine);
        if (!judge_on(c, round / MOST % 2 ? &tree : &ring, op, mine, count))
            return;
    }
}

#define OPERATOR_CASE(function, op)                                                                \
    static void function(struct cf *c)                                                             \
    {                                                                                              \
        judge_operator(c, op);                                                                     \
    }

OPERATOR_CASE(judge_band, UTOFU_REDUCE_OP_BAND)
OPERATOR_CASE(judge_bor, UTOFU_REDUCE_OP_BOR)
OPERATOR_CASE(judge_bxor, UTOFU_REDUCE_OP_BXOR)
OPERATOR_CASE(judge_max, UTOFU_REDUCE_OP_MAX)
OPERATOR_CASE(judge_maxloc, UTOFU_REDUCE_OP_MAXLOC)
OPERATOR_CASE(judge_sum, UTOFU_REDUCE_OP_SUM)

/* Values that the function gives for the rank, on a butterfly, or a ring where there are too few
 * gates */
static int judge_values(struct cf *c, enum utofu_reduce_op op, const uint64_t mine[], size_t count)
{
    struct cf_circuit circuit;

    return cf_circuit_open(c, &circuit, CF_RING, 0, 0) && judge_on(c, &circuit, op, mine, count);
}

/* One process lacks one bit: which process, and which bit, moves */
static void clear_one_bit(struct cf *c)
{
    struct cf_circuit circuit;

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    for (int i = 0; i < 64; i += 7) {
        uint64_t mine[2] = {UINT64_MAX, UINT64_MAX};
        if (cf_rank(c) == i % cf_size(c))
            mine[0] &= ~((uint64_t)1 << i);
        if (!judge_on(c, &circuit, UTOFU_REDUCE_OP_BAND, mine, 2))
            return;
    }
}

static void set_one_bit(struct cf *c)
{
    struct cf_circuit circuit;

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    for (int i = 0; i < 64; i += 7) {
        uint64_t mine[2] = {0, 0};
        if (cf_rank(c) == i % cf_size(c))
            mine[1] = (uint64_t)1 << i;
        if (!judge_on(c, &circuit, UTOFU_REDUCE_OP_BOR, mine, 2))
            return;
    }
}

/* Everybody's contribution counts once: the same word of all is 0 or the word */
static void toggle_same(struct cf *c)
{
    uint64_t mine[1] = {0x9e3779b97f4a7c15u};

    judge_values(c, UTOFU_REDUCE_OP_BXOR, mine, 1);
}

static void compare_unsigned(struct cf *c)
{
    uint64_t mine[3] = {1, UINT64_MAX / 2, 0};

    if (cf_rank(c) == cf_size(c) - 1) {
        mine[0] = (uint64_t)1 << 63; /* negative as a signed integer */
        mine[1] = UINT64_MAX;
    }
    judge_values(c, UTOFU_REDUCE_OP_MAX, mine, 3);
}

static void locate_maximum(struct cf *c)
{
    struct cf_circuit circuit;
    int size = cf_size(c);

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    for (int i = 0; i < size && i < 8; i++) { /* the maximum is at rank i */
        uint64_t mine[2] = {(uint64_t)(cf_rank(c) == i ? 1000 : cf_rank(c)), (uint64_t)cf_rank(c)};
        if (!judge_on(c, &circuit, UTOFU_REDUCE_OP_MAXLOC, mine, 2))
            return;
    }
}

static void locate_tie(struct cf *c)
{
    uint64_t mine[6] = {5, 0, 5, 0, 7, 0};

    mine[1] = (uint64_t)(100 + cf_rank(c));              /* the smallest is rank 0's */
    mine[3] = (uint64_t)(100 - cf_rank(c));              /* the smallest is the last rank's */
    mine[5] = (uint64_t)((cf_rank(c) + 1) % cf_size(c)); /* 0 at the last rank */
    judge_values(c, UTOFU_REDUCE_OP_MAXLOC, mine, 6);
}

/* The second elements of a tie are compared as unsigned integers */
static void locate_unsigned_tie(struct cf *c)
{
    uint64_t mine[4] = {(uint64_t)1 << 63, 2, UINT64_MAX, UINT64_MAX};

    if (cf_rank(c) == 0)
        mine[1] = (uint64_t)1 << 63;
    if (cf_rank(c) == cf_size(c) - 1)
        mine[3] = UINT64_MAX - 1;
    judge_values(c, UTOFU_REDUCE_OP_MAXLOC, mine, 4);
}

/* Each pair has a maximum of its own */
static void locate_pairs(struct cf *c)
{
    uint64_t mine[6] = {0, 0, 0, 0, 0, 0};

    for (unsigned i = 0; i < 3; i++) {
        mine[2 * i] = cf_rank(c) == (int)(i * 5 + 1) % cf_size(c) ? UINT64_MAX - i : i;
        mine[2 * i + 1] = (uint64_t)(1000 * (int)i + cf_rank(c));
    }
    judge_values(c, UTOFU_REDUCE_OP_MAXLOC, mine, 6);
}

static void sum_elements_apart(struct cf *c)
{
    uint64_t mine[6];

    for (unsigned i = 0; i < 6; i++) /* carries would go from one element into the next */
        mine[i] = i % 2 ? 0 : (uint64_t)1 << (62 - i);
    judge_values(c, UTOFU_REDUCE_OP_SUM, mine, 6);
}

static void sum_beyond(struct cf *c)
{
    struct cf_circuit circuit;
    uint64_t data[2] = {UINT64_MAX, (uint64_t)1 << 63};
    int rc, size = cf_size(c);

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    rc = cf_circuit_uint64(circuit.id, UTOFU_REDUCE_OP_SUM, data, 2);
    CF_NEED(c, rc == UTOFU_SUCCESS, "a sum beyond 64 bits: %s", cf_code(rc));
    cf_saw(c, data[0] == (uint64_t)0 - (uint64_t)size ? "modulo 2 to the 64"
              : data[0] == UINT64_MAX                 ? "the largest value"
                                                      : "another value");
}

static void start_wrong(struct cf *c, enum utofu_reduce_op op, size_t count)
{
    struct cf_circuit circuit;
    uint64_t data[8] = {0};
    int rc;

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    rc = utofu_reduce_uint64(circuit.id, op, data, count, 0);
    cf_saw_code(c, rc);
    if (rc == UTOFU_SUCCESS)
        cf_saw_code(c, cf_circuit_poll_uint64(circuit.id, data));
}

static void start_odd_maxloc(struct cf *c)
{
    start_wrong(c, UTOFU_REDUCE_OP_MAXLOC, 3);
}
static void start_double_of_integers(struct cf *c)
{
    start_wrong(c, UTOFU_REDUCE_OP_BFPSUM, 1);
}
static void start_barrier_of_integers(struct cf *c)
{
    start_wrong(c, UTOFU_REDUCE_OP_BARRIER, 1);
}
static void start_unknown(struct cf *c)
{
    start_wrong(c, (enum utofu_reduce_op)99, 1);
}

static void start_integer_of_doubles(struct cf *c)
{
    struct cf_circuit circuit;
    double data[3] = {1, 2, 3};
    int rc;

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    rc = utofu_reduce_double(circuit.id, UTOFU_REDUCE_OP_SUM, data, 1, 0);
    cf_saw_code(c, rc);
    if (rc == UTOFU_SUCCESS)
        cf_saw_code(c, cf_circuit_poll_double(circuit.id, data));
}

/* ---- Doubles: looked at by their bits, as compilers may be told to forget NaN and subnormal
 * values ---- */

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

#define MINUS    ((uint64_t)1 << 63)
#define INFINITE ((uint64_t)2047 << 52)

/* 2 to the exponent, of -1000 to 1000 */
static double power_of_two(int exponent)
{
    return double_of((uint64_t)(1023 + exponent) << 52);
}

static double get_distance(double a, double b)
{
    return a < b ? b - a : a - b;
}

/* The sum of 'mine' over all processes; 0: the case has failed or is left */
static int sum_doubles(struct cf *c, double data[], size_t count)
{
    struct cf_circuit circuit;
    int rc;

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return 0;
    rc = cf_circuit_double(circuit.id, UTOFU_REDUCE_OP_BFPSUM, data, count);
    if (rc != UTOFU_SUCCESS)
        cf_fail(c, "a sum of doubles: %s", cf_code(rc));
    return rc == UTOFU_SUCCESS;
}

/* All processes have one result, bit by bit */
static int judge_equal(struct cf *c, const double data[], size_t count)
{
    double all[CF_RANKS][3], mine[3] = {0, 0, 0};

    memcpy(mine, data, count * sizeof(*data));
    if (!cf_share(c, mine, sizeof(mine), all))
        return 0;
    for (int r = 0; r < cf_size(c); r++) {
        if (memcmp(all[r], mine, sizeof(mine)) == 0)
            continue;
        cf_fail(c, "the result is %a here and %a in rank %d", mine[0], all[r][0], r);
        return 0;
    }
    return 1;
}

static void sum_integers(struct cf *c)
{
    int rank = cf_rank(c), size = cf_size(c);
    double data[3];

    data[0] = rank + 1;
    data[1] = -3.0 * rank;
    data[2] = rank * 1048576.0 * 1048576.0; /* 2 to the 40 */
    if (!sum_doubles(c, data, 3))
        return;
    CF_HOLDS(c, data[0] == size * (size + 1) / 2, "the sum of 1 to %d is %g", size, data[0]);
    CF_HOLDS(c, data[1] == -3.0 * (size * (size - 1) / 2), "a sum of negative numbers is %g",
             data[1]);
    CF_HOLDS(c, data[2] == 1048576.0 * 1048576.0 * (size * (size - 1) / 2),
             "a sum of large numbers is %g", data[2]);
}

static void sum_fractions(struct cf *c)
{
    int rank = cf_rank(c), size = cf_size(c);
    double data[2];

    data[0] = 0.5;
    data[1] = (rank % 2 ? -1 : 1) * 0.015625;
    if (!sum_doubles(c, data, 2))
        return;
    CF_HOLDS(c, data[0] == 0.5 * size, "a sum of %d halves is %g", size, data[0]);
    CF_HOLDS(c, data[1] == (size % 2 ? 0.015625 : 0), "a sum that cancels is %g", data[1]);
}

/* The manual's example: i + 0.1 * rank. All processes get one result, near the sum */
static void sum_of_example(struct cf *c)
{
    struct cf_circuit circuit;

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    for (int i = 0; i < 20; i++) {
        double data = i + 0.1 * cf_rank(c), near = 0;
        int rc = cf_circuit_double(circuit.id, UTOFU_REDUCE_OP_BFPSUM, &data, 1);
        CF_NEED(c, rc == UTOFU_SUCCESS, "round %d: %s", i, cf_code(rc));
        for (int r = 0; r < cf_size(c); r++)
            near += i + 0.1 * r;
        CF_NEED(c, get_distance(data, near) <= 1e-9 * (near + 1),
                "round %d: the sum is %.17g, not about %.17g", i, data, near);
        if (!judge_equal(c, &data, 1))
            return;
    }
}

static double random_double(struct cf *c)
{
    double mantissa = (double)cf_random(c, 1u << 30) / (1u << 30) +
                      (double)cf_random(c, 1u << 22) * power_of_two(-52);

    return (cf_random(c, 2) ? -1 : 1) * mantissa * power_of_two((int)cf_random(c, 120) - 60);
}

/* Values of very different size on three shapes: the same in all processes; whether the shape
 * matters is not said */
static void sum_of_different_size(struct cf *c)
{
    struct cf_circuit ring, tree;

    if (!cf_circuit_open(c, &ring, CF_RING, 0, 0) || !cf_circuit_open(c, &tree, CF_TREE, 1, 0))
        return;
    for (int round = 0; round < 40; round++) {
        double mine[3] = {0, 0, 0}, other[3], near[3] = {0, 0, 0}, size[3] = {0, 0, 0};
        int rc;
        for (int r = 0; r < cf_size(c); r++) {
            for (int i = 0; i < 3; i++) {
                double value = random_double(c);
                if (r == cf_rank(c))
                    mine[i] = value;
                near[i] += value;
                size[i] += value < 0 ? -value : value;
            }
        }
        memcpy(other, mine, sizeof(other));
        rc = cf_circuit_double(ring.id, UTOFU_REDUCE_OP_BFPSUM, mine, 3);
        if (rc == UTOFU_SUCCESS)
            rc = cf_circuit_double(tree.id, UTOFU_REDUCE_OP_BFPSUM, other, 3);
        CF_NEED(c, rc == UTOFU_SUCCESS, "round %d: %s", round, cf_code(rc));
        if (!judge_equal(c, mine, 3) || !judge_equal(c, other, 3))
            return;
        for (int i = 0; i < 3; i++)
            CF_NEED(c,
                    get_distance(mine[i], near[i]) <= 1e-9 * size[i] &&
                        get_distance(other[i], near[i]) <= 1e-9 * size[i],
                    "round %d: the sums are %.17g and %.17g, not about %.17g", round, mine[i],
                    other[i], near[i]);
        cf_saw(c, memcmp(mine, other, sizeof(mine)) == 0 ? "ring and tree give one sum"
                                                         : "ring and tree differ");
    }
}

static void sum_numbers_of_elements(struct cf *c)
{
    struct cf_circuit circuit;

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    for (size_t count = 1; count <= 3; count++) {
        double data[4] = {1, 2, 3, 4};
        int rc = cf_circuit_double(circuit.id, UTOFU_REDUCE_OP_BFPSUM, data, count);
        CF_NEED(c, rc == UTOFU_SUCCESS, "%lu elements: %s", (unsigned long)count, cf_code(rc));
        for (size_t i = 0; i < 4; i++)
            CF_HOLDS(c, data[i] == (double)(i + 1) * (i < count ? cf_size(c) : 1),
                     "element %lu of %lu is %g", (unsigned long)i, (unsigned long)count, data[i]);
    }
}

/* Sums of equal values at each of 128 sizes are multiples of them, which are doubles; and a much
   smaller value besides does not change them by more than itself */
static void sum_at_each_size(struct cf *c)
{
    struct cf_circuit circuit;
    int size = cf_size(c);

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    for (int exponent = -40; exponent < 88; exponent++) {
        double value = 1.5 * power_of_two(exponent), data[3];
        int rc;
        data[0] = value;
        data[1] = -value;
        data[2] = cf_rank(c) == 0 ? value * power_of_two(-70) : value;
        rc = cf_circuit_double(circuit.id, UTOFU_REDUCE_OP_BFPSUM, data, 3);
        CF_NEED(c, rc == UTOFU_SUCCESS, "2 to the %d: %s", exponent, cf_code(rc));
        CF_NEED(c, data[0] == size * value && data[1] == -size * value,
                "2 to the %d: %d times %g is %g and %g", exponent, size, value, data[0], data[1]);
        CF_NEED(c, get_distance(data[2], (size - 1) * value) <= 1e-9 * value,
                "2 to the %d: %d times %g is %g", exponent, size - 1, value, data[2]);
    }
}

/* What a value is, in words */
static void saw_double(struct cf *c, double value)
{
    uint64_t bits = bits_of(value), size = bits & ~MINUS;

    if (size > INFINITE)
        cf_saw(c, "NaN");
    else if (size == INFINITE)
        cf_saw(c, bits & MINUS ? "minus infinity" : "infinity");
    else if (size == 0)
        cf_saw(c, bits & MINUS ? "minus zero" : "zero");
    else
        cf_saw(c, "a number");
}

/* One value from rank 0, another one from the last, a third one from all between, by their bits;
 * the sum in words */
static void sum_of_edges(struct cf *c, uint64_t first, uint64_t last, uint64_t between)
{
    double data = double_of(cf_rank(c) == 0                ? first
                            : cf_rank(c) == cf_size(c) - 1 ? last
                                                           : between);

    if (!sum_doubles(c, &data, 1))
        return;
    saw_double(c, data);
}

#define ONE     ((uint64_t)1023 << 52)
#define LARGEST (INFINITE - 1)

static void sum_nan(struct cf *c)
{
    sum_of_edges(c, ONE, INFINITE | (uint64_t)1 << 51, ONE);
}
static void sum_infinity(struct cf *c)
{
    sum_of_edges(c, ONE, INFINITE, ONE);
}
static void sum_minus_infinity(struct cf *c)
{
    sum_of_edges(c, INFINITE | MINUS, ONE, ONE);
}
static void sum_both_infinities(struct cf *c)
{
    sum_of_edges(c, INFINITE, INFINITE | MINUS, ONE);
}
static void sum_overflow(struct cf *c)
{
    sum_of_edges(c, LARGEST, LARGEST, 0);
}
static void sum_minus_zeros(struct cf *c)
{
    sum_of_edges(c, MINUS, MINUS, MINUS);
}
static void sum_zeros(struct cf *c)
{
    sum_of_edges(c, MINUS, 0, 0);
}
static void sum_opposites(struct cf *c)
{
    sum_of_edges(c, LARGEST, LARGEST | MINUS, 0);
}

/* Large values that cancel, and a small one besides: of an exact sum the small one is left */
static void sum_cancelling(struct cf *c)
{
    double data[3] = {0, 0, 0};
    int last = cf_rank(c) == cf_size(c) - 1;

    if (cf_rank(c) == 0) {
        data[0] = 1e300;
        data[1] = 9007199254740992.0; /* 2 to the 53 */
        data[2] = 1;
    }
    if (last) {
        data[0] = -1e300;
        data[1] = 1;
        data[2] = power_of_two(-53);
    }
    if (cf_size(c) > 2 && cf_rank(c) == 1) {
        data[0] = 1;
        data[1] = 1;
        data[2] = power_of_two(-53);
    }
    if (!sum_doubles(c, data, 3))
        return;
    if (cf_size(c) == 2) { /* ties go to even */
        cf_saw(c, data[1] == 9007199254740992.0 ? "a tie goes to even" : "a tie goes up");
        cf_saw(c, data[2] == 1 ? "a tie goes to even" : "a tie goes up");
        return;
    }
    cf_saw(c, data[0] == 1 ? "what does not cancel is left" : "what does not cancel is lost");
    cf_saw(c, data[1] == 9007199254740994.0 ? "two small ones count" : "two small ones are lost");
    cf_saw(c, data[2] == 1 + DBL_EPSILON ? "two small ones count" : "two small ones are lost");
}

/* DBL_MAX twice and its opposite twice: an exact sum does not overflow on the way */
static void sum_through_overflow(struct cf *c)
{
    double data = double_of(cf_rank(c) < 2 ? LARGEST : cf_rank(c) < 4 ? LARGEST | MINUS : 0);

    if (cf_size(c) < 4) {
        cf_skip(c, "needs four processes");
        return;
    }
    if (sum_doubles(c, &data, 1))
        saw_double(c, data);
}

/* A subnormal value is its bits in units of the smallest one */
static void sum_subnormals(struct cf *c)
{
    double data[2];
    uint64_t size = (uint64_t)cf_size(c);

    data[0] = double_of((uint64_t)1 << 40);
    data[1] = double_of(1);
    if (!sum_doubles(c, data, 2))
        return;
    cf_saw(c, bits_of(data[0]) == size << 40 ? "subnormals count" : "subnormals are lost");
    cf_saw(c, bits_of(data[1]) == size ? "the smallest counts" : "the smallest is lost");
}

/* Whether a sum is the exact one, rounded once: the values are integers in units of 2 to the -20,
 * and so is their sum */
static void sum_rounded(struct cf *c)
{
    struct cf_circuit circuit;

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0))
        return;
    for (int round = 0; round < 30; round++) {
        double mine = 0, expected;
        uint64_t whole = 0;
        int rc, drop = 0;
        for (int r = 0; r < cf_size(c); r++) {
            uint64_t value = ((uint64_t)cf_random(c, 1u << 26) << 26 | cf_random(c, 1u << 26))
                             << cf_random(c, 6);
            if (r == cf_rank(c))
                mine = (double)value * power_of_two(-20); /* 52 bits and zeros: exact */
            whole += value;
        }
        while (whole >> drop >> 53)
            drop++;
        if (drop) { /* to the nearest of 53 bits, ties to even */
            uint64_t rest = whole & (((uint64_t)1 << drop) - 1), half = (uint64_t)1 << (drop - 1);
            whole >>= drop;
            whole += rest > half || (rest == half && (whole & 1));
        }
        expected = (double)whole * power_of_two(drop - 20);
        rc = cf_circuit_double(circuit.id, UTOFU_REDUCE_OP_BFPSUM, &mine, 1);
        CF_NEED(c, rc == UTOFU_SUCCESS, "round %d: %s", round, cf_code(rc));
        CF_NEED(c, get_distance(mine, expected) <= 1e-9 * expected,
                "round %d: the sum is %.17g, not about %.17g", round, mine, expected);
        cf_saw(c, mine == expected ? "rounded once" : "near");
    }
}

static const struct cf_case cases[] = {
    {"reduce-band", "3.8.3.1", 4, CF_PROMISED, CF_BARRIER, "BAND is the bitwise AND", judge_band},
    {"reduce-bor", "3.8.3.1", 5, CF_PROMISED, CF_BARRIER, "BOR is the bitwise OR", judge_bor},
    {"reduce-bxor", "3.8.3.1", 6, CF_PROMISED, CF_BARRIER, "BXOR is the bitwise exclusive OR",
     judge_bxor},
    {"reduce-max", "3.8.3.1", 7, CF_PROMISED, CF_BARRIER, "MAX is the maximum", judge_max},
    {"reduce-maxloc", "3.8.3.1", 8, CF_PROMISED, CF_BARRIER, "MAXLOC is the maximum and its place",
     judge_maxloc},
    {"reduce-sum", "3.8.3.1", 9, CF_PROMISED, CF_BARRIER, "SUM is the sum", judge_sum},
    {"reduce-band-bit", "3.2.3.4", 4, CF_PROMISED, CF_BARRIER,
     "BAND lacks the bit that one process lacks", clear_one_bit},
    {"reduce-bor-bit", "3.2.3.4", 5, CF_PROMISED, CF_BARRIER,
     "BOR has the bit that one process has", set_one_bit},
    {"reduce-bxor-once", "3.2.3.4", 6, CF_PROMISED, CF_BARRIER, "each process counts once in BXOR",
     toggle_same},
    {"reduce-max-unsigned", "3.2.3.4", 7, CF_PROMISED, CF_BARRIER, "MAX compares unsigned integers",
     compare_unsigned},
    {"reduce-maxloc-rank", "2.3.4", 6, CF_PROMISED, CF_BARRIER,
     "MAXLOC has the second element of the maximum", locate_maximum},
    {"reduce-maxloc-tie", "2.3.4", 7, CF_PROMISED, CF_BARRIER,
     "of two maxima MAXLOC takes the smaller second element", locate_tie},
    {"reduce-maxloc-unsigned", "2.3.4", 7, CF_PROMISED, CF_BARRIER,
     "the second elements are unsigned, too", locate_unsigned_tie},
    {"reduce-maxloc-pairs", "2.3.4", 11, CF_PROMISED, CF_BARRIER,
     "MAXLOC of several elements goes pair by pair", locate_pairs},
    {"reduce-sum-apart", "2.3.4", 10, CF_PROMISED, CF_BARRIER,
     "elements at one place are summed, apart from the others", sum_elements_apart},
    {"reduce-sum-beyond", "2.3.4", 0, CF_UNSAID, CF_BARRIER, "what a sum beyond 64 bits is",
     sum_beyond},
    {"reduce-maxloc-odd", "2.3.4", 11, CF_OPEN, CF_BARRIER | CF_RISKY,
     "what MAXLOC of three elements gives", start_odd_maxloc},
    {"reduce-operator-double", "3.8.1.2", 7, CF_OPEN, CF_BARRIER | CF_RISKY,
     "only operators of integers are allowed: what BFPSUM gives", start_double_of_integers},
    {"reduce-operator-barrier", "3.8.1.2", 7, CF_OPEN, CF_BARRIER | CF_RISKY,
     "what BARRIER gives for integers", start_barrier_of_integers},
    {"reduce-operator-unknown", "3.1.2.1", 67, CF_OPEN, CF_BARRIER | CF_RISKY,
     "what an operator that is none gives", start_unknown},
    {"reduce-operator-integer", "3.8.1.3", 7, CF_OPEN, CF_BARRIER | CF_RISKY,
     "only operators of doubles are allowed: what SUM gives", start_integer_of_doubles},
    {"reduce-double-integers", "3.8.3.1", 10, CF_PROMISED, CF_BARRIER,
     "BFPSUM of whole numbers is their sum", sum_integers},
    {"reduce-double-fractions", "3.2.3.4", 10, CF_PROMISED, CF_BARRIER,
     "BFPSUM of halves is their sum", sum_fractions},
    {"reduce-double-sizes", "3.8.3.1", 10, CF_PROMISED, CF_BARRIER,
     "BFPSUM of equal values of any size is their multiple", sum_at_each_size},
    {"reduce-double-example", "5.2.1", 4, CF_PROMISED, CF_BARRIER,
     "all processes have the sum of the manual's example", sum_of_example},
    {"reduce-double-equal", "5.2.1", 4, CF_PROMISED, CF_BARRIER,
     "all processes have one sum of values of any size", sum_of_different_size},
    {"reduce-double-number", "3.8.2.3", 12, CF_PROMISED, CF_BARRIER,
     "as many doubles are written as were given", sum_numbers_of_elements},
    {"reduce-double-rounded", "2.3.4", 0, CF_UNSAID, CF_BARRIER,
     "whether a sum is the exact one, rounded once", sum_rounded},
    {"reduce-double-cancel", "2.3.4", 0, CF_UNSAID, CF_BARRIER,
     "whether what large values leave is exact", sum_cancelling},
    {"reduce-double-through", "2.3.4", 0, CF_UNSAID, CF_BARRIER,
     "whether a sum overflows on the way", sum_through_overflow},
    {"reduce-double-overflow", "2.3.4", 0, CF_UNSAID, CF_BARRIER,
     "what the sum of two largest doubles is", sum_overflow},
    {"reduce-double-opposites", "2.3.4", 0, CF_UNSAID, CF_BARRIER, "what the sum of opposites is",
     sum_opposites},
    {"reduce-double-nan", "2.3.4", 0, CF_UNSAID, CF_BARRIER, "what a sum with NaN is", sum_nan},
    {"reduce-double-infinity", "2.3.4", 0, CF_UNSAID, CF_BARRIER, "what a sum with infinity is",
     sum_infinity},
    {"reduce-double-minus-infinity", "2.3.4", 0, CF_UNSAID, CF_BARRIER,
     "what a sum with minus infinity is", sum_minus_infinity},
    {"reduce-double-infinities", "2.3.4", 0, CF_UNSAID, CF_BARRIER,
     "what a sum of both infinities is", sum_both_infinities},
    {"reduce-double-minus-zeros", "2.3.4", 0, CF_UNSAID, CF_BARRIER, "what a sum of minus zeros is",
     sum_minus_zeros},
    {"reduce-double-zeros", "2.3.4", 0, CF_UNSAID, CF_BARRIER,
     "what a sum of zeros of both signs is", sum_zeros},
    {"reduce-double-subnormals", "2.3.4", 0, CF_UNSAID, CF_BARRIER,
     "whether subnormal values count", sum_subnormals},
};
CF_GROUP(reduce_group, "reduce", cases);
