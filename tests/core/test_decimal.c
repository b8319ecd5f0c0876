/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and words that do not depend on the locale: values, rounding, and all 256 characters. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <strings.h>

#include "util/ascii.h"
#include "util/decimal.h"

Test(decimal, is_rounded_to_its_digits)
{
    static const struct {
        uint64_t number, unit;
        unsigned int digits;
        const char *text;
    } all[] = {
        {0, 1000, 3, "0.000"},
        {1, 1000, 3, "0.001"},
        {1500, 1000, 3, "1.500"},
        {1499999, 1000000, 3, "1.500"},
        {1500499, 1000000, 3, "1.500"},
        {999999, 1000000, 3, "1.000"},
        {606, 2, 3, "303.000"},
        {2, 3, 1, "0.7"},
        {2, 3, 6, "0.666667"},
        {0, 0, 3, "0.000"},
        {999999999999, 1000000000000, 6, "1.000000"},
        {UINT64_MAX, 1000, 3, "18446744073709551.615"},
        {UINT64_MAX, 1, 6, "18446744073709551615.000000"},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        cr_assert_str_eq(ut_decimal(all[i].number, all[i].unit, all[i].digits).text, all[i].text);
}

/* This program has the locale C. */
Test(decimal, characters_are_those_of_ascii)
{
    for (int c = 0; c < 256; c++) {
        cr_assert_eq(ut_is_digit(c), isdigit(c) != 0, "%d", c);
        cr_assert_eq(ut_is_space(c), isspace(c) != 0, "%d", c);
        cr_assert_eq(ut_is_alnum(c), isalnum(c) != 0, "%d", c);
        cr_assert_eq(ut_to_lower(c), tolower(c), "%d", c);
    }
}

Test(decimal, words_are_compared_as_a_whole_or_to_a_length)
{
    static const char *const words[] = {"", "ofi", "OFI", "oFiX", "of", "auto", "\xc4", "\xe4"};
    enum { NUM = sizeof(words) / sizeof(words[0]) };

    for (int i = 0; i < NUM; i++)
        for (int j = 0; j < NUM; j++) {
            cr_assert_eq(ut_same_word(words[i], words[j]), strcasecmp(words[i], words[j]) == 0);
            for (size_t n = 0; n < 6; n++)
                cr_assert_eq(ut_same_start(words[i], words[j], n),
                             strncasecmp(words[i], words[j], n) == 0, "%s %s %zu", words[i],
                             words[j], n);
        }
}
