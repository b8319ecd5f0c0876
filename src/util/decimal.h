/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers with a decimal point, for files and lines that programs read. printf() writes a comma
 * where the program has called setlocale() and its user's language has one, so the library prints
 * no double.
 */
#ifndef UT_UTIL_DECIMAL_H
#define UT_UTIL_DECIMAL_H

#include <stdint.h>

struct ut_decimal {
    char text[32];
};

/* `number` / `unit`, rounded to so many digits (at most 6) behind the point: 1500 ns are
 * ut_decimal(1500, 1000, 3).text us. `unit` is at most 10^12; 0 divided by 0 is 0. */
struct ut_decimal ut_decimal(uint64_t number, uint64_t unit, unsigned int digits);

#endif
