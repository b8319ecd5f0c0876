/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key of a job: 32 to 128 hexadecimal digits, in the environment or in a file that only its
 * owner can read. Uses util/file.h and libc only.
 */
#ifndef UT_UTIL_KEY_H
#define UT_UTIL_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "util/file.h"

enum { UT_KEY_MIN = 16, UT_KEY_MAX = 64, UT_KEY_TEXT = 2 * UT_KEY_MIN + 1 };

struct ut_key {
    size_t size; /* 0: no key */
    uint8_t bytes[UT_KEY_MAX];
};

/* Returns 0 or -EINVAL. Ignores white space behind the digits. */
int ut_key_parse(const char *text, struct ut_key *key);

/* Returns 0, or a negative errno and the reason, which never contains text of the file. */
int ut_key_read(const char *path, struct ut_key *key, char why[UT_FILE_WHY]);

/* Generates a key as text. 0 or -EIO. */
int ut_key_make(char text[UT_KEY_TEXT]);

#endif
