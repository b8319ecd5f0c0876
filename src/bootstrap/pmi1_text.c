/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes PMI-1 messages. */
#include "bootstrap/pmi1_text.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

int ut_job_pmi1_value(const char *line, const char *key, char *value, size_t size)
{
    size_t len = strlen(key);

    for (const char *p = line; *p;) {
        size_t word = strcspn(p, " \n");
        if (word > len && strncmp(p, key, len) == 0 && p[len] == '=') {
            size_t n = word - len - 1;
            if (n >= size)
                return -EMSGSIZE;
            memcpy(value, p + len + 1, n);
            value[n] = '\0';
            return 0;
        }
        p += word;
        p += strspn(p, " \n");
    }
    return -ENOENT;
}

void ut_job_pmi1_encode(const void *bytes, size_t size, char *text)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *b = bytes;

    for (size_t i = 0; i < size; i++) {
        text[2 * i] = digits[b[i] >> 4];
        text[2 * i + 1] = digits[b[i] & 15];
    }
    text[2 * size] = '\0';
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

int ut_job_pmi1_decode(const char *text, void *bytes, size_t max, size_t *size)
{
    size_t len = strlen(text);
    uint8_t *b = bytes;

    if (len % 2 != 0)
        return -EINVAL;
    if (len / 2 > max)
        return -EMSGSIZE;
    for (size_t i = 0; i < len / 2; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return -EINVAL;
        b[i] = (uint8_t)(high << 4 | low);
    }
    *size = len / 2;
    return 0;
}
