/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Character classes and comparisons that ignore case, for ASCII only. The functions of <ctype.h>
 * and <strings.h> depend on the locale of the program: in Turkish "OFI" and "ofi" are two words.
 */
#ifndef UT_UTIL_ASCII_H
#define UT_UTIL_ASCII_H

#include <stdbool.h>
#include <stddef.h>

static inline bool ut_is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static inline bool ut_is_space(int c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static inline int ut_to_lower(int c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

static inline bool ut_is_alnum(int c)
{
    return ut_is_digit(c) || (ut_to_lower(c) >= 'a' && ut_to_lower(c) <= 'z');
}

/* Are the first n characters the same, apart from upper and lower case? */
static inline bool ut_same_start(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ut_to_lower(a[i]) != ut_to_lower(b[i]))
            return false;
        if (a[i] == '\0')
            break;
    }
    return true;
}

static inline bool ut_same_word(const char *a, const char *b)
{
    return ut_same_start(a, b, (size_t)-1);
}

#endif
