/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines that the functions under test log: kept in a text, with the first letter of their level. To
 * be included once, behind all other headers and before the functions under test.
 */
#ifndef UT_TEST_NOTED_LINES_H
#define UT_TEST_NOTED_LINES_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../harness/check.h"
#include "util/log.h"

static char lines[1 << 16];

static void __attribute__((format(printf, 3, 4)))
note_line(enum ut_log_level level, const char *category, const char *format, ...)
{
    size_t used = strlen(lines);
    va_list args;

    CHECK(strcmp(category, "verbs") == 0);
    va_start(args, format);
    used += (size_t)snprintf(lines + used, sizeof(lines) - used, "%c: ", "-EWID"[level]);
    used += (size_t)vsnprintf(lines + used, sizeof(lines) - used, format, args);
    snprintf(lines + used, sizeof(lines) - used, "\n");
    va_end(args);
}

static __attribute__((unused)) bool said(const char *text)
{
    if (!strstr(lines, text))
        printf("wanted: %s\nsaid:\n%s", text, lines);
    return strstr(lines, text);
}

#undef ut_error
#undef ut_warn
#undef ut_info
#undef ut_debug
#undef ut_log_at
#define ut_log_at               note_line
#define ut_error(category, ...) note_line(UT_LOG_ERROR, category, __VA_ARGS__)
#define ut_warn(category, ...)  note_line(UT_LOG_WARNING, category, __VA_ARGS__)
#define ut_info(category, ...)  note_line(UT_LOG_INFO, category, __VA_ARGS__)
#define ut_debug(category, ...) note_line(UT_LOG_DEBUG, category, __VA_ARGS__)

#endif
