/* SPDX-License-Identifier: Apache-2.0 */
/* A text of what the functions under test have asked of the functions that a test plays. */
#ifndef UT_TEST_STEPS_H
#define UT_TEST_STEPS_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char steps[4096];

static void step(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void step(const char *fmt, ...)
{
    size_t used = strlen(steps);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(steps + used, sizeof(steps) - used, fmt, ap);
    va_end(ap);
}

#endif
