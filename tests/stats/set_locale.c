/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In LD_PRELOAD: makes a program one that calls setlocale(LC_ALL, ""). The program ends with status
 * 98 unless its decimal point is UT_TEST_POINT then, so that a locale that is missing is noticed.
 */
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void set_locale(void)
{
    const char *point = getenv("UT_TEST_POINT");

    if (!setlocale(LC_ALL, "") || !point || strcmp(localeconv()->decimal_point, point) != 0)
        _exit(98);
}
