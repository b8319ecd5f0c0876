/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exact sum of doubles: a fixed-point number that is wide enough for all additions to be exact.
 * So the order of additions does not matter, and every process of a circuit gets the same bits,
 * whatever the shape of the circuit. Only the limbs in use are stored and sent. Pure functions, no
 * state. The rounded sum is the exact sum of all contributions, rounded once, to nearest even,
 * whatever the caller's rounding mode. It is NaN (always 0x7ff8000000000000) if a contribution is a
 * NaN, or if both infinities contribute; else an infinity if that infinity contributes; an infinity
 * if the rounded sum exceeds the largest double (intermediate sums may exceed it); -0 if every
 * contribution is -0; else +0 if the exact sum is zero. Subnormal numbers are not flushed. No
 * exception flags are raised.
 */
#ifndef UT_BARRIER_BFP_H
#define UT_BARRIER_BFP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bit 0 stands for 2^-1074. The doubles end below bit 2098; the rest is headroom for sums: 2^205
 * times the largest double. A sum beyond that counts as an infinite contribution. */
enum { UT_BFP_LIMBS = 36, UT_BFP_PACKED_MAX = 8 + UT_BFP_LIMBS * 8 };

enum ut_bfp_flags {
    UT_BFP_NAN = 1,
    UT_BFP_PLUS_INF = 2,
    UT_BFP_MINUS_INF = 4,
    UT_BFP_NOT_MINUS_ZERO = 8, /* some contribution is not -0 */
};

/* Two's complement in limb[first] to limb[first + count - 1]. The last limb has the sign. All bits
 * below are zero, all bits above are copies of the sign. The number of limbs is minimal. */
struct ut_bfp {
    union {
        struct {
            uint8_t flags;
            uint8_t first, count;
            uint8_t zero[5];
        };
        uint64_t head; /* the fields above as one word, which is copied and sent */
    };
    uint64_t limb[UT_BFP_LIMBS];
};

void ut_bfp_set(struct ut_bfp *b, double value);
void ut_bfp_add(struct ut_bfp *a, const struct ut_bfp *b);
double ut_bfp_round(const struct ut_bfp *b);

/* Most numbers have one or two limbs. */
static inline void ut_bfp_copy_limbs(void *to, const void *from, unsigned int count)
{
    if (__builtin_expect(count == 1, 1))
        memcpy(to, from, sizeof(uint64_t));
    else if (count == 2)
        memcpy(to, from, 2 * sizeof(uint64_t));
    else
        memcpy(to, from, count * sizeof(uint64_t));
}
static inline void ut_bfp_copy(struct ut_bfp *to, const struct ut_bfp *from)
{
    to->head = from->head;
    ut_bfp_copy_limbs(&to->limb[to->first], &from->limb[from->first], from->count);
}

/* Writes the wire format: flags, first, count, five zeros, the limbs. Returns the number of bytes.
 */
size_t ut_bfp_pack(const struct ut_bfp *b, uint8_t *out);
/* Returns the number of bytes read. 0: the bytes are not a packed sum. */
size_t ut_bfp_unpack(struct ut_bfp *b, const uint8_t *in, size_t size);

#endif
