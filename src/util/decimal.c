/* SPDX-License-Identifier: Apache-2.0 */
#include "util/decimal.h"

#include <stdio.h>

#include "util/assert.h"

struct ut_decimal ut_decimal(uint64_t number, uint64_t unit, unsigned int digits)
{
    struct ut_decimal decimal;
    uint64_t scale = 1;

    UT_ASSERT(digits > 0 && digits <= 6 && unit <= 1000000000000);
    for (unsigned int i = 0; i < digits; i++)
        scale *= 10;
    unit = unit ? unit : 1;
    uint64_t whole = number / unit, part = (number % unit * scale + unit / 2) / unit;
    if (part == scale) {
        whole++;
        part = 0;
    }
    snprintf(decimal.text, sizeof(decimal.text), "%llu.%0*llu", (unsigned long long)whole,
             (int)digits, (unsigned long long)part);
    return decimal;
}
