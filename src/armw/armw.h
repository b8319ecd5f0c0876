/* SPDX-License-Identifier: Apache-2.0 */
/* The atomic operators: applied by this CPU to its own memory, and as plain functions of a value. */
#ifndef UT_ARMW_ARMW_H
#define UT_ARMW_ARMW_H

#include <stdint.h>

#include "desc/desc.h"

/* Applies an operator with the CPU's atomic instructions to the aligned 4 or 8 bytes at addr; the
 * old value, zero-extended. */
uint64_t ut_armw_apply(void *addr, unsigned int size, unsigned int op, uint64_t operand,
                       uint64_t compare);

/* What the operator makes of a value. */
uint64_t ut_armw_result(unsigned int size, unsigned int op, uint64_t old, uint64_t operand,
                        uint64_t compare);

/* For a device that has only 8-byte compare-and-swap: what an operator on the 4 or 8 bytes at byte
 * `shift` / 8 of an aligned word makes of the word, and the operand's bytes of it. */
uint64_t ut_armw_word_result(unsigned int size, unsigned int shift, unsigned int op, uint64_t word,
                             uint64_t operand, uint64_t compare);
uint64_t ut_armw_word_extract(unsigned int size, unsigned int shift, uint64_t word);

#endif
