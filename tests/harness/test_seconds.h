/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time after which a test has failed: UT_TEST_LIMIT_S, or as many seconds as the caller says,
 * times UT_TEST_TIMEOUT_SCALE, and more with a sanitizer.
 */
#ifndef UT_TEST_SECONDS_H
#define UT_TEST_SECONDS_H

#include <stdlib.h>

static inline unsigned int ut_number_in(const char *name, unsigned int otherwise)
{
    const char *text = getenv(name);
    unsigned long value = text ? strtoul(text, NULL, 0) : 0;

    return value > 0 && value < 1000000 ? (unsigned int)value : otherwise;
}

static inline unsigned int ut_test_seconds(unsigned int otherwise)
{
    unsigned int scale = ut_number_in("UT_TEST_TIMEOUT_SCALE", 1);

#if defined(__SANITIZE_ADDRESS__)
    scale *= 4;
#elif defined(__SANITIZE_THREAD__)
    scale *= 10;
#endif
    return ut_number_in("UT_TEST_LIMIT_S", otherwise) * scale;
}

#endif
