/* SPDX-License-Identifier: Apache-2.0 */
/* Atomic operators; no state. */
#include "armw/armw.h"

uint64_t ut_armw_apply(void *addr, unsigned int size, unsigned int op, uint64_t operand,
                       uint64_t compare)
{
#define APPLY(type)                                                                                \
    do {                                                                                           \
        type *word = addr, v = (type)operand, c = (type)compare;                                   \
        switch (op) {                                                                              \
        case UTOFU_ARMW_OP_SWAP:                                                                   \
            return __atomic_exchange_n(word, v, __ATOMIC_SEQ_CST);                                 \
        case UTOFU_ARMW_OP_ADD:                                                                    \
            return __atomic_fetch_add(word, v, __ATOMIC_SEQ_CST);                                  \
        case UTOFU_ARMW_OP_XOR:                                                                    \
            return __atomic_fetch_xor(word, v, __ATOMIC_SEQ_CST);                                  \
        case UTOFU_ARMW_OP_AND:                                                                    \
            return __atomic_fetch_and(word, v, __ATOMIC_SEQ_CST);                                  \
        case UTOFU_ARMW_OP_OR:                                                                     \
            return __atomic_fetch_or(word, v, __ATOMIC_SEQ_CST);                                   \
        default: /* compare-and-swap leaves the old value in c */                                  \
            __atomic_compare_exchange_n(word, &c, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);       \
            return c;                                                                              \
        }                                                                                          \
    } while (0)

    if (size == 4)
        APPLY(uint32_t);
    APPLY(uint64_t);
#undef APPLY
}

uint64_t ut_armw_result(unsigned int size, unsigned int op, uint64_t old, uint64_t operand,
                        uint64_t compare)
{
    uint64_t v = operand;

    switch (op) {
    case UTOFU_ARMW_OP_SWAP:
        break;
    case UTOFU_ARMW_OP_ADD:
        v = old + operand;
        break;
    case UTOFU_ARMW_OP_XOR:
        v = old ^ operand;
        break;
    case UTOFU_ARMW_OP_AND:
        v = old & operand;
        break;
    case UTOFU_ARMW_OP_OR:
        v = old | operand;
        break;
    default:
        v = old == compare ? operand : old;
    }
    return size == 4 ? (uint32_t)v : v;
}

uint64_t ut_armw_word_extract(unsigned int size, unsigned int shift, uint64_t word)
{
    return size == 4 ? (uint32_t)(word >> shift) : word;
}

uint64_t ut_armw_word_result(unsigned int size, unsigned int shift, unsigned int op, uint64_t word,
                             uint64_t operand, uint64_t compare)
{
    uint64_t old = ut_armw_word_extract(size, shift, word);
    uint64_t v = ut_armw_result(size, op, old, operand, compare);

    if (size == 8)
        return v;
    return (word & ~(0xffffffffull << shift)) | v << shift;
}
