/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers with a decimal point, for files and lines that programs read. printf() writes a comma
 * instead if the program has called setlocale() and the language of the user has one. So the
 * library prints no double.
 */
#ifndef UT_UTIL_DECIMAL_H
#define UT_UTIL_DECIMAL_H

#include <stdint.h>

struct ut_decimal {
    char text[32];
};

/* `number` / `unit`, rounded to `digits` (at most 6) decimals: ut_decimal(1500, 1000, 3).text is
 * "1.500". `unit` is at most 10^12. 0 divided by 0 is 0. */
struct ut_decimal ut_decimal(uint64_t number, uint64_t unit, unsigned int digits);

#endif
