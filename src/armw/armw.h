/* SPDX-License-Identifier: Apache-2.0 */
/* The atomic operators: applied to memory by this CPU, and as pure functions of a value. */
#ifndef UT_ARMW_ARMW_H
#define UT_ARMW_ARMW_H

#include <stdint.h>

#include "desc/desc.h"

/* Applies an operator with the CPU's atomic instructions to the aligned 4 or 8 bytes at addr.
 * Returns the old value, zero-extended. */
uint64_t ut_armw_apply(void *addr, unsigned int size, unsigned int op, uint64_t operand,
                       uint64_t compare);

/* The new value that the operator computes. */
uint64_t ut_armw_result(unsigned int size, unsigned int op, uint64_t old, uint64_t operand,
                        uint64_t compare);

/* For devices whose only atomic is compare-and-swap of 8 bytes. ut_armw_word_result(): the new
 * value of an aligned word after an operator on the 4 or 8 bytes at byte `shift` / 8.
 * ut_armw_word_extract(): the value of these bytes in a word. */
uint64_t ut_armw_word_result(unsigned int size, unsigned int shift, unsigned int op, uint64_t word,
                             uint64_t operand, uint64_t compare);
uint64_t ut_armw_word_extract(unsigned int size, unsigned int shift, uint64_t word);

#endif
