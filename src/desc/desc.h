/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The 64-byte TOQ descriptor: its layout, and the seal. The seal shows that a prepare function has
 * written the descriptor for a VCQ. Pure functions; uses ident.
 */
#ifndef UT_DESC_DESC_H
#define UT_DESC_DESC_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "utofu.h"

#include "desc/kinds.h"

enum ut_desc_limits {
    UT_MAX_PUTGET = 16777215,
    UT_MAX_PIGGYBACK = 32,
    UT_MAX_EDATA = 255,
    UT_MAX_MTU = 1920,
    UT_MAX_GAP = 255,
    UT_CACHE_LINE = 256,
};

/* Operators on the wire and in descriptors: the public operators, and compare-and-swap. */
enum { UT_ARMW_OP_CSWAP = 6 };

struct ut_desc {
    uint8_t kind;
    uint8_t edata;
    uint16_t flags; /* the low 16 bits of UTOFU_ONESIDED_FLAG_* */
    uint32_t word;  /* length24 | sps4 | path4; the length of an ARMW is 4 or 8 */
    uint64_t rmt_vcq_id;
    uint64_t rmt_stadd;
    union {
        uint8_t data[UT_MAX_PIGGYBACK];
        struct {
            uint64_t lcl_stadd;
            uint16_t mtu;
            uint16_t gap;
        };
        struct {
            uint64_t operand;
            uint64_t compare;
            uint32_t op; /* enum utofu_armw_op or UT_ARMW_OP_CSWAP */
        };
    };
    uint64_t seal; /* seal of a prepared descriptor; unused in the TOQ */
};

_Static_assert(sizeof(struct ut_desc) == 64, "max_toq_desc_size");

/* SPS and path have the same bits in the flags and in `word`. */
#define UT_DESC_WORD_FLAGS (UTOFU_ONESIDED_FLAG_SPS(0xful) | UTOFU_ONESIDED_FLAG_PATH(0xful))

static inline uint32_t ut_desc_length(const struct ut_desc *d)
{
    return d->word & 0xffffff;
}
static inline uint32_t ut_desc_sps(const struct ut_desc *d)
{
    return d->word >> 24 & 0xf;
}
static inline uint32_t ut_desc_path(const struct ut_desc *d)
{
    return d->word >> 28;
}

/* An internal flag of a descriptor in the TOQ: its VCQ is counted. */
enum { UT_DESC_COUNTED = 1 << 13 };

/* the flags that a descriptor stores */
static inline uint16_t ut_desc_flags(unsigned long flags)
{
    return (uint16_t)flags;
}
static inline unsigned int ut_flags_sps(unsigned long flags)
{
    return flags >> 24 & 0xf;
}
static inline unsigned int ut_flags_path(unsigned long flags)
{
    return flags >> 28 & 0xff;
}

static inline void ut_desc_head(struct ut_desc *d, enum ut_desc_kind kind,
                                utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t rmt_stadd, size_t length,
                                uint64_t edata, unsigned long flags)
{
    d->kind = (uint8_t)kind;
    d->edata = (uint8_t)edata;
    d->flags = ut_desc_flags(flags);
    d->word = (uint32_t)length | (uint32_t)(flags & UT_DESC_WORD_FLAGS);
    d->rmt_vcq_id = rmt_vcq_id;
    d->rmt_stadd = rmt_stadd;
}

static inline void ut_desc_transfer(struct ut_desc *d, utofu_stadd_t lcl_stadd, size_t mtu,
                                    size_t gap)
{
    d->lcl_stadd = lcl_stadd;
    d->mtu = (uint16_t)(mtu ? mtu : UT_MAX_MTU);
    d->gap = (uint16_t)gap;
}

static inline void ut_desc_armw(struct ut_desc *d, uint32_t op, uint64_t operand, uint64_t compare)
{
    d->operand = operand;
    d->compare = compare;
    d->op = op;
}

/* Moves `size` bytes with two overlapping loads and stores of `width` bytes. */
static inline __attribute__((always_inline)) void ut_copy_pair(uint8_t *to, const uint8_t *from,
                                                               size_t size, size_t width)
{
    uint8_t first[16], last[16];

    memcpy(first, from, width);
    memcpy(last, from + size - width, width);
    memcpy(to, first, width);
    memcpy(to + size - width, last, width);
}

/* Copies the data of a piggyback put without a call, so that the caller saves no registers. `max`:
 * maximum of `size`, a constant. */
static inline __attribute__((always_inline)) void ut_copy_small(uint8_t *to, const uint8_t *from,
                                                                size_t size, size_t max)
{
    _Static_assert(UT_MAX_PIGGYBACK == 32, "two of 16 are enough");
    if (__builtin_expect(size == 8, 1))
        memcpy(to, from, 8);
    else if (max >= 16 && size >= 16)
        ut_copy_pair(to, from, size, 16);
    else if (max > 8 && size >= 8)
        ut_copy_pair(to, from, size, 8);
    else if (size >= 4)
        ut_copy_pair(to, from, size, 4);
    else if (size >= 2)
        ut_copy_pair(to, from, size, 2);
    else if (size == 1)
        *to = *from;
}

/* The seal of a descriptor for a VCQ. Unused bytes of the descriptor are zero. */
uint64_t ut_desc_seal(const struct ut_desc *desc, uint64_t vcq_key);

/* True if the descriptor is sealed for this VCQ and all fields are in range. */
bool ut_desc_valid(const struct ut_desc *desc, uint64_t vcq_key);

#endif
